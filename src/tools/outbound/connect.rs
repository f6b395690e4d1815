//! Opens connections to addresses that may be reached, and to no others.
//!
//! Addresses are checked here and not earlier: a name that was checked before its connection
//! is opened may have other addresses by then (DNS rebinding). The connection is opened to one
//! of the addresses that were checked.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::error::NotConnected;
use super::{Addresses, ClientOptions, address};
use crate::tls;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Finds the addresses of a name; the port does not matter.
pub(super) type Lookup =
    Arc<dyn Fn(String) -> BoxFuture<io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Opens the connections of one client.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) options: Arc<ClientOptions>,
    pub(super) lookup: Lookup,
    /// What TLS trusts, if not the platform's certificates.
    pub(super) tls: Option<ClientConfig>,
}

impl Connector {
    pub(super) fn new(options: Arc<ClientOptions>) -> Self {
        let lookup: Lookup = Arc::new(|name| {
            Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
        });
        Self { options, lookup, tls: None }
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    /// The time limit includes the lookup of the name and the TLS handshake.
    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let after = connector.options.connect_timeout;
            let connected = timeout(after, connector.connect(uri)).await;
            connected.unwrap_or_else(|_| Err(NotConnected::TimedOut { after }.into()))
        })
    }
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<MaybeHttpsStream<TokioIo<TcpStream>>, BoxError> {
        let check = Check { addresses: Arc::new(self.options.addresses.clone()), uri: uri.clone() };
        // The connector does not look up a host that is already an address.
        if let Some(literal) = literal(&uri) {
            check.check(literal)?;
        }
        let mut tcp = HttpConnector::new_with_resolver(Resolver { lookup: self.lookup, check });
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Ok(MaybeHttpsStream::Http(tcp.call(uri).await?));
        }
        let mut tls = match self.tls {
            Some(tls) => tls,
            None => tls::platform()?,
        };
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        HttpsConnector::from((tcp, tls)).call(uri).await
    }
}

/// The host, if it is an address.
fn literal(uri: &Uri) -> Option<IpAddr> {
    let host = uri.host()?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

/// Which addresses one connection may be opened to.
#[derive(Debug, Clone)]
struct Check {
    addresses: Arc<Addresses>,
    uri: Uri,
}

impl Check {
    fn check(&self, address: IpAddr) -> Result<(), NotConnected> {
        if self.addresses.allow(&self.uri, address) {
            return Ok(());
        }
        if !address::is_public(address) {
            return Err(NotConnected::Private);
        }
        if self.uri.scheme() == Some(&Scheme::HTTPS) { Ok(()) } else { Err(NotConnected::Insecure) }
    }
}

/// Finds the addresses of a name that may be reached.
#[derive(Clone)]
struct Resolver {
    lookup: Lookup,
    check: Check,
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = (self.lookup)(name.as_str().to_owned());
        let check = self.check.clone();
        Box::pin(async move {
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in found.await? {
                match check.check(address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(reason) => refused = Some(reason),
                }
            }
            match refused {
                Some(reason) if allowed.is_empty() => Err(reason.into()),
                _ => Ok(allowed.into_iter()),
            }
        })
    }
}
