//! Call formats: how models write calls in their text.
//!
//! A format is a [`Row`] of data. The parser reads it; the prompt teaches it; the conversation, the
//! examples and the rehearsal model write it; the grammar holds a model to it. None of them knows a
//! particular format, so a new one is a file here and a line in [`ROWS`].
//!
//! ```text
//!  <tool_call>   \n  {"name": "now", "arguments": {}}   \n   </tool_call>   \n   <tool_call> ...
//!  '- opener -' gap '------------- body -----------' '------ closer ---' between
//! ```

mod hermes;
mod marker_json;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::Arc;

pub use hermes::HERMES;
pub use marker_json::MARKER_JSON;

/// All formats, in the order in which they are documented.
pub const ROWS: &[&Row] = &[&MARKER_JSON, &HERMES];

/// How the calls of a format are read and written.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name in the configuration and on the command line.
    pub name: &'static str,
    /// What opens a call. The first one is written; all are read.
    pub openers: &'static [&'static str],
    /// Whether the first opener can be replaced, because models learn this format from the prompt
    /// alone.
    pub is_taught: bool,
    /// What is written between the opener and the body. Any white space is read.
    pub gap: &'static str,
    /// What a call is made of.
    pub body: Body,
    /// What closes a call, if not the end of its body.
    pub closer: Option<Closer>,
    /// What is written between two calls.
    pub between: &'static str,
    /// What is written around a result.
    pub result: [&'static str; 2],
    /// How the format is taught, with `{opener}` for the opener.
    pub lesson: &'static str,
    /// Opens and closes reasoning.
    pub reasoning: [&'static str; 2],
}

/// What a call is made of.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// One JSON object with a name and arguments, or an array of such objects.
    Json(JsonKeys),
}

/// The keys of a call that is a JSON object. The standard ones come first: they are written, and
/// they win over others in the same object.
#[derive(Debug, PartialEq, Eq)]
pub struct JsonKeys {
    /// Of the tool's name.
    pub name: &'static [&'static str],
    /// Of the arguments.
    pub arguments: &'static [&'static str],
}

/// What closes a call.
#[derive(Debug, PartialEq, Eq)]
pub struct Closer {
    /// What is written between the body and the closer. Any white space is read.
    pub gap: &'static str,
    /// The closer itself.
    pub text: &'static str,
}

impl Row {
    /// The row of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ROWS.iter().copied().find(|row| row.name == name)
    }

    /// The keys of its calls.
    #[must_use]
    pub const fn keys(&self) -> &JsonKeys {
        let Body::Json(keys) = &self.body;
        keys
    }
}

/// A format in use: a row, and the opener that is written. Copies share the opener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFormat {
    row: &'static Row,
    opener: Arc<str>,
}

impl CallFormat {
    /// A format with its own opener.
    #[must_use]
    pub fn of(row: &'static Row) -> Self {
        Self { row, opener: row.openers[0].into() }
    }

    /// [`MARKER_JSON`] with this marker as its opener.
    #[must_use]
    pub fn marker(marker: &str) -> Self {
        Self::of(&MARKER_JSON).with_opener(marker)
    }

    /// The same format with another opener. Formats that models were trained on keep theirs.
    #[must_use]
    pub fn with_opener(self, opener: &str) -> Self {
        if self.row.is_taught { Self { opener: opener.into(), ..self } } else { self }
    }

    /// The same format with a nonce in the opener, after its last letter or digit:
    /// `<<function_call>>` becomes `<<function_call:7f3a>>`. Text from outside cannot guess it.
    /// Formats that models were trained on keep their opener.
    #[must_use]
    pub fn with_nonce(&self, nonce: &str) -> Self {
        let last = self.opener.char_indices().rev().find(|(_, char)| char.is_alphanumeric());
        let end = last.map_or(self.opener.len(), |(at, char)| at + char.len_utf8());
        let opener = format!("{}:{nonce}{}", &self.opener[..end], &self.opener[end..]);
        self.clone().with_opener(&opener)
    }

    /// Its row.
    #[must_use]
    pub const fn row(&self) -> &'static Row {
        self.row
    }

    /// The opener that is written.
    #[must_use]
    pub fn opener(&self) -> &str {
        &self.opener
    }

    /// All openers that are read.
    pub fn openers(&self) -> impl Iterator<Item = &str> {
        [self.opener()].into_iter().chain(self.row.openers[1..].iter().copied())
    }

    /// Everything that marks a call: the openers and the closer. Data from outside must not contain
    /// any.
    pub fn marks(&self) -> impl Iterator<Item = &str> {
        self.openers().chain(self.row.closer.as_ref().map(|closer| closer.text))
    }

    /// Adds a call, and what is written between it and the next one. `arguments` is a JSON object.
    pub fn push_call(&self, text: &mut String, name: &str, arguments: &str) {
        let Row { gap, between, closer, .. } = self.row;
        let JsonKeys { name: name_keys, arguments: arguments_keys } = self.row.keys();
        let (name_key, arguments_key) = (name_keys[0], arguments_keys[0]);
        let name = serde_json::Value::from(name);
        let opener = &self.opener;
        let _ = write!(
            text,
            "{opener}{gap}{{\"{name_key}\": {name}, \"{arguments_key}\": {arguments}}}"
        );
        if let Some(Closer { gap, text: closer }) = closer {
            let _ = write!(text, "{gap}{closer}");
        }
        text.push_str(between);
    }

    /// An example of a call, with placeholders.
    #[must_use]
    pub fn example(&self) -> String {
        let mut example = String::new();
        self.push_call(&mut example, "tool_name", "{\"key\": \"value\"}");
        example.truncate(example.len() - self.row.between.len());
        example
    }

    /// How the format is taught.
    #[must_use]
    pub fn lesson(&self) -> String {
        self.row.lesson.replace("{opener}", &self.opener)
    }

    /// Adds a result: a heading, and the data after it.
    pub fn push_result(&self, text: &mut String, heading: &str, data: &str) {
        let [open, close] = self.row.result;
        let _ = write!(text, "{open}{heading} {data}{close}");
    }
}

impl Default for CallFormat {
    fn default() -> Self {
        Self::of(&MARKER_JSON)
    }
}
