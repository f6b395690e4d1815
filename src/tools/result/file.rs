//! What a model cannot read: images, sounds and other files that a tool returns.
//!
//! They travel beside the result until they are kept somewhere. From then on, the result's data
//! lists them as `artifacts`, each with its address.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ToolResult;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFile {
    /// A name for people, if the tool gives one.
    pub name: Option<String>,
    /// Its media type.
    pub mime_type: String,
    /// What it contains.
    pub bytes: Bytes,
}

/// A file as data lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFile {
    /// Its id; `None` if it is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `image`, `audio`, `video` or `file`.
    pub kind: String,
    /// Its media type.
    pub mime_type: String,
    /// Its length.
    pub bytes: usize,
    /// A name for people, if the tool gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its address at the gateway; `None` if it is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Why it is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The member of data that lists files.
const LIST: &str = "artifacts";

/// The member of data that users see, and models do not.
pub(super) const FOR_USER: &str = "for_user";

impl ToolFile {
    /// The file as data lists it, before it is kept.
    #[must_use]
    pub fn listed(&self) -> ListedFile {
        let (class, _) = self.mime_type.split_once('/').unwrap_or_default();
        let kind = if matches!(class, "image" | "audio" | "video") { class } else { "file" };
        ListedFile {
            id: None,
            kind: kind.to_owned(),
            mime_type: self.mime_type.clone(),
            bytes: self.bytes.len(),
            name: self.name.clone(),
            url: None,
            error: None,
        }
    }
}

impl ListedFile {
    /// What a model reads about it. `number` counts the files of a result from 1.
    fn in_words(&self, number: usize) -> String {
        let Self { kind, mime_type, bytes, name, .. } = self;
        let name = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        match &self.error {
            None => format!("[{kind}{name} {mime_type}, {}, artifact a{number}]", size(*bytes)),
            Some(error) => format!("[{kind}{name} {mime_type}, {}, {error}]", size(*bytes)),
        }
    }
}

fn size(bytes: usize) -> String {
    match bytes.div_ceil(1024) {
        0 | 1 => format!("{bytes} bytes"),
        kib => format!("{kib} KiB"),
    }
}

impl ToolResult {
    /// The same with files.
    #[must_use]
    pub fn with_files(mut self, files: Vec<ToolFile>) -> Self {
        self.files = files;
        self
    }

    /// Lists files in the data. Data that is not an object, or has such a list already, becomes its
    /// member `value`.
    pub(crate) fn list_files(&mut self, files: &[ListedFile]) {
        if files.is_empty() {
            return;
        }
        let mut members = match self.data.take() {
            None => Map::new(),
            Some(Value::Object(members)) if !members.contains_key(LIST) => members,
            Some(other) => Map::from_iter([("value".to_owned(), other)]),
        };
        members.insert(LIST.to_owned(), json!(files));
        self.data = Some(Value::Object(members));
    }
}

/// The list of files in a result's data, in words; `None` if there is none.
pub(super) fn list_in_words(data: &Map<String, Value>) -> Option<Value> {
    let listed: Vec<ListedFile> = serde_json::from_value(data.get(LIST)?.clone()).ok()?;
    let words = listed.iter().enumerate().map(|(at, file)| file.in_words(at + 1));
    Some(words.collect())
}

/// Puts the list of files in words in the place of the list.
pub(super) fn replace_list(data: &mut Map<String, Value>, words: Value) {
    data.insert(LIST.to_owned(), words);
}
