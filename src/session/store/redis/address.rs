//! Where the servers are, and how to log in there.

use std::fmt;
use std::time::Duration;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    ProtocolVersion, RedisConnectionInfo, RedisError, TlsCertificates, io::tcp::TcpSettings,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::super::StoreError;
use super::cause::failed;
use super::node::Node;
use super::sentinel;

/// Where a store is, and who logs in there.
#[derive(Clone)]
pub struct RedisAddress {
    layout: Layout,
    /// How to connect: to the one server, or to any of them with another host and port.
    info: ConnectionInfo,
    /// Who logs in at the Sentinels. They know neither the servers' users nor a database.
    sentinel_login: RedisConnectionInfo,
}

/// Certificates for TLS, in PEM format.
#[derive(Clone, Default)]
pub struct RedisTls {
    /// Whose certificates are trusted. If `None`, those that the platform trusts.
    pub ca: Option<Vec<u8>>,
    /// The certificate of the gateway, and those between it and its CA.
    pub cert: Option<Vec<u8>>,
    /// Its private key.
    pub key: Option<Vec<u8>>,
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTls").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
enum Layout {
    One,
    /// Some servers of a cluster, which know the others.
    Cluster(Vec<Node>),
    /// Those who know the primary by this name.
    Sentinels(Vec<Node>, String),
}

/// The port of a server whose URL names none.
const PORT: u16 = 6379;

const SENTINEL_PORT: u16 = 26379;

const CLUSTER: &str = "+cluster://";

const SENTINEL: &str = "+sentinel://";

impl RedisAddress {
    /// Reads a URL: `redis://[user[:password]@]host[:port][/database]`, `rediss://` for TLS,
    /// `unix:///path[?db=database]`, `redis+cluster://host[:port],...` for some servers of a
    /// cluster, or `redis+sentinel://host[:port],.../name[/database]` for the primary with this name; both with `rediss`
    /// for TLS. A user, unless it is empty, and a password besides it take precedence.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(url: &str, user: &str, password: Option<&str>) -> Result<Self, String> {
        let read = |error: RedisError| error.to_string();
        let (layout, url) = if let Some((scheme, hosts)) = url.split_once(CLUSTER) {
            let nodes = nodes(hosts.trim_end_matches('/'), PORT)?;
            let url = format!("{scheme}://{}", nodes[0]);
            (Layout::Cluster(nodes), url)
        } else if let Some((scheme, rest)) = url.split_once(SENTINEL) {
            let (hosts, name) = rest.split_once('/').unwrap_or((rest, ""));
            let (name, database) = name.split_once('/').unwrap_or((name, ""));
            if name.is_empty() {
                return Err("expected the name of the primary after the Sentinels".to_owned());
            }
            let nodes = nodes(hosts, SENTINEL_PORT)?;
            let url = format!("{scheme}://{}/{database}", nodes[0]);
            (Layout::Sentinels(nodes, name.to_owned()), url)
        } else {
            (Layout::One, url.to_owned())
        };
        let info = url.into_connection_info().map_err(read)?;
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        let login = with_login(login, user, password);
        // Requests are small, and turns wait for them.
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(login).set_tcp_settings(tcp);
        Client::open(info.clone()).map_err(read)?;
        let sentinel_login = RedisConnectionInfo::default().set_skip_set_lib_name();
        Ok(Self { layout, info, sentinel_login })
    }

    /// The same with a login for the Sentinels: a user, unless it is empty, and a password.
    #[must_use]
    pub fn with_sentinel_login(mut self, user: &str, password: Option<&str>) -> Self {
        self.sentinel_login = with_login(self.sentinel_login, user, password);
        self
    }

