//! Pieces of frames that several kinds of items share.

use serde_json::Value;

use super::frames::Frames;
use crate::session::log::encode::serialize;

/// Tells of an item that begins.
pub(super) fn added(frames: &mut Frames<'_>, index: usize, item: &Value) {
    let index = index.to_string();
    let parts = [b",\"output_index\":", index.as_bytes(), b",\"item\":", &bytes(item)];
    frames.push("response.output_item.added", &parts);
}

/// Tells of an item in its final form.
pub(super) fn done(frames: &mut Frames<'_>, index: usize, item: &[u8]) {
    let index = index.to_string();
    let parts = [b",\"output_index\":", index.as_bytes(), b",\"item\":", item];
    frames.push("response.output_item.done", &parts);
}

/// Members that say which item a frame is about. Ids need no escapes.
pub(super) fn place(id: &str, index: usize) -> Vec<u8> {
    format!(",\"item_id\":\"{id}\",\"output_index\":{index}").into_bytes()
}

/// JSON on one line.
pub(super) fn bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    serialize(&mut bytes, value);
    bytes
}

/// A JSON object without its end.
pub(super) fn open_object(value: &Value) -> Vec<u8> {
    let mut bytes = bytes(value);
    bytes.pop();
    bytes
}
