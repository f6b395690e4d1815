//! Which addresses are public, and ranges of addresses. Pure: nothing is looked up.

// From `core`, which has no sockets.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;
use std::str::FromStr;

/// A range of addresses (CIDR): `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    first: IpAddr,
    prefix: u8,
}

/// Why a range of addresses cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// It is not an address, or an address with a length after a slash.
    #[error("expected a range of addresses, such as 10.0.0.0/8, fd00::/8 or 127.0.0.1")]
    Form,
    /// The length is longer than the address.
    #[error("the length after the slash can be {0} at most")]
    Length(u8),
    /// Bits beyond the length are set, so that it is not clear which range is meant.
    #[error("the range begins at {0}; write {0}/{1}, or the address alone")]
    Inside(IpAddr, u8),
}

impl Cidr {
    /// Whether the address is in this range. An IPv4 address written as IPv6
    /// (`::ffff:10.0.0.1`) is the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                in_v4(address, first.to_bits(), self.prefix)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                in_v6(address, first.to_bits(), self.prefix)
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().map_err(|_| CidrError::Form)?;
        let longest = if written.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = match prefix {
            // `parse` alone would accept a plus sign.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| CidrError::Form)?
            }
            Some(_) => return Err(CidrError::Form),
            None => longest,
        };
        if prefix > longest {
            return Err(CidrError::Length(longest));
        }
        let first = match written {
            IpAddr::V4(address) => {
                IpAddr::from(Ipv4Addr::from_bits(address.to_bits() & mask_v4(prefix)))
            }
            IpAddr::V6(address) => {
                IpAddr::from(Ipv6Addr::from_bits(address.to_bits() & mask_v6(prefix)))
            }
        };
        if first != written {
            return Err(CidrError::Inside(first, prefix));
        }
        Ok(Self { first, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// IPv4 ranges that are not public (IANA's special-purpose registry; RFC 6890).
const PRIVATE_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local; 169.254.169.254 gives a cloud machine's credentials to anyone who asks.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The only IPv6 range with public addresses so far (RFC 4291, section 2.4).
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Ranges inside [`GLOBAL_V6`] that are not public.
const PRIVATE_V6: &[(Ipv6Addr, u8)] = &[
    // Protocol assignments: benchmarking, ORCHID and more.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether anyone on the internet can reach this address.
///
/// An IPv6 address that stands for an IPv4 address is as public as that address: mapped
/// (`::ffff:0:0/96`), translated (`::ffff:0:0:0/96`, `64:ff9b::/96`) and 6to4 (`2002::/16`).
/// Teredo (`2001::/32`) and local translation (`64:ff9b:1::/48`) are not public.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(embedded) => is_public_v4(embedded),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !PRIVATE_V4.iter().any(|(first, prefix)| in_v4(address, first.to_bits(), *prefix))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let is_in = |(first, prefix): &(Ipv6Addr, u8)| in_v6(address, first.to_bits(), *prefix);
    is_in(&GLOBAL_V6) && !PRIVATE_V6.iter().any(is_in)
}

/// The IPv4 address that packets to this address end up at.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let last =
        |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        // IPv4-mapped (RFC 4291, section 2.5.5.2), IPv4-translated (RFC 2765), and the well-known
        // prefix of NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4 (RFC 3056).
        | [0x2002, high, low, _, _, _, _, _] => last(high, low),
        _ => None,
    }
}

fn in_v4(address: Ipv4Addr, first: u32, prefix: u8) -> bool {
    address.to_bits() & mask_v4(prefix) == first
}

fn in_v6(address: Ipv6Addr, first: u128, prefix: u8) -> bool {
    address.to_bits() & mask_v6(prefix) == first
}

fn mask_v4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

