//! The marks of a format, by what they do.

use super::marks::Mark;
use crate::call_format::{Body, CallFormat, Label, LabelId, Row, Tags};

/// What opens a call.
pub(super) fn call_openers(format: &CallFormat) -> impl Iterator<Item = (Mark, &str)> {
    format.openers().map(|text| (Mark::Opener, text))
}

/// What opens a frame around calls.
pub(super) fn frame_openers<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    row.frame.iter().flat_map(|frame| frame.open).map(|text| (Mark::FrameOpen, *text))
}

/// What closes a call and its frame.
pub(super) fn closers<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    let closer = row.closer.iter().map(|closer| (Mark::Closer, closer.text));
    let frame = row.frame.iter().flat_map(|frame| frame.close);
    closer.chain(frame.map(|text| (Mark::FrameClose, *text)))
}

/// What may come after a payload: closers and, in a frame, the next opener.
pub(super) fn after_payload(format: &CallFormat) -> impl Iterator<Item = (Mark, &str)> {
    let is_framed = format.row().frame.is_some();
    closers(format.row()).chain(call_openers(format).filter(move |_| is_framed))
}

/// What stands in a label, and what ends it.
pub(super) fn label_marks(
    label: Option<&'static Label>,
) -> impl Iterator<Item = (Mark, &'static str)> {
    let id = label.and_then(|label| match &label.id {
        Some(LabelId::After(mark, _) | LabelId::NumberAfter(mark)) => Some((Mark::LabelId, *mark)),
        _ => None,
    });
    let ends = label.into_iter().flat_map(|label| label.ends);
    let stops = label.into_iter().flat_map(|label| label.stops);
    let ends = ends.map(|end| (Mark::LabelEnd, *end));
    id.into_iter().chain(ends).chain(stops.map(|stop| (Mark::LabelStop, *stop)))
}

/// The tags of an argument, what closes the call, and what begins another one; nothing in formats without
/// tags.
pub(super) fn tags(format: &CallFormat) -> impl Iterator<Item = (Mark, &str)> {
    let row = format.row();
    let tags = match &row.body {
        Body::Tagged(tags) => Some(tags),
        _ => None,
    };
    tags.into_iter().flat_map(move |Tags { key, value, .. }| {
        let own = [(Mark::Key, key[0]), (Mark::ValueClose, value[1])];
        let openers = call_openers(format).chain(frame_openers(row));
        own.into_iter().chain(closers(row)).chain(openers)
    })
}
