//! A server with TLS, and what is said if no connection comes about.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use super::cluster_tests::free_port;
use super::tests::{RECORD, RedisServer, documented_user, open_at};
use super::*;

/// Signs certificates.
struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Another name than those it signs, which would look self-signed.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for this name, and its key.
    fn sign(&self, name: &str, last_year: i32) -> [String; 2] {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(last_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        [signed.pem(), key.serialize_pem()]
    }
}

/// A server with this certificate, and its port for TLS.
struct Secured {
    server: RedisServer,
    port: String,
    _files: tempfile::TempDir,
}

impl Secured {
    fn start(ca: &Ca, [cert, key]: &[String; 2], wants_certificates: bool) -> Self {
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let port = free_port();
        let server = RedisServer::start_with(&[
            "--tls-port",
            &port,
            "--tls-cert-file",
            &path("cert", cert),
            "--tls-key-file",
            &path("key", key),
            "--tls-ca-cert-file",
            &path("ca", &ca.pem),
            "--tls-auth-clients",
            if wants_certificates { "yes" } else { "no" },
        ]);
        Self { server, port, _files: files }
    }

    fn url(&self) -> String {
        format!("rediss://localhost:{}", self.port)
    }
}

fn trusting(ca: &Ca) -> RedisTls {
    RedisTls { ca: Some(ca.pem.clone().into()), ..RedisTls::default() }
}

async fn check(url: &str, login: (&str, Option<&str>), tls: RedisTls) -> Result<(), StoreError> {
    let address = RedisAddress::new(url, login.0, login.1).unwrap().with_tls(tls).unwrap();
    open_at(url, |options| options.address = address).check().await
}

#[tokio::test]
async fn a_user_with_the_documented_rights_comes_by_tls() {
    let ca = Ca::new();
    let secured = Secured::start(&ca, &ca.sign("localhost", 3000), false);
    secured.server.command(&documented_user());
    secured.server.command(&["ACL", "SETUSER", "default", "off"]);
    let login = ("tether", Some("PASSWORD"));
    let address = RedisAddress::new(&secured.url(), login.0, login.1).unwrap();
    let address = address.with_tls(trusting(&ca)).unwrap();
    let store = open_at(&secured.url(), |options| options.address = address);
    store.check().await.unwrap();
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    let mut watch = store.watch("s", Watched::Owner).await.unwrap();
    store.request_cancel("s", None).await.unwrap();
    watch.changed().await;
    check(&secured.url(), ("", None), trusting(&ca)).await.unwrap_err();
}

#[tokio::test]
async fn a_server_may_want_a_certificate() {
    let ca = Ca::new();
    let secured = Secured::start(&ca, &ca.sign("localhost", 3000), true);
    let [cert, key] = ca.sign("gateway", 3000).map(|pem| Some(pem.into_bytes()));
    check(&secured.url(), ("", None), RedisTls { cert, key, ..trusting(&ca) }).await.unwrap();
    let refused = check(&secured.url(), ("", None), trusting(&ca)).await;
    let Err(StoreError::Unavailable(cause)) = refused else { panic!("{refused:?}") };
    assert!(cause.starts_with("it wants a certificate of the gateway"), "{cause}");
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_explained() {
    let (ca, other) = (Ca::new(), Ca::new());
    for (name, last_year, trusted, expected) in [
        ("localhost", 3000, &other, "nobody whom this machine trusts has signed its certificate"),
        ("localhost", 2001, &ca, "its certificate has expired"),
        ("elsewhere", 3000, &ca, "its certificate is for another host name"),
    ] {
        let secured = Secured::start(&ca, &ca.sign(name, last_year), false);
        let refused = check(&secured.url(), ("", None), trusting(trusted)).await;
        let Err(StoreError::Unavailable(cause)) = refused else { panic!("{refused:?}") };
        assert!(cause.starts_with(expected), "{cause}");
    }
    let port = free_port();
    let _plain = RedisServer::start_with(&["--port", &port]);
    let plain = open_at(&format!("rediss://localhost:{port}"), |options| {
        options.connect_timeout = Duration::from_millis(200);
    });
    let refused = plain.check().await;
    let Err(StoreError::Unavailable(cause)) = refused else { panic!("{refused:?}") };
    assert_eq!(cause, "no connection within 200ms; is this its port for TLS?");
}

#[test]
fn a_file_without_certificates_is_no_ca() {
    let address = RedisAddress::new("rediss://localhost", "", None).unwrap();
    let tls = RedisTls { ca: Some(b"nothing".to_vec()), ..RedisTls::default() };
    let refused = address.with_tls(tls).unwrap_err();
    assert!(refused.contains("`sessions.redis.ca_file`"), "{refused}");
}
