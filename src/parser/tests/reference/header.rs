//! Headers of messages.

use super::{Reference, begins, frames, headers, space};
use crate::call_format::Addressee;

impl Reference<'_> {
    /// Looks for a header that the prompt has opened.
    pub(super) fn first_header(&mut self) {
        if self.s.format.row().header.as_ref().is_some_and(|header| header.start.is_some()) {
            self.header_at(0, true);
        }
    }

    /// Reads on after the opener of a header that begins at `start`.
    pub(super) fn header_at(&mut self, start: usize, is_first: bool) {
        let row = self.s.format.row();
        let format = row.header.as_ref().unwrap();
        let begin = if is_first { start } else { self.at };
        let first = if is_first { format.start.unwrap_or_default().as_bytes() } else { b"" };
        let mut end = None;
        let mut at = begin;
        while at < self.input.len() && at - start < 256 {
            let byte = self.input[at];
            if first.get(at - start).is_some_and(|expected| *expected != byte) {
                break;
            }
            if self.input[begin..=at].ends_with(format.end.as_bytes()) {
                end = Some(at + 1);
                break;
            }
            let is_name = byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
            let may_stand =
                if format.recipient.is_empty() { is_name } else { !byte.is_ascii_control() };
            if !may_stand {
                break;
            }
            at += 1;
        }
        let Some(end) = end else {
            if at == self.input.len() && at - start < 256 && row.has_special && !is_first {
                // Nothing is said of it.
                self.at = at;
                return;
            }
            self.at = start;
            return self.text(at);
        };
        let header = std::str::from_utf8(&self.input[start..end - format.end.len()]);
        let addressee = header.map_err(drop).and_then(|header| format.addressee(header).ok_or(()));
        let name = match addressee {
            Ok(Addressee::Tool(name)) => {
                row.label.as_ref().and_then(|label| label.name(name)).unwrap_or(name).to_owned()
            }
            _ => String::new(),
        };
        let is_tool = matches!(addressee, Ok(Addressee::Tool(_)));
        let is_known = row.has_special || self.s.calls && self.s.tools.may_have(&name);
        let Ok(addressee) =
            addressee.and_then(|it| if is_tool && !is_known { Err(()) } else { Ok(it) })
        else {
            self.at = start;
            return self.text(end);
        };
        self.at = end;
        if is_tool && self.s.calls {
            self.reasoning = false;
            self.name = name;
            self.is_framed = row.has_special;
            if row.frame.is_none() {
                return self.body_at(start);
            }
            let here = end + space(&self.input[end..]).min(256);
            let Some(frame) = begins(&self.input[here..], &frames(self.s)) else {
                return self.refuse_marker(start, here);
            };
            self.at = here + frame.len();
            return self.frame_at(start);
        }
        self.reasoning = addressee == Addressee::Model && self.s.reasoning;
        self.fresh_line = true;
    }

    /// Whether a mark opens a header.
    pub(super) fn is_header(&self, mark: &[u8]) -> bool {
        headers(self.s).contains(&mark)
    }
}
