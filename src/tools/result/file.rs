//! What a model cannot read: images, sounds and other files that a tool returns.
//!
//! They travel beside the data until they are kept somewhere. From then on, the result lists them as
//! `artifacts`, each with its address.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

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
    pub(crate) fn in_words(&self, number: usize) -> String {
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
}
