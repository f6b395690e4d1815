//! Which server of a cluster has which keys.
//!
//! A cluster divides all keys into slots by a checksum of the key, or of the part in braces. Each slot has one
//! primary. Source: Redis, "Cluster specification", "Key distribution model" and `CLUSTER SLOTS`.

use std::collections::BTreeSet;

use redis::Value;

use super::node::Node;
use super::reply::{Read, list, plain, unreadable};

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16384;

/// The slot of a key.
pub(super) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 }
        })
    })
}

/// The primaries of a cluster, with their slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Slots {
    /// First and last slot of a range, and whose it is.
    ranges: Vec<(u16, u16, Node)>,
}

impl Slots {
    /// Reads what a server knows.
    pub(super) fn read(told: Value, asked: &Node) -> Read<Self> {
        let mut ranges = Vec::new();
        for range in list(told)? {
            let mut range = list(range)?.into_iter();
            let mut next = || range.next().ok_or_else(|| unreadable("too few values"));
            let (first, last) = (plain(next()?)?, plain(next()?)?);
            let mut primary = list(next()?)?.into_iter();
            let mut next = || primary.next().ok_or_else(|| unreadable("too few values"));
            let (host, port): (Option<String>, u16) = (plain(next()?)?, plain(next()?)?);
            // A server that does not know its own address is where it was asked.
            let known = host.filter(|host| !host.is_empty() && host != "?");
            let host = known.unwrap_or_else(|| asked.host.clone());
            ranges.push((first, last, Node { host, port }));
        }
        Ok(Self { ranges })
    }

    pub(super) fn owner(&self, key: &str) -> Option<&Node> {
        let slot = slot_of(key);
        let has = |(first, last, _): &&(u16, u16, Node)| (*first..=*last).contains(&slot);
        self.ranges.iter().find(has).map(|(_, _, node)| node)
    }

    pub(super) fn primaries(&self) -> BTreeSet<&Node> {
        self.ranges.iter().map(|(_, _, node)| node).collect()
    }

    /// How many slots have a server.
    pub(super) fn covered(&self) -> u16 {
        self.ranges.iter().map(|(first, last, _)| last - first + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the specification, and asked of a server (`CLUSTER KEYSLOT`).
    #[test]
    fn keys_with_the_same_tag_share_a_slot() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [
            ("foo", 12182),
            ("tether:{foo}:log", 12182),
            ("{foo}{bar}", 12182),
            ("foo{}{bar}", 8363),
            ("", 0),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
    }

    #[test]
    fn a_server_tells_whose_the_slots_are() {
        let node = |host: &str, port| {
            Value::Array(vec![Value::BulkString(host.into()), Value::Int(port), Value::Nil])
        };
        let range = |first, last, node| {
            Value::Array(vec![Value::Int(first), Value::Int(last), node, Value::Nil])
        };
        let told = vec![range(0, 99, node("", 7)), range(12000, 16383, node("b", 8))];
        let asked = Node { host: "a".to_owned(), port: 1 };
        let slots = Slots::read(Value::Array(told), &asked).unwrap();
        assert_eq!(slots.owner("foo").unwrap().to_string(), "b:8");
        assert_eq!(slots.owner("").unwrap().to_string(), "a:7");
        assert_eq!(slots.owner("foo{}{bar}"), None);
        assert_eq!((slots.covered(), slots.primaries().len()), (100 + 4384, 2));
        Slots::read(Value::Array(vec![Value::Nil]), &asked).unwrap_err();
    }
}