fn mask_v6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[track_caller]
    fn check(addresses: &[&str], public: bool) {
        for text in addresses {
            assert_eq!(is_public(address(text)), public, "{text}");
        }
    }

    #[test]
    fn private_ranges_end_where_the_registry_says() {
        for (before, first, last, after) in [
            ("", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
            ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
            ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
            ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
            ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
            ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
            ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
            ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
            ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
            ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
            ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
            ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
            ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
            ("223.255.255.255", "224.0.0.0", "255.255.255.255", ""),
        ] {
            check(&[first, last], false);
            for outside in [before, after].into_iter().filter(|text| !text.is_empty()) {
                check(&[outside], true);
            }
        }
    }

    #[test]
    fn only_global_unicast_is_public_in_ipv6() {
        check(&["2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "2001:200::", "3ffe::1"], true);
        check(
            &[
                "::",
                "::1",
                "::2",
                "100::1",
                "2001:db8::1",
                "3fff::1",
                "2001:2::1",
                "2001:20::1",
                "4000::1",
                "5f00::1",
                "fc00::1",
                "fd12:3456::1",
                "fe80::1",
                "febf::1",
                "fec0::1",
                "ff02::1",
            ],
            false,
        );
    }

    #[test]
    fn an_ipv6_form_of_ipv4_is_as_public_as_the_ipv4_address() {
        for (v4, public) in [("8.8.8.8", true), ("127.0.0.1", false), ("169.254.169.254", false)] {
            let IpAddr::V4(v4) = address(v4) else { unreachable!("written as IPv4") };
            let [high, low] = [v4.to_bits() >> 16, v4.to_bits() & 0xffff];
            for form in [
                format!("::ffff:{v4}"),
                format!("::ffff:0:{v4}"),
                format!("64:ff9b::{v4}"),
                format!("2002:{high:x}:{low:x}::1"),
            ] {
                check(&[&form], public);
            }
        }
    }

    #[test]
    fn forms_whose_destination_is_not_certain_are_not_public() {
        check(
            &[
                // IPv4-compatible, Teredo, local NAT64.
                "::8.8.8.8",
                "2001:0:808:808:0:ffff:f7f7:f7f7",
                "64:ff9b:1::8.8.8.8",
                "64:ff9b:1:808:8:800::",
            ],
            false,
        );
    }

    #[test]
    fn a_range_contains_what_its_prefix_says() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"][..], "11.0.0.0"),
            ("127.0.0.1", &["127.0.0.1"], "127.0.0.2"),
            ("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], "::1"),
            ("fd00::/8", &["fd00::", "fdff::1"], "fe00::"),
            ("::1", &["::1"], "::2"),
            ("::/0", &["::1", "2001:db8::"], "1.2.3.4"),
        ] {
            let range: Cidr = range.parse().unwrap();
            assert!(inside.iter().all(|text| range.contains(address(text))), "{range}");
            assert!(!range.contains(address(outside)), "{range}");
        }
    }

    #[test]
    fn ranges_that_cannot_be_read_are_mistakes() {
        for (text, says) in [
            ("", "expected a range"),
            ("localhost", "expected a range"),
            ("10.0.0.0/", "expected a range"),
            ("10.0.0.0/+8", "expected a range"),
            ("10.0.0.0/999", "expected a range"),
            ("10.0.0.0/33", "32 at most"),
            ("fd00::/129", "128 at most"),
            ("10.1.2.3/8", "begins at 10.0.0.0; write 10.0.0.0/8"),
            ("fd00::1/8", "begins at fd00::"),
        ] {
            let error = text.parse::<Cidr>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_range_is_read_as_it_is_written(bits: u128, prefix in 0_u8..=128) {
            let v6 = Ipv6Addr::from_bits(bits & mask_v6(prefix));
            let range = Cidr { first: v6.into(), prefix };
            prop_assert_eq!(range.to_string().parse(), Ok(range));
            prop_assert!(range.contains(v6.into()) || embedded_v4(v6).is_some());
        }

        #[test]
        fn the_standard_library_finds_nothing_private_that_is_public_here(bits: u128) {
            for bits in [bits, bits >> 64, bits & u128::from(u32::MAX)] {
                let v6 = Ipv6Addr::from_bits(bits);
                let private = v6.is_loopback() || v6.is_unspecified() || v6.is_multicast()
                    || v6.is_unique_local() || v6.is_unicast_link_local();
                prop_assert!(!(private && is_public(v6.into())), "{}", v6);
                #[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
                let v4 = Ipv4Addr::from_bits(bits as u32);
                let private = v4.is_loopback() || v4.is_private() || v4.is_link_local()
                    || v4.is_broadcast() || v4.is_multicast() || v4.is_documentation()
                    || v4.is_unspecified();
                prop_assert!(!(private && is_public(v4.into())), "{}", v4);
            }
        }
    }
}
