//! Refusals: reasons not to run a call that may have been meant seriously.

use crate::tools::InvalidCall;

/// Why a call is not run, as reported to the model.
#[derive(Debug)]
pub(super) enum Rejection {
    /// There is no such tool, or its arguments are not valid.
    Call(InvalidCall),
    /// Its arguments refer to a missing result.
    Reference(String),
    /// With references filled in, its arguments are nested too deeply.
    ResolvedTooDeep,
    /// The results that its arguments refer to are too long.
    ResolvedTooLong,
    /// They have an integer that would lose digits on its way to the tool.
    LongInteger(String),
    /// It would mutate something using an option that the user has not chosen.
    NotChosen(String),
}

impl From<InvalidCall> for Rejection {
    fn from(refusal: InvalidCall) -> Self {
        Self::Call(refusal)
    }
}
