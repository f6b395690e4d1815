//! How far the body of an answer has come.

/// How far an answer's body has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More may come.
    More,
    /// That was all.
    End,
}
