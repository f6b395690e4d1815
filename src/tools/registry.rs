//! The tools of a gateway, by name.

/// The tools of a gateway, in the order of their configuration.
#[derive(Debug, Default)]
pub struct Registry {}
