//! TLS of the connections that clients open.
//!
//! ```text
//!   accept ──> handshake ──> connection::serve, as without TLS
//!                '- ends when it takes too long, or when others need its place
//! ```
//! The certificate can be replaced while the gateway runs. Connections keep the one that they began with.

mod certificate;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::admission::Entry;
use super::places::{Place, Places};
use super::transport::Transport;
use super::{App, connection};
use crate::limits::server::TLS_HANDSHAKES_MAX;
use crate::telemetry::metrics;

pub use certificate::TlsError;

/// Where the certificate is.
#[derive(Debug, Clone)]
pub(crate) struct TlsFiles {
    /// The certificate and its chain, as PEM.
    pub(crate) cert: PathBuf,
    /// Its key, as PEM.
    pub(crate) key: PathBuf,
}

/// Makes TLS connections of TCP connections.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    /// Places for handshakes. The oldest one makes room for a new one.
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

    /// Reads the certificate again. Waits for the disk.
    ///
    /// # Errors
    /// See [`TlsError`]; the certificate stays as it was.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let certified = certificate::read(&self.files, self.config.crypto_provider())?;
        *self.current.0.write() = Arc::new(certified);
        Ok(())
    }

    /// What is wrong with the certificate's time, if anything is.
    pub(crate) fn warning(&self) -> Option<String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let current = Arc::clone(&self.current.0.read());
        let wrong = certificate::wrong_time(&current.cert, self.config.crypto_provider(), now)?;
        Some(format!(
            "server.tls.cert: the certificate in {} {wrong}; clients will refuse it",
            self.files.cert.display()
        ))
    }

    /// Takes a place for a handshake, if need be that of the oldest one.
    pub(super) async fn place(&self) -> Place {
        self.handshakes.take().await
    }
}

/// Serves a connection once its client speaks TLS.
pub(super) async fn serve(
    socket: TcpStream,
    entry: Arc<Entry>,
    (own_place, handshake_place): (Arc<Place>, Place),
    tls: Arc<Tls>,
    app: Arc<App>,
    stop: CancellationToken,
) {
    let peer = entry.peer();
    let shaken = {
        let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
        let handshake = timeout(app.timeouts.handshake, Transport::accept_tls(socket, &acceptor));
        tokio::select! {
            biased;
            shaken = handshake => shaken,
            () = handshake_place.lost() => {
                metrics::tls_handshake("displaced");
                debug!(%peer, "others wait for a TLS handshake; connection closed");
                return;
            }
            // The gateway stops, or others need the place; nobody is in the middle of anything.
            () = own_place.lost() => return,
            () = stop.cancelled() => return,
        }
    };
    drop(handshake_place);
    match shaken {
        Ok(Ok(transport)) => {
            metrics::tls_handshake("done");
            connection::serve(transport, entry, Arc::clone(&own_place), app, stop).await;
            // The socket is closed by now.
            drop(own_place);
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
