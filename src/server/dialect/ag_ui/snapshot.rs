//! The messages of a run, as its client builds them from the events.

use serde_json::{Value, json};

/// What the client knows by the end of a run.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The messages that it sent.
    before: Vec<Value>,
    /// Those of this run.
    made: Vec<Made>,
    /// The texts of the run's messages, one after the other, escaped as JSON.
    texts: Vec<u8>,
}

#[derive(Debug)]
enum Made {
    /// Words: the texts from here on, up to the next words.
    Words { id: String, start: usize },
    /// A call, as part of the words with this id or as a message of its own.
    Call { id: String, call: Value, parent: Option<String> },
    /// A result.
    Result(Value),
}

/// Room for the text of a short run, in bytes. That of a longer one doubles it.
const TEXT_BYTES: usize = 4096;

impl Snapshot {
    /// The snapshot of a run that begins with these messages.
    pub(super) fn new(mut before: Vec<Value>) -> Self {
        // Clients keep their own of these, unless a snapshot has any.
        before.retain(|message| message["role"] != "reasoning" && message["role"] != "activity");
        Self { before, made: Vec::new(), texts: Vec::with_capacity(TEXT_BYTES) }
    }

    /// Begins a message of words.
    pub(super) fn begin_words(&mut self, id: &str) {
        self.made.push(Made::Words { id: id.to_owned(), start: self.texts.len() });
    }

    /// Adds to the last message of words.
    pub(super) fn push_text(&mut self, escaped: &[u8]) {
        self.texts.extend_from_slice(escaped);
    }

    /// Adds a call, to the message of words with this id if there is one.
    pub(super) fn push_call(&mut self, id: &str, call: Value, parent: Option<&str>) {
        let (id, parent) = (id.to_owned(), parent.map(str::to_owned));
        self.made.push(Made::Call { id, call, parent });
    }

    /// Adds the message of a result.
    pub(super) fn push_result(&mut self, message: Value) {
        self.made.push(Made::Result(message));
    }

    /// Takes all messages.
    pub(super) fn take(&mut self) -> Vec<Value> {
        let mut messages = std::mem::take(&mut self.before);
        let made = std::mem::take(&mut self.made);
        let starts = made.iter().filter_map(|message| match message {
            Made::Words { start, .. } => Some(*start),
            _ => None,
        });
        let mut ends = starts.skip(1).chain([self.texts.len()]).collect::<Vec<_>>().into_iter();
        for message in made {
            let message = match message {
                Made::Words { id, start } => {
                    let text = self.text(start, ends.next().unwrap_or(start));
                    json!({ "id": id, "role": "assistant", "content": text })
                }
                Made::Call { id, call, parent } => {
                    let mut all = messages.iter_mut().rev();
                    let owner = parent.and_then(|id| all.find(|message| message["id"] == *id));
                    if let Some(owner) = owner {
                        add_call(owner, call);
                        continue;
                    }
                    json!({ "id": id, "role": "assistant", "toolCalls": [call] })
                }
                Made::Result(message) => message,
            };
            messages.push(message);
        }
        messages
    }

    fn text(&self, start: usize, end: usize) -> Value {
        let json = [b"\"", &self.texts[start..end], b"\""].concat();
        serde_json::from_slice(&json).unwrap_or_default()
    }
}

fn add_call(owner: &mut Value, call: Value) {
    match &mut owner["toolCalls"] {
        Value::Array(calls) => calls.push(call),
        none => *none = json!([call]),
    }
}
