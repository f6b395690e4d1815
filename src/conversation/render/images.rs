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

use super::{Context, Style, results};
use crate::conversation::{Call, Step};
use crate::limits::turn::IMAGE_BYTES_MAX;
use crate::tools::{ListedFile, ToolResult};
use crate::upstream::{Image, MessagePart};

/// The media types that all model servers with images take.
const SUPPORTED_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The ids of the images to show, the newest first.
pub(super) fn wanted(context: &Context) -> Vec<String> {
    let mut wanted = Vec::new();
    if context.images_max == 0 {
        return wanted;
    }
    let mut room = IMAGE_BYTES_MAX;
    let turns = context.history.turns().chain([&context.current]);
    let calls: Vec<_> = turns.flat_map(|turn| &turn.steps).flat_map(Step::calls).collect();
    // A repeated call shows nothing of its own.
    for call in calls.into_iter().rev().filter(|call| !call.is_repeat()) {
        for (_, id, file) in listed(&call.result()).rev() {
            let has_place = wanted.len() < context.images_max;
            let left = room.checked_sub(file.bytes).filter(|_| has_place);
            let Some(left) = left else { return wanted };
            wanted.push(id.to_owned());
            room = left;
        }
    }
    wanted
}

/// The images of a call's result that the model sees, to follow the result. They are named if the
/// result lists others too.
pub(super) fn of(call: &Call, style: Style<'_>) -> Vec<MessagePart> {
    let seen = seen(call, style);
    let is_image = |file: &&ListedFile| file.kind == "image";
    let is_whole = call.result().artifacts.iter().filter(is_image).count() == seen.len();
    let parts = seen.into_iter().flat_map(|(number, image)| {
        let name = (!is_whole).then(|| MessagePart::Text(format!("\nartifact a{number}:")));
        name.into_iter().chain([MessagePart::Image(image.clone())])
    });
    parts.collect()
}

/// The same for another place: each image is named by its call, which has this id there, and its
/// number in the result.
pub(super) fn named(call: &Call, id: &str, style: Style<'_>) -> Vec<MessagePart> {
    let seen = seen(call, style);
    let parts = seen.into_iter().flat_map(|(number, image)| {
        let tool = results::name(call, style.format);
        let name = format!("\n`{tool}` ({id}), artifact a{number}:");
        [MessagePart::Text(name), MessagePart::Image(image.clone())]
    });
    parts.collect()
}

/// The images of a call's result that the model sees, with their numbers there. A repeated call has
/// none: they follow the first.
fn seen<'a>(call: &Call, style: Style<'a>) -> Vec<(usize, &'a Image)> {
    if style.images.is_empty() || call.is_repeat() {
        return Vec::new();
    }
    let result = call.result();
    let images = listed(&result).filter_map(|(at, id, _)| Some((at, style.images.get(id)?)));
    images.collect()
}

/// The images in a result that are kept, with their numbers and ids.
fn listed(result: &ToolResult) -> impl DoubleEndedIterator<Item = (usize, &str, &ListedFile)> {
    let is_supported = |file: &ListedFile| SUPPORTED_TYPES.contains(&&*file.mime_type);
    let files = result.artifacts.iter().enumerate().filter(move |(_, file)| is_supported(file));
    files.filter_map(|(at, file)| Some((at + 1, file.id.as_deref()?, file)))
}
