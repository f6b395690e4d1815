//! `sessions`: where conversations are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde::{Serialize, Serializer};
use url::Url;

use super::raw::Node;
use super::reader::{Keys, Refused, text, wait};
use super::upstream::secret_or_empty;
use super::values::{choice, secret};
use super::{Secret, seconds};
use crate::limits;
use crate::limits::config as bounds;

/// `sessions`: where conversations are kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionsConfig {
    /// The store.
    pub store: Store,
    /// How long an unused session is kept.
    #[serde(rename = "ttl_sec", serialize_with = "seconds")]
    pub ttl: Duration,
    /// The store in a file.
    pub embedded: EmbeddedStoreConfig,
    /// The store on a server.
    pub redis: RedisConfig,
}

/// `sessions.redis`: a store that several gateways share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RedisConfig {
    /// Where the server is, or some servers of a cluster, without user and password.
    pub url: String,
    /// Who logs in, unless it is empty.
    pub user: String,
    /// The password.
    #[serde(serialize_with = "secret_or_empty")]
    pub password: Option<Secret>,
    /// Who logs in at the Sentinels, unless it is empty.
    pub sentinel_user: String,
    /// The password there.
    #[serde(serialize_with = "secret_or_empty")]
    pub sentinel_password: Option<Secret>,
    /// Whose certificates are trusted, instead of those that the platform trusts.
    #[serde(serialize_with = "path_or_empty")]
    pub ca_file: Option<PathBuf>,
    /// The certificate of the gateway, for servers that want one.
    #[serde(serialize_with = "path_or_empty")]
    pub cert_file: Option<PathBuf>,
    /// Its private key.
    #[serde(serialize_with = "path_or_empty")]
    pub key_file: Option<PathBuf>,
    /// What all keys begin with.
    pub prefix: String,
    /// How long connecting may take.
    #[serde(rename = "connect_timeout_sec", serialize_with = "seconds")]
    pub connect_timeout: Duration,
    /// How long a gateway keeps a session that it does not renew.
    #[serde(rename = "lease_sec", serialize_with = "seconds")]
    pub lease: Duration,
    /// How long a running turn waits for a server that does not answer.
    #[serde(rename = "wait_sec", serialize_with = "seconds")]
    pub wait: Duration,
}

/// `sessions.embedded`: a store in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EmbeddedStoreConfig {
    /// The file.
    pub path: PathBuf,
    /// How far a write goes before it counts.
    pub sync: StoreSync,
}

/// `sessions.embedded.sync`: what a write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreSync {
    /// A killed process.
    Normal,
    /// A power cut, too.
    Full,
}

/// `sessions.store`: where conversations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Store {
    /// In this process, and gone with it.
    Memory,
    /// In a file.
    Embedded,
    /// On a server, for several gateways.
    Redis,
}

impl Store {
    /// Each with its name.
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("memory", Self::Memory), ("embedded", Self::Embedded), ("redis", Self::Redis)];
}

impl StoreSync {
    /// Each with its name.
    pub(crate) const ALL: [(&'static str, Self); 2] =
        [("normal", Self::Normal), ("full", Self::Full)];
}

/// The name of the store's file.
pub(crate) const STORE_FILE: &str = "tether.db";

impl Default for SessionsConfig {
    fn default() -> Self {
        let embedded =
            EmbeddedStoreConfig { path: PathBuf::from(STORE_FILE), sync: StoreSync::Normal };
        let redis = RedisConfig::default();
        Self { store: Store::Memory, ttl: limits::session::TTL, embedded, redis }
    }
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379/0".to_owned(),
            user: String::new(),
            password: None,
            sentinel_user: String::new(),
            sentinel_password: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            prefix: "tether:".to_owned(),
            connect_timeout: limits::session::STORE_CONNECT_TIMEOUT,
            lease: limits::session::LEASE,
            wait: limits::session::STORE_WAIT,
        }
    }
}

