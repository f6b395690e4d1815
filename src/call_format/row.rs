//! A format as data.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// How the calls of a format are read and written.
#[expect(clippy::struct_excessive_bools, reason = "a column each")]
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name in the configuration and on the command line.
    pub name: &'static str,
    /// What is written around the calls of a message, if anything is.
    pub frame: Option<Frame>,
    /// What opens a call. The first one is written; all are read.
    pub openers: &'static [&'static str],
    /// How a call without an opener begins. If the first opener is empty, calls are written like this;
    /// otherwise models that forget the opener are understood.
    pub bare: Option<Bare>,
    /// Whether the first opener can be replaced, because models learn this format from the prompt
    /// alone.
    pub is_taught: bool,
    /// The tool's name between the opener and the body, if the format puts it there.
    pub label: Option<Label>,
    /// What is written between the opener, or the label, and the body. Any white space is accepted.
    pub gap: &'static str,
    /// Whether a code fence around the body is part of the format.
    pub fence: Fence,
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
    /// Whether its marks are special tokens, which some servers leave out of the text.
    pub has_special: bool,
    /// What is never shown: it surrounds the model's text, or ends it.
    pub hidden: &'static [&'static str],
    /// What opens reasoning, and what closes it.
    pub reasoning: &'static [[&'static str; 2]],
    /// Whether a call ends reasoning that was not closed. In other formats, the parser's settings decide
    /// whether a call in there counts.
    pub ends_reasoning: bool,
}

/// How a call without an opener begins. It counts only at the start of an answer, and only if it names
/// an offered tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Bare {
    /// A word that comes first; perhaps none.
    pub word: &'static str,
    /// The first bracket of the body.
    pub bracket: u8,
}

/// Whether a code fence around the body is part of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// It is not.
    None,
    /// It is read, not written.
    Read,
    /// It is written, and may be missing.
    Usual,
    /// Without it, there is no call: the opener is an ordinary word.
    Needed,
}

