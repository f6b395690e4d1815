//! Whom a limit by address counts.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A client's address, or the network that stands for it.
///
/// A client with IPv6 usually has a network of its own (`/64`), with more addresses than anyone could count,
/// so all of them are one client. IPv4 written as IPv6 is IPv4.
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
    fn addresses_of_one_client_are_one() {
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
