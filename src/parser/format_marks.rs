//! The marks of a format, by what they do.

use super::marks::Mark;
use crate::call_format::{Body, CallFormat, Elements, Label, LabelId, Row, Tags};

/// What opens a call.
pub(super) fn call_openers(format: &CallFormat) -> impl Iterator<Item = (Mark, &str)> {
    format.openers().map(|text| (Mark::Opener, text))
}

/// What opens a frame around calls.
pub(super) fn frame_openers<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    row.frame.iter().flat_map(|frame| frame.open).map(|text| (Mark::FrameOpen, *text))
}

/// What opens the header of a message.
pub(super) fn header_openers<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    row.header.iter().flat_map(|header| header.openers).map(|text| (Mark::Header, *text))
}

/// What ends the header of a message, and what shows that its end was forgotten.
pub(super) fn in_header<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    let ends = row.header.iter().map(|header| (Mark::HeaderEnd, header.end));
    let others = header_openers(row).chain(hidden(row)).filter(|_| row.has_special);
    ends.chain(others.filter(|(_, text)| row.header.as_ref().is_some_and(|it| it.end != *text)))
}

/// What may follow the header of a message to a tool, where a frame should.
pub(super) fn after_header(format: &CallFormat) -> impl Iterator<Item = (Mark, &str)> {
    let calls = call_openers(format).filter(|_| format.row().header.is_some());
    frame_openers(format.row()).chain(calls)
}

/// What may stand in place of arguments: what closes the call and, in messages with headers, the next one.
pub(super) fn without_arguments<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    closers(row).chain(header_openers(row))
}

/// What may end code in a message: what ends a call, or the end of a header, which shows that the next message
/// has begun. All else may stand in code, in a string for one.
pub(super) fn after_code<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    let call = row.closer.iter().map(|closer| (Mark::Closer, closer.text));
    in_header(row).filter(|(mark, _)| *mark == Mark::HeaderEnd).chain(call)
}

/// What may open a call in prose. In messages with headers, only a header does.
pub(super) fn openers_in_prose(format: &CallFormat) -> impl Iterator<Item = (Mark, &str)> {
    let row = format.row();
    let own = call_openers(format).chain(frame_openers(row));
    header_openers(row).chain(own.filter(|_| row.header.is_none()))
}

/// What shows within a call that another one begins.
pub(super) fn openers(format: &CallFormat) -> impl Iterator<Item = (Mark, &str)> {
    let row = format.row();
    let own = call_openers(format).chain(frame_openers(row));
    let is_own = row.header.is_none() || row.frame.is_some();
    header_openers(row).chain(own.filter(move |_| is_own))
}

/// What is never shown. A message's marks are not, wherever they stand, if they are special tokens.
pub(super) fn hidden<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    let header = row.header.iter().filter(|_| row.has_special);
    let ends = header.clone().flat_map(|header| [header.end, header.message_end]);
    let closer = row.closer.iter().map(|closer| closer.text);
    let closer = closer.filter(|_| row.frame.is_none()).take(header.count());
    let all = row.hidden.iter().copied().chain(ends).chain(closer);
    all.map(|text| (Mark::Hidden, text))
}

/// What closes a call and its frame. The end of a message closes a call in it.
pub(super) fn closers<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    let closer = row.closer.iter().map(|closer| closer.text);
    let message = message_end(row).map(|(_, text)| text).filter(|_| row.frame.is_none());
    let closer = closer.chain(message);
    let closer = closer.map(|text| (Mark::Closer, text));
    let frame = row.frame.iter().flat_map(|frame| frame.close);
    closer.chain(frame.map(|text| (Mark::FrameClose, *text)))
}

/// What ends a message.
fn message_end<'t>(row: &'static Row) -> impl Iterator<Item = (Mark, &'t str)> {
    let ends = row.header.iter().map(|header| header.message_end);
    ends.filter(|text| !text.is_empty()).map(|text| (Mark::MessageEnd, text))
}

/// Where a message is over, even in a string: at its end, directly followed by the opener of the next header.
pub(super) fn boundaries(row: &'static Row) -> impl Iterator<Item = String> {
    header_openers(row).flat_map(move |(_, opener)| {
        closers(row).map(move |(_, closer)| format!("{closer}{opener}"))
    })
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
        Some(
            LabelId::After(mark, _) | LabelId::NumberAfter(mark) | LabelId::NumberBefore(mark),
        ) => Some((Mark::LabelId, *mark)),
        _ => None,
    });
    let ends = label.into_iter().flat_map(|label| label.ends);
    let stops = label.into_iter().flat_map(|label| label.stops);
    let ends = ends.map(|end| (Mark::LabelEnd, *end));
    id.into_iter().chain(ends).chain(stops.map(|stop| (Mark::LabelStop, *stop)))
}

/// The tags of an argument, what closes the call or its message, and what begins another one; nothing in formats
/// without tags. Of elements, only the first one's tag: a closer may begin like it.
pub(super) fn tags(format: &CallFormat) -> impl Iterator<Item = (Mark, &str)> {
    let row = format.row();
    let own = match &row.body {
        Body::Tagged(Tags { key, value, .. }) => {
            vec![(Mark::Key, key[0]), (Mark::ValueClose, value[1])]
        }
        Body::Nested(Elements { open, .. }) => vec![(Mark::Key, *open)],
        _ => Vec::new(),
    };
    let message = message_end(row).filter(|_| row.frame.is_some());
    let others = closers(row).chain(message).chain(openers(format)).filter(|_| !own.is_empty());
    let others: Vec<_> = others.collect();
    own.into_iter().chain(others)
}
