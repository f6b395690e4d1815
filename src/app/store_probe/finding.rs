//! What was found out about a store.

/// Something that was found out about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFinding {
    /// Something to know.
    Note(String),
    /// Something that keeps the gateway from working.
    Fault(String),
}
