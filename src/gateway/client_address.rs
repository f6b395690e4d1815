//! What counts as one client when a limit applies to addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A client, as limits by address see it: an IPv4 address, or an IPv6 network.
///
/// A client with IPv6 usually has a whole network (`/64`) and may use any address in it, so the network
/// counts as one client. An IPv4 address that is written as IPv6 counts as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

/// The bits of an IPv6 address that tell clients apart.
const NETWORK: u128 = u128::MAX << 64;

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_client_are_equal() {
        for (address, client) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:db8:1:2::", "2001:db8:1:2::/64"),
            ("2001:db8:1:3::", "2001:db8:1:3::/64"),
            ("::1", "::/64"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(ClientAddress::from(address).to_string(), client, "{address}");
        }
    }
}
