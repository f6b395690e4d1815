//! Entries: what is kept for an owner beside the sessions, and found by any of its keys. Claims: the
//! right to do something, which only one gets.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What an entry or a claim is found by: a hash, so that all are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryKey([u8; 32]);

impl EntryKey {
    /// The key of these texts. Others have another key, however they are divided.
    #[must_use]
    pub fn of(texts: &[&str]) -> Self {
        Self(hash(texts))
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

/// Whose entries and claims they are: a hash of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryOwner([u8; 32]);

impl EntryOwner {
    /// The owner that these texts name. Others name another, however they are divided.
    #[must_use]
    pub fn of(texts: &[&str]) -> Self {
        Self(hash(texts))
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
    /// How long it lasts.
    #[serde(rename = "lapses")]
    pub term: ClaimTerm,
}

/// How long a claim lasts, if nobody releases it. In a record, it is whether the claim lapses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum ClaimTerm {
    /// Until nobody has renewed it for the time of a lease. If leases do not expire, until its process ends.
    Lease,
    /// Longer than the entries of that time.
    Lasting,
}

impl From<bool> for ClaimTerm {
    fn from(lapses: bool) -> Self {
        if lapses { Self::Lease } else { Self::Lasting }
    }
}

impl From<ClaimTerm> for bool {
    fn from(term: ClaimTerm) -> Self {
        term == ClaimTerm::Lease
    }
}

/// The hash of these texts, and of how they are divided.
fn hash(texts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}
