//! What an upstream is to those who watch.

/// What an upstream is to those who watch, by the names of OpenTelemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Whose API it speaks.
    pub(crate) provider: &'static str,
    /// Its model, as far as that is known.
    pub(crate) model: String,
    /// Its host and port, unless it is in this process.
    pub(crate) address: Option<(String, u16)>,
}
