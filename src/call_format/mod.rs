//! Call formats: how models write calls in their text.
//!
//! A format is a [`Row`] of data. The parser reads it; the prompt teaches it; the conversation, the
//! examples and the rehearsal model write it; the grammar holds a model to it. None of them knows a
//! particular format, so a new one is a few lines here, and one in [`ROWS`].
//!
//! ```text
//!  <tool_call>   \n  {"name": "now", "arguments": {}}   \n   </tool_call>   \n   <tool_call> ...
//!  '- opener -' gap '------------- body -----------' '------ closer ---' between
//!
//!  <｜tool▁calls▁begin｜><｜tool▁call▁begin｜> now <｜tool▁sep｜> {} <｜tool▁call▁end｜> <｜tool▁calls▁end｜>
//!  '----- frame -----''----- opener -----' label '--------' body '---- closer ----' '--- frame ---'
//! ```

mod contract;
mod elements;
mod header;
mod json;
mod literal;
mod messages;
mod named;
mod nested;
mod row;
mod tagged;
mod tags;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::mem;
use std::sync::Arc;

use serde_json::Value;

pub use contract::{CallContract, ContractSetting};
pub use elements::{Elements, ITEM, TEXT, ValueType};
pub use header::{Addressee, Header};
pub use json::{HERMES, MARKER_JSON};
pub use row::{Bare, Body, Closer, Fence, Frame, JsonKeys, Label, LabelId, Row};
pub use tags::{Hint, Tags};

/// All formats, in the order in which they are documented.
pub const ROWS: &[&Row] = &[
    &MARKER_JSON,
    &HERMES,
    &json::LONGCAT,
    &json::TOOL_CALLS,
    &json::TOOLCALL,
    &json::GRANITE3,
    &json::GRANITE20B,
    &json::COHERE,
    &json::MISTRAL_ARRAY,
    &json::INTERNLM,
    &json::GIGACHAT3,
    &json::GIGACHAT31,
    &json::ERNIE45,
    &json::APERTUS,
    &json::COHERE_R_PLUS,
    &json::INKLING,
    &json::LLAMA3,
    &json::XLAM,
    &json::FUNCTOOLS,
    &named::MISTRAL_ARGS,
    &named::MISTRAL_ARGS_ID,
    &named::DEEPSEEK_V3,
    &named::DEEPSEEK_V31,
    &named::KIMI_K2,
    &named::FUNCTIONARY_V31,
    &named::PLAMO3,
    &tagged::QWEN3_CODER,
    &tagged::MIMO,
    &tagged::SEED_OSS,
    &tagged::MINIMAX_M2,
    &tagged::DSML_V32,
    &tagged::DSML_V4,
    &tagged::GCML,
    &tagged::DSML_V41,
    &tagged::GLM45,
    &tagged::GLM47,
    &tagged::STEP3,
    &tagged::STEP5,
    &tagged::HUNYUAN,
    &tagged::HUNYUAN_OPENSOURCE,
    &tagged::K2_HORIZON,
    &tagged::KIMI_K3,
    &tagged::DOTS,
    &tagged::MINICPM5,
    &nested::MINIMAX_M3,
    &nested::COHERE_XML,
    &literal::PYTHONIC,
    &literal::LFM2,
    &literal::OLMO3,
    &literal::GEMMA4,
    &literal::FUNCTIONGEMMA,
    &messages::HARMONY,
    &messages::BEAM,
    &messages::MUSE,
    &messages::FUNCTIONARY_V32,
];

/// Rows whose calls begin with the same mark, and differ in what follows it: an object, a tag, a name.
const SAME_OPENER: [&[&Row]; 3] = [
    &[&HERMES, &tagged::QWEN3_CODER, &tagged::GLM47],
    &[&json::TOOL_CALLS, &tagged::HUNYUAN],
    &[&json::MISTRAL_ARRAY, &named::MISTRAL_ARGS],
];

