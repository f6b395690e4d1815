//! Tells a call's name and arguments while its payload arrives.
//!
//! It follows the payload beside the scanner, on bytes that are already in the
//! payload's buffer, so a parser that was not asked for deltas pays nothing.
//!
//! Only what cannot change any more is told: the value of the standard keys, in a
//! payload that is one object, read strictly. Everything else (other keys, arrays,
//! arguments inside a string, mended payloads) is told when the call completes, in
//! one piece.

use super::segment::Segment;
use super::{examined, find, text};
use crate::call_format::JsonKeys;

/// Where the tracker stands in a payload.
#[derive(Debug, Clone, Default)]
pub(super) struct Tracker {
    /// `payload[..seen]` has been looked at.
    seen: usize,
    depth: usize,
    /// Where the string that we are in begins, behind its quote.
    string: Option<usize>,
    escape: bool,
    /// The last key of the outermost object, and whether its colon was seen.
    key: Key,
    in_value: bool,
    named: bool,
    arguments: Arguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Key {
    #[default]
    Other,
    Name,
    Arguments,
}

/// What has been told of the arguments object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Arguments {
    #[default]
    Awaited,
    /// Told up to this position of the payload.
    Arriving(usize),
    Told,
}

impl Tracker {
    /// Looks at what is new in a payload and tells what is certain.
    pub(super) fn advance(
        &mut self,
        payload: &[u8],
        index: u32,
        keys: &JsonKeys,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        while self.seen < payload.len() {
            let at = self.seen;
            if let Some(start) = self.string {
                self.skip_string(payload);
                if self.string.is_none() {
                    self.string_ended(&payload[start..self.seen - 1], index, keys, sink);
                }
                continue;
            }
            self.seen += 1;
            examined::note(1);
            match payload[at] {
                b'"' => self.string = Some(at + 1),
                b':' if self.depth == 1 => self.in_value = true,
                b',' if self.depth == 1 => self.in_value = false,
                bracket @ (b'{' | b'[') => {
                    let begins = self.depth == 1 && self.in_value && bracket == b'{';
                    if begins && self.key == Key::Arguments && self.arguments == Arguments::Awaited
                    {
                        self.arguments = Arguments::Arriving(at);
                    }
                    self.depth += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 1 {
                        self.tell_arguments(&payload[..=at], index, sink);
                        if matches!(self.arguments, Arguments::Arriving(_)) {
                            self.arguments = Arguments::Told;
                        }
                    }
                }
                _ => {}
            }
        }
        self.tell_arguments(payload, index, sink);
    }

    /// Passes over what is new in a payload, all of it inside a string that goes on.
    pub(super) fn pass_string(
        &mut self,
        payload: &[u8],
        index: u32,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        debug_assert!(self.string.is_some() && !self.escape, "the scanner said so");
        self.seen = payload.len();
        self.tell_arguments(payload, index, sink);
    }

    /// Tells of a completed call what was not told before.
    pub(super) fn complete(
        &self,
        index: u32,
        name: &str,
        arguments: &str,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        if !self.named {
            sink(Segment::CallNamed { index, name });
        }
        if self.arguments != Arguments::Told {
            sink(Segment::ArgumentsDelta { index, json: arguments });
        }
    }

    /// Moves behind the string's closing quote, if it is there.
    fn skip_string(&mut self, payload: &[u8]) {
        if self.escape {
            self.escape = false;
            self.seen += 1;
            return;
        }
        let stop = find::either(b'"', b'\\', &payload[self.seen..]);
        examined::note(stop.unwrap_or(payload.len() - self.seen));
        match stop {
            None => self.seen = payload.len(),
            Some(stop) => {
                self.seen += stop + 1;
                self.escape = payload[self.seen - 1] == b'\\';
                if !self.escape {
                    self.string = None;
                }
            }
        }
    }

    fn string_ended(
        &mut self,
        content: &[u8],
        index: u32,
        keys: &JsonKeys,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        if self.depth != 1 {
            return;
        }
        if !self.in_value {
            self.key = match content {
                key if key == keys.name[0].as_bytes() => Key::Name,
                key if key == keys.arguments[0].as_bytes() => Key::Arguments,
                _ => Key::Other,
            };
        } else if self.key == Key::Name
            && !self.named
            && let Some(name) = decode(content).filter(|name| !name.is_empty())
        {
            self.named = true;
            sink(Segment::CallNamed { index, name: &name });
        }
    }

    /// Tells the arguments up to the payload's end, whole characters only. Bytes
    /// that are not UTF-8 end it: such a payload will not complete.
    fn tell_arguments(&mut self, payload: &[u8], index: u32, sink: &mut impl FnMut(Segment<'_>)) {
        let Arguments::Arriving(told) = &mut self.arguments else { return };
        let new = &payload[*told..];
        let json = text::valid(new)
            .unwrap_or_else(|()| new.utf8_chunks().next().map_or("", |piece| piece.valid()));
        if !json.is_empty() {
            *told += json.len();
            sink(Segment::ArgumentsDelta { index, json });
        }
    }
}

/// A string's content without its quotes, decoded.
fn decode(content: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(content).ok()?;
    serde_json::from_str(&format!("\"{text}\"")).ok()
}
