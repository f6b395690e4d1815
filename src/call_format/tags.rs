//! Arguments in tags.

use std::fmt::Write as _;

use serde_json::{Map, Value};

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
