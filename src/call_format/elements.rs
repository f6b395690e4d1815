//! Arguments as elements.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// How an element is written.
///
/// ```text
///   ]<]minimax[>[<  city  >  Oslo  ]<]minimax[>[</  city  >
///   '-- open ----'  key  end       '-- close ---'  key  end
///
///   <cofl:value   name="city" type="raw"  >  Oslo  </cofl:value  >
///   '-- open --' '---- attributes -----' end       '-- close --' end
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Elements {
    /// What begins an opening tag.
    pub open: &'static str,
    /// What begins a closing tag.
    pub close: &'static str,
    /// What ends both.
    pub end: &'static str,
    /// What comes before the key and before the word on the value's type, if they are attributes in
    /// quotes. Otherwise the key is the tag.
    pub attributes: Option<[&'static str; 2]>,
}

/// The tag of an element in an array, where tags are keys.
pub const ITEM: &str = "item";

/// The key of an element's text, where it has elements beside it.
pub const TEXT: &str = "$text";

/// The words on a value's type, where it is an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Text as it stands.
    Text,
    /// JSON.
    Json,
    /// An object of elements.
    Object,
    /// An array of elements.
    Array,
}

impl ValueType {
    /// All of them, with the words.
    const WORDS: [(Self, &'static str); 4] =
        [(Self::Text, "raw"), (Self::Json, "json"), (Self::Object, "dict"), (Self::Array, "list")];

    /// The type with this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }

    const fn of(value: &Value) -> Self {
        match value {
            Value::String(_) => Self::Text,
            Value::Object(_) => Self::Object,
            Value::Array(_) => Self::Array,
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Json,
        }
    }
}

impl Elements {
    /// Adds the arguments of a JSON object.
    pub(super) fn push(&self, text: &mut String, arguments: &str) {
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
        self.push_members(text, &arguments);
    }

    fn push_members(&self, text: &mut String, members: &Map<String, Value>) {
        for (key, value) in members {
            self.push_element(text, Some(key), value);
        }
    }

    /// Adds an element. One without a key is an item of an array.
    fn push_element(&self, text: &mut String, key: Option<&str>, value: &Value) {
        text.push_str(&self.opening_tag(key, ValueType::of(value)));
        match value {
            Value::Object(members) => self.push_members(text, members),
            Value::Array(items) => {
                for item in items {
                    self.push_element(text, None, item);
                }
            }
            Value::String(words) => text.push_str(words),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                let _ = write!(text, "{value}");
            }
        }
        text.push_str(&self.closing_tag(key));
    }

    /// The tag that opens an element.
    #[must_use]
    pub fn opening_tag(&self, key: Option<&str>, kind: ValueType) -> String {
        let Self { open, end, attributes, .. } = self;
        let Some([name, type_]) = attributes else {
            return format!("{open}{}{end}", key.unwrap_or(ITEM));
        };
        let name = key.map(|key| format!("{name}\"{key}\"")).unwrap_or_default();
        format!("{open}{name}{type_}\"{}\"{end}", kind.word())
    }

    /// The tag that closes it.
    #[must_use]
    pub fn closing_tag(&self, key: Option<&str>) -> String {
        let key = if self.attributes.is_some() { "" } else { key.unwrap_or(ITEM) };
        format!("{}{key}{}", self.close, self.end)
    }
}
