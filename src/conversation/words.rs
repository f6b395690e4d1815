//! The user's words, with the images between them.
//!
//! The words name each image in a note, `[image image/png, 4 KiB, artifact a1]`. A model that sees
//! the image gets it right after the note. The image itself is kept elsewhere, under its id.

use serde::{Deserialize, Serialize};

use crate::tools::ListedFile;

/// Words, and the images in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The words, with a note for each image.
    pub text: String,
    /// The images, in order.
    pub images: Vec<PlacedImage>,
}

/// An image in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedImage {
    /// Where its note ends, in bytes of the text.
    pub at: usize,
    /// The image as data lists it. Without an id, it is not kept, and no model sees it.
    pub file: ListedFile,
}

impl Words {
    /// Adds a paragraph.
    pub(super) fn add(&mut self, more: Self) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        let before = self.text.len();
        self.text.push_str(&more.text);
        let moved = |image: PlacedImage| PlacedImage { at: before + image.at, ..image };
        self.images.extend(more.images.into_iter().map(moved));
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        Self { text, images: Vec::new() }
    }
}
