//! The images that a model sees: the newest of users and tools, as far as they have room.
//!
//! An image follows the note that names it in the user's words, or the result of its tool. Which
//! ones are shown is decided before they are loaded, by their listed sizes:
//!
//! ```text
//!   conversation ──wanted──> ids ──artifacts──> images ──of──> parts of messages
//! ```
//! Fewer may be sent than are loaded: a step that has no room in the context is left out together
//! with its images, and an upstream that takes no images gets none.

use super::{Context, Style, results};
use crate::conversation::{Call, PlacedImage, Step, Turn};
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
    for (id, bytes) in turns.rev().flat_map(|turn| newest(turn)) {
        let has_place = wanted.len() < context.images_max;
        let left = room.checked_sub(bytes).filter(|_| has_place);
        let Some(left) = left else { return wanted };
        wanted.push(id);
        room = left;
    }
    wanted
}

/// The ids of a turn's images with their sizes, the newest first.
fn newest(turn: &Turn) -> Vec<(String, usize)> {
    let mut all: Vec<_> = placed(&turn.images).collect();
    for step in &turn.steps {
        // A repeated call shows nothing of its own.
        for call in step.calls().filter(|call| !call.is_repeat()) {
            let result = call.result();
            all.extend(listed(&result).map(|(_, id, file)| (id.to_owned(), file.bytes)));
        }
        all.extend(placed(&step.aside_images));
    }
    all.reverse();
    all
}

fn placed(images: &[PlacedImage]) -> impl Iterator<Item = (String, usize)> {
    images.iter().filter_map(|PlacedImage { file, .. }| Some((file.id.clone()?, file.bytes)))
}

/// The images in the user's words that the model sees, each with its place in a text in which these
/// words begin at `start`.
pub(super) fn within<'a>(
    images: &[PlacedImage],
    start: usize,
    style: Style<'a>,
) -> Vec<(usize, &'a Image)> {
    let seen = images.iter().filter_map(|PlacedImage { at, file }| {
        Some((start.saturating_add(*at), style.images.get(file.id.as_deref()?)?))
    });
    seen.collect()
}

/// The images beside the results of a step for another place: each is named by its number.
pub(super) fn beside(step: &Step, style: Style<'_>) -> Vec<MessagePart> {
    let numbered =
        (1..).zip(&step.aside_images).filter_map(|(number, PlacedImage { file, .. })| {
            Some((number, style.images.get(file.id.as_deref()?)?))
        });
    let parts = numbered.flat_map(|(number, image): (usize, _)| {
        let name = format!("\nWhat the user adds, artifact a{number}:");
        [MessagePart::Text(name), MessagePart::Image(Image::clone(image))]
    });
    parts.collect()
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
