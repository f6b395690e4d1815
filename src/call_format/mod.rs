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

mod json;
mod literal;
mod named;
mod tagged;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

pub use json::{HERMES, MARKER_JSON};

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
    &named::MISTRAL_ARGS,
    &named::MISTRAL_ARGS_ID,
    &named::DEEPSEEK_V3,
    &named::DEEPSEEK_V31,
    &named::KIMI_K2,
    &named::FUNCTIONARY_V31,
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
    &literal::LFM2,
    &literal::GEMMA4,
    &literal::FUNCTIONGEMMA,
];

/// How the calls of a format are read and written.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name in the configuration and on the command line.
    pub name: &'static str,
    /// What is written around the calls of a message, if anything is.
    pub frame: Option<Frame>,
    /// What opens a call. The first one is written; all are read.
    pub openers: &'static [&'static str],
    /// Whether the first opener can be replaced, because models learn this format from the prompt
    /// alone.
    pub is_taught: bool,
    /// The tool's name between the opener and the body, if it stands there.
    pub label: Option<Label>,
    /// What is written between the opener, or the label, and the body. Any white space is accepted.
    pub gap: &'static str,
    /// Whether a code fence around the body is part of the format.
    pub is_fenced: bool,
    /// What a call is made of.
    pub body: Body,
    /// Whether the calls of a message are written as one array.
    pub is_array: bool,
    /// What closes a call, if not the end of its body.
    pub closer: Option<Closer>,
    /// What is written between two calls.
    pub between: &'static str,
    /// What is written around a result.
    pub result: [&'static str; 2],
    /// How the format is taught, with `{opener}` for the opener and `{example}` for a call.
    pub lesson: &'static str,
    /// Opens and closes reasoning.
    pub reasoning: [&'static str; 2],
}

/// What a call is made of.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// One JSON object with a name and arguments, or an array of such objects.
    Json(JsonKeys),
    /// The arguments alone, a JSON object: the name stands before it.
    Arguments,
    /// The arguments one by one, in tags.
    Tagged(Tags),
    /// A list of calls as Python writes them, with keyword arguments. Some models write JSON there,
    /// with these keys.
    Pythonic(JsonKeys),
    /// The arguments alone, an object with bare keys, whose texts stand between these.
    Loose(&'static str),
}

/// How an argument is written.
///
/// ```text
///   <arg_key> city </arg_key>  \n  <arg_value> Oslo </arg_value>  \n
///   '- key[0]      '- key[1]   gap  '- value[0]     '- value[1]    end
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Tags {
    /// What is written around the key.
    pub key: [&'static str; 2],
    /// What closes the tag after its word on the value's type: `true` for text, `false` for JSON.
    /// `None` if the format has no such word.
    pub hint: Option<&'static str>,
    /// What is written between key and value. Any white space is accepted.
    pub gap: &'static str,
    /// What is written around the value.
    pub value: [&'static str; 2],
    /// Whether the value stands on lines of its own.
    pub is_trimmed: bool,
    /// What is written after an argument.
    pub end: &'static str,
}

/// What is written around the calls of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// What opens it. The first one is written; all are read.
    pub open: &'static [&'static str],
    /// What is written between its marks and the calls. Any white space is accepted.
    pub gap: &'static str,
    /// What closes it.
    pub close: &'static [&'static str],
    /// Whether all calls of a message are written in one frame. Otherwise each has its own; several
    /// in one are read all the same.
    pub is_shared: bool,
}

/// The tool's name between the opener and the body.
///
/// ```text
///   <|tool_call_begin|> functions. now :0 <|tool_call_argument_begin|> {}
///                       '-prefix-'     id '---------- end ----------'
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Label {
    /// What is written before the name. It may be missing.
    pub prefix: &'static str,
    /// The call's id after the name, if the format has any. It is read and dropped.
    pub id: Option<LabelId>,
    /// What ends the label. It may be nothing if something stops it.
    pub end: &'static str,
    /// What may come directly after the label, and is no part of it.
    pub stops: &'static [&'static str],
}

