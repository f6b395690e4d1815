//! Arguments in tags, read from the whole input.

use super::{Opener, Reference, begins, closers, frames, markers, space};
use crate::call_format::{Body, Tags};
use crate::parser::fuzz::Event;
use crate::parser::types;
use crate::parser::{Arguments, ErrorCode, segment};

/// Where arguments end.
enum End {
    /// Before this mark, which begins here.
    Mark(usize, Vec<u8>),
    /// With the input. `true`: nothing is left unfinished.
    Input(bool),
}

#[derive(Default)]
struct Made {
    arguments: Vec<(String, Option<String>)>,
    fault: Option<ErrorCode>,
}

impl Made {
    fn blame(&mut self, code: ErrorCode) {
        self.fault.get_or_insert(code);
    }
}

impl Reference<'_> {
    fn tags(&self) -> &'static Tags {
        match &self.s.format.row().body {
            Body::Tagged(tags) => tags,
            other => panic!("no tags: {other:?}"),
        }
    }

    /// What may come between arguments.
    fn tag_marks(&self) -> Vec<Vec<u8>> {
        let others = closers(self.s).into_iter().chain(markers(self.s)).chain(frames(self.s));
        let key = self.tags().key[0].as_bytes();
        [key].into_iter().chain(others).map(<[u8]>::to_vec).collect()
    }

    /// Reads on after a label.
    pub(super) fn tagged_at(&mut self, start: usize) {
        let marks = self.tag_marks();
        let marks: Vec<&[u8]> = marks.iter().map(Vec::as_slice).collect();
        let here = self.at + space(&self.input[self.at..]).min(256);
        let opens = [markers(self.s), frames(self.s)].concat();
        match begins(&self.input[here..], &marks) {
            Some(mark) if !opens.contains(&mark) => {}
            _ => return self.refuse_marker(start, here),
        }
        let at_line_start = self.fresh_line;
        let index = self.start_call(start);
        let limit = self.input.len().min(here + self.s.max_payload_bytes);
        let window = &self.input[here..limit];
        let mut made = Made::default();
        let end = self.arguments(window, &marks, &mut made);
        let refuse = |code, raw: &[u8]| Event::Error {
            code,
            offset: start as u64,
            index: Some(index),
            raw: segment::quote(raw),
            at_line_start,
        };
        self.fresh_line = true;
        match end {
            End::Input(_) if limit < self.input.len() => {
                self.events.push(refuse(ErrorCode::PayloadTooLarge, window));
                self.skip(limit, &marks);
            }
            End::Input(is_whole) => {
                if !is_whole {
                    made.fault = Some(ErrorCode::IncompletePayload);
                }
                let event = self.outcome(made, index);
                self.events.push(event.unwrap_or_else(|code| refuse(code, window)));
                self.at = self.input.len();
            }
            End::Mark(at, mark) => {
                let event = self.outcome(made, index);
                self.events.push(event.unwrap_or_else(|code| refuse(code, &window[..at])));
                self.leave(here + at, &mark);
            }
        }
    }

    fn outcome(&self, made: Made, index: u32) -> Result<Event, ErrorCode> {
        if let Some(code) = made.fault {
            return Err(code);
        }
        let pairs = made.arguments.into_iter().filter_map(|(key, value)| {
            Some(format!("{}:{}", serde_json::Value::from(key), value?))
        });
        let arguments = format!("{{{}}}", pairs.collect::<Vec<_>>().join(","));
        Arguments::parse(&arguments).map_err(|_| ErrorCode::InvalidCall)?;
        Ok(Event::Completed { index, name: self.name.clone(), arguments, repaired: Vec::new() })
    }

    /// Reads arguments up to where they end.
    fn arguments(&self, bytes: &[u8], marks: &[&[u8]], made: &mut Made) -> End {
        let tags = self.tags();
        let find = |text: &str, from: usize| {
            (from..bytes.len()).find(|at| bytes[*at..].starts_with(text.as_bytes()))
        };
        let is_half = |at: usize| marks.iter().any(|mark| mark.starts_with(&bytes[at..]));
        let mut at = 0;
        loop {
            let next = (at..bytes.len()).find(|at| begins(&bytes[*at..], marks).is_some());
            let between = &bytes[at..next.unwrap_or(bytes.len())];
            let Some(next) = next else {
                let half = (at..bytes.len()).find(|at| is_half(*at));
                if !bytes[at..half.unwrap_or(bytes.len())].trim_ascii().is_empty() {
                    made.blame(ErrorCode::InvalidCall);
                }
                return End::Input(half.is_none());
            };
            if !between.trim_ascii().is_empty() {
                made.blame(ErrorCode::InvalidCall);
            }
            let mark = begins(&bytes[next..], marks).unwrap();
            if mark != tags.key[0].as_bytes() {
                return End::Mark(next, mark.to_vec());
            }
            let key = next + mark.len();
            let Some(key_end) = find(tags.key[1], key) else { return End::Input(false) };
            at = key_end + tags.key[1].len();
            let mut hint = "";
            if let Some(close) = tags.hint {
                let Some(end) = find(close, at) else { return End::Input(false) };
                hint = std::str::from_utf8(&bytes[at..end]).unwrap_or("\0");
                at = end + close.len();
            }
            let open = tags.value[0].as_bytes();
            let blank = if open.is_empty() { 0 } else { space(&bytes[at..]) };
            let rest = &bytes[at + blank..];
            if blank <= 256 && rest.len() < open.len() && open.starts_with(rest) {
                return End::Input(false);
            }
            if blank > 256 || !rest.starts_with(open) {
                made.blame(ErrorCode::InvalidCall);
                continue;
            }
            let value = at + blank + open.len();
            let mut from = value;
            let end = loop {
                let Some(close) = find(tags.value[1], from) else { return End::Input(false) };
                let behind = close + tags.value[1].len();
                let next = behind + space(&bytes[behind..]);
                if next - behind <= 256 {
                    if begins(&bytes[next..], marks).is_some() {
                        break close;
                    }
                    if is_half(next) {
                        if next == bytes.len() {
                            self.add(made, &bytes[key..key_end], hint, &bytes[value..close]);
                        }
                        return End::Input(next == bytes.len());
                    }
                }
                from = behind;
            };
            self.add(made, &bytes[key..key_end], hint, &bytes[value..end]);
            at = end + tags.value[1].len();
        }
    }

    fn add(&self, made: &mut Made, key: &[u8], hint: &str, value: &[u8]) {
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let (Some(key), Some(value)) = (text(key), text(value).filter(|_| hint != "\0")) else {
            return made.blame(ErrorCode::InvalidJson);
        };
        let key = key.trim();
        if made.arguments.iter().any(|(known, _)| known == key) {
            return made.blame(ErrorCode::InvalidCall);
        }
        let lines = if self.tags().is_trimmed { ["\r\n", "\n"].as_slice() } else { &[] };
        let value = lines.iter().find_map(|it| value.strip_prefix(it)).unwrap_or(value);
        let value = lines.iter().find_map(|it| value.strip_suffix(it)).unwrap_or(value);
        let kinds = match self.tags().hint {
            Some(_) => Some(types::of_hint(hint.trim())),
            None => self.s.types.kinds(&self.name, key),
        };
        made.arguments.push((key.to_owned(), types::read(value, kinds).map(Into::into)));
    }

    /// Skips to the next mark that ends a call.
    fn skip(&mut self, mut at: usize, marks: &[&[u8]]) {
        while at < self.input.len() {
            match begins(&self.input[at..], marks) {
                None => at += 1,
                Some(mark) if mark == self.tags().key[0].as_bytes() => at += mark.len(),
                Some(mark) => return self.leave(at, mark),
            }
        }
        self.at = at;
    }

    /// Leaves a call through a mark.
    fn leave(&mut self, at: usize, mark: &[u8]) {
        let opener = [
            (Opener::Marker, markers(self.s).contains(&mark)),
            (Opener::Frame, frames(self.s).contains(&mark)),
        ];
        let Some((kind, _)) = opener.into_iter().find(|(_, is_it)| *is_it) else {
            return self.closed(at + mark.len());
        };
        self.fresh_line = false;
        self.at = at + mark.len();
        match kind {
            Opener::Frame => self.frame_at(at),
            _ => self.marker_at(at),
        }
    }
}
