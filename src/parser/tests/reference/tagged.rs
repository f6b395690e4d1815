//! Arguments in tags, read from the whole input.

use super::{Opener, Reference, begins, closers, framed_end, frames, openers, space};
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
    /// The same, in a value or right after one, with so many calls and frames open that it shows.
    InValue(bool, usize),
    /// With the input, inside of what a value is wrapped in.
    Wrapped,
    /// With the input, in a value in which the call may have ended, with so many open.
    Value(Over, usize),
    /// Here, after a closing tag.
    Tag(usize),
}

/// Where a call is over whose value has no closing tag.
enum Over {
    /// With this mark, which begins here.
    Mark(usize, Vec<u8>),
    /// With a closing tag that ends here.
    Tag(usize),
}

impl Over {
    fn shifted(self, by: usize) -> Self {
        match self {
            Self::Mark(at, mark) => Self::Mark(at + by, mark),
            Self::Tag(at) => Self::Tag(at + by),
        }
    }

    fn end(self) -> End {
        match self {
            Self::Mark(at, mark) => End::Mark(at, mark),
            Self::Tag(at) => End::Tag(at),
        }
    }
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
        let openers = openers(self.s).into_iter().map(|(text, _)| text);
        let others = closers(self.s).into_iter().chain(framed_end(self.s)).chain(openers);
        let Tags { key, value, .. } = self.tags();
        [key[0].as_bytes(), value[1].as_bytes()]
            .into_iter()
            .chain(others)
            .map(<[u8]>::to_vec)
            .collect()
    }

    /// Reads on after a label.
    pub(super) fn tagged_at(&mut self, start: usize) {
        let marks = self.tag_marks();
        let marks: Vec<&[u8]> = marks.iter().map(Vec::as_slice).collect();
        let here = self.at + space(&self.input[self.at..]).min(256);
        let opens: Vec<_> = openers(self.s).into_iter().map(|(text, _)| text).collect();
        match begins(&self.input[here..], &marks) {
            Some(mark)
                if (closers(self.s).contains(&mark) || self.is_header(mark)) && self.is_talk() =>
            {
                return self.refuse_marker(start, here);
            }
            Some(mark) if mark == self.tags().value[1].as_bytes() => {
                return self.refuse_marker(start, here);
            }
            Some(mark) if !opens.contains(&mark) || self.is_header(mark) => {}
            None if here == self.input.len() && self.is_message(start) => {}
            _ => return self.refuse_marker(start, here),
        }
        let at_line_start = self.fresh_line();
        let index = self.start_call(start);
        let limit = self.input.len().min(here + self.s.max_payload_bytes);
        let window = &self.input[here..limit];
        let mut made = Made::default();
        let end = match self.arguments(window, &marks, &mut made) {
            End::Value(over, _) if limit == self.input.len() => over.end(),
            end => end,
        };
        let refuse = |code, raw: &[u8]| Event::Error {
            code,
            offset: start as u64,
            index: Some(index),
            raw: segment::quote(raw),
            at_line_start,
        };
        self.last = b'\n';
        match end {
            End::Input(_) | End::InValue(..) | End::Wrapped | End::Value(..)
                if limit < self.input.len() =>
            {
                self.events.push(refuse(ErrorCode::PayloadTooLarge, window));
                let shown = match end {
                    End::InValue(_, shown) | End::Value(_, shown) => Some(shown),
                    End::Wrapped => Some(0),
                    _ => None,
                };
                // A mark may begin before the limit and end after it.
                let is_cut = |at: &usize| {
                    begins(&self.input[*at..], &marks).is_some_and(|mark| at + mark.len() > limit)
                };
                let cut = (here..limit).find(is_cut).filter(|_| !matches!(end, End::Wrapped));
                self.skip(cut.unwrap_or(limit), &marks, shown);
            }
            End::Input(_) | End::InValue(..) | End::Wrapped => {
                if !matches!(end, End::Input(true) | End::InValue(true, _)) {
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
            End::Tag(at) => {
                let event = self.outcome(made, index);
                self.events.push(event.unwrap_or_else(|code| refuse(code, &window[..at])));
                self.at = here + at;
            }
            End::Value(..) => unreachable!("it is one of the others by now"),
        }
    }

    /// Whether the call that begins at `start` is a message, so that its end needs no mark.
    fn is_message(&self, start: usize) -> bool {
        self.shown_from(start) != start && frames(self.s).is_empty()
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
            if mark == tags.value[1].as_bytes() {
                made.blame(ErrorCode::InvalidCall);
                at = next + mark.len();
                continue;
            }
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
                ValueEnd::Last(length, shown) => {
                    self.add(made, key, hint, &bytes[value..value + length]);
                    return End::InValue(true, shown);
                }
                ValueEnd::Over(over) => {
                    made.blame(ErrorCode::UnbalancedPayload);
                    return over.shifted(value).end();
                }
                ValueEnd::Wrapped => return End::Wrapped,
                ValueEnd::Input(Some(over), shown) => {
                    made.blame(ErrorCode::UnbalancedPayload);
                    return End::Value(over.shifted(value), shown);
                }
                ValueEnd::Input(None, shown) => return End::InValue(false, shown),
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
        if let Some(close) = tags.hint.filter(|hint| hint.open().is_none()).map(Hint::close) {
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
            let kind = tags.hint.filter(|_| hint.is_empty());
            let kind = kind.and_then(|kind| Some((kind.open()?, kind.close())));
            let marks = [Some(open), kind.map(|(open, _)| open.as_bytes())];
            let mut marks = marks.into_iter().flatten();
            if blank <= 256 && marks.any(|mark| rest.len() < mark.len() && mark.starts_with(rest)) {
                return Tag::Input;
            }
            if blank <= 256 && rest.starts_with(open) {
                return Tag::Value { key, hint, at: at + blank + open.len() };
            }
            let Some((kind, close)) = kind.filter(|(kind, _)| rest.starts_with(kind.as_bytes()))
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
        let tags = self.tags();
        let (key, tag, ends) = (tags.key[0].as_bytes(), tags.value[1].as_bytes(), closers(self.s));
        let marks = self.tag_marks();
        let marks: Vec<&[u8]> = marks.iter().map(Vec::as_slice).collect();
        let mut at = 0;
        if let Some([open, close]) = tags.wrap {
            let blank = bytes.len() - bytes.trim_ascii_start().len();
            let rest = &bytes[blank..];
            if rest.len() < open.len() && open.as_bytes().starts_with(rest) {
                return ValueEnd::Input(None, 0);
            }
            if rest.starts_with(open.as_bytes()) {
                let from = blank + open.len();
                let found =
                    (from..bytes.len()).find(|at| bytes[*at..].starts_with(close.as_bytes()));
                let Some(found) = found else { return ValueEnd::Wrapped };
                at = found + close.len();
            }
        }
        // Marks that begin and end calls, and what is open of the calls in the value.
        let mut found: Vec<(usize, &[u8], bool)> = Vec::new();
        let (mut calls, mut framed, mut arguments) = (0_usize, 0_usize, 0_usize);
        let mut last_tag = None;
        while at < bytes.len() {
            let Some(mark) = begins(&bytes[at..], &marks) else {
                at += 1;
                continue;
            };
            if self.is_header(mark) {
                let mut closers = ends.iter().copied().chain(framed_end(self.s));
                if let Some(closer) = closers.find(|closer| bytes[..at].ends_with(closer)) {
                    return ValueEnd::Over(Over::Mark(at - closer.len(), closer.to_vec()));
                }
                at += mark.len();
                continue;
            }
            if Some(mark) == framed_end(self.s) {
                at += mark.len();
                continue;
            }
            let (start, open) =
                (at, if frames(self.s).contains(&mark) { &mut framed } else { &mut calls });
            at += mark.len();
            let first = || found.iter().find(|(.., is_end)| *is_end);
            let over = || match first() {
                Some((at, mark, _)) => Some(Over::Mark(*at, mark.to_vec())),
                None => last_tag.map(Over::Tag),
            };
            if mark == tag && arguments > 0 {
                arguments -= 1;
            } else if mark == tag {
                match self.behind(&bytes[at..]) {
                    Behind::Mark => return ValueEnd::Tag(start),
                    Behind::Input(true) => return ValueEnd::Last(start, calls + framed),
                    Behind::Input(false) => return ValueEnd::Input(over(), calls + framed),
                    Behind::Other => last_tag = Some(at),
                }
            } else if mark == key {
                if *open > 0
                    && let Some(over) = over()
                {
                    return ValueEnd::Over(over);
                }
                arguments += usize::from(calls > 0);
            } else if ends.contains(&mark) {
                let is_frame = self.is_frame(mark);
                let open = if is_frame { &mut framed } else { &mut calls };
                let is_end = *open == 0;
                *open = open.saturating_sub(1);
                if !is_end && calls == 0 {
                    arguments = 0;
                }
                found.push((start, mark, is_end));
            } else {
                *open += 1;
                // The ends right before this opener.
                let mut next = start;
                let mut run = None;
                for (at, end, is_end) in found.iter().rev() {
                    let between = &bytes[at + end.len()..next];
                    if !is_end || between.len() > 256 || !between.trim_ascii().is_empty() {
                        break;
                    }
                    (run, next) = (Some(Over::Mark(*at, end.to_vec())), *at);
                }
                if let Some(over) = run {
                    return ValueEnd::Over(over);
                }
                found.push((start, mark, false));
            }
        }
        let first = found.iter().find(|(.., is_end)| *is_end);
        let over = match first {
            Some((at, mark, _)) => Some(Over::Mark(*at, mark.to_vec())),
            None => last_tag.map(Over::Tag),
        };
        ValueEnd::Input(over, calls + framed)
    }

    fn is_frame(&self, mark: &[u8]) -> bool {
        let frame = self.s.format.row().frame.as_ref();
        frame.is_some_and(|frame| {
            frame.open.iter().chain(frame.close).any(|text| text.as_bytes() == mark)
        })
    }

    /// What follows a closing tag.
    fn behind(&self, bytes: &[u8]) -> Behind {
        let (space, marks) = (space(bytes), self.tag_marks());
        let rest = &bytes[space..];
        if space > 256 {
            return Behind::Other;
        }
        match marks.iter().find(|mark| rest.starts_with(mark)) {
            Some(mark) if mark == self.tags().value[1].as_bytes() => return Behind::Other,
            Some(_) => return Behind::Mark,
            None => {}
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
        if inner.is_none() && self.swallowed(made, key, value) {
            return made.blame(ErrorCode::UnbalancedPayload);
        }
        let value = inner.unwrap_or(value);
        let kinds = match hint.trim() {
            "" => self.s.tools.kinds(&self.name, key),
            hint => Some(types::of_hint(hint)),
        };
        made.arguments.push((key.to_owned(), types::read(value, kinds).map(Into::into)));
    }

    /// Whether a value goes on with the next argument of the tool.
    fn swallowed(&self, made: &Made, key: &str, value: &str) -> bool {
        let [open, close] = self.tags().key;
        let Some(at) = value.find(open) else { return false };
        let Some(length) = value[at + open.len()..].find(close) else { return false };
        let name = &value[at + open.len()..][..length];
        let is_new = name != key && made.arguments.iter().all(|(known, _)| known != name);
        let is_shown = self.s.format.openers().any(|opener| value[..at].contains(opener));
        is_new && !is_shown && self.s.tools.takes(&self.name, name)
    }

    /// Skips to the next mark that ends a call.
    fn skip(&mut self, mut at: usize, marks: &[&[u8]], open: Option<usize>) {
        let (is_value, mut shown) = (open.is_some(), open.unwrap_or_default());
        let openers = openers(self.s);
        let begins_call =
            |mark: &[u8]| !self.is_header(mark) && openers.iter().any(|(text, _)| *text == mark);
        let ends_message = |mark: &[u8]| framed_end(self.s).is_some_and(|end| end == mark);
        while at < self.input.len() {
            match begins(&self.input[at..], marks) {
                None => at += 1,
                Some(mark)
                    if [self.tags().key[0], self.tags().value[1]]
                        .map(str::as_bytes)
                        .contains(&mark) =>
                {
                    at += mark.len();
                }
                Some(mark) if is_value && begins_call(mark) => {
                    (shown, at) = (shown + 1, at + mark.len());
                }
                Some(mark) if shown > 0 && !self.is_header(mark) && !ends_message(mark) => {
                    (shown, at) = (shown - 1, at + mark.len());
                }
                Some(mark) => return self.leave(at, mark),
            }
        }
        self.at = at;
    }

    /// Leaves a call through a mark.
    fn leave(&mut self, at: usize, mark: &[u8]) {
        let opener = openers(self.s).into_iter().find(|(text, _)| *text == mark);
        let Some((_, kind)) = opener else {
            return self.closed(at + mark.len());
        };
        self.last = b' ';
        self.at = at + mark.len();
        match kind {
            Opener::Header => self.header_at(at, false),
            Opener::Frame => self.frame_at(at),
            _ => self.marker_at(at),
        }
    }
}

enum ValueEnd {
    /// Before its closing tag, after this many bytes.
    Tag(usize),
    /// The same, and nothing follows the tag; with so many calls and frames open in the value.
    Last(usize, usize),
    /// The call is over: the tag was forgotten.
    Over(Over),
    /// With the input, inside of what it is wrapped in.
    Wrapped,
    /// With the input, and where the call may have been over; with so many open.
    Input(Option<Over>, usize),
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
