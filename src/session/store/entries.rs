//! Entries: what is kept for an owner beside the sessions, and found by any of its keys. Claims: the
//! right to do something, which only one gets.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What an entry or a claim is found by, or the name of an owner: a hash, so that all are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryKey([u8; 32]);

impl EntryKey {
    /// The key of these texts. Others have another key, however they are divided.
    #[must_use]
    pub fn of(texts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        }
        Self(hash.finalize().into())
    }

    /// The key that is this hash.
    #[must_use]
    pub const fn of_hash(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    pub(super) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is found by. The first is its own: an entry with the same one replaces it.
    pub keys: Vec<EntryKey>,
    /// The epoch of whoever wrote it. An earlier one does not replace it.
    pub epoch: u64,
    /// The content.
    pub bytes: Bytes,
}

/// What is found under some keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundEntries {
    /// The entries, each once, in the order in which they were written.
    pub entries: Vec<Entry>,
    /// Those of the keys that are claimed.
    pub claimed: Vec<EntryKey>,
}

/// The right to do something, which only one gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryClaim {
    /// What is claimed.
    pub key: EntryKey,
    /// Who claims it: a unique number.
    pub holder: u64,
    /// Whether it lapses unless it is claimed again within the time of a lease, or for as long as this
    /// process lives if leases do not expire.
    pub lapses: bool,
}
