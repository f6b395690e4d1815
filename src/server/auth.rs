//! Access control: API keys, and protection against web pages that send requests in their
//! visitor's place.
//!
//! A server on loopback usually has no key, and every page that its user opens can reach it.
//! Two checks prevent abuse. The `Origin` of a request that changes something must be this
//! server's own or a configured one. And without keys, the `Host` must be a name of this
//! machine, so that a foreign name that resolves to 127.0.0.1 (DNS rebinding) gets nothing.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use super::refusal::Refusal;

/// Who may send requests.
#[derive(Clone, Default)]
pub(crate) struct AuthOptions {
    /// Keys, any of which grants access; without keys the server is open.
    pub(crate) api_keys: Vec<String>,
    /// Allowed origins of pages on other hosts, matched exactly: `https://chat.example.org`.
    pub(crate) origins: Vec<String>,
}

impl std::fmt::Debug for AuthOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthOptions")
            .field("api_keys", &self.api_keys.len())
            .field("origins", &self.origins)
            .finish()
    }
}

/// Access control for a server's address.
#[derive(Debug)]
pub(super) struct Auth {
    /// Digests, so that a comparison takes the same time for keys of any length.
    keys: Vec<[u8; 32]>,
    origins: Vec<String>,
    is_loopback: bool,
}

/// An alternative to `Authorization` for the key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

impl Auth {
    /// Creates the access control for a server that listens on `address`.
    pub(super) fn new(options: AuthOptions, address: SocketAddr) -> Self {
        let keys = options.api_keys.iter().map(|key| Sha256::digest(key).into()).collect();
        Self { keys, origins: options.origins, is_loopback: address.ip().is_loopback() }
    }

    /// Allowed origins of pages on other hosts.
    pub(super) fn origins(&self) -> &[String] {
        &self.origins
    }

    /// On loopback, rejects requests under a foreign host name or from a foreign page.
    pub(super) fn check_browser(&self, request: &Parts) -> Result<(), Refusal> {
        if !self.is_loopback {
            return Ok(());
        }
        let host = host_of(request).unwrap_or_default();
        if self.keys.is_empty() && !self.is_ours(host) {
            return Err(Refusal::Host(host.to_owned()));
        }
        let changes = !matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
        // A browser sends one. Of several, each has to be allowed.
        for origin in request.headers.get_all(ORIGIN).iter().filter(|_| changes) {
            let origin = origin.to_str().unwrap_or_default();
            let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
            if authority != host && self.origins.iter().all(|allowed| allowed != origin) {
                return Err(Refusal::Origin(origin.to_owned()));
            }
        }
        Ok(())
    }

    /// Whether a name belongs to this machine or to a configured origin.
    fn is_ours(&self, host: &str) -> bool {
        let name = without_port(host);
        name.eq_ignore_ascii_case("localhost")
            || name == "[::1]"
            || name.parse().is_ok_and(|ip: std::net::Ipv4Addr| ip.is_loopback())
            || self
                .origins
                .iter()
                .any(|origin| origin.split_once("://").is_some_and(|(_, allowed)| allowed == host))
    }

    /// Whose request it is: the same for all with one key, and for all if none is needed.
    pub(super) fn owner(&self, headers: &HeaderMap) -> String {
        match key(headers) {
            Some(key) if !self.keys.is_empty() => STANDARD.encode(Sha256::digest(key)),
            _ => String::new(),
        }
    }

    /// Rejects requests without a valid key.
    pub(super) fn check_key(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let digest: [u8; 32] = Sha256::digest(key(headers).unwrap_or_default()).into();
        // Compare all keys, even after a match: the time must not reveal anything.
        let known = self.keys.iter().fold(Choice::from(0), |known, key| known | key.ct_eq(&digest));
        if bool::from(known) { Ok(()) } else { Err(Refusal::Unauthorized) }
    }
}

/// The key that a request brings.
fn key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    bearer
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| key.trim())
        .or_else(|| headers.get(API_KEY).and_then(|value| value.to_str().ok()))
}

/// The host that a request asks for, with its port: `:authority`, else `Host`.
fn host_of(request: &Parts) -> Option<&str> {
    let authority = request.uri.authority().map(Authority::as_str);
    // Several `Host` headers count as none: another server might choose a different one.
    let mut hosts = request.headers.get_all(HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none());
    authority.or_else(|| host?.to_str().ok())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}
