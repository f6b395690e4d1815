//! Where a server is, and how to log in there.

use std::fmt;

use redis::{Client, ConnectionInfo, IntoConnectionInfo as _, RedisError, io::tcp::TcpSettings};

/// A server, and who logs in there.
#[derive(Clone)]
pub struct RedisAddress {
    info: ConnectionInfo,
}

impl RedisAddress {
    /// Reads a URL: `redis://[user[:password]@]host[:port][/database]`, `rediss://` for TLS, or
    /// `unix:///path[?db=database]`. A user, unless it is empty, and a password besides it take
    /// precedence.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(url: &str, user: &str, password: Option<&str>) -> Result<Self, String> {
        let read = |error: RedisError| error.to_string();
        let info = url.into_connection_info().map_err(read)?;
        let mut login = info.redis_settings().clone().set_skip_set_lib_name();
        if !user.is_empty() {
            login = login.set_username(user);
        }
        if let Some(password) = password {
            login = login.set_password(password);
        }
        // Requests are small, and turns wait for them.
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(login).set_tcp_settings(tcp);
        Ok(Self { info })
    }

    pub(super) fn client(&self) -> Result<Client, String> {
        Client::open(self.info.clone()).map_err(|error| error.to_string())
    }
}

/// The address without a password.
impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