/// How a call's id follows its name.
#[derive(Debug, PartialEq, Eq)]
pub enum LabelId {
    /// After this text, in as many characters.
    After(&'static str, usize),
    /// After the last colon, the number of the call in its message.
    Number,
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
    /// What is written between the body and the closer. Any white space is accepted.
    pub gap: &'static str,
    /// The closer itself.
    pub text: &'static str,
}

impl Row {
    /// A row whose calls are their arguments.
    const PLAIN: Self = Self {
        name: "",
        frame: None,
        openers: &[],
        is_taught: false,
        label: None,
        gap: "",
        is_fenced: false,
        body: Body::Arguments,
        is_array: false,
        closer: None,
        between: "",
        result: ["", ""],
        lesson: "Write each function call in exactly this form:\n{example}",
        reasoning: ["<think>", "</think>"],
    };

    /// The row of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ROWS.iter().copied().find(|row| row.name == name)
    }

    /// Whether something closes its calls, alone or with their frame. Models write that twice, or forget
    /// it.
    pub(crate) const fn closes(&self) -> bool {
        self.closer.is_some() || self.frame.is_some()
    }

    /// The keys of its calls, if they are objects with a name.
    #[must_use]
    pub const fn keys(&self) -> Option<&JsonKeys> {
        match &self.body {
            Body::Json(keys) => Some(keys),
            Body::Arguments | Body::Tagged(_) | Body::Pythonic(_) | Body::Loose(_) => None,
        }
    }
}

impl Tags {
    /// Adds the arguments of a JSON object.
    fn push(&self, text: &mut String, arguments: &str) {
        let Self { key: [key_open, key_close], hint, gap, value: [open, close], is_trimmed, end } =
            self;
        let line = if *is_trimmed { "\n" } else { "" };
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
        for (key, value) in &arguments {
            let _ = write!(text, "{key_open}{key}{key_close}");
            if let Some(close) = hint {
                let _ = write!(text, "{}{close}", value.is_string());
            }
            let _ = match value {
                Value::String(words) => write!(text, "{gap}{open}{line}{words}{line}{close}{end}"),
                value => write!(text, "{gap}{open}{line}{value}{line}{close}{end}"),
            };
        }
    }
}

impl Label {
    /// The name alone.
    const PLAIN: Self = Self { prefix: "", id: None, end: "", stops: &[] };