impl Row {
    /// The row of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ROWS.iter().copied().find(|row| row.name == name)
    }

    /// Other rows whose calls begin with the same mark. Models that were trained on several write any of
    /// them, and what follows the mark shows which.
    pub fn relatives(&self) -> impl Iterator<Item = &'static Self> {
        let is_related = |family: &&[&Self]| family[0].first_mark() == self.first_mark();
        let family = SAME_OPENER.iter().copied().find(is_related).unwrap_or_default();
        let is_alike = |row: &Self| {
            row.openers == self.openers
                && mem::discriminant(&row.body) == mem::discriminant(&self.body)
        };
        family.iter().copied().filter(move |row| !is_alike(row))
    }
}

/// A format in use: a row, and the opener that is written. Copies share the opener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFormat {
    row: &'static Row,
    opener: Arc<str>,
}

/// The calls that a text ends with.
#[derive(Debug, Default)]
pub struct CallsBefore {
    /// How many.
    count: usize,
    /// The length of the text after them, in bytes.
    end: usize,
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

    /// What begins the calls of a message: the opener of the frame, or of the call.
    #[must_use]
    pub fn trigger(&self) -> &str {
        self.row.frame.as_ref().map_or(&self.opener, |frame| frame.open[0])
    }

    /// All openers that are read.
    pub fn openers(&self) -> impl Iterator<Item = &str> {
        let others = self.row.openers[1..].iter().copied();
        [self.opener()].into_iter().chain(others).filter(|opener| !opener.is_empty())
    }

    /// Everything that marks a call. Data from outside must not contain any.
    pub fn marks(&self) -> impl Iterator<Item = &str> {
        let Row { header, frame, label, closer, body, .. } = self.row;
        // If a header opens the call, only its marks show one: its words are ordinary text.
        let is_own = header.is_none() || frame.is_some();
        let header = header.iter().flat_map(Header::marks);
        let frames = frame.iter().flat_map(|frame| frame.open.iter().chain(frame.close));
        let label = label.iter().flat_map(|label| label.ends).copied().filter(|end| end.len() > 1);
        let closer = closer.as_ref().map(|closer| closer.text);
        let tags = match body {
            Body::Tagged(Tags { key, value, .. }) => [key[0], value[1]].as_slice().to_vec(),
            Body::Loose(delimiter) => vec![*delimiter],
            Body::Json(_)
            | Body::Keyed
            | Body::Arguments
            | Body::Pythonic(_)
            | Body::PythonicLines(_)
            | Body::Nested(_) => Vec::new(),
        };
        let own = self.openers().chain(label).filter(move |_| is_own);
        own.chain(header).chain(frames.copied()).chain(closer).chain(tags)
    }

    /// Adds a call that joins no other, and what separates it from what follows. `arguments` is a JSON object.
    pub fn push_call(&self, text: &mut String, name: &str, arguments: &str) {
        self.push_next_call(text, name, arguments, &mut CallsBefore::default());
    }

    /// Adds a call. If the text ends with the calls `before` it, it joins them in their frame or array.
    pub fn push_next_call(
        &self,
        text: &mut String,
        name: &str,
        arguments: &str,
        before: &mut CallsBefore,
    ) {
        if before.end != text.len() {
            before.count = 0;
        }
        match self.wrapping() {
            Some(wrapping) => self.push_joined(text, (name, arguments), before.count, &wrapping),
            None => self.push_alone(text, (name, arguments), before.count),
        }
        *before = CallsBefore { count: before.count + 1, end: text.len() };
    }

    /// Adds a call with all that is around it.
    fn push_alone(&self, text: &mut String, (name, arguments): (&str, &str), number: usize) {
        self.begin_message(text, name);
        let frame = self.row.frame.as_ref();
        let [open, close] = frame.map_or(["", ""], |it| [it.open[0], it.close[0]]);
        let gap = frame.map_or("", |frame| frame.gap);
        let _ = write!(text, "{open}{gap}");
        self.push_one_call(text, name, arguments, number);
        let _ = write!(text, "{gap}{close}{}", self.after_call());
    }

