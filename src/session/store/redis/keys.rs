//! The names of keys and channels.
//!
//! ```text
//!   tether:{s}:session    hash     the lease, the version, what each log is
//!   tether:{s}:log        stream   the events of its last turns, under <number of the turn>-<last event>
//!   tether:{s}:journal    hash     turn -> journal, while a turn runs
//!   tether:{s}:record     string
//!   tether:{s}:files      sorted set: its files by age, each with its length
//!   tether:artifact:<id>  hash     one file
//!   tether:running        sorted set: sessions with a lease, by its end
//!   tether:version        string   the format of all this
//!
//!   tether:owner:{o}:ages       sorted set: the numbers of an owner's entries, by age
//!   tether:owner:{o}:entries    hash: what each is
//!   tether:owner:{o}:keys       hash: key -> numbers of entries
//!   tether:owner:{o}:claims     hash: key -> who has claimed it, until when
//!   tether:owner:{o}:claimed    sorted set: the keys that are claimed, by age
//! ```
//!
//! A cluster keeps keys with the same text in braces together, and a script may use no others. Channels are
//! named as the keys whose changes they tell: `session` for the lease's holder, `log` for readers.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::super::EntryOwner;

/// The names of one store.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

/// The keys of a session, in the order in which scripts take them.
#[derive(Debug, Clone)]
pub(super) struct SessionKeys {
    pub(super) session: String,
    pub(super) log: String,
    pub(super) journal: String,
    pub(super) record: String,
    pub(super) files: String,
}

impl SessionKeys {
    pub(super) fn all(&self) -> [&str; 5] {
        [&self.session, &self.log, &self.journal, &self.record, &self.files]
    }
}

/// The keys of an owner, in the order in which scripts take them.
#[derive(Debug, Clone)]
pub(super) struct OwnerKeys([String; 5]);

impl OwnerKeys {
    pub(super) fn all(&self) -> [&str; 5] {
        self.0.each_ref().map(String::as_str)
    }
}

const RECORD: &str = "}:record";

impl Keys {
    pub(super) const fn new(prefix: String) -> Self {
        Self { prefix }
    }

    pub(super) fn of_session(&self, id: &str) -> SessionKeys {
        // Runs for each token, so each key is allocated once.
        let id = escaped(id);
        let key = |name: &str| [&*self.prefix, "{", &*id, "}:", name].concat();
        SessionKeys {
            session: key("session"),
            log: key("log"),
            journal: key("journal"),
            record: key("record"),
            files: key("files"),
        }
    }

    /// All of an owner's, so that a script can keep their bytes within a bound.
    pub(super) fn of_owner(&self, owner: EntryOwner) -> OwnerKeys {
        let tag = URL_SAFE_NO_PAD.encode(owner.bytes());
        let key = |name: &str| format!("{}owner:{{{tag}}}:{name}", self.prefix);
        OwnerKeys(["ages", "entries", "keys", "claims", "claimed"].map(key))
    }

    pub(super) fn artifact(&self, id: &str) -> String {
        format!("{}artifact:{id}", self.prefix)
    }

    pub(super) fn running(&self) -> String {
        format!("{}running", self.prefix)
    }

    pub(super) fn version(&self) -> String {
        format!("{}version", self.prefix)
    }

    /// The pattern of the keys of all records.
    pub(super) fn records(&self) -> String {
        let mut pattern = String::new();
        for char in self.prefix.chars() {
            if matches!(char, '*' | '?' | '[' | ']' | '^' | '\\') {
                pattern.push('\\');
            }
            pattern.push(char);
        }
        pattern + "{*" + RECORD
    }

    /// The session whose record has this key.
    pub(super) fn session_of_record(&self, key: &str) -> Option<String> {
        let id = key.strip_prefix(&*self.prefix)?.strip_prefix('{')?.strip_suffix(RECORD)?;
        unescaped(id)
    }
}

/// The id without braces, which would end the tag.
fn escaped(id: &str) -> Cow<'_, str> {
    if id.contains(['%', '{', '}']) {
        id.replace('%', "%25").replace('{', "%7B").replace('}', "%7D").into()
    } else {
        id.into()
    }
}

fn unescaped(id: &str) -> Option<String> {
    percent_encoding::percent_decode_str(id).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_is_a_tag() {
        let keys = Keys::new("te*ther:".to_owned());
        for (id, tag) in [("s", "s"), ("a@YQ==", "a@YQ=="), ("{a}%7B", "%7Ba%7D%257B")] {
            let session = keys.of_session(id);
            assert_eq!(session.record, format!("te*ther:{{{tag}}}:record"));
            assert_eq!(keys.session_of_record(&session.record).as_deref(), Some(id));
            assert_eq!(keys.session_of_record(&session.log), None);
        }
        assert_eq!(keys.records(), "te\\*ther:{*}:record");
    }
}
