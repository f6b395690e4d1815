//! TLS of the connections that we open.

use std::io;
use std::sync::{Arc, OnceLock};

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

/// Trusts the platform's certificates, so that a private CA works. They are read once.
///
/// # Errors
/// If the platform has no trusted certificates.
pub(crate) fn platform() -> io::Result<ClientConfig> {
    static PLATFORM: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = PLATFORM.get() {
        return Ok(config.clone());
    }
    let config = builder().with_native_roots()?.with_no_client_auth();
    Ok(PLATFORM.get_or_init(|| config).clone())
}

/// Trusts no certificate.
pub(crate) fn none() -> ClientConfig {
    builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default TLS versions")
}
