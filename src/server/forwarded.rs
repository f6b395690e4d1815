//! Which client sent a request that a proxy has forwarded.
//!
//! Each proxy appends the address that its request came from. Only trusted proxies are believed, so the list is
//! read from its end, up to the first address that is not a trusted proxy's. That is the client; it may have made
//! up whatever comes before:
//!
//! ```text
//!   X-Forwarded-For: 198.51.100.1, 192.0.2.7, 10.2.2.2        the connection is from 10.1.1.1
//!                    '- anything -' '-client-' '-trusted proxies, read from here: <-----------'
//! ```

use std::net::IpAddr;

use hyper::header::{FORWARDED, HeaderMap, HeaderName};

use crate::limits::server::PROXIES_MAX;
use crate::tools::outbound::Cidr;

/// Which proxies are believed, and the header in which they name the client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proxies {
    /// Their addresses.
    pub(crate) trusted: Vec<Cidr>,
    /// The header that all of them write.
    pub(crate) header: ForwardedHeader,
}

/// A header in which proxies name the client. Only one counts: a proxy that writes one of them usually lets
/// the other through as the client wrote it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, which most proxies write.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl ForwardedHeader {
    /// All of them, by their names in the configuration.
    pub(crate) const ALL: [(&'static str, Self); 2] =
        [("x_forwarded_for", Self::XForwardedFor), ("forwarded", Self::Forwarded)];

    /// The addresses in the header, last one first; `None` for one that cannot be read.
    fn addresses(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        let name = match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => FORWARDED,
        };
        // Several lines are one list. A comma inside quotes separates, too: no address has one, and a quote that
        // a client leaves open must not swallow what the proxy has appended.
        let lines = headers.get_all(name).iter().rev();
        lines.flat_map(move |line| {
            // Each is read on its own: what a client has written cannot spoil what the proxy has appended.
            let elements = line.as_bytes().rsplit(|byte| *byte == b',');
            elements.map(move |element| {
                let element = str::from_utf8(element).ok()?;
                match self {
                    Self::XForwardedFor => address(element.trim()),
                    Self::Forwarded => forwarded_for(element),
                }
            })
        })
    }
}

impl Proxies {
    /// Whether this is a trusted proxy's address.
    pub(super) fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.iter().any(|range| range.contains(peer))
    }

    /// The client of a request on a connection from `peer`. `None` if no address but those of trusted proxies is
    /// known: then a proxy sent it for itself.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Option<Sender> {
        let mut from = peer;
        for address in self.header.addresses(headers).take(PROXIES_MAX) {
            if !self.trusts(from) {
                return Some(Sender::Client(from));
            }
            match address {
                Some(address) => from = address,
                None => return Some(Sender::HiddenBy(from)),
            }
        }
        (!self.trusts(from)).then_some(Sender::Client(from))
    }
}

/// Who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// A client with this address.
    Client(IpAddr),
    /// A client whose address cannot be read, by way of this trusted proxy. All of them count as one client.
    HiddenBy(IpAddr),
}

