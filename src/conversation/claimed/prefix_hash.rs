//! A hash of everything that was said up to a message.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ClaimedMessage, Content, markup};

/// A hash of all messages so far, by which a stateless conversation is recognised when its client
/// sends it again. Only the texts count: clients rewrite call ids and arguments.
///
/// It begins with its owner's secret, so nobody finds the turns of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PrefixHash([u8; 32]);

impl PrefixHash {
    /// The hash of a conversation in which nothing has been said. `owner` is whoever may see its
    /// turns, such as an API key.
    #[must_use]
    pub fn begin(owner: &str) -> Self {
        Self(Sha256::digest(owner).into())
    }

    /// The hash itself.
    #[must_use]
    pub(crate) const fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// The hash after one more message. `role` is `system`, `user`, `assistant` or `tool`. White
    /// space around the text does not count, nor do the two ways to end a line; of an answer, no white space counts.
    #[must_use]
    pub fn then(self, role: &str, text: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        // No role contains the byte after it, so no text can pass for part of a role.
        hash.update(role);
        hash.update([0]);
        if role == "assistant" {
            // Some clients add calls to what we said, and join its blocks in their own ways.
            for word in markup::without_calls(text).split_whitespace() {
                hash.update(word);
            }
        } else {
            for line in text.trim().lines() {
                hash.update(line);
                hash.update("\n");
            }
        }
        Self(hash.finalize().into())
    }

    /// The same for a message that may have images. They count whether or not they are kept.
    pub(super) fn then_content(self, role: &str, content: &Content) -> Self {
        content.images.iter().fold(self.then(role, &content.text), |prefix, (_, image)| {
            let mut hash = Sha256::new();
            hash.update(prefix.0);
            hash.update("image\0");
            hash.update(image.digest);
            Self(hash.finalize().into())
        })
    }

    /// The hash after a message.
    #[must_use]
    pub fn after(self, message: &ClaimedMessage) -> Self {
        match message {
            ClaimedMessage::System(text) => self.then("system", text),
            ClaimedMessage::User(content) | ClaimedMessage::Aside(content) => {
                self.then_content("user", content)
            }
            ClaimedMessage::Assistant { text, .. } => self.then("assistant", text),
            ClaimedMessage::Result { output, .. } => self.then_content("tool", output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_counts() {
        let prefix =
            |owner, text| PrefixHash::begin(owner).then("user", "Hi.").then("assistant", text);
        let one = prefix("key", "a\nb");
        assert_eq!(one, prefix("key", " a\r\nb\n"));
        assert_eq!(one, prefix("key", "<details type=\"tool_calls\"></details>\na\nb"));
        assert_ne!(one, prefix("other key", "a\nb"));
        assert_eq!(one, prefix("key", "a\n\n b"));
        assert_eq!(one, prefix("key", "ab"));
        assert_ne!(one, prefix("key", "ac"));
        let user = |text| PrefixHash::begin("key").then("user", text);
        assert_ne!(user("a\nb"), user("a b"));
        assert_ne!(one, PrefixHash::begin("key").then("assistant", "a\nb"));
        assert_ne!(one, PrefixHash::begin("key").then("user", "Hi.").then("tool", "a\nb"));
        assert_ne!(one, PrefixHash::begin("key").then("user", "Hi.").then("user", "a\nb"));
    }
}