/// Reads `sessions`.
pub(super) fn read(mut keys: Keys<'_, '_>) -> SessionsConfig {
    let default = SessionsConfig::default();
    let (embedded, has_path) = embedded_store(keys.section("embedded"), default.embedded);
    let (redis, has_url) = redis_store(keys.section("redis"), default.redis);
    // Whoever names a file or a server wants it to be used.
    let named = match (has_path, has_url) {
        (true, false) => Store::Embedded,
        (false, true) => Store::Redis,
        _ => default.store,
    };
    if has_path && has_url && !keys.has("store") {
        let message = "expected `embedded` or `redis`: both are described, and one of them is used";
        keys.refuse("store", message.to_owned());
    }
    let sessions = SessionsConfig {
        store: keys.read("store", named, choice("store", &Store::ALL)),
        ttl: keys.read("ttl_sec", default.ttl, wait(bounds::WAIT_MIN..=bounds::TTL_MAX)),
        embedded,
        redis,
    };
    keys.finish();
    sessions
}

/// The store on a server, and whether the server is named.
fn redis_store(mut keys: Keys<'_, '_>, default: RedisConfig) -> (RedisConfig, bool) {
    let url = keys.read("url", None, |node| server(node).map(Some));
    let has_url = url.is_some();
    let Server { url, user, password } =
        url.unwrap_or(Server { url: default.url, user: default.user, password: default.password });
    let lease = wait(limits::session::LEASE_MIN..=limits::session::LEASE_MAX);
    let lease = keys.read("lease_sec", default.lease, lease);
    let redis = RedisConfig {
        url,
        user: keys.read("user", user, name),
        password: keys.read("password", password, secret),
        sentinel_user: keys.read("sentinel_user", default.sentinel_user, name),
        sentinel_password: keys.read("sentinel_password", default.sentinel_password, secret),
        ca_file: keys.read("ca_file", default.ca_file, file),
        cert_file: keys.read("cert_file", default.cert_file, file),
        key_file: keys.read("key_file", default.key_file, file),
        prefix: keys.read("prefix", default.prefix, prefix),
        connect_timeout: keys.read("connect_timeout_sec", default.connect_timeout, some_wait()),
        lease,
        wait: keys.read("wait_sec", default.wait.min(lease / 2), some_wait()),
    };
    let most = lease * 3 / 4;
    if redis.wait > most {
        let message = format!(
            "found {:?}, expected at most {most:?}, three quarters of `lease_sec`: no turn waits for longer \
             than it has its session",
            redis.wait
        );
        keys.refuse("wait_sec", message);
    }
    check_tls(&mut keys, &redis);
    check_sentinels(&mut keys, &redis);
    keys.finish();
    (redis, has_url)
}