    /// Adds a call after `others` calls, within what is written around them; opens that if there are none.
    fn push_joined(
        &self,
        text: &mut String,
        (name, arguments): (&str, &str),
        others: usize,
        [open, between, close]: &[Cow<'static, str>; 3],
    ) {
        if others > 0 {
            text.truncate(text.len() - close.len());
        }
        text.push_str(if others > 0 { between } else { open });
        self.push_one_call(text, name, arguments, others);
        text.push_str(close);
    }

    /// Ends the message before a call that is a message of its own, and begins that one.
    fn begin_message(&self, text: &mut String, name: &str) {
        let Row { header: Some(header), frame, between, .. } = self.row else { return };
        if !text.is_empty() {
            let is_call =
                self.row.closer.as_ref().is_some_and(|closer| text.ends_with(closer.text));
            let _ = write!(text, "{}{between}", if is_call { "" } else { header.message_end });
        }
        if frame.is_some() {
            let _ = write!(text, "{}{name}{}", header.recipient, header.end);
        }
    }

    /// What follows a call that stands alone. In formats with headers nothing does: the next message brings its
    /// own beginning.
    const fn after_call(&self) -> &'static str {
        if self.row.header.is_some() { "" } else { self.row.between }
    }

    /// What is written around all calls of a message, and between them.
    fn wrapping(&self) -> Option<[Cow<'static, str>; 3]> {
        let Row { frame, is_array, gap, fence, between, closer, .. } = self.row;
        if let Some(Frame { open: [open, ..], gap, close: [close, ..], is_shared: true }) = frame {
            let (open, close) = (format!("{open}{gap}"), format!("{gap}{close}"));
            return Some([open.into(), (*between).into(), close.into()]);
        }
        let closer = closer.as_ref().map(|closer| format!("{}{}", closer.gap, closer.text));
        let fences = if fence.is_written() { ["```json\n", "\n```"] } else { ["", ""] };
        let word = self.row.bare.as_ref().map_or("", |bare| bare.word);
        let [left, between, right] = match self.row.body {
            Body::PythonicLines(_) => ["", "\n", ""],
            _ => ["[", ", ", "]"],
        };
        let open = format!("{}{word}{gap}{}{left}", self.opener, fences[0]);
        let close = format!("{right}{}{}", fences[1], closer.unwrap_or_default());
        is_array.then(|| [open.into(), between.into(), close.into()])
    }

    /// Adds a call without what is around all calls of its message.
    fn push_one_call(&self, text: &mut String, name: &str, arguments: &str, number: usize) {
        let Row { label, gap, is_array, fence, body, closer, .. } = self.row;
        let is_fenced = fence.is_written() && !is_array;
        if !is_array {
            text.push_str(&self.opener);
            if let Some(label) = label {
                label.push(text, name, number);
            }
            text.push_str(gap);
        }
        text.push_str(if is_fenced { "```json\n" } else { "" });
        match body {
            Body::Arguments => text.push_str(arguments),
            Body::Tagged(tags) => tags.push(text, arguments),
            Body::Pythonic(_) | Body::PythonicLines(_) => literal::push_call(text, name, arguments),
            Body::Nested(elements) => elements.push(text, arguments),
            Body::Keyed => {
                let _ = write!(text, "{{{}: {arguments}}}", Value::from(name));
            }
            Body::Loose(delimiter) => literal::push_object(text, arguments, delimiter),
            Body::Json(JsonKeys { name: name_keys, arguments: arguments_keys }) => {
                let (name_key, arguments_key) = (name_keys[0], arguments_keys[0]);
                let name = Value::from(name);
                let _ =
                    write!(text, "{{\"{name_key}\": {name}, \"{arguments_key}\": {arguments}}}");
            }
        }
        text.push_str(if is_fenced { "\n```" } else { "" });
        if let Some(Closer { gap, text: closer }) = closer
            && !is_array
        {
            let _ = write!(text, "{gap}{closer}");
        }
    }

    /// An example of a call, with placeholders.
    #[must_use]
    pub fn example(&self) -> String {
        let mut example = String::new();
        self.push_call(&mut example, "tool_name", "{\"key\": \"value\"}");
        if self.wrapping().is_none() {
            example.truncate(example.len() - self.after_call().len());
        }
        example
    }

    /// How the format is taught.
    #[must_use]
    pub fn lesson(&self) -> String {
        self.row.lesson.replace("{opener}", &self.opener).replace("{example}", &self.example())
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
