//! How traces and metrics name an upstream.

/// How traces and metrics name an upstream, by OpenTelemetry's conventions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Whose API it speaks: `gen_ai.provider.name`.
    pub(crate) provider: &'static str,
    /// Its model, as far as known.
    pub(crate) model: String,
    /// Its host and port, unless it is in this process.
    pub(crate) address: Option<(String, u16)>,
}