/// Certificate files without TLS are a mistake: the connection is less safe than the configuration suggests.
fn check_tls(keys: &mut Keys<'_, '_>, redis: &RedisConfig) {
    let RedisConfig { url, ca_file, cert_file, key_file, .. } = redis;
    let files = [("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)];
    if !url.starts_with("rediss")
        && let Some((key, _)) = files.into_iter().find(|(_, file)| file.is_some())
    {
        let message = "expected nothing, or `rediss://` in `url`: there is no TLS otherwise";
        keys.refuse(key, message.to_owned());
    } else if cert_file.is_some() != key_file.is_some() {
        let key = if cert_file.is_some() { "cert_file" } else { "key_file" };
        keys.refuse(key, "expected `cert_file` and `key_file`, or neither".to_owned());
    }
}

/// Nobody but Sentinels is asked with their login, so it is a mistake without them.
fn check_sentinels(keys: &mut Keys<'_, '_>, redis: &RedisConfig) {
    let logins = [
        ("sentinel_user", !redis.sentinel_user.is_empty()),
        ("sentinel_password", redis.sentinel_password.is_some()),
    ];
    if !redis.url.contains("+sentinel://")
        && let Some((key, _)) = logins.into_iter().find(|(_, is_set)| *is_set)
    {
        let message =
            "expected nothing, or `redis+sentinel://` in `url`: there are no Sentinels otherwise";
        keys.refuse(key, message.to_owned());
    }
}

fn name(node: &Node) -> Result<String, Refused> {
    text(node).map(str::to_owned)
}

/// Reads the name of a file. An empty one is none.
fn file(node: &Node) -> Result<Option<PathBuf>, Refused> {
    let text = text(node)?;
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

#[expect(clippy::ref_option, reason = "serde requires this signature")]
fn path_or_empty<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().unwrap_or_else(|| Path::new("")).serialize(serializer)
}

/// Where a server is, and who logs in.
struct Server {
    url: String,
    user: String,
    password: Option<Secret>,
}

/// Reads the URL of a server, or of several. It may contain a password, which is kept apart, and no message
/// quotes it.
fn server(node: &Node) -> Result<Server, Refused> {
    const EXPECTED: &str = "`redis://HOST:PORT/DATABASE`, `rediss://` for TLS, `unix:///PATH`, \
                            `redis+cluster://HOST:PORT,HOST:PORT`, or \
                            `redis+sentinel://HOST:PORT,HOST:PORT/NAME`";
    let refused = || Refused::hidden(node, EXPECTED);
    let text = text(node).map_err(|_| refused())?;
    if let Some((scheme, rest)) = text.split_once("+cluster://") {
        several(scheme, "cluster", rest.strip_suffix('/').unwrap_or(rest))
    } else if let Some((scheme, rest)) = text.split_once("+sentinel://") {
        let (_, path) =
            rest.rsplit_once('@').unwrap_or(("", rest)).1.split_once('/').unwrap_or_default();
        let (name, database) = path.split_once('/').unwrap_or((path, "0"));
        let is_name = !name.is_empty() && !name.contains(['?', '#', ',']);
        let is_complete = is_name && database.parse::<u16>().is_ok();
        is_complete.then(|| several(scheme, "sentinel", rest)).flatten()
    } else {
        one_server(text)
    }
    .ok_or_else(refused)
}

fn one_server(text: &str) -> Option<Server> {
    let mut url = Url::parse(text).ok()?;
    let is_complete = match url.scheme() {
        "redis" | "rediss" => {
            let database = url.path().trim_matches('/');
            let is_database = database.is_empty() || database.parse::<u16>().is_ok();
            url.host_str().is_some_and(|host| !host.is_empty())
                && is_database
                && url.query().is_none()
        }
        "unix" => url.path().len() > 1,
        _ => false,
    };
    if !is_complete || url.fragment().is_some() {
        return None;
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(String::from);
    let mut user = decoded(url.username()).ok()?;
    let mut password = url.password().map(decoded).transpose().ok()?;
    // They fail where there is no host, and then there is nothing to remove.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    // The URL of a socket has them there.
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    if !query.is_empty() {
        url.set_query(None);
        for (key, value) in query {
            match key.as_str() {
                "user" => user = value,
                "pass" => password = Some(value),
                _ => drop(url.query_pairs_mut().append_pair(&key, &value)),
            }
        }
    }
    Some(Server {
        url: url.into(),
        user,
        password: password.filter(|password| !password.is_empty()).map(Secret::new),
    })
}

/// Reads `user:password@host:port,host:port`, each host as the URL of one server would have it, and keeps what
/// follows of Sentinels.
fn several(scheme: &str, kind: &str, rest: &str) -> Option<Server> {
    if !["redis", "rediss"].contains(&scheme) {
        return None;
    }
    let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let hosts = match kind {
        "sentinel" => place.split('/').next()?,
        _ => place,
    };
    let separator = if login.is_empty() { "" } else { "@" };
    let mut servers = Vec::new();
    for host in hosts.split(',') {
        if host.contains(['/', '?', '#']) {
            return None;
        }
        servers.push(one_server(&format!("{scheme}://{login}{separator}{host}"))?);
    }
    Some(Server { url: format!("{scheme}+{kind}://{place}"), ..servers.pop()? })
}

/// Reads what all keys begin with. Braces say which keys a cluster keeps together.
fn prefix(node: &Node) -> Result<String, Refused> {
    let text = text(node)?;
    let fits = (1..=bounds::NAME_BYTES_MAX).contains(&text.len());
    if fits && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}".contains(&byte)) {
        return Ok(text.to_owned());
    }
    let most = bounds::NAME_BYTES_MAX;
    Err(Refused::new(node, format!("1 to {most} visible ASCII characters without `{{` and `}}`")))
}

fn some_wait() -> impl Fn(&Node) -> Result<Duration, Refused> {
    wait(bounds::WAIT_MIN..=bounds::WAIT_MAX)
}

/// The store in a file, and whether the file is named.
fn embedded_store(
    mut keys: Keys<'_, '_>,
    default: EmbeddedStoreConfig,
) -> (EmbeddedStoreConfig, bool) {
    let path = keys.read("path", None, |node| Ok(Some(PathBuf::from(text(node)?))));
    let sync = keys.read("sync", default.sync, choice("sync", &StoreSync::ALL));
    keys.finish();
    let has_path = path.is_some();
    (EmbeddedStoreConfig { path: path.unwrap_or(default.path), sync }, has_path)
}
