//! Model servers with TLS that have a wrong certificate, break off the handshake, or close without
//! `close_notify`.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::failed;
use crate::support::Frame;
use crate::support::events::{outcome, said};
use crate::support::model::{CHUNKED, DONE, UNTIL_CLOSE, finish, text};
use crate::support::process::Process;

/// An authority that the gateway trusts.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), file }
    }

    /// An acceptor with a certificate for this name, to which `change` is applied before it is signed.
    fn acceptor(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Runs a turn on a gateway that trusts this authority. `serve` serves each connection to the model server.
async fn turn<S: Future<Output = ()> + Send + 'static>(
    authority: &Authority,
    serve: impl Fn(TcpStream) -> S + Send + 'static,
) -> Vec<Frame> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server: JoinHandle<()> = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    let config = format!(
        "upstreams: [{{kind: openai_chat, base_url: \"https://localhost:{port}/v1\", model: m, \
         connect_timeout_sec: 3}}]"
    );
    let trust = |command: &mut std::process::Command| {
        command.env("SSL_CERT_FILE", authority.file.path()).env_remove("SSL_CERT_DIR");
    };
    let gateway = Process::start_with(&config, trust).await;
    let frames = gateway.turn(&json!({"prompt": "Hello?"})).await.rest().await;
    server.abort();
    frames
}

/// Accepts a connection and reads a request for a completion. Requests for the list of models are answered.
async fn begun(acceptor: &TlsAcceptor, socket: TcpStream) -> Option<TlsStream<TcpStream>> {
    let mut stream = acceptor.accept(socket).await.ok()?;
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
        if request.starts_with(b"GET /v1/models") {
            let body = "{\"data\":[{\"id\":\"m\"}]}";
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.ok()?;
            request.clear();
        }
        if request.ends_with(b"}") {
            return Some(stream);
        }
    }
}

/// Checks that a turn failed with these words in its message, and may be tried again.
#[track_caller]
fn says(frames: &[Frame], code: &str, words: &str) {
    let message = failed(frames, code, true);
    assert!(message.contains(words), "{message}");
}

#[tokio::test]
async fn a_wrong_certificate_is_named_with_what_to_do() {
    let (authority, stranger) = (Authority::new("Ours"), Authority::new("Somebody else's"));
    let years = |from: i32| {
        move |params: &mut CertificateParams| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(from + 1, 1, 1);
        }
    };
    for (acceptor, words) in [
        (authority.acceptor("localhost", years(2020)), "certificate expired"),
        (authority.acceptor("localhost", years(2090)), "certificate not valid yet"),
        (authority.acceptor("shop.example", |_| {}), "not valid for name \"localhost\""),
        (stranger.acceptor("localhost", |_| {}), "UnknownIssuer"),
    ] {
        let frames = turn(&authority, move |socket| {
            let acceptor = acceptor.clone();
            async move { assert!(begun(&acceptor, socket).await.is_none(), "it got a request") }
        });
        let frames = frames.await;
        says(&frames, "upstream_unavailable", words);
        says(&frames, "upstream_unavailable", "; renew the server's certificate, or make this");
    }
}

#[tokio::test]
async fn a_failed_handshake_is_named_with_what_to_do() {
    const HELLO: usize = 4096;
    const CODE: &str = "upstream_unavailable";

    let authority = Authority::new("Ours");
    let closed = turn(&authority, |mut socket| async move {
        _ = socket.read(&mut [0; HELLO]).await;
    });
    says(&closed.await, CODE, "tls handshake eof");
    let plain = turn(&authority, |mut socket| async move {
        _ = socket.read(&mut [0; HELLO]).await;
        _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    says(&plain.await, CODE, "; if the server has no TLS, base_url begins with http://");
    let silent = turn(&authority, |mut socket| async move {
        while socket.read(&mut [0; HELLO]).await.is_ok_and(|read| read > 0) {}
    });
    says(&silent.await, CODE, "within 3 s");
}

/// A connection that ends without `close_notify` may have been cut by anybody.
#[tokio::test]
async fn a_close_without_close_notify_is_a_fault_unless_the_model_has_finished() {
    let authority = Authority::new("Ours");
    let acceptor = authority.acceptor("localhost", |_| {});
    for (answer, words) in [
        (String::new(), "the connection was lost before the model server answered"),
        ("HTTP/1.1 200".to_owned(), "the connection was lost in the response headers"),
        (UNTIL_CLOSE.to_owned() + &text("Well"), "closed the connection mid-answer"),
        (CHUNKED.to_owned() + "5\r\ndata:\r\n", "closed the connection mid-answer"),
        (CHUNKED.to_owned() + "zz\r\n", "cannot read the model server's answer"),
    ] {
        let frames = answered(&authority, &acceptor, answer).await;
        says(&frames, "upstream_error", words);
    }
    // Once the model has finished, nothing is missing.
    for end in ["", DONE] {
        let answer = UNTIL_CLOSE.to_owned() + &text("Well.") + &finish("stop") + end;
        let frames = answered(&authority, &acceptor, answer).await;
        assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Well."));
    }
}

/// A turn whose server writes this answer and closes without `close_notify`.
async fn answered(authority: &Authority, acceptor: &TlsAcceptor, answer: String) -> Vec<Frame> {
    let acceptor = acceptor.clone();
    let serve = move |socket| {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        async move {
            if let Some(mut stream) = begun(&acceptor, socket).await {
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
            }
        }
    };
    turn(authority, serve).await
}
