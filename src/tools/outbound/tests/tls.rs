//! TLS, with a certificate made for the test.

use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Serves `shop.example`, and returns its port and certificate. Each answer is the version of the
/// request.
async fn serve(protocol: &[u8]) -> (u16, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["shop.example".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let answer = service_fn(|request: Request<hyper::body::Incoming>| async move {
                let version = format!("{:?}", request.version());
                hyper::Result::Ok(Response::new(Full::new(Bytes::from(version))))
            });
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                builder.serve_connection(TokioIo::new(stream), answer).await.unwrap();
            });
        }
    });
    (port, certificate)
}

fn trusting(certificate: Option<CertificateDer<'static>>) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificate);
    let tls = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let options = Arc::new(ClientOptions::new(loopback()));
    let lookup: Lookup =
        Arc::new(|_| Box::pin(future::ready(Ok(vec![([127, 0, 0, 1], 0).into()]))));
    let connector = Connector { options: Arc::clone(&options), lookup, tls: Some(tls) };
    Client::with(connector, options)
}

#[tokio::test]
async fn the_server_chooses_the_version() {
    for (protocol, version) in [(&b"h2"[..], "HTTP/2.0"), (b"http/1.1", "HTTP/1.1")] {
        let (port, certificate) = serve(protocol).await;
        let client = trusting(Some(certificate));
        let url = format!("https://shop.example:{port}/");
        for _ in 0..2 {
            let response = get(&client, &url).await.unwrap();
            assert_eq!(read(response).await, (200, version.to_owned()));
        }
    }
}

#[tokio::test]
async fn a_server_without_a_trusted_certificate_gets_no_request() {
    let (port, certificate) = serve(b"h2").await;
    let url = format!("https://shop.example:{port}/");
    let error = get(&trusting(None), &url).await.unwrap_err();
    assert!(error.is_unsent(), "{error:?}");
    let fault = crate::tools::ToolFault::from(error);
    assert!(!fault.transient && fault.message.contains("certificate"), "{fault}");

    let url = format!("https://other.example:{port}/");
    let error = get(&trusting(Some(certificate)), &url).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}
