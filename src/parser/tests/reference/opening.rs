//! How a call begins: frames and labels.

use super::{Reference, begins, closers, markers, space};
use crate::call_format::{Bare, Body, Elements, Fence, Label, LabelId};
use crate::parser::fuzz::Event;
use crate::parser::{ErrorCode, segment};

impl Reference<'_> {
    /// Looks for a call without an opener, if nothing has been said yet.
    pub(super) fn start(&mut self) {
        let row = self.s.format.row();
        let has_begun = self.calls > 0
            || self.events.iter().any(
                |it| matches!(it, Event::Text(text) if !text.as_bytes().trim_ascii().is_empty()),
            );
        if row.bare.is_some() && self.s.calls && !has_begun {
            self.start_again();
        }
    }

    /// Looks for a call without an opener, at the start of an answer or after a call.
    pub(super) fn start_again(&mut self) {
        let Some(bare) = self.s.format.row().bare.as_ref() else { return };
        let window = &self.input[self.at..self.input.len().min(self.at + 512)];
        let Some((before, payload, fence)) = self.bare(window, bare) else { return };
        let before = if self.calls > 0 { 0 } else { before };
        let (start, payload) = (self.at + before, self.at + payload);
        self.text(start);
        self.end_run();
        let at_line_start = self.fresh_line();
        self.payload_at(start, at_line_start, payload, fence, Vec::new());
    }

    /// Where a call without an opener begins in these bytes, where its payload begins, and whether a
    /// fence came first.
    fn bare(&self, bytes: &[u8], bare: &Bare) -> Option<(usize, usize, bool)> {
        let row = self.s.format.row();
        let skip = |at: usize| Some(at + space(&bytes[at..])).filter(|next| next - at <= 256);
        let eat = |at: usize, text: &[u8]| bytes[at..].starts_with(text).then(|| at + text.len());
        let text = |at: usize| {
            let start = eat(at, b"\"")?;
            let length = bytes[start..].iter().position(|byte| b"\"\\\n".contains(byte))?;
            (length <= 256).then_some(())?;
            Some((&bytes[start..start + length], eat(start + length, b"\"")?))
        };
        let mut before = skip(0)?;
        while self.calls > 0 && bytes.get(before).is_some_and(|byte| b",;".contains(byte)) {
            before = skip(before + 1)?;
        }
        let mut at = eat(before, bare.word.as_bytes())?;
        let fence = row.fence != Fence::None && bytes[at..].starts_with(b"```");
        if fence {
            at += 3;
            at += bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        }
        let payload = skip(at)?;
        let mut at = skip(eat(payload, &[bare.bracket])?)?;
        let name = match row.keys().filter(|_| !matches!(row.body, Body::Pythonic(_))) {
            None => {
                let word = |at: usize| {
                    let is_part =
                        |byte: &&u8| byte.is_ascii_alphanumeric() || b"_.-".contains(*byte);
                    let length = bytes[at..].iter().take_while(is_part).count();
                    (length <= 256).then_some(&bytes[at..at + length])
                };
                let name = word(at)?;
                let inside = skip(eat(at + name.len(), b"(")?)?;
                if bytes.get(inside) != Some(&b')') {
                    eat(skip(inside + word(inside)?.len())?, b"=")?;
                }
                name
            }
            Some(keys) => {
                if bare.bracket == b'[' {
                    at = skip(eat(at, b"{")?)?;
                }
                let value = |at: usize| {
                    let (key, at) = text(at)?;
                    let (value, at) = text(skip(eat(skip(at)?, b":")?)?)?;
                    Some((key, value, at))
                };
                let is_name = |key: &[u8]| keys.name.iter().any(|name| name.as_bytes() == key);
                let (name, at) = match value(at)? {
                    (key, name, at) if is_name(key) => (name, at),
                    (b"type", _, at) => match value(skip(eat(skip(at)?, b",")?)?)? {
                        (key, name, at) if is_name(key) => (name, at),
                        _ => return None,
                    },
                    _ => return None,
                };
                let at = skip(at)?;
                if *bytes.get(at)? != b'}' {
                    let (key, _) = text(skip(eat(at, b",")?)?)?;
                    let is_known = keys.arguments.iter().any(|known| known.as_bytes() == key);
                    (is_known || key == b"id" || key == b"type").then_some(())?;
                }
                name
            }
        };
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        self.s.tools.may_have(name).then_some((before, payload, fence))
    }

    /// Reads on after the opener of a frame that begins at `start`.
    pub(super) fn frame_at(&mut self, start: usize) {
        let end = self.at + space(&self.input[self.at..]).min(256);
        if let Some(marker) = begins(&self.input[end..], &markers(self.s)) {
            self.at = end + marker.len();
            return self.begin(start, true);
        }
        self.refuse_marker(start, end);
    }

    /// Reads on after a label, where elements follow.
    pub(super) fn elements_at(&mut self, start: usize, elements: &Elements) {
        let here = self.at + space(&self.input[self.at..]).min(256);
        let rest = &self.input[here..];
        let is_closed = begins(rest, &closers(self.s)).is_some();
        let is_meant = self.is_framed || self.s.tools.may_have(&self.name);
        if !(rest.starts_with(elements.open.as_bytes()) || is_closed && is_meant) {
            return self.refuse_marker(start, here);
        }
        self.payload_at(start, self.fresh_line(), here, false, Vec::new());
    }

    /// What looked like the beginning of a call is text up to `end`, unless it is one in another format.
    pub(super) fn refuse_marker(&mut self, start: usize, end: usize) {
        if self.is_trying || self.in_another_format(start) {
            return;
        }
        self.events.push(Event::Error {
            code: ErrorCode::MissingPayload,
            offset: start as u64,
            index: None,
            raw: segment::quote(&self.input[start..end]),
            at_line_start: self.fresh_line(),
        });
        self.at = self.shown_from(start);
        self.text(end);
    }

    /// Reads what begins at `start` as a call in another format, if it is one.
    fn in_another_format(&mut self, start: usize) -> bool {
        let mark = self.formats[0].format.row().first_mark().as_bytes();
        if self.reasoning || !self.input[start..].starts_with(mark) {
            return false;
        }
        let (home, others) = self.formats.split_first().expect("the chosen one");
        for other in others.iter().chain([home]) {
            if std::ptr::eq(other, self.s) || self.s == home && std::ptr::eq(other, home) {
                continue;
            }
            let mut trial = self.clone();
            (trial.s, trial.is_trying) = (other, true);
            trial.at = start + mark.len();
            if trial.has_frames() {
                trial.frame_at(start);
            } else {
                trial.begin(start, false);
            }
            if trial.calls > self.calls {
                trial.is_trying = false;
                *self = trial;
                return true;
            }
        }
        false
    }

    /// Reads a label, and returns the name in it. If there is none: where it stops being one.
    pub(super) fn label(&mut self, label: &Label) -> Result<String, usize> {
        let start = self.at;
        let id = match label.id {
            Some(
                LabelId::After(mark, _) | LabelId::NumberAfter(mark) | LabelId::NumberBefore(mark),
            ) => mark,
            _ => "",
        };
        let mut at = start;
        loop {
            let rest = &self.input[at..];
            let end = label.ends.iter().find(|end| rest.starts_with(end.as_bytes()));
            if let Some(end) = end
                && at + end.len() - start <= 256
                && (!end.trim().is_empty() || !self.input[start..at].trim_ascii().is_empty())
            {
                let text = std::str::from_utf8(&self.input[start..at]).unwrap_or_default();
                self.at = at + end.len();
                return label.name(text).map(str::to_owned).ok_or(self.at);
            }
            let is_stop = |stop: &&&str| rest.starts_with(stop.as_bytes());
            let stop = label.stops.iter().find(is_stop);
            if stop.is_some_and(|stop| at + stop.len() - start <= 256) {
                let text = std::str::from_utf8(&self.input[start..at]).unwrap_or_default();
                let is_part = matches!(self.s.format.row().body, Body::PythonicLines(_));
                self.at = if is_part { start + space(&self.input[start..]) } else { at };
                return label.name(text).map(str::to_owned).ok_or(at);
            }
            let is_id = !id.is_empty() && rest.starts_with(id.as_bytes());
            let Some(&byte) = rest.first().filter(|_| at - start < 256) else { return Err(at) };
            let before = &self.input[start..at];
            let is_over =
                !before.trim_ascii().is_empty() && before.trim_ascii_end().len() < before.len();
            let begins_with = |mark: &&str| mark.as_bytes().first() == Some(&byte);
            let is_mark = [id].iter().chain(label.ends).chain(label.stops).any(begins_with);
            let is_word = byte > b' ' && byte != 127 && !b"<>[]{}()\"'`,;".contains(&byte);
            match byte {
                _ if is_id && at + id.len() - start <= 256 => at += id.len(),
                b' ' | b'\t' | b'\r' | b'\n' if !is_mark || before.trim_ascii().is_empty() => {
                    at += 1;
                }
                _ if is_mark => return Err(at),
                _ if is_word && !is_over => at += 1,
                _ => return Err(at),
            }
        }
    }
}