    /// The same with certificates.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn with_tls(mut self, tls: RedisTls) -> Result<Self, String> {
        let RedisTls { ca, cert, key } = tls;
        if ca.is_none() && cert.is_none() {
            return Ok(self);
        }
        // An empty list of certificates would trust nobody, and say so only when it connects.
        for (pem, name) in [(&ca, "ca_file"), (&cert, "cert_file")] {
            if pem.as_ref().is_some_and(|pem| CertificateDer::from_pem_slice(pem).is_err()) {
                return Err(format!(
                    "there is no certificate in PEM format in `sessions.redis.{name}`"
                ));
            }
        }
        let client_tls = cert
            .zip(key)
            .map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        let certificates = TlsCertificates { client_tls, root_cert: ca };
        let client = Client::build_with_tls(self.info, certificates).map_err(|error| {
            format!("{error} (`sessions.redis.ca_file`, `cert_file` or `key_file`)")
        })?;
        self.info = client.get_connection_info().clone();
        Ok(self)
    }

    /// The servers of a cluster that are named; `None` if it is none.
    pub(super) fn cluster(&self) -> Option<&[Node]> {
        match &self.layout {
            Layout::One | Layout::Sentinels(..) => None,
            Layout::Cluster(nodes) => Some(nodes),
        }
    }

    /// Why no connection came about.
    pub(super) fn unreachable(&self, error: &RedisError, limit: Duration) -> StoreError {
        if !error.is_timeout() {
            return failed(error);
        }
        // A server without TLS waits for the rest of what it takes for a command.
        let is_tls = matches!(self.info.addr(), ConnectionAddr::TcpTls { .. });
        let hint = if is_tls { "; is this its port for TLS?" } else { "" };
        StoreError::Unavailable(format!("no connection within {limit:?}{hint}"))
    }

    /// A client of a server of a cluster, of the one server there is, or of the one that is the primary now.
    pub(super) async fn client(
        &self,
        node: Option<&Node>,
        wants: Wants,
        limit: Duration,
    ) -> Result<Client, StoreError> {
        let Layout::Sentinels(sentinels, name) = &self.layout else {
            return self.client_of(node, wants);
        };
        let info = self.info.clone().set_redis_settings(self.sentinel_login.clone());
        let sentinels = sentinels.iter().map(|sentinel| open(at(info.clone(), sentinel)));
        let primary = sentinel::primary(sentinels.collect::<Result<_, _>>()?, name, limit).await?;
        self.client_of(Some(&primary), wants)
    }

    fn client_of(&self, node: Option<&Node>, wants: Wants) -> Result<Client, StoreError> {
        let mut info = self.info.clone();
        if let Some(node) = node {
            info = at(info, node);
        }
        if wants == Wants::Pushes {
            // Only this version of the protocol tells messages from answers.
            let login = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            info = info.set_redis_settings(login);
        }
        open(info)
    }

    /// Whether the primary may be another server by now than the one that was told.
    pub(super) fn may_be_replica(&self) -> bool {
        matches!(self.layout, Layout::Sentinels(..))
    }
}

fn open(info: ConnectionInfo) -> Result<Client, StoreError> {
    Client::open(info).map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// The same settings with a user, unless it is empty, and a password.
fn with_login(
    mut settings: RedisConnectionInfo,
    user: &str,
    password: Option<&str>,
) -> RedisConnectionInfo {
    if !user.is_empty() {
        settings = settings.set_username(user);
    }
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    settings
}

/// The same way to connect, to another server.
fn at(info: ConnectionInfo, node: &Node) -> ConnectionInfo {
    let mut address = info.addr().clone();
    match &mut address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            host.clone_from(&node.host);
            *port = node.port;
        }
        _ => {}
    }
    info.set_addr(address)
}

/// Reads hosts, with ports if need be.
fn nodes(text: &str, default_port: u16) -> Result<Vec<Node>, String> {
    let nodes = text.split(',').map(|node| Node::read(node, default_port));
    nodes.collect::<Option<_>>().ok_or_else(|| "expected hosts, with ports if need be".to_owned())
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Answers,
    /// What is published, too.
    Pushes,
}

/// The address without a password.
impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed =
            |nodes: &[Node]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match &self.layout {
            Layout::Cluster(nodes) => return write!(f, "the Redis cluster at {}", listed(nodes)),
            Layout::Sentinels(nodes, name) => {
                return write!(f, "the Redis primary {name} of the Sentinels at {}", listed(nodes));
            }
            Layout::One => {}
        }
        match self.info.redis_settings().db() {
            0 => write!(f, "Redis at {}", self.info.addr()),
            database => write!(f, "Redis at {}, database {database}", self.info.addr()),
        }
    }
}

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_some_of_its_servers() {
        let address = RedisAddress::new("redis+cluster://a:7,b/", "ann", Some("secret")).unwrap();
        assert_eq!(address.to_string(), "the Redis cluster at a:7, b:6379");
        assert_eq!(address.cluster().unwrap().len(), 2);
        RedisAddress::new("redis+cluster://a,,b", "", None).unwrap_err();
    }

    #[test]
    fn a_primary_has_a_name() {
        let address = RedisAddress::new("redis+sentinel://a,b:7/main/2", "", None).unwrap();
        assert_eq!(address.to_string(), "the Redis primary main of the Sentinels at a:26379, b:7");
        assert_eq!(address.info.redis_settings().db(), 2);
        RedisAddress::new("redis+sentinel://a,b", "", None).unwrap_err();
    }
}
