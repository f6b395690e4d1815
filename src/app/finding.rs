//! What `tether check --probe` finds out.

/// Something that was found out about a store, a source of tools or a model server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Something to know.
    Note(String),
    /// Something to change: the gateway works, but not well.
    Warning(String),
    /// Something that keeps its subject, or the whole gateway, from working.
    Fault(String),
}
