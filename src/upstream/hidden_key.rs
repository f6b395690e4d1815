//! The key that a server was sent, taken out of what the server says: some repeat it as they refuse
//! it, and clients read that.

use std::fmt;
use std::sync::Arc;

use crate::limits::upstream::HIDDEN_KEY_BYTES_MIN;

/// An API key that is never shown.
#[derive(Clone)]
pub(super) struct HiddenKey(Arc<str>);

impl fmt::Debug for HiddenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenKey")
    }
}

impl HiddenKey {
    /// `None` for a key that is too short to be a secret.
    pub(super) fn of(key: &str) -> Option<Self> {
        (key.len() >= HIDDEN_KEY_BYTES_MIN).then(|| Self(key.into()))
    }

    /// What a server says, without the key.
    pub(super) fn hide(&self, told: String) -> String {
        const SHOWN: &str = "[the key]";
        let told = if told.contains(&*self.0) { told.replace(&*self.0, SHOWN) } else { told };
        // As some write it in JSON.
        let escaped = self.0.replace('/', r"\/");
        if told.contains(&escaped) { told.replace(&escaped, SHOWN) } else { told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hidden_wherever_it_stands() {
        let key = HiddenKey::of("sk-ab/cd").unwrap();
        for (told, shown) in [
            ("no such thing", "no such thing"),
            ("sk-ab/cd, or Bearer sk-ab/cd?", "[the key], or Bearer [the key]?"),
            (r#"{"error":"sk-ab\/cd"}"#, r#"{"error":"[the key]"}"#),
        ] {
            assert_eq!(key.hide(told.to_owned()), shown);
        }
        assert!(HiddenKey::of("none").is_none());
        assert!(!format!("{key:?}").contains("sk"));
    }
}
