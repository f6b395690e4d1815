//! Reports a call's name and arguments while its payload arrives.
//!
//! ```text
//!    {"name": "write", "arguments": {"text": "a}"}}
//!                   |               '------------'|
//!           CallNamed               ArgumentsDelta CallCompleted
//! ```
//!
//! The tracker runs beside the scanner, on bytes that are already in the payload's buffer, so a
//! parser without deltas pays nothing for it.
//!
//! It only reports what can no longer change: the values of the standard keys, in a payload that is
//! one object, in strict mode. Everything else (other keys, arrays, arguments inside a string,
//! lenient mode) is reported in one piece when the call completes.

use super::segment::Segment;
use super::{examined, find, text};
use crate::call_format::JsonKeys;

/// The tracker's position in a payload.
#[derive(Debug, Clone, Default)]
pub(super) struct Tracker {
    /// `payload[..seen]` has been read.
    seen: usize,
    depth: usize,
    /// Where the current string begins, after its quote.
    string: Option<usize>,
    escape: bool,
    /// The last key of the outermost object, and whether its colon has been read.
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

/// How much of the arguments object has been reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Arguments {
    #[default]
    Awaited,
    /// Reported up to this position in the payload.
    Arriving(usize),
    Told,
}

impl Tracker {
    /// In a payload that is the arguments of a call. Its name may have been reported.
    pub(super) fn of_arguments(named: bool) -> Self {
        Self { depth: 1, key: Key::Arguments, in_value: true, named, ..Self::default() }
    }

    /// Reads the new bytes of a payload, and reports what is certain.
    pub(super) fn advance(
        &mut self,
        payload: &[u8],
        index: u32,
        keys: Option<&JsonKeys>,
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

    /// Skips the new bytes of a payload, all of them inside a string that continues.
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

    /// Reports what is still missing when a call completes.
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

    /// Moves past the string's closing quote, if it has arrived.
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
        keys: Option<&JsonKeys>,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let Some(keys) = keys.filter(|_| self.depth == 1) else { return };
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

    /// Reports the arguments up to the payload's end, in whole characters. Invalid UTF-8 stops it;
    /// such a payload never completes.
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