/// The address in an element of `Forwarded` (RFC 7239, section 4): the only `for` of its pairs. An element with
/// half of a quoted text in it cannot be read: a client may have written it, as the name of a host.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut escaped = false;
    let is_quote = |byte: u8| {
        let is_quote = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_quote
    };
    if !element.bytes().map(is_quote).filter(|is_quote| *is_quote).count().is_multiple_of(2) {
        return None;
    }
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    let (_, value) = values.next().filter(|_| values.next().is_none())?;
    let value = value.trim();
    address(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

/// An address, which may have a port: `192.0.2.7`, `192.0.2.7:4711`, `[2001:db8::7]:4711` or, in
/// `X-Forwarded-For`, `2001:db8::7`.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let is_port =
        |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let has_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return address.parse().ok().filter(|_| has_port).map(IpAddr::V6);
    }
    let (address, port) = text.split_once(':')?;
    address.parse().ok().filter(|_| is_port(port)).map(IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;
    use crate::gateway::ClientAddress;

    fn proxies(header: ForwardedHeader) -> Proxies {
        let trusted = ["127.0.0.0/8", "10.0.0.0/8", "fd00::/8"];
        Proxies { trusted: trusted.map(|range| range.parse().unwrap()).into(), header }
    }

    /// Checks which client is found from these lines of the header.
    #[track_caller]
    fn check(header: ForwardedHeader, peer: &str, lines: &[&str], client: Option<&str>) {
        let name = match header {
            ForwardedHeader::XForwardedFor => "x-forwarded-for",
            ForwardedHeader::Forwarded => "forwarded",
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        let found = proxies(header).client(peer.parse().unwrap(), &headers);
        let found = found.map(|(Sender::Client(it) | Sender::HiddenBy(it))| it);
        assert_eq!(
            found.map(|it| ClientAddress::from(it).to_string()).as_deref(),
            client,
            "{peer} {lines:?}"
        );
    }

    #[test]
    fn x_forwarded_for() {
        let check = |peer, lines: &[_], client| {
            check(ForwardedHeader::XForwardedFor, peer, lines, client);
        };
        check("192.0.2.1", &[], Some("192.0.2.1"));
        check("127.0.0.1", &["192.0.2.7"], Some("192.0.2.7"));
        check("::ffff:127.0.0.1", &["192.0.2.7"], Some("192.0.2.7"));
        check("10.1.1.1", &["192.0.2.7:4711"], Some("192.0.2.7"));
        check("fd00::1", &["2001:db8::7"], Some("2001:db8::/64"));
        check("fd00::1", &["[2001:db8::7]:4711"], Some("2001:db8::/64"));
        // A chain of proxies.
        check("127.0.0.1", &["192.0.2.7, 10.2.2.2 ,10.1.1.1"], Some("192.0.2.7"));
        check("127.0.0.1", &["192.0.2.7", "10.2.2.2"], Some("192.0.2.7"));
    }

    #[test]
    fn a_request_of_a_proxy_itself_has_no_client() {
        let check = |lines: &[_]| check(ForwardedHeader::XForwardedFor, "127.0.0.1", lines, None);
        check(&[]);
        check(&["10.2.2.2, 127.0.0.1"]);
    }

    #[test]
    fn whatever_a_client_writes_itself_is_ignored() {
        let check = |peer, lines: &[_], client| {
            check(ForwardedHeader::XForwardedFor, peer, lines, Some(client));
        };
        check("192.0.2.1", &["198.51.100.1"], "192.0.2.1");
        check("192.0.2.1", &["127.0.0.1", "10.0.0.1"], "192.0.2.1");
        // The proxy has appended 192.0.2.7.
        check("127.0.0.1", &["198.51.100.1, 192.0.2.7"], "192.0.2.7");
        check("127.0.0.1", &["10.0.0.1, 127.0.0.1", "192.0.2.7"], "192.0.2.7");
        check("127.0.0.1", &["\"198.51.100.1, 192.0.2.7"], "192.0.2.7");
        check("127.0.0.1", &["\u{e9}", "192.0.2.7"], "192.0.2.7");
        check("127.0.0.1", &["\u{e9}, 192.0.2.7"], "192.0.2.7");
    }

    #[test]
    fn a_proxy_that_hides_its_clients_counts_as_one_client() {
        for bad in [
            "",
            ",",
            "unknown",
            "\u{e9}",
            "192.0.2",
            "192.0.2.7:",
            "192.0.2.7:x",
            "[::1",
            "[192.0.2.7]",
            "::1:x",
        ] {
            check(
                ForwardedHeader::XForwardedFor,
                "10.1.1.1",
                &["192.0.2.7", bad],
                Some("10.1.1.1"),
            );
        }
        for bad in [
            "",
            "for=unknown",
            "for=_hidden",
            "by=192.0.2.7",
            "for=192.0.2.7;for=192.0.2.8",
            // A client may call the host whatever it likes.
            "for=192.0.2.7;host=\"a,for=192.0.2.8;b=\"",
            "for=192.0.2.7;host=\"a,for=192.0.2.8\"",
            "for=192.0.2.7;host=\"a\\\",for=192.0.2.8;b=\\\"\"",
            "for=192.0.2.7;host=\"a;for=192.0.2.8\"",
        ] {
            check(
                ForwardedHeader::Forwarded,
                "10.1.1.1",
                &["for=192.0.2.7", bad],
                Some("10.1.1.1"),
            );
        }
    }

    #[test]
    fn forwarded() {
        let check = |lines: &[_], client| {
            check(ForwardedHeader::Forwarded, "127.0.0.1", lines, Some(client));
        };
        check(&["for=192.0.2.7"], "192.0.2.7");
        check(&["For=\"192.0.2.7:4711\"; proto=https;by=10.0.0.1"], "192.0.2.7");
        check(&["for=\"[2001:db8:0:1::7]:4711\""], "2001:db8:0:1::/64");
        check(&["for=192.0.2.7, for=10.2.2.2"], "192.0.2.7");
        check(&["for=\"198.51.100.1", "for=192.0.2.7"], "192.0.2.7");
        check(&["for=\"198.51.100.1, for=192.0.2.7"], "192.0.2.7");
    }

    /// A client cannot make the gateway read a list without end.
    #[test]
    fn the_chain_of_proxies_has_a_bound() {
        let chain = |proxies: usize| format!("192.0.2.7{}", ",10.1.1.1".repeat(proxies));
        let most = PROXIES_MAX - 1;
        check(ForwardedHeader::XForwardedFor, "10.1.1.1", &[&chain(most)], Some("192.0.2.7"));
        check(ForwardedHeader::XForwardedFor, "10.1.1.1", &[&chain(most + 1)], None);
    }

    /// Most proxies let the other header through as the client wrote it.
    #[test]
    fn only_the_configured_header_counts() {
        let mut headers = HeaderMap::new();
        headers.append("forwarded", "for=198.51.100.1".parse().unwrap());
        headers.append("x-forwarded-for", "192.0.2.7".parse().unwrap());
        let client = |header| proxies(header).client([127, 0, 0, 1].into(), &headers);
        let is = |address: &str| Some(Sender::Client(address.parse().unwrap()));
        assert_eq!(client(ForwardedHeader::XForwardedFor), is("192.0.2.7"));
        assert_eq!(client(ForwardedHeader::Forwarded), is("198.51.100.1"));
    }
}
