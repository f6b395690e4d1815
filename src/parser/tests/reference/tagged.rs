//! Arguments in tags, read from the whole input.

use super::{Opener, Reference, begins, closers, frames, markers, space};
use crate::call_format::{Body, Hint, Tags};
use crate::parser::fuzz::Event;
use crate::parser::types;
use crate::parser::{Arguments, ErrorCode, segment};

/// Where arguments end.
enum End {
    /// Before this mark, which begins here.
    Mark(usize, Vec<u8>),
    /// With the input. `true`: nothing is left unfinished.
    Input(bool),
    /// With the input, in a value in which this mark may have ended the call.
    Value(usize, Vec<u8>),
}

/// What the tag of an argument says.
enum Tag<'b> {
    /// Its key, what it says of the type, and where the value begins.
    Value { key: &'b [u8], hint: &'b str, at: usize },
    /// The input ends in it.
    Input,
    /// It cannot go on here.
    Broken(usize),
}

/// What follows a closing tag.
#[derive(Clone, Copy, PartialEq)]
enum Behind {
    Mark,
    /// The input ends. `true`: with white space.
    Input(bool),
    Other,
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
            Some(mark) if closers(self.s).contains(&mark) && self.is_talk() => {
                return self.refuse_marker(start, here);
            }
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
            End::Input(_) | End::Value(..) if limit < self.input.len() => {
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
            End::Mark(at, mark) | End::Value(at, mark) => {
                let event = self.outcome(made, index);
                self.events.push(event.unwrap_or_else(|code| refuse(code, &window[..at])));
                self.leave(here + at, &mark);
            }
        }
    }

    /// Whether a name alone is none of a tool.
    fn is_talk(&self) -> bool {
        !self.is_framed && !self.s.tools.may_have(&self.name)
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
            let (key, hint, value) = match self.tag(bytes, next + mark.len()) {
                Tag::Value { key, hint, at } => (key, hint, at),
                Tag::Input => return End::Input(false),
                Tag::Broken(end) => {
                    made.blame(ErrorCode::InvalidCall);
                    at = end;
                    continue;
                }
            };
            let end = match self.value_end(&bytes[value..]) {
                ValueEnd::Tag(length) => value + length,
                ValueEnd::Last(length) => {
                    self.add(made, key, hint, &bytes[value..value + length]);
                    return End::Input(true);
                }
                ValueEnd::Call(at, mark) => {
                    made.blame(ErrorCode::UnbalancedPayload);
                    return End::Mark(value + at, mark);
                }
                ValueEnd::Input(Some((at, mark))) => {
                    made.blame(ErrorCode::UnbalancedPayload);
                    return End::Value(value + at, mark);
                }
                ValueEnd::Input(None) => return End::Input(false),
            };
            self.add(made, key, hint, &bytes[value..end]);
            at = end + tags.value[1].len();
        }
    }

    /// Reads the tag of an argument, from its key on, up to its value.
    fn tag<'b>(&self, bytes: &'b [u8], start: usize) -> Tag<'b> {
        let tags = self.tags();
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or("\0");
        let mut at = start;
        let next = |at: &mut usize, close: &str| {
            let from = *at;
            match word(bytes, from, close) {
                Word::Ends(end) => {
                    *at = end + close.len();
                    Ok(&bytes[from..end])
                }
                Word::Input => Err(Tag::Input),
                Word::Broken(end) => Err(Tag::Broken(end)),
            }
        };
        let key = match next(&mut at, tags.key[1]) {
            Ok(key) => key,
            Err(tag) => return tag,
        };
        let mut hint = "";
        if let Some(close) = tags.hint.map(Hint::close) {
            match next(&mut at, close) {
                Ok(word) => hint = text(word),
                Err(tag) => return tag,
            }
        }
        let open = tags.value[0].as_bytes();
        if open.is_empty() {
            return Tag::Value { key, hint, at };
        }
        // The type, if it comes, and then the value.
        loop {
            let blank = space(&bytes[at..]);
            let rest = &bytes[at + blank..];
            let kind = tags.kind.filter(|_| hint.is_empty());
            let marks = [Some(open), kind.map(|[open, _]| open.as_bytes())];
            let mut marks = marks.into_iter().flatten();
            if blank <= 256 && marks.any(|mark| rest.len() < mark.len() && mark.starts_with(rest)) {
                return Tag::Input;
            }
            if blank <= 256 && rest.starts_with(open) {
                return Tag::Value { key, hint, at: at + blank + open.len() };
            }
            let Some([kind, close]) = kind.filter(|[kind, _]| rest.starts_with(kind.as_bytes()))
            else {
                return Tag::Broken(at);
            };
            if blank > 256 {
                return Tag::Broken(at);
            }
            at += blank + kind.len();
            match next(&mut at, close) {
                Ok(word) => hint = text(word),
                Err(tag) => return tag,
            }
        }
    }

    /// Where a value ends that begins with these bytes.
    fn value_end(&self, bytes: &[u8]) -> ValueEnd {
        let (tag, ends) = (self.tags().value[1].as_bytes(), closers(self.s));
        let others = [ends.clone(), markers(self.s), frames(self.s)].concat();
        let frame = |mark: &[u8]| {
            let row = self.s.format.row().frame.as_ref();
            row.is_some_and(|it| it.open.iter().chain(it.close).any(|text| text.as_bytes() == mark))
        };
        let mut found: Vec<(usize, &[u8])> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if rest.starts_with(tag) {
                match self.behind(&bytes[at + tag.len()..]) {
                    Behind::Mark => return ValueEnd::Tag(at),
                    Behind::Input(true) => return ValueEnd::Last(at),
                    Behind::Input(false) => break,
                    Behind::Other => at += tag.len(),
                }
                continue;
            }
            let Some(mark) = begins(rest, &others) else {
                at += 1;
                continue;
            };
            found.push((at, mark));
            at += mark.len();
            if ends.contains(&mark) {
                continue;
            }
            // The ends right before this opener.
            let is_next = |a: &(usize, &[u8]), b: &(usize, &[u8])| {
                let between = &bytes[a.0 + a.1.len()..b.0];
                between.len() <= 256 && between.trim_ascii().is_empty()
            };
            let mut first = found.len() - 1;
            while first > 0
                && is_next(&found[first - 1], &found[first])
                && ends.contains(&found[first - 1].1)
                && is_unmatched(&found[..first], &ends, frame)
            {
                first -= 1;
            }
            if first < found.len() - 1 {
                return ValueEnd::Call(found[first].0, found[first].1.to_vec());
            }
        }
        let first = (1..=found.len()).find(|length| {
            ends.contains(&found[length - 1].1) && is_unmatched(&found[..*length], &ends, frame)
        });
        ValueEnd::Input(first.map(|length| (found[length - 1].0, found[length - 1].1.to_vec())))
    }

    /// What follows a closing tag.
    fn behind(&self, bytes: &[u8]) -> Behind {
        let (space, marks) = (space(bytes), self.tag_marks());
        let rest = &bytes[space..];
        if space > 256 {
            return Behind::Other;
        }
        if marks.iter().any(|mark| rest.starts_with(mark)) {
            return Behind::Mark;
        }
        if marks.iter().any(|mark| mark.starts_with(rest)) {
            return Behind::Input(rest.is_empty());
        }
        Behind::Other
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
        let inner = self
            .tags()
            .wrap
            .and_then(|[open, close]| value.trim().strip_prefix(open)?.strip_suffix(close));
        let value = inner.unwrap_or(value);
        let kinds = match self.tags().hint {
            Some(_) => Some(types::of_hint(hint.trim())),
            None if !hint.trim().is_empty() => Some(types::of_hint(hint.trim())),
            None => self.s.tools.kinds(&self.name, key),
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

enum ValueEnd {
    /// Before its closing tag, after this many bytes.
    Tag(usize),
    /// The same, and nothing follows the tag.
    Last(usize),
    /// The call ends with this mark, which begins here: the tag was forgotten.
    Call(usize, Vec<u8>),
    /// With the input. The first mark that may have ended the call.
    Input(Option<(usize, Vec<u8>)>),
}

/// Whether the last of these marks, which ends a call or a frame, ends none that began among them.
fn is_unmatched(
    marks: &[(usize, &[u8])],
    ends: &[&[u8]],
    is_frame: impl Fn(&[u8]) -> bool,
) -> bool {
    let Some(((_, last), before)) = marks.split_last() else { return false };
    let before = before.iter().filter(|(_, mark)| is_frame(mark) == is_frame(last));
    let step = |open: usize, (_, mark): &(usize, &[u8])| {
        if ends.contains(mark) { open.saturating_sub(1) } else { open + 1 }
    };
    before.fold(0, step) == 0
}

enum Word {
    /// Before what closes it.
    Ends(usize),
    /// With the input.
    Input,
    /// Here, where it cannot go on.
    Broken(usize),
}

/// Where a word of a tag ends.
fn word(bytes: &[u8], start: usize, close: &str) -> Word {
    for at in start..bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(close.as_bytes()) {
            return Word::Ends(at);
        }
        if close.as_bytes().starts_with(rest) {
            return Word::Input;
        }
        if rest[0] == b'<' || rest[0] == b'\n' || at - start >= 256 {
            return Word::Broken(at);
        }
    }
    Word::Input
}
