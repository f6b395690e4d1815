//! What a client's message says: words, and images between them.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::upstream::Image;

/// Words, and the images between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The words. Each image has an empty line of its own.
    pub(super) text: String,
    /// The images, each with the start of its line, in bytes of the text.
    pub(super) images: Vec<(usize, ClaimedImage)>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentPart {
    /// Words.
    Words(String),
    /// An image.
    Image(ClaimedImage),
}

/// An image that a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedImage {
    /// The same for the same bytes.
    pub(super) digest: [u8; 32],
    pub(super) mime_type: &'static str,
    pub(super) length: usize,
    /// `None` if there are too many newer images.
    pub(super) bytes: Option<Bytes>,
}

impl ClaimedImage {
    /// Reads an image that model servers take. `None` if it is none.
    #[must_use]
    pub fn read(bytes: Bytes) -> Option<Self> {
        let Image { mime_type, bytes, .. } = Image::read(String::new(), bytes)?;
        let digest = Sha256::digest(&bytes).into();
        Some(Self { digest, mime_type, length: bytes.len(), bytes: Some(bytes) })
    }
}

impl Content {
    /// The words.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many images there are.
    #[must_use]
    pub const fn images(&self) -> usize {
        self.images.len()
    }

    /// The words alone.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// The same with a line more, unless that is empty or there already.
    #[must_use]
    pub fn with_line(mut self, line: &str) -> Self {
        if self.text != line && !line.is_empty() {
            self.text.push_str(if self.is_empty() { "" } else { "\n" });
            self.text.push_str(line);
        }
        self
    }

    /// Whether there is nothing, not even white space.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty() && self.images.is_empty()
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.images.is_empty() && self.text.trim().is_empty()
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self { text, images: Vec::new() }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Parts begin lines.
impl FromIterator<ContentPart> for Content {
    fn from_iter<I: IntoIterator<Item = ContentPart>>(parts: I) -> Self {
        let mut content = Self::default();
        for (number, part) in parts.into_iter().enumerate() {
            match part {
                // The usual message: one text, which may be long.
                ContentPart::Words(words) if number == 0 => content.text = words,
                ContentPart::Words(words) => {
                    content.text.push('\n');
                    content.text.push_str(&words);
                }
                ContentPart::Image(image) => {
                    content.text.push_str(if number == 0 { "" } else { "\n" });
                    content.images.push((content.text.len(), image));
                }
            }
        }
        content
    }
}