/// What a call is made of.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// One JSON object with a name and arguments, or an array of such objects.
    Json(JsonKeys),
    /// One JSON object whose only key is the name, or an array of such objects.
    Keyed,
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
///
///   <|open|>argument key=" city " type=" string "<|sep|> Oslo <|close|>argument<|sep|>
///   '- key[0]                   '- key[1]       '- hint       '- value[1]
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Tags {
    /// What is written around the key.
    pub key: [&'static str; 2],
    /// The word on the value's type, if the format has any.
    pub hint: Option<Hint>,
    /// What is written between key and value. Any white space is accepted.
    pub gap: &'static str,
    /// What is written around the value.
    pub value: [&'static str; 2],
    /// What may stand around it inside these tags. It is read, not written.
    pub wrap: Option<[&'static str; 2]>,
    /// Whether the value stands on lines of its own.
    pub is_trimmed: bool,
    /// What is written after an argument.
    pub end: &'static str,
}

/// A word on a value's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// In the tag of the key: `true` for text, `false` for JSON. This ends the tag.
    IsText(&'static str),
    /// In the tag of the key: a type of JSON Schema. This ends the tag.
    Type(&'static str),
    /// A type of JSON Schema between these, which stand between key and value. It is read, not written.
    Between([&'static str; 2]),
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
    /// What ends the label. The first one is written; all are read. There may be none if something
    /// stops it.
    pub ends: &'static [&'static str],
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
    /// After this text, the number of the call in its message, from 1.
    NumberAfter(&'static str),
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
    pub(super) const PLAIN: Self = Self {
        name: "",
        frame: None,
        openers: &[],
        bare: None,
        is_taught: false,
        label: None,
        gap: "",
        fence: Fence::None,
        body: Body::Arguments,
        is_array: false,
        closer: None,
        between: "",
        result: ["", ""],
        lesson: "Write each function call in exactly this form:\n{example}",
        has_special: false,
        hidden: &[],
        reasoning: &[["<think>", "</think>"]],
        ends_reasoning: false,
    };

    /// The tags around reasoning.
    pub fn reasoning_tags<'t>(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        self.reasoning.iter().flatten().copied()
    }

    /// What closes the reasoning in which a prompt ends, if it ends in any. Templates write the tag
    /// that opens it, or both tags to have none.
    #[must_use]
    pub fn reasoning_open_in(&self, prompt: &str) -> Option<&'static str> {
        let prompt = prompt.trim_end();
        let open = self.reasoning.iter().find(|[open, _]| prompt.ends_with(open.trim_end()));
        open.map(|[_, close]| *close)
    }

    /// Whether calls are written without an opener.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.openers[0].is_empty()
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
            Body::Keyed
            | Body::Arguments
            | Body::Tagged(_)
            | Body::Pythonic(_)
            | Body::Loose(_) => None,
        }
    }

    /// Whether a call is an object with the tool's name in it, so that several can stand in a row.
    #[must_use]
    pub const fn has_names_in_objects(&self) -> bool {
        matches!(self.body, Body::Json(_) | Body::Keyed)
    }

    /// Whether a parser has to know the offered tools.
    #[must_use]
    pub const fn needs_tools(&self) -> bool {
        self.label.is_some() || self.bare.is_some()
    }
}

impl Fence {
    /// Whether it is read as part of the format.
    #[must_use]
    pub const fn is_read(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether it is written.
    #[must_use]
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Usual | Self::Needed)
    }
}

impl Tags {
    /// Adds the arguments of a JSON object.
    pub(super) fn push(&self, text: &mut String, arguments: &str) {
        let Self { key: [key_open, key_close], hint, gap, is_trimmed, end, .. } = self;
        let [open, close] = self.value;
        let line = if *is_trimmed { "\n" } else { "" };
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
        for (key, value) in &arguments {
            let _ = write!(text, "{key_open}{key}{key_close}");
            if let Some(hint) = hint {
                hint.push(text, value);
            }
            let _ = match value {
                Value::String(words) => write!(text, "{gap}{open}{line}{words}{line}{close}{end}"),
                value => write!(text, "{gap}{open}{line}{value}{line}{close}{end}"),
            };
        }
    }
}

impl Hint {
    /// What ends the word.
    #[must_use]
    pub const fn close(self) -> &'static str {
        match self {
            Self::IsText(close) | Self::Type(close) | Self::Between([_, close]) => close,
        }
    }

    /// What opens it, if it has a tag of its own.
    #[must_use]
    pub const fn open(self) -> Option<&'static str> {
        match self {
            Self::Between([open, _]) => Some(open),
            Self::IsText(_) | Self::Type(_) => None,
        }
    }

    fn push(self, text: &mut String, value: &Value) {
        let word = match (self, value) {
            (Self::Between(_), _) => return,
            (Self::IsText(_), Value::String(_)) => "true",
            (Self::IsText(_), _) => "false",
            (Self::Type(_), Value::String(_)) => "string",
            (Self::Type(_), Value::Null) => "null",
            (Self::Type(_), Value::Bool(_)) => "boolean",
            (Self::Type(_), Value::Number(_)) => "number",
            (Self::Type(_), Value::Array(_)) => "array",
            (Self::Type(_), Value::Object(_)) => "object",
        };
        let _ = write!(text, "{word}{}", self.close());
    }
}

impl Label {
    /// The name alone.
    pub(super) const PLAIN: Self = Self { prefix: "", id: None, ends: &[], stops: &[] };

    /// The tool's name in a label. `None` if there is none.
    #[must_use]
    pub fn name<'l>(&self, label: &'l str) -> Option<&'l str> {
        let label = label.trim();
        let label = label.strip_prefix(self.prefix).unwrap_or(label);
        let name = match &self.id {
            None => label,
            Some(LabelId::After(mark, _) | LabelId::NumberAfter(mark)) => {
                label.split_once(mark).map_or(label, |(it, _)| it)
            }
            Some(LabelId::Number) => match label.rsplit_once(':') {
                Some((name, number)) if number.bytes().all(|it| it.is_ascii_digit()) => name,
                _ => label,
            },
        };
        (!name.is_empty()).then_some(name)
    }

    /// What ends a written label.
    #[must_use]
    pub fn end(&self) -> &'static str {
        self.ends.first().copied().unwrap_or_default()
    }

    /// Adds a label. `number` is that of the call in its message.
    pub(super) fn push(&self, text: &mut String, name: &str, number: usize) {
        let Self { prefix, id, ends: _, stops: _ } = self;
        let _ = write!(text, "{prefix}{name}");
        let _ = match id {
            None => Ok(()),
            Some(LabelId::After(mark, length)) => write!(text, "{mark}{number:0length$}"),
            Some(LabelId::Number) => write!(text, ":{number}"),
            Some(LabelId::NumberAfter(mark)) => write!(text, "{mark}{}", number + 1),
        };
        text.push_str(self.end());
    }
}
