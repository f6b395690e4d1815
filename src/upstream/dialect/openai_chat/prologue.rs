//! The messages with which requests begin. The system message and the examples are the same for every turn of
//! the same tools, so their JSON is kept.
//!
//! ```text
//!   the last request    | system | example | example | "Hi" |
//!   this one            | system | example | example | "Tokyo?" | ...
//!                       '-------- copied ------------'--- written ---
//! ```

use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::upstream::PROLOGUE_BYTES_MAX;
use crate::upstream::Message;
use crate::upstream::dialect::chat_message::ChatMessage;

/// What the last requests have begun with.
#[derive(Debug, Default)]
pub(super) struct Prologue(Mutex<Arc<Written>>);

/// Messages, and their JSON.
#[derive(Debug, Default)]
struct Written {
    messages: Vec<Message>,
    /// Elements of an array, each with the comma after it.
    json: Vec<u8>,
    /// Where each of them ends in `json`.
    ends: Vec<usize>,
}

impl Prologue {
    /// Appends messages as a JSON array.
    pub(super) fn write(&self, messages: &[Message], out: &mut Vec<u8>) {
        let known = Arc::clone(&self.0.lock());
        let pairs = known.messages.iter().zip(messages);
        let shared = pairs.take_while(|(known, message)| known == message).count();
        let copied = shared.checked_sub(1).map_or(0, |last| known.ends[last]);
        out.push(b'[');
        let start = out.len();
        out.extend_from_slice(&known.json[..copied]);
        let mut ends = Vec::new();
        for message in &messages[shared..] {
            serde_json::to_writer(&mut *out, &ChatMessage::from(message))
                .expect("plain data always serialises");
            out.push(b',');
            ends.push(out.len() - start);
        }
        if shared < known.messages.len() || known.messages.is_empty() {
            self.learn(&known, shared, messages, &out[start..], &ends);
        }
        if !messages.is_empty() {
            out.pop();
        }
        out.push(b']');
    }

    /// Keeps what this request shares with the last one, or all of this one if they share nothing.
    fn learn(
        &self,
        known: &Written,
        shared: usize,
        messages: &[Message],
        json: &[u8],
        ends: &[usize],
    ) {
        let fits = ends.iter().take_while(|end| **end <= PROLOGUE_BYTES_MAX).count();
        let written = if shared > 0 {
            Written::new(&known.messages[..shared], &known.json, &known.ends)
        } else {
            Written::new(&messages[..fits], json, ends)
        };
        *self.0.lock() = Arc::new(written);
    }
}

impl Written {
    /// These messages. `json` and `ends` may go on with others.
    fn new(messages: &[Message], json: &[u8], ends: &[usize]) -> Self {
        let ends = ends[..messages.len()].to_vec();
        let json = json[..ends.last().copied().unwrap_or(0)].to_vec();
        Self { messages: messages.to_vec(), json, ends }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::upstream::Role;

    fn message(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    fn known(prologue: &Prologue) -> usize {
        prologue.0.lock().messages.len()
    }

    fn written(prologue: &Prologue, messages: &[Message]) -> String {
        let mut out = Vec::new();
        prologue.write(messages, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn plainly(messages: &[Message]) -> String {
        let messages: Vec<_> = messages.iter().map(ChatMessage::from).collect();
        serde_json::to_string(&messages).unwrap()
    }

    #[test]
    fn what_two_requests_share_is_known_from_then_on() {
        let prologue = Prologue::default();
        for (words, shared) in [("a", 3), ("b", 2), ("c", 2)] {
            let messages = ["system", "example", words].map(message);
            assert_eq!(written(&prologue, &messages), plainly(&messages));
            assert_eq!(known(&prologue), shared);
        }
    }

    #[test]
    fn another_beginning_takes_the_place_of_the_known_one() {
        let prologue = Prologue::default();
        for system in ["one", "two", "two"] {
            let messages = [message(system), message("a")];
            assert_eq!(written(&prologue, &messages), plainly(&messages));
            assert_eq!(prologue.0.lock().messages[0], message(system));
        }
    }

    #[test]
    fn long_messages_are_not_kept() {
        let prologue = Prologue::default();
        let frame = plainly(&[message("")]).len() - 1;
        for (bytes, kept) in [(PROLOGUE_BYTES_MAX - frame, 1), (PROLOGUE_BYTES_MAX - frame + 1, 0)]
        {
            written(&prologue, &[message(&"x".repeat(bytes)), message("a")]);
            assert_eq!(known(&prologue), kept);
        }
    }

    proptest! {
        #[test]
        fn whatever_was_asked_before_messages_are_written_as_they_are(
            requests in prop::collection::vec(prop::collection::vec("[ab\"]{0,1}", 0..5), 1..12),
        ) {
            let prologue = Prologue::default();
            for texts in requests {
                let messages: Vec<_> = texts.iter().map(|text| message(text)).collect();
                prop_assert_eq!(written(&prologue, &messages), plainly(&messages));
            }
        }
    }
}
