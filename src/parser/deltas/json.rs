//! A payload in JSON: an object with the call's name and its arguments, perhaps the first one of an array,
//! or the arguments alone.
//!
//! Only the values of the standard keys are reported. Arguments inside a string, or under other keys, are
//! reported when the call completes.

use super::super::text::whole_characters;
use super::{Segment, Told};
use crate::call_format::JsonKeys;
use crate::parser::json_scan::{Scanner, Stop};
use crate::parser::{examined, find};

/// The position in a payload.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    /// `payload[..seen]` has been read.
    seen: usize,
    depth: usize,
    /// The depth inside the call's object: 1, or 2 in an array.
    call_depth: usize,
    /// Where the current string begins, after its quote.
    string: Option<usize>,
    escape: bool,
    /// The last key of the call's object, and whether its colon has been read.
    key: Key,
    in_value: bool,
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
    /// In a payload that is the arguments of a call.
    pub(super) fn of_arguments() -> Self {
        Self { depth: 1, call_depth: 1, key: Key::Arguments, in_value: true, ..Self::default() }
    }

    /// Whether the arguments have begun and go on. The scanner then looks for their end.
    pub(super) const fn is_in_arguments(&self) -> bool {
        matches!(self.arguments, Arguments::Arriving(_))
    }

    /// Passes on the new bytes of a payload, all of them arguments. A pause of the scanner ends the arguments.
    #[inline]
    pub(super) fn pass_arguments(
        &mut self,
        payload: &[u8],
        text: Option<&str>,
        stop: Option<Stop>,
        told: &mut Told,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        match (&mut self.arguments, text) {
            (Arguments::Arriving(from), Some(text)) if *from + text.len() == payload.len() => {
                *from = payload.len();
                told.arguments(text, sink);
            }
            _ => self.tell_arguments(payload, told, sink),
        }
        if stop == Some(Stop::Pause) {
            self.arguments = Arguments::Told;
            (self.seen, self.depth, self.string) = (payload.len(), self.call_depth, None);
        }
    }

    /// Asks the scanner, which has read the same bytes, to pause at the end of the arguments if they have begun.
    pub(super) const fn hand_over(&self, scanner: &mut Scanner) {
        if let Arguments::Arriving(_) = self.arguments {
            scanner.pause_after(self.depth - self.call_depth);
        }
    }

    /// Reads the new bytes of a payload, and reports what is certain. Not inlined, because most bytes are
    /// arguments, which need no reading.
    #[inline(never)]
    pub(super) fn advance(
        &mut self,
        payload: &[u8],
        keys: Option<&JsonKeys>,
        told: &mut Told,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        while self.seen < payload.len() {
            let at = self.seen;
            if let Some(start) = self.string {
                self.skip_string(payload);
                if self.string.is_none() {
                    self.string_ended(&payload[start..self.seen - 1], keys, told, sink);
                }
                continue;
            }
            self.seen += 1;
            examined::note(1);
            match payload[at] {
                b'"' => self.string = Some(at + 1),
                b':' if self.depth == self.call_depth => self.in_value = true,
                b',' if self.depth == self.call_depth => self.in_value = false,
                // The first element is over, and was no call.
                b',' if self.depth < self.call_depth => self.call_depth = usize::MAX,
                bracket @ (b'{' | b'[') => {
                    if at == 0 && self.call_depth == 0 {
                        self.call_depth = if bracket == b'[' { 2 } else { 1 };
                    }
                    let begins = self.depth == self.call_depth && self.in_value && bracket == b'{';
                    if begins && self.key == Key::Arguments && self.arguments == Arguments::Awaited
                    {
                        self.arguments = Arguments::Arriving(at);
                    }
                    self.depth += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == self.call_depth {
                        self.tell_arguments(&payload[..=at], told, sink);
                        if matches!(self.arguments, Arguments::Arriving(_)) {
                            self.arguments = Arguments::Told;
                        }
                    } else if self.depth < self.call_depth {
                        // The first call is over.
                        self.call_depth = usize::MAX;
                    }
                }
                _ => {}
            }
        }
        self.tell_arguments(payload, told, sink);
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
        keys: Option<&JsonKeys>,
        told: &mut Told,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let Some(keys) = keys.filter(|_| self.depth == self.call_depth) else { return };
        if !self.in_value {
            self.key = match content {
                key if key == keys.name[0].as_bytes() => Key::Name,
                key if key == keys.arguments[0].as_bytes() => Key::Arguments,
                _ => Key::Other,
            };
        } else if self.key == Key::Name
            && !told.is_named
            && let Some(name) = decode(content).filter(|name| !name.is_empty())
        {
            told.name(&name, sink);
        }
    }

    /// Reports the arguments up to the payload's end, in whole characters. Invalid UTF-8 stops it;
    /// such a payload never completes.
    fn tell_arguments(
        &mut self,
        payload: &[u8],
        told: &mut Told,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let Arguments::Arriving(from) = &mut self.arguments else { return };
        let json = whole_characters(&payload[*from..]);
        *from += json.len();
        told.arguments(json, sink);
    }
}

/// A string's content without its quotes, decoded.
fn decode(content: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(content).ok()?;
    serde_json::from_str(&format!("\"{text}\"")).ok()
}
