//! Reads a certificate and its key from files.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, RootCertStore};

use super::TlsFiles;
use crate::limits::server::PEM_BYTES_MAX;

/// Why the certificate of `server.tls` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {error} (`server.tls.{key}`)", path.display())]
    Read {
        /// Which of `cert` and `key` names the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The error from the system.
        #[source]
        error: io::Error,
    },
    /// A file lacks the PEM block that it should contain.
    #[error(
        "{} has no {what} in PEM, which begins with -----BEGIN {label}----- (`server.tls.{key}`)",
        path.display()
    )]
    Missing {
        /// Which of `cert` and `key` names the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What it should contain.
        what: &'static str,
        /// The label in the block's first line.
        label: &'static str,
    },
    /// The key belongs to another certificate.
    #[error(
        "the key in {} does not belong to the certificate in {}, or the chain is in the wrong order: \
         the server's own certificate comes first (`server.tls`)",
        key.display(), cert.display()
    )]
    Mismatch {
        /// The file with the certificate.
        cert: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
    /// Something else is wrong with them.
    #[error("the certificate in {} or its key cannot be used: {error} (`server.tls`)", cert.display())]
    Unusable {
        /// The file with the certificate.
        cert: PathBuf,
        /// What is wrong.
        #[source]
        error: Error,
    },
}

/// Refuses what is no file, before anything waits for it: opening a pipe waits for its other end.
///
/// # Errors
/// If it is something else, or is not there.
pub(super) fn check(files: &TlsFiles) -> Result<(), TlsError> {
    for (key, path) in [("cert", &files.cert), ("key", &files.key)] {
        let found = fs::metadata(path).and_then(|found| {
            if found.is_file() { Ok(()) } else { Err(io::Error::other("it is not a file")) }
        });
        found.map_err(|error| TlsError::Read { key, path: path.clone(), error })?;
    }
    Ok(())
}

/// Reads the certificate with its chain, and the key.
///
/// # Errors
/// If a file cannot be read or lacks its part, or if the two do not belong together.
pub(super) fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let TlsFiles { cert, key } = files;
    let chain =
        CertificateDer::pem_slice_iter(&bytes("cert", cert)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| TlsError::Missing {
        key: "cert",
        path: cert.clone(),
        what: "certificate",
        label: "CERTIFICATE",
    })?;
    let private =
        PrivateKeyDer::from_pem_slice(&bytes("key", key)?).map_err(|_| TlsError::Missing {
            key: "key",
            path: key.clone(),
            what: "unencrypted private key",
            label: "PRIVATE KEY",
        })?;
    CertifiedKey::from_der(chain, private, provider).map_err(|error| match error {
        Error::InconsistentKeys(_) => TlsError::Mismatch { cert: cert.clone(), key: key.clone() },
        error => TlsError::Unusable { cert: cert.clone(), error },
    })
}

fn bytes(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(PEM_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| TlsError::Read { key, path: path.to_owned(), error })
}

/// What is wrong with the validity period of a certificate at `now`, a time since the Unix epoch: `has expired`
/// or `is not valid yet`.
pub(super) fn validity_fault(
    chain: &[CertificateDer<'_>],
    provider: &Arc<CryptoProvider>,
    now: Duration,
) -> Option<&'static str> {
    // rustls gives the dates to a verifier alone. It checks them before everything else, so it does not matter
    // here whom it trusts, or for which name.
    let (own, others) = chain.split_first()?;
    let mut roots = RootCertStore::empty();
    roots.add(chain.last()?.clone().into_owned()).ok()?;
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let name = ServerName::try_from("localhost").ok()?;
    let now = UnixTime::since_unix_epoch(now);
    let outcome = verifier.build().ok()?.verify_server_cert(own, others, &name, &[], now);
    match outcome {
        Err(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => Some("has expired"),
        Err(Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => Some("is not valid yet"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    use tempfile::TempDir;

    use super::*;

    fn provider() -> Arc<CryptoProvider> {
        Arc::new(rustls::crypto::ring::default_provider())
    }

    /// A certificate of the year 2020, signed by itself or by a CA that is valid for longer.
    fn of_2020(is_signed: bool) -> Vec<CertificateDer<'static>> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["gateway.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        if !is_signed {
            // As `openssl req -x509` makes them.
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            return vec![params.self_signed(&key).unwrap().der().clone()];
        }
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let cert = params.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
        vec![cert.der().clone(), ca_cert.der().clone()]
    }

    #[test]
    fn a_certificate_outside_its_validity_period_is_noticed() {
        let at = |years: u64| Duration::from_secs(years * 31_556_952 + 1_000_000);
        for chain in [of_2020(false), of_2020(true), of_2020(true)[..1].to_vec()] {
            let fault = |years| validity_fault(&chain, &provider(), at(years));
            assert_eq!(
                [49, 50, 51].map(fault),
                [Some("is not valid yet"), None, Some("has expired")]
            );
        }
    }

    /// Checks that the error for files with these contents has all `expected` parts.
    #[track_caller]
    fn check(cert: &str, key: &str, expected: &[&str]) {
        let folder = TempDir::new().unwrap();
        let files =
            TlsFiles { cert: folder.path().join("c.pem"), key: folder.path().join("k.pem") };
        fs::write(&files.cert, cert).unwrap();
        fs::write(&files.key, key).unwrap();
        let error = read(&files, &provider()).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn unusable_files_are_named_with_what_they_lack() {
        let made = rcgen::generate_simple_self_signed(["gateway.example".to_owned()]).unwrap();
        let cert = made.cert.pem();
        let key = made.signing_key.serialize_pem();
        let other = KeyPair::generate().unwrap().serialize_pem();
        check("", &key, &["c.pem has no certificate", "`server.tls.cert`"]);
        check(&key, &key, &["c.pem has no certificate", "BEGIN CERTIFICATE"]);
        check(&cert.replace("-----END", "---END"), &key, &["c.pem has no certificate"]);
        check(&cert, "", &["k.pem has no unencrypted private key", "`server.tls.key`"]);
        check(&cert, &cert, &["k.pem has no unencrypted private key"]);
        check(&cert, &other, &["does not belong to the certificate"]);
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        check(broken, &key, &["cannot be used"]);
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        check(&cert, broken, &["cannot be used"]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let nowhere = PathBuf::from("/nowhere/c.pem");
        let files = TlsFiles { cert: nowhere.clone(), key: nowhere };
        let error = read(&files, &provider()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/c.pem: "), "{error}");
        assert!(error.ends_with(" (`server.tls.cert`)"), "{error}");
    }
}