    /// The tool's name in a label. `None` if there is none.
    #[must_use]
    pub fn name<'l>(&self, label: &'l str) -> Option<&'l str> {
        let label = label.trim();
        let label = label.strip_prefix(self.prefix).unwrap_or(label);
        let name = match &self.id {
            None => label,
            Some(LabelId::After(mark, _)) => label.split_once(mark).map_or(label, |(it, _)| it),
            Some(LabelId::Number) => match label.rsplit_once(':') {
                Some((name, number)) if number.bytes().all(|it| it.is_ascii_digit()) => name,
                _ => label,
            },
        };
        (!name.is_empty()).then_some(name)
    }

    /// Adds a label. `number` is that of the call in its message.
    fn push(&self, text: &mut String, name: &str, number: usize) {
        let Self { prefix, id, end, stops: _ } = self;
        let _ = write!(text, "{prefix}{name}");
        let _ = match id {
            None => Ok(()),
            Some(LabelId::After(mark, length)) => write!(text, "{mark}{number:0length$}"),
            Some(LabelId::Number) => write!(text, ":{number}"),
        };
        text.push_str(end);
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

    /// What begins the calls of a message: the opener of the frame, or of the call.
    #[must_use]
    pub fn trigger(&self) -> &str {
        self.row.frame.as_ref().map_or(&self.opener, |frame| frame.open[0])
    }

    /// All openers that are read.
    pub fn openers(&self) -> impl Iterator<Item = &str> {
        [self.opener()].into_iter().chain(self.row.openers[1..].iter().copied())
    }

    /// Everything that marks a call. Data from outside must not contain any.
    pub fn marks(&self) -> impl Iterator<Item = &str> {
        let Row { frame, label, closer, body, .. } = self.row;
        let frames = frame.iter().flat_map(|frame| frame.open.iter().chain(frame.close));
        let label = label.as_ref().map(|label| label.end).filter(|end| end.len() > 1);
        let closer = closer.as_ref().map(|closer| closer.text);
        let tags = match body {
            Body::Tagged(Tags { key, value, .. }) => [key[0], value[1]].as_slice().to_vec(),
            Body::Loose(delimiter) => vec![*delimiter],
            Body::Json(_) | Body::Arguments | Body::Pythonic(_) => Vec::new(),
        };
        self.openers().chain(frames.copied()).chain(label).chain(closer).chain(tags)
    }

    /// Adds a call, and what is written between it and the next one. A call right after another one
    /// joins it in its frame, or in its array. `arguments` is a JSON object.
    pub fn push_call(&self, text: &mut String, name: &str, arguments: &str) {
        let Some([open, between, close]) = self.wrapping() else {
            let frame = self.row.frame.as_ref();
            let [open, close] = frame.map_or(["", ""], |it| [it.open[0], it.close[0]]);
            let gap = frame.map_or("", |frame| frame.gap);
            let _ = write!(text, "{open}{gap}");
            self.push_bare_call(text, name, arguments, 0);
            let _ = write!(text, "{gap}{close}{}", self.row.between);
            return;
        };
        let mut number = 0;
        if let Some(before) = text.strip_suffix(&*close) {
            let start = before.rfind(&*open).unwrap_or_default();
            number = before[start..].matches(&*self.opener).count();
            text.truncate(before.len());
            text.push_str(&between);
        } else {
            text.push_str(&open);
        }
        self.push_bare_call(text, name, arguments, number);
        text.push_str(&close);
    }

    /// What is written around all calls of a message, and between them.
    fn wrapping(&self) -> Option<[Cow<'static, str>; 3]> {
        let Row { frame, is_array, gap, between, closer, .. } = self.row;
        if let Some(Frame { open: [open, ..], gap, close: [close, ..], is_shared: true }) = frame {
            let (open, close) = (format!("{open}{gap}"), format!("{gap}{close}"));
            return Some([open.into(), (*between).into(), close.into()]);
        }
        let closer = closer.as_ref().map(|closer| format!("{}{}", closer.gap, closer.text));
        let open = format!("{}{gap}[", self.opener);
        let close = format!("]{}", closer.unwrap_or_default());
        is_array.then(|| [open.into(), ", ".into(), close.into()])
    }

    /// Adds a call without what is around all calls of its message.
    fn push_bare_call(&self, text: &mut String, name: &str, arguments: &str, number: usize) {
        let Row { label, gap, is_array, is_fenced, body, closer, .. } = self.row;
        if !is_array {
            text.push_str(&self.opener);
            if let Some(label) = label {
                label.push(text, name, number);
            }
            text.push_str(gap);
        }
        text.push_str(if *is_fenced { "```json\n" } else { "" });
        match body {
            Body::Arguments => text.push_str(arguments),
            Body::Tagged(tags) => tags.push(text, arguments),
            Body::Pythonic(_) => literal::push_call(text, name, arguments),
            Body::Loose(delimiter) => literal::push_object(text, arguments, delimiter),
            Body::Json(JsonKeys { name: name_keys, arguments: arguments_keys }) => {
                let (name_key, arguments_key) = (name_keys[0], arguments_keys[0]);
                let name = Value::from(name);
                let _ =
                    write!(text, "{{\"{name_key}\": {name}, \"{arguments_key}\": {arguments}}}");
            }
        }
        text.push_str(if *is_fenced { "\n```" } else { "" });
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
            example.truncate(example.len() - self.row.between.len());
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
