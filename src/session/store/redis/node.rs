//! The name of one server of several.

use std::fmt;

/// One server of several.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    /// Its name or IP address.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Node {
    /// Reads `HOST:PORT` or `HOST`. The host may be an IPv6 address, in brackets if there is a port.
    pub(super) fn read(text: &str, default_port: u16) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().ok()?)
            }
            _ => (text, default_port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_host_and_a_port() {
        for (text, shown) in [
            ("a:7", Some("a:7")),
            ("a", Some("a:6379")),
            ("[::1]:7", Some("[::1]:7")),
            ("[::1]", Some("[::1]:6379")),
            ("::1", Some("[::1]:6379")),
            ("a:b", None),
            (":7", None),
            ("", None),
        ] {
            let node = Node::read(text, 6379);
            assert_eq!(node.map(|node| node.to_string()).as_deref(), shown, "{text}");
        }
    }
}
