//! The images that a model sees: the newest that tools returned, as far as they have room.
//!
//! An image follows the result that names it. Which ones are shown is decided before they are
//! loaded, by the sizes in the results:
//!
//! ```text
//!   conversation ──wanted──> ids ──artifacts──> images ──of──> parts of messages
//! ```
//! Fewer may be sent than are loaded: a step that has no room in the context is left out together
//! with its images, and an upstream that takes no images gets none.

use super::{Context, Style};
use crate::conversation::{Call, Step};
use crate::limits::turn::{IMAGE_BYTES_MAX, IMAGE_TOKENS, IMAGES_MAX, TOLD_SHARE};
use crate::tools::{ListedFile, ToolResult};
use crate::upstream::MessagePart;

/// The media types that all model servers with images take.
const TAKEN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The ids of the images to show, the newest first. They may take a quarter of the context, so that
/// they leave room for words; one is shown in any case.
pub(super) fn wanted(context: &Context) -> Vec<String> {
    let mut wanted = Vec::new();
    if !context.shows_images {
        return wanted;
    }
    let most = (context.budget / TOLD_SHARE / IMAGE_TOKENS).clamp(1, IMAGES_MAX);
    let mut room = IMAGE_BYTES_MAX;
    let turns = context.history.turns().chain([&context.current]);
    let calls: Vec<_> = turns.flat_map(|turn| &turn.steps).flat_map(Step::calls).collect();
    for call in calls.into_iter().rev() {
        for (id, file) in listed(&call.result()).rev() {
            let left = room.checked_sub(file.bytes).filter(|_| wanted.len() < most);
            let Some(left) = left else { return wanted };
            wanted.push(id.to_owned());
            room = left;
        }
    }
    wanted
}

/// The images of a call's result that the model sees. A repeated call has those of the first.
pub(super) fn of(call: &Call, style: Style<'_>) -> Vec<MessagePart> {
    if style.images.is_empty() || call.is_repeat() {
        return Vec::new();
    }
    let result = call.result();
    let images = listed(&result).filter_map(|(id, _)| style.images.get(id));
    images.cloned().map(MessagePart::Image).collect()
}

/// The images in a result, with their ids, as far as they are kept.
fn listed(result: &ToolResult) -> impl DoubleEndedIterator<Item = (&str, &ListedFile)> {
    let is_taken = |file: &&ListedFile| TAKEN.contains(&&*file.mime_type);
    let files = result.artifacts.iter().filter(is_taken);
    files.filter_map(|file| Some((file.id.as_deref()?, file)))
}
