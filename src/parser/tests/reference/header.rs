//! Headers of messages.

use super::{Opener, Reference, begins, frames, markers, space};
use crate::call_format::{Addressee, Body, Header};
use crate::parser::fuzz::Event;
use crate::parser::{ErrorCode, segment};

/// What opens a header.
pub(super) fn openers(header: &Header) -> Vec<&'static [u8]> {
    header.openers.iter().map(|text| text.as_bytes()).collect()
}

impl Reference<'_> {
    fn header(&self) -> Option<&'static Header> {
        self.s.format.row().header.as_ref()
    }

    /// Marks that are never shown, in messages with headers.
    pub(super) fn hidden_in_messages(&self) -> Vec<&'static [u8]> {
        let row = self.s.format.row();
        let Some(header) = row.header.as_ref().filter(|_| row.has_special) else { return vec![] };
        let closer = row.closer.as_ref().filter(|_| row.frame.is_none());
        let closer = closer.map(|closer| closer.text.as_bytes());
        [header.end, header.message_end].map(str::as_bytes).into_iter().chain(closer).collect()
    }

    /// Looks for a header without its opener, after a message.
    pub(super) fn after_message(&mut self) {
        if self.header().is_some() && self.s.format.row().has_special {
            self.header_at(self.at, true);
        }
    }

    /// Looks for a header that the prompt has opened.
    pub(super) fn first_header(&mut self) {
        if self.header().is_some() {
            self.header_at(0, true);
        }
    }

    /// Reads on after the opener of a header that begins at `start`, or where that is missing.
    pub(super) fn header_at(&mut self, start: usize, is_first: bool) {
        let format = self.header().unwrap();
        let begin = if is_first { start } else { self.at };
        let fresh_line = is_first || self.fresh_line();
        let starts: &[&str] = if is_first { format.starts } else { &[""] };
        let hidden: Vec<&[u8]> =
            self.s.format.row().hidden.iter().map(|it| it.as_bytes()).collect();
        let stops = [self.hidden_in_messages(), hidden].concat();
        let is_special = self.s.format.row().has_special;
        let mut at = begin;
        // Where the header stops, what stops it there, and how long that is.
        let (end, mark, is_whole) = loop {
            let Some(&byte) = self.input.get(at) else { break (at, 0, false) };
            if at - start >= 256 {
                break (at, 0, false);
            }
            let so_far = &self.input[start..=at];
            let fits =
                |it: &&str| it.as_bytes().starts_with(so_far) || so_far.starts_with(it.as_bytes());
            if !starts.iter().any(fits) {
                return self.text(at);
            }
            at += 1;
            let ends = |mark: &[u8]| self.input[begin..at].ends_with(mark);
            if ends(format.end.as_bytes()) {
                break (at, format.end.len(), true);
            }
            let first = openers(format)[0];
            let stop = stops.iter().copied().chain([first]).find(|mark| ends(mark));
            if let Some(mark) = stop.filter(|_| is_special) {
                break (at, mark.len(), false);
            }
            let is_name = byte.is_ascii_alphanumeric() || b"_.-\r".contains(&byte);
            let is_word = byte != b'{' && (byte.is_ascii_whitespace() || !byte.is_ascii_control());
            // An opener ends with a byte of its own.
            let may_stand = if format.is_name() { is_name } else { is_word };
            if !may_stand {
                break (at - 1, 0, false);
            }
        };
        let header = &self.input[start..end - mark];
        // A whole header is text as a whole. Any other may end inside a character.
        let text = match std::str::from_utf8(header) {
            Ok(text) => text,
            Err(_) if is_whole => "",
            Err(error) => std::str::from_utf8(&header[..error.valid_up_to()]).unwrap(),
        };
        let is_over = end == self.input.len() && mark == 0 && !is_whole;
        let is_marked = format.openers.iter().any(|opener| text.contains(opener));
        let length = format.length_without_end(text).filter(|_| is_marked);
        if is_over && is_first {
            self.at = start;
            return self.text(end);
        }
        if is_over && !text.is_empty() && length == Some(header.len()) {
            if let Some(Addressee::Tool(_)) = format.addressee(text) {
                self.events.push(Event::Error {
                    code: ErrorCode::MissingPayload,
                    offset: start as u64,
                    index: None,
                    raw: segment::quote(text.as_bytes()),
                    at_line_start: fresh_line,
                });
            }
            self.at = end;
            return;
        }
        let (header, next) = match length {
            _ if is_whole => (text, end),
            Some(length) => (&text[..length], start + length),
            None => {
                self.at = start;
                return self.text(end - mark);
            }
        };
        let addressee = format.addressee(header).or_else(|| (!is_whole).then_some(Addressee::User));
        let is_known = match addressee {
            Some(Addressee::Tool(name)) => {
                !format.is_name() || self.s.calls && self.s.tools.may_have(name)
            }
            _ => true,
        };
        let is_bad = is_whole && text.is_empty() && end - mark > start;
        match addressee {
            Some(addressee) if !is_bad && is_known => {
                self.at = next;
                self.message(addressee, header, start, fresh_line);
            }
            _ => {
                self.at = start;
                self.text(end);
            }
        }
    }

    /// Reads on after a header.
    fn message(&mut self, addressee: Addressee<'_>, header: &str, start: usize, fresh_line: bool) {
        let row = self.s.format.row();
        let is_reasoning = self.header().unwrap().is_reasoning(header);
        self.reasoning = self.s.reasoning && is_reasoning;
        self.last = b'\n';
        let Addressee::Tool(name) = addressee else {
            self.reasoning |= self.s.reasoning && addressee == Addressee::Model;
            return;
        };
        if !self.s.calls {
            return;
        }
        let label = row.label.as_ref().and_then(|label| label.name(name));
        self.name = label.unwrap_or(name).to_owned();
        self.is_framed = row.has_special;
        self.last = if fresh_line { b'\n' } else { b' ' };
        self.shown_from = row.has_special.then_some((start, self.at));
        if row.frame.is_none() {
            self.body_at(start);
        } else {
            self.frame_in_message(start);
        }
    }

    /// The argument that a message in code is.
    pub(super) fn code_argument(&self) -> Option<String> {
        let row = self.s.format.row();
        let is_code = self.header()?.code == Some(&*self.name) && row.body == Body::Arguments;
        let key = self.s.tools.only_text(&self.name).filter(|_| is_code);
        key.map(str::to_owned)
    }

    /// Reads code, in the call that begins at `start`, as this argument.
    pub(super) fn code_at(&mut self, start: usize, key: &str) {
        let (at_line_start, from) = (self.fresh_line(), self.at);
        let index = self.start_call(start);
        let is_name = self.header().unwrap().is_name();
        let mut window = from;
        let end = (from..self.input.len()).find_map(|at| {
            if is_name {
                let length = self.line_of_header(at)?;
                return Some((at, length, at + length));
            }
            let rest = &self.input[at..];
            let call = self.s.format.row().closer.as_ref().unwrap().text.as_bytes();
            if rest.starts_with(call) {
                return Some((at, call.len(), at + call.len()));
            }
            let end = self.header().unwrap().end.as_bytes();
            if !rest.starts_with(end) {
                return None;
            }
            let start = window.max((at + end.len()).saturating_sub(256));
            window = at + end.len();
            Some((self.header_before(start, at)?, 0, window))
        });
        let (to, length, seen) = end.unwrap_or((self.input.len(), 0, self.input.len()));
        let (code, most) = (&self.input[from..to], self.s.max_payload_bytes);
        let refuse = |code, raw: &[u8]| Event::Error {
            code,
            offset: start as u64,
            index: Some(index),
            raw: segment::quote(raw),
            at_line_start,
        };
        self.events.push(match std::str::from_utf8(code) {
            _ if seen - from > most => {
                refuse(ErrorCode::PayloadTooLarge, &self.input[from..from + most])
            }
            Ok(text) => {
                let text = text.strip_suffix(self.header().unwrap().message_end).unwrap_or(text);
                let text =
                    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text);
                let arguments = serde_json::json!({ key: text }).to_string();
                let name = self.name.clone();
                Event::Completed { index, name, arguments, repaired: Vec::new() }
            }
            Err(_) if end.is_none() => refuse(ErrorCode::IncompletePayload, code),
            Err(_) => refuse(ErrorCode::InvalidJson, code),
        });
        self.last = b'\n';
        self.at = to;
        let mark = &self.input[to..to + length];
        if self.is_header(mark) {
            self.last = b' ';
            self.at += length;
            self.header_at(to, false);
        } else if length > 0 && !is_name {
            self.closed(to + length);
        }
    }

    /// Where the header begins whose end is at `end`: with the last opener from `start` on that makes one.
    fn header_before(&self, start: usize, end: usize) -> Option<usize> {
        let header = self.header().unwrap();
        header.openers.iter().find_map(|opener| {
            let is_here = |at: &usize| self.input[*at..].starts_with(opener.as_bytes());
            let at = (start..end).rev().find(is_here)?;
            header.addressee(std::str::from_utf8(&self.input[at..end]).ok()?).map(|_| at)
        })
    }

    /// The length of the header that begins here, with the end of its line.
    fn line_of_header(&self, at: usize) -> Option<usize> {
        let rest = &self.input[at..];
        let length = rest.iter().position(|byte| *byte == b'\n')?;
        let header = std::str::from_utf8(&rest[..length]).ok()?;
        let opener = self.header().unwrap().openers[0];
        let is_last = header.starts_with(opener) && header.rfind(opener) == Some(0);
        let is_known = match self.header().unwrap().addressee(header)? {
            Addressee::Tool(name) => self.s.tools.may_have(name),
            _ => true,
        };
        (is_last && is_known && length < 256).then_some(length + 1)
    }

    /// Where what is shown begins, of a call that is none: after its header.
    pub(super) fn shown_from(&self, start: usize) -> usize {
        self.shown_from.filter(|(call, _)| *call == start).map_or(start, |(_, from)| from)
    }

    /// The frame of calls in a message, or a call without it.
    fn frame_in_message(&mut self, start: usize) {
        let here = self.at + space(&self.input[self.at..]).min(256);
        let frame = begins(&self.input[here..], &frames(self.s)).map(|mark| (mark, Opener::Frame));
        let call = begins(&self.input[here..], &markers(self.s)).map(|mark| (mark, Opener::Marker));
        match frame.or(call) {
            None => self.refuse_marker(start, here),
            Some((mark, kind)) => {
                self.at = here + mark.len();
                match kind {
                    Opener::Frame => self.frame_at(start),
                    _ => self.begin(start, true),
                }
            }
        }
    }

    /// Whether a mark opens a header.
    pub(super) fn is_header(&self, mark: &[u8]) -> bool {
        self.header().is_some_and(|header| openers(header).contains(&mark))
    }
}
