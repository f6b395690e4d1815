//! TLS on the connections of clients.
//!
//! ```text
//!   accept ──> handshake ──> connection::serve, as without TLS
//!                '- cut if it takes too long, or if another handshake needs its place
//! ```
//! The certificate can be replaced while the gateway runs. An open connection keeps the one with which it
//! began.

mod certificate;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::places::{Place, Places};
use super::transport::Transport;
use super::{Accepted, connection};
use crate::gateway::ClientAddress;
use crate::limits::server::TLS_HANDSHAKES_MAX;
use crate::telemetry::metrics;

pub use certificate::TlsError;

/// The files of the certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub(crate) struct TlsFiles {
    /// The certificate, then the rest of its chain.
    pub(crate) cert: PathBuf,
    /// The certificate's private key, unencrypted.
    pub(crate) key: PathBuf,
}

/// Accepts TLS on connections.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    /// Places for handshakes. If none is free, the oldest handshake is cut.
    handshakes: Places,
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

impl Tls {
    /// Reads the certificate.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub(crate) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        certificate::check(&files)?;
        let certified = certificate::read(&files, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(certified))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring supports the default TLS versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let handshakes = Places::new(TLS_HANDSHAKES_MAX);
        Ok(Self { files, current, config: Arc::new(config), handshakes })
    }

    /// Reads the certificate again. Blocks on the disk.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub(crate) fn read(&self) -> Result<CertifiedKey, TlsError> {
        certificate::read(&self.files, self.config.crypto_provider())
    }

    /// Uses this certificate for connections to come.
    pub(crate) fn renew(&self, certified: CertifiedKey) {
        *self.current.0.write() = Arc::new(certified);
    }

    /// A warning if the certificate has expired or is not valid yet.
    pub(crate) fn warning(&self) -> Option<String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let current = Arc::clone(&self.current.0.read());
        let fault = certificate::validity_fault(&current.cert, self.config.crypto_provider(), now)?;
        Some(format!(
            "server.tls.cert: the certificate in {} {fault}; clients will refuse it",
            self.files.cert.display()
        ))
    }

    /// Takes a place for a handshake with this client, if need be from an old one.
    pub(super) async fn place(&self, client: ClientAddress) -> Place {
        self.handshakes.take(client).await
    }
}

/// Accepts TLS on a connection, then serves it. `handshake_place` is its place until the handshake is over.
pub(super) async fn serve(
    Accepted { socket, guard, place, app, stop }: Accepted,
    handshake_place: Place,
    tls: Arc<Tls>,
) {
    let peer = guard.peer();
    let outcome = {
        let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
        let handshake = timeout(app.timeouts.handshake, Transport::accept_tls(socket, &acceptor));
        tokio::select! {
            biased;
            outcome = handshake => outcome,
            () = handshake_place.lost() => {
                metrics::tls_handshake("displaced");
                debug!(%peer, "others wait for a TLS handshake; connection closed");
                return;
            }
            // Others need the place, or the gateway stops. No request has begun yet.
            () = place.lost() => return,
            () = stop.cancelled() => return,
        }
    };
    drop(handshake_place);
    match outcome {
        Ok(Ok(transport)) => {
            metrics::tls_handshake("done");
            connection::serve(transport, guard, place, app, stop).await;
        }
        Ok(Err(error)) => {
            metrics::tls_handshake("failed");
            debug!(%peer, %error, "TLS handshake failed");
        }
        Err(_) => {
            metrics::tls_handshake("timed_out");
            debug!(%peer, "TLS handshake took too long; connection closed");
        }
    }
}
