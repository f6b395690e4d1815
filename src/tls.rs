//! TLS of the connections that we open: whom it trusts, and why a connection failed.

use std::error::Error;
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

/// Why no connection was made, as far as the remedy depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectFault {
    /// The server's certificate was refused.
    Certificate,
    /// The server did not answer in TLS.
    NotTls,
    /// The server was not reached, or it gave up.
    Other,
}

impl ConnectFault {
    /// The fault that this error reports, of a connector or of one that wraps it.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        match tls_error(error) {
            Some(rustls::Error::InvalidCertificate(_)) => Self::Certificate,
            Some(rustls::Error::InvalidMessage(_)) => Self::NotTls,
            _ => Self::Other,
        }
    }
}

/// The TLS error inside this one. An `io::Error` holds it, but does not return it as its source.
pub(crate) fn tls_error<'e>(mut error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    loop {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error = match inside {
            Some(inside) => inside,
            None => error.source()?,
        };
    }
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, CertificateError, InvalidMessage};

    use super::*;

    /// As the connector wraps what the handshake returns.
    fn fault(error: rustls::Error) -> ConnectFault {
        let of_handshake = io::Error::new(io::ErrorKind::InvalidData, error);
        ConnectFault::of(&io::Error::other(of_handshake))
    }

    #[test]
    fn faults_of_tls_are_told_apart() {
        for error in [CertificateError::Expired, CertificateError::UnknownIssuer] {
            assert_eq!(fault(error.into()), ConnectFault::Certificate);
        }
        assert_eq!(fault(InvalidMessage::InvalidContentType.into()), ConnectFault::NotTls);
        let alert = rustls::Error::AlertReceived(AlertDescription::HandshakeFailure);
        assert_eq!(fault(alert), ConnectFault::Other);
    }

    #[test]
    fn an_error_without_tls_is_another_fault() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(ConnectFault::of(&refused), ConnectFault::Other);
    }
}
