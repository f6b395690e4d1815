//! Names for everything that was said up to a message.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use super::markup;

/// A hash of all messages so far, by which a stateless conversation is recognised when its client
/// sends it again. Only the texts count: clients rewrite call ids and arguments.
///
/// It begins with its owner's secret, so nobody finds the turns of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Past([u8; 32]);

impl Past {
    /// The past of a conversation in which nothing has been said. `owner` is whoever may see its
    /// turns, such as an API key.
    #[must_use]
    pub fn begin(owner: &str) -> Self {
        Self(Sha256::digest(owner).into())
    }

    /// The past after one more message. `role` is `system`, `user`, `assistant` or `tool`. White
    /// space around the text does not count, nor do the two ways to end a line.
    #[must_use]
    pub fn then(self, role: &str, text: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        // No role contains the byte after it, so no text can pass for part of a role.
        hash.update(role);
        hash.update([0]);
        // Some clients add calls to what we said.
        let text = match role {
            "assistant" => markup::without_calls(text),
            _ => Cow::Borrowed(text),
        };
        for line in text.trim().lines() {
            hash.update(line);
            hash.update("\n");
        }
        Self(hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_counts() {
        let past = |owner, text| Past::begin(owner).then("user", "Hi.").then("assistant", text);
        let one = past("key", "a\nb");
        assert_eq!(one, past("key", " a\r\nb\n"));
        assert_eq!(one, past("key", "<details type=\"tool_calls\"></details>\na\nb"));
        assert_ne!(one, past("other key", "a\nb"));
        assert_ne!(one, past("key", "a b"));
        assert_ne!(one, Past::begin("key").then("assistant", "a\nb"));
        assert_ne!(one, Past::begin("key").then("user", "Hi.").then("tool", "a\nb"));
        assert_ne!(one, Past::begin("key").then("user", "Hi.").then("user", "a\nb"));
    }
}
