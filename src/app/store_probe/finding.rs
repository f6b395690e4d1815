//! What was found out about a store.

/// Something that was found out about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFinding {
    /// Something to know.
    Note(String),
    /// Something to change: the gateway works, but not as anybody would want.
    Warning(String),
    /// Something that keeps the gateway from working.
    Fault(String),
}
