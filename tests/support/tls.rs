//! Certificates, and a client's end of TLS: tests speak plain bytes to a tunnel, which speaks TLS to the gateway.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::gateway::connect_narrowly;

/// The names in the certificates: a gateway's, and a store's on this machine.
const NAME: &str = "gateway.example";
pub(crate) const LOCAL_NAME: &str = "localhost";

/// A certificate in files.
#[derive(Debug)]
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    /// Creates files with a certificate. Also returns the certificate.
    pub(crate) fn new() -> (Self, CertificateDer<'static>) {
        let files = Self { folder: TempDir::new().unwrap() };
        let certificate = files.renew();
        (files, certificate)
    }

    pub(crate) fn cert(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// Replaces the certificate.
    pub(crate) fn renew(&self) -> CertificateDer<'static> {
        self.write(|_| {})
    }

    /// Replaces the certificate by one that was valid until 2021.
    pub(crate) fn expire(&self) -> CertificateDer<'static> {
        self.write(|params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    fn write(&self, change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([NAME.to_owned(), LOCAL_NAME.to_owned()]).unwrap();
        change(&mut params);
        let cert = params.self_signed(&key).unwrap();
        fs::write(self.cert(), cert.pem()).unwrap();
        fs::write(self.key(), key.serialize_pem()).unwrap();
        cert.der().clone()
    }

    /// `server.tls` for a configuration.
    pub(crate) fn config(&self) -> String {
        format!("tls: {{cert: {}, key: {}}}", self.cert().display(), self.key().display())
    }
}

/// A tunnel to a gateway.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) address: SocketAddr,
    /// The protocols that were agreed on, one for each connection.
    pub(crate) agreed: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
}

impl Tunnel {
    /// Listens for plain connections, and passes each on to `gateway` over TLS as a client that trusts only this
    /// certificate and offers these protocols.
    pub(crate) async fn open(
        gateway: SocketAddr,
        certificate: CertificateDer<'static>,
        protocols: &[&str],
    ) -> Self {
        let connector = connector(certificate, protocols);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let agreed = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&agreed);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (connector, noted) = (connector.clone(), Arc::clone(&noted));
                tokio::spawn(async move {
                    let Some(mut tls) = connect(&connector, gateway).await else { return };
                    noted.lock().push(tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec));
                    let _ = copy_bidirectional(&mut client, &mut tls).await;
                });
            }
        });
        Self { address, agreed }
    }
}

/// A client that trusts this certificate alone.
pub(crate) fn connector(certificate: CertificateDer<'static>, protocols: &[&str]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Connects to the gateway. `None` if the handshake fails.
pub(crate) async fn connect(
    connector: &TlsConnector,
    gateway: SocketAddr,
) -> Option<tokio_rustls::client::TlsStream<TcpStream>> {
    let socket = connect_narrowly(gateway).await;
    let name = ServerName::try_from(NAME).unwrap();
    connector.connect(name, socket).await.ok()
}
