//! The images of a client's messages: the newest are kept, and each gets an id.
//!
//! ```text
//!   content, with images -- limit --> the oldest lose their bytes, if there are too many
//!                        -- place --> words that name each image, and the images by their ids
//! ```
//! An image has the same name whether or not it is kept, so a prompt does not change when newer
//! images arrive.

use std::collections::HashMap;
use std::fmt::Write as _;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::ClaimedMessage;
use super::content::{ClaimedImage, Content};
use crate::conversation::{PlacedImage, Words};
use crate::limits::session::{CLIENT_IMAGE_BYTES_MAX, CLIENT_IMAGES_MAX};
use crate::tools::ListedFile;
use crate::upstream::Image;

/// The images that a request brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientImages {
    /// Those in the words that open the turn.
    pub opening: Vec<PlacedImage>,
    /// All that are kept, by their ids in the conversation, oldest first.
    pub files: Vec<Image>,
}

/// How much room is left for images. The newest get it first.
pub(super) struct Room {
    images: usize,
    bytes: usize,
}

impl Room {
    pub(super) const fn new() -> Self {
        Self { images: CLIENT_IMAGES_MAX, bytes: CLIENT_IMAGE_BYTES_MAX }
    }

    /// Keeps the images of these messages as far as there is room, the newest first.
    pub(super) fn limit(&mut self, messages: &mut [ClaimedMessage]) {
        for message in messages.iter_mut().rev() {
            match message {
                ClaimedMessage::User(content)
                | ClaimedMessage::Aside(content)
                | ClaimedMessage::Result { output: content, .. } => self.limit_one(content),
                ClaimedMessage::System(_) | ClaimedMessage::Assistant { .. } => {}
            }
        }
    }

    /// The same for one of them.
    pub(super) fn limit_one(&mut self, content: &mut Content) {
        for (_, image) in content.images.iter_mut().rev() {
            let left = self.bytes.checked_sub(image.length).filter(|_| self.images > 0);
            if let Some(left) = left {
                (self.images, self.bytes) = (self.images - 1, left);
            } else {
                // Nothing older has room either: a model sees the newest.
                (self.images, image.bytes) = (0, None);
            }
        }
    }
}

/// Gives images their ids.
pub(super) struct Placing<'s> {
    /// What the ids are made of, besides the images.
    seed: &'s str,
    /// The images so far, and how often each has come.
    seen: HashMap<[u8; 32], (usize, Option<Bytes>)>,
    files: Vec<Image>,
}

impl<'s> Placing<'s> {
    pub(super) fn new(seed: &'s str) -> Self {
        Self { seed, seen: HashMap::new(), files: Vec::new() }
    }

    /// The images that are kept.
    pub(super) fn finish(self) -> Vec<Image> {
        self.files
    }

    /// The words with a note in the place of each image. `before` counts the images that are
    /// already named in the same text.
    pub(super) fn place(&mut self, content: Content, before: usize) -> Words {
        let Content { text, images } = content;
        if images.is_empty() {
            return text.into();
        }
        let (mut words, mut from) = (Words::default(), 0);
        for (number, (at, image)) in (before + 1..).zip(images) {
            words.text.push_str(&text[from..at]);
            from = at;
            let file = self.add(image);
            words.text.push_str(&file.in_words(number));
            words.images.push(PlacedImage { at: words.text.len(), file });
        }
        words.text.push_str(&text[from..]);
        words
    }

    /// Lists an image, and keeps it if it has its bytes. A repeated image gets an id of its own and
    /// shares the bytes.
    pub(super) fn add(&mut self, image: ClaimedImage) -> ListedFile {
        let ClaimedImage { digest, mime_type, length, bytes } = image;
        let (count, shared) = self.seen.entry(digest).or_default();
        *count += 1;
        let id = bytes.map(|bytes| {
            let (id, bytes) = (id(self.seed, digest, *count), shared.get_or_insert(bytes).clone());
            self.files.push(Image { id: id.clone(), mime_type, bytes });
            id
        });
        let (kind, mime_type) = ("image".to_owned(), mime_type.to_owned());
        ListedFile { id, kind, mime_type, bytes: length, name: None, url: None, error: None }
    }
}

/// 128 bits in hexadecimal. A server that has refused an image knows it again by its id, so the id
/// stays the same when the client sends the conversation again.
fn id(seed: &str, digest: [u8; 32], count: usize) -> String {
    let hash = Sha256::new().chain_update(digest).chain_update(count.to_be_bytes());
    let hash = hash.chain_update(seed).finalize();
    hash[..16].iter().fold(String::new(), |mut hex, byte| {
        // Writing into a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
