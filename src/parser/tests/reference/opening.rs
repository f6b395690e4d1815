//! How a call begins: frames and labels.

use super::{Reference, begins, markers, space};
use crate::call_format::{Label, LabelId};
use crate::parser::fuzz::Event;
use crate::parser::{ErrorCode, segment};

impl Reference<'_> {
    /// Reads on after the opener of a frame that begins at `start`.
    pub(super) fn frame_at(&mut self, start: usize) {
        let end = self.at + space(&self.input[self.at..]).min(256);
        if let Some(marker) = begins(&self.input[end..], &markers(self.s)) {
            self.at = end + marker.len();
            return self.marker_at(start);
        }
        self.refuse_marker(start, end);
    }

    /// What looked like the beginning of a call is text up to `end`.
    pub(super) fn refuse_marker(&mut self, start: usize, end: usize) {
        self.events.push(Event::Error {
            code: ErrorCode::MissingPayload,
            offset: start as u64,
            index: None,
            raw: segment::quote(&self.input[start..end]),
            at_line_start: self.fresh_line,
        });
        self.at = start;
        self.text(end);
    }

    /// Reads a label, and returns the name in it. If there is none: where it stops being one.
    pub(super) fn label(&mut self, label: &Label) -> Result<String, usize> {
        let start = self.at;
        let id = match label.id {
            Some(LabelId::After(mark, _)) => mark,
            _ => "",
        };
        let mut at = start;
        loop {
            let rest = &self.input[at..];
            if !label.end.is_empty()
                && rest.starts_with(label.end.as_bytes())
                && at + label.end.len() - start <= 256
            {
                let text = std::str::from_utf8(&self.input[start..at]).unwrap_or_default();
                self.at = at + label.end.len();
                return label.name(text).map(str::to_owned).ok_or(self.at);
            }
            let is_stop = |stop: &&&str| rest.starts_with(stop.as_bytes());
            let stop = label.stops.iter().find(is_stop);
            if let Some(stop) = stop.filter(|stop| at + stop.len() - start <= 256) {
                let text = std::str::from_utf8(&self.input[start..at]).unwrap_or_default();
                self.at = at;
                return label.name(text).map(str::to_owned).ok_or(at + stop.len());
            }
            let is_id = !id.is_empty() && rest.starts_with(id.as_bytes());
            let Some(&byte) = rest.first().filter(|_| at - start < 256) else { return Err(at) };
            let before = &self.input[start..at];
            let is_over =
                !before.trim_ascii().is_empty() && before.trim_ascii_end().len() < before.len();
            let begins_with = |mark: &&str| mark.as_bytes().first() == Some(&byte);
            let is_mark = [label.end, id].iter().chain(label.stops).any(begins_with);
            let is_word = byte > b' ' && byte != 127 && !b"<>[]{}()\"'`,;".contains(&byte);
            match byte {
                _ if is_id && at + id.len() - start <= 256 => at += id.len(),
                _ if is_mark => return Err(at),
                b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                _ if is_word && !is_over => at += 1,
                _ => return Err(at),
            }
        }
    }
}
