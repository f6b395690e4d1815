//! The parser's behaviour, implemented a second time: on the whole input, searching from the start
//! again and again, with a recursive JSON reader. It is slow and plain, and shares only repairs and
//! quoting with the parser, what a text means as an argument, and how code, elements, keyed objects and
//! headers are read.

mod gap;
mod header;
mod json;
mod opening;
mod scan;
mod tagged;

use crate::call_format::{Body, CallFormat};
use crate::parser::call::{Content, Fault};
use crate::parser::fuzz::Event;
use crate::parser::{ErrorCode, Repair, Settings, Tools, call, literal, nested, repair, segment};
use json::{Element, read};
use scan::{Discarded, End, scan};

/// The events that the parser must produce for an input.
pub(super) fn events(settings: &Settings, input: &[u8]) -> Vec<Event> {
    let row = settings.format.row();
    let mut formats = vec![settings.clone()];
    if settings.tools != Tools::default() {
        let format = |row| Settings { format: CallFormat::of(row), ..settings.clone() };
        formats.extend(row.relatives().map(format));
    }
    let mut reference = Reference {
        s: settings,
        formats: &formats,
        is_trying: false,
        input,
        at: 0,
        reasoning: settings.reasoning && settings.starts_in_reasoning,
        run: Vec::new(),
        last: b'\n',
        calls: 0,
        name: String::new(),
        is_framed: false,
        shown_from: None,
        is_over: false,
        events: Vec::new(),
    };
    if !reference.reasoning {
        reference.first_header();
        reference.start();
    }
    reference.prose();
    reference.events
}

#[expect(clippy::struct_excessive_bools, reason = "each is a thing of its own to remember")]
#[derive(Clone)]
struct Reference<'a> {
    s: &'a Settings,
    /// The settings, first with the chosen format and then with each whose calls begin with the same mark.
    formats: &'a [Settings],
    /// Whether a call is read as another format has it.
    is_trying: bool,
    input: &'a [u8],
    at: usize,
    reasoning: bool,
    /// Text or reasoning that no opener has ended yet.
    run: Vec<u8>,
    /// The last byte of text. LF at the start and after tags and calls.
    last: u8,
    calls: u32,
    /// The name in the last label.
    name: String,
    /// Whether the frame of the last opener was there.
    is_framed: bool,
    /// Where the last call's header begins, and where it ends.
    shown_from: Option<(usize, usize)>,
    /// Whether a message is over, so that a header may come without its opener.
    is_over: bool,
    events: Vec<Event>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Opener {
    Header,
    Marker,
    Frame,
    Open,
    Close,
    Hidden,
}

fn bytes_of(texts: &[&'static str]) -> Vec<&'static [u8]> {
    texts.iter().map(|text| text.as_bytes()).collect()
}

/// What opens a call.
fn markers(s: &Settings) -> Vec<&[u8]> {
    s.format.openers().map(str::as_bytes).collect()
}

/// What opens a frame.
fn frames(s: &Settings) -> Vec<&'static [u8]> {
    s.format.row().frame.as_ref().map(|frame| bytes_of(frame.open)).unwrap_or_default()
}

/// What opens a header.
fn headers(s: &Settings) -> Vec<&'static [u8]> {
    s.format.row().header.as_ref().map(|header| bytes_of(header.openers)).unwrap_or_default()
}

/// What shows in a call that another one begins: its opener, and what that opens.
fn openers(s: &Settings) -> Vec<(&[u8], Opener)> {
    let row = s.format.row();
    let is_own = row.header.is_none() || row.frame.is_some();
    let own = markers(s).into_iter().map(|text| (text, Opener::Marker));
    let own = own.chain(frames(s).into_iter().map(|text| (text, Opener::Frame)));
    let headers = headers(s).into_iter().map(|text| (text, Opener::Header));
    headers.chain(own.filter(|_| is_own)).collect()
}

/// What ends a message, if messages have headers.
fn row_end(s: &Settings) -> Option<&'static [u8]> {
    s.format.row().header.as_ref().map(|header| header.message_end.as_bytes())
}

/// What ends a message, where frames close its calls.
fn framed_end(s: &Settings) -> Option<&'static [u8]> {
    row_end(s).filter(|_| !frames(s).is_empty())
}

/// What closes a call or a frame.
fn closers(s: &Settings) -> Vec<&'static [u8]> {
    let row = s.format.row();
    let frame = row.frame.as_ref().map(|frame| bytes_of(frame.close));
    let call = row.closer.as_ref().map(|closer| closer.text.as_bytes());
    let message = row.header.as_ref().map(|header| header.message_end.as_bytes());
    let message = message.filter(|text| !text.is_empty() && row.frame.is_none());
    call.into_iter().chain(message).chain(frame.unwrap_or_default()).collect()
}

/// The one of these marks with which the bytes begin.
fn begins<'m>(bytes: &[u8], marks: &[&'m [u8]]) -> Option<&'m [u8]> {
    let here = marks.iter().filter(|mark| bytes.starts_with(mark));
    here.min_by_key(|mark| mark.len()).copied()
}

impl Reference<'_> {
    fn has_frames(&self) -> bool {
        self.s.format.row().frame.is_some()
    }

    /// Whether a line begins here.
    const fn fresh_line(&self) -> bool {
        self.last == b'\n'
    }

    fn prose(&mut self) {
        loop {
            while std::mem::take(&mut self.is_over) {
                self.after_message();
            }
            let Some((start, opener, length)) = self.earliest_opener() else { break };
            self.text(start);
            self.end_run();
            self.at = start + length;
            let mark = &self.input[start..self.at];
            self.is_over = row_end(self.s).is_some_and(|end| end == mark);
            match opener {
                Opener::Header => self.header_at(start, false),
                Opener::Marker => self.begin(start, false),
                Opener::Frame => self.frame_at(start),
                Opener::Hidden if self.reasoning => {}
                Opener::Hidden => self.start(),
                Opener::Open | Opener::Close => {
                    self.reasoning = opener == Opener::Open;
                    self.last = b'\n';
                    if !self.reasoning {
                        self.start();
                    }
                }
            }
        }
        self.text(self.input.len());
        self.end_run();
    }

    /// The earliest opener; of those that begin at the same byte, the shortest.
    fn earliest_opener(&self) -> Option<(usize, Opener, usize)> {
        let mut openers = Vec::new();
        let row = self.s.format.row();
        if self.reasoning {
            openers.extend(row.reasoning.iter().map(|[_, it]| (Opener::Close, it.as_bytes())));
        }
        let has_headers = row.header.is_some();
        openers.extend(headers(self.s).into_iter().map(|text| (Opener::Header, text)));
        let may_call = !self.reasoning || self.may_call_in_reasoning();
        if self.s.calls && may_call && !has_headers {
            openers.extend(markers(self.s).into_iter().map(|text| (Opener::Marker, text)));
            openers.extend(frames(self.s).into_iter().map(|text| (Opener::Frame, text)));
        }
        // After an equal marker in text, before it in reasoning.
        if self.s.reasoning && !self.reasoning && !has_headers {
            openers.extend(row.reasoning.iter().map(|[it, _]| (Opener::Open, it.as_bytes())));
        }
        if self.s.reasoning && !self.reasoning && row.ends_reasoning {
            openers.extend(row.reasoning.iter().map(|[_, it]| (Opener::Hidden, it.as_bytes())));
        }
        openers.extend(row.hidden.iter().map(|it| (Opener::Hidden, it.as_bytes())));
        openers.extend(self.hidden_in_messages().into_iter().map(|text| (Opener::Hidden, text)));
        openers.sort_by_key(|(_, text)| text.len());
        // A tag that is text hides what begins inside it.
        let mut from = self.at;
        loop {
            let (start, opener, length) = (from..self.input.len()).find_map(|start| {
                openers
                    .iter()
                    .find(|(_, text)| self.input[start..].starts_with(text))
                    .map(|(opener, text)| (start, *opener, text.len()))
            })?;
            if opener != Opener::Open || !self.is_quoted(start) {
                return Some((start, opener, length));
            }
            from = start + length;
        }
    }

    /// Whether what begins here is written about: it follows a quotation mark or a backtick.
    fn is_quoted(&self, start: usize) -> bool {
        let last = if start > self.at { self.input[start - 1] } else { self.last };
        b"`\"'".contains(&last)
    }

    fn may_call_in_reasoning(&self) -> bool {
        self.s.tools_in_reasoning || self.s.format.row().ends_reasoning
    }

    fn text(&mut self, end: usize) {
        self.run.extend_from_slice(&self.input[self.at..end]);
        if end > self.at {
            self.last = self.input[end - 1];
        }
        self.at = end;
    }

    fn end_run(&mut self) {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.run)).into_owned();
        if text.is_empty() {
            return;
        }
        match (self.events.last_mut(), self.reasoning) {
            (Some(Event::Reasoning(before)), true) | (Some(Event::Text(before)), false) => {
                before.push_str(&text);
            }
            (_, true) => self.events.push(Event::Reasoning(text)),
            (_, false) => self.events.push(Event::Text(text)),
        }
    }

    /// Reads on after a marker, perhaps in a frame. What belongs to its call begins at `start`.
    fn begin(&mut self, start: usize, is_framed: bool) {
        self.is_framed = is_framed;
        self.marker_at(start);
    }

    fn marker_at(&mut self, start: usize) {
        let mut name = String::new();
        if let Some(label) = &self.s.format.row().label {
            match self.label(label) {
                Ok(found) => name = found,
                Err(end) => return self.refuse_marker(start, end),
            }
        }
        self.name = name;
        let is_known = self.s.tools.may_have(&self.name);
        if self.is_trying && self.s.format.row().label.is_some() && !is_known {
            return self.refuse_marker(start, self.at);
        }
        let is_thought = self.reasoning && self.s.format.row().ends_reasoning;
        let has_label = self.s.format.row().label.is_some();
        if has_label && is_thought && !(self.is_framed && is_known) {
            return self.refuse_marker(start, self.at);
        }
        if self.has_frames() && !self.is_framed && !is_known {
            return self.refuse_marker(start, self.at);
        }
        self.body_at(start);
    }

    /// Reads on after a label.
    fn body_at(&mut self, start: usize) {
        let is_meant = self.is_framed || self.s.tools.may_have(&self.name);
        if self.s.format.row().body == Body::Arguments && is_meant && self.no_arguments(start) {
            return;
        }
        if let Body::Tagged(_) = self.s.format.row().body {
            return self.tagged_at(start);
        }
        if let Body::Nested(elements) = &self.s.format.row().body {
            return self.elements_at(start, elements);
        }
        if let Body::PythonicLines(_) = self.s.format.row().body {
            return self.payload_at(start, self.fresh_line(), self.at, false, Vec::new());
        }
        let at_line_start = self.fresh_line();
        let Some((payload, fence, repaired)) = self.gap() else {
            if let Some(key) = self.code_argument() {
                return self.code_at(start, &key);
            }
            let end = self.gap_end();
            return self.refuse_marker(start, end);
        };
        self.payload_at(start, at_line_start, payload, fence, repaired);
    }

    /// Reads a closer in place of a payload, if there is one.
    fn no_arguments(&mut self, start: usize) -> bool {
        let rest = &self.input[self.at..];
        let space = rest.iter().take_while(|byte| b" \t\r\n".contains(byte)).count().min(256);
        let here = self.at + space;
        let rest = &self.input[here..];
        let header = begins(rest, &headers(self.s));
        let is_over = rest.is_empty() && self.s.format.row().header.is_some();
        let closer = begins(rest, &closers(self.s));
        if closer.or(header).is_none() && !is_over {
            return false;
        }
        let (index, name) = (self.start_call(start), self.name.clone());
        let arguments = "{}".to_owned();
        self.events.push(Event::Completed { index, name, arguments, repaired: Vec::new() });
        self.last = b'\n';
        match (closer, header) {
            (Some(closer), _) => self.closed(here + closer.len()),
            (None, Some(header)) => {
                self.last = b' ';
                self.at = here + header.len();
                self.header_at(here, false);
            }
            (None, None) => self.at = here,
        }
        true
    }

    /// Reads the payload at `payload`, whose call begins at `start`.
    fn payload_at(
        &mut self,
        start: usize,
        at_line_start: bool,
        payload: usize,
        fence: bool,
        repaired: Vec<Repair>,
    ) {
        let index = self.start_call(start);
        let refuse = |code, raw: &[u8], index| Event::Error {
            code,
            offset: start as u64,
            index: Some(index),
            raw: segment::quote(raw),
            at_line_start,
        };
        let is_block = self.s.format.row().body.ends_at_closer();
        let (end, bytes) = match scan(self.s, &self.input[payload..]) {
            End::Cut(end, closer) if is_block => {
                let bytes = &self.input[payload..payload + end];
                match self.read_block(bytes, closer) {
                    Ok(calls) => self.hand_out(start, index, &calls, &repaired, &refuse),
                    Err(code) => self.events.push(refuse(code, bytes, index)),
                }
                return self.end_cut(payload + end, closer);
            }
            End::Refused { code, quoted, end, discarded } => {
                let quoted = &self.input[payload..payload + quoted];
                self.events.push(refuse(code, quoted, index));
                self.at = payload + end;
                self.last = b'\n';
                return self.after_refused(code, end, discarded, fence);
            }
            End::Cut(end, closer) => {
                let bytes = &self.input[payload..payload + end];
                let code = match closer {
                    0 => ErrorCode::IncompletePayload,
                    _ => ErrorCode::UnbalancedPayload,
                };
                self.last = b'\n';
                let text = match std::str::from_utf8(bytes) {
                    Ok(text) => text,
                    Err(e) if e.error_len().is_none() => {
                        std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap()
                    }
                    Err(_) => "",
                };
                let mut repaired = repaired;
                let mended = repair::mend(text, &mut repaired);
                let holds_closer = closers(self.s)
                    .iter()
                    .any(|closer| (0..bytes.len()).any(|at| bytes[at..].starts_with(closer)));
                let may_mend = !self.s.strict_balancing && !holds_closer;
                match self.read(&mended) {
                    Ok(calls) if may_mend => {
                        self.hand_out(start, index, &calls, &repaired, &refuse);
                    }
                    _ => self.events.push(refuse(code, bytes, index)),
                }
                return self.end_cut(payload + end, closer);
            }
            End::Balanced(end) => (payload + end, &self.input[payload..payload + end]),
        };
        let mut repaired = repaired;
        let result = match std::str::from_utf8(bytes) {
            Err(_) => Err(ErrorCode::InvalidJson),
            Ok(text) => match self.read(text) {
                Err(ErrorCode::InvalidJson) if !self.s.strict_balancing => {
                    let mut more = repaired.clone();
                    let result = self.read(&repair::mend(text, &mut more));
                    if result != Err(ErrorCode::InvalidJson) {
                        repaired = more;
                    }
                    result
                }
                result => result,
            },
        };
        match result {
            Ok(calls) => self.hand_out(start, index, &calls, &repaired, &refuse),
            Err(code) => self.events.push(refuse(code, bytes, index)),
        }
        self.at = end;
        self.last = b'\n';
        if self.s.format.row().closes() {
            self.closing(fence);
        } else {
            self.at = tail(self.input, end, fence);
            self.start_again();
        }
    }

    /// Goes on after a payload that was refused after `end` bytes.
    fn after_refused(&mut self, code: ErrorCode, end: usize, discarded: Discarded, fence: bool) {
        match discarded {
            Discarded::End if self.s.format.row().closes() => self.closing(fence),
            Discarded::End => {
                if fence {
                    self.at = tail(self.input, self.at, fence);
                }
                self.start_again();
            }
            Discarded::Closer(length) => self.closed(self.at + length),
            Discarded::Marker(length, kind) => {
                let is_fresh = code == ErrorCode::UnbalancedPayload
                    && self.input[..self.at].ends_with(b"\n")
                    && end > 0;
                self.last = if is_fresh { b'\n' } else { b' ' };
                let next = self.at;
                self.at += length;
                match kind {
                    Opener::Header => self.header_at(next, false),
                    Opener::Frame => self.frame_at(next),
                    _ => self.begin(next, false),
                }
            }
        }
    }

    /// Goes on after a payload that a closer of this length or, with 0, the input has ended.
    fn end_cut(&mut self, end: usize, closer: usize) {
        self.last = b'\n';
        match closer {
            0 => self.at = self.input.len(),
            length => self.closed(end + length),
        }
    }

    /// Reads a payload without brackets, which a closer of this length ends or, with 0, the input.
    fn read_block(&self, bytes: &[u8], closer: usize) -> Result<Vec<Element>, ErrorCode> {
        let read = match std::str::from_utf8(bytes) {
            Ok(text) => self.read(text),
            Err(error) if closer == 0 && error.error_len().is_none() => {
                self.read(std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap())
            }
            Err(_) => Err(ErrorCode::InvalidJson),
        };
        read.map_err(|code| if closer == 0 { ErrorCode::IncompletePayload } else { code })
    }

    /// Reads a payload that is JSON: a call, or the arguments of one.
    fn read(&self, text: &str) -> Result<Vec<Element>, ErrorCode> {
        let elements = |content: Result<Content<'_>, Fault>| match content {
            Err(fault) => Err(fault.code),
            Ok(Content::Call(name, arguments)) => {
                let call = Ok((name, arguments.as_str().to_owned()));
                Ok(vec![Element { raw: text.to_owned(), call }])
            }
            Ok(Content::Elements(calls)) => Ok(calls
                .into_iter()
                .map(|(raw, call)| {
                    let call = call.map(|(name, it)| (name, it.as_str().to_owned()));
                    Element { raw: raw.to_owned(), call: call.map_err(|fault| fault.code) }
                })
                .collect()),
        };
        let row = self.s.format.row();
        if let Body::Pythonic(keys) = &row.body {
            return elements(literal::pythonic(text, keys));
        }
        if let Body::PythonicLines(keys) = &row.body {
            return elements(literal::pythonic_lines(text, keys));
        }
        if let Body::Nested(tags) = &row.body {
            return elements(nested::read(&self.name, text, tags, &self.s.tools));
        }
        if row.body == Body::Keyed {
            return elements(call::read(text, call::Keys::Name));
        }
        match row.label {
            Some(_) if row.keys().is_some() => read(text),
            Some(_) if matches!(row.body, Body::Loose(_)) => {
                let Body::Loose(delimiter) = row.body else { unreachable!() };
                elements(literal::loose(&self.name, text, delimiter))
            }
            None => read(text),
            Some(_) if serde_json::from_str::<&serde_json::value::RawValue>(text).is_err() => {
                Err(ErrorCode::InvalidJson)
            }
            Some(_) => {
                let name = serde_json::Value::from(&*self.name);
                let mut calls = read(&format!("{{\"name\":{name},\"arguments\":{text}}}"))?;
                for call in &mut calls {
                    text.clone_into(&mut call.raw);
                }
                Ok(calls)
            }
        }
    }

    /// Reads what follows a payload, in a format that closes calls.
    fn closing(&mut self, mut fence: bool) {
        let marks = self.marks_after();
        let input = self.input;
        // White space and slips, then perhaps a fence, then more of the same.
        let slips = |from: usize| {
            let rest = &input[from..];
            from + rest.iter().take_while(|byte| b" \t\r\n}],;".contains(byte)).count()
        };
        let mut end = line(input, self.at);
        let mut next = slips(end);
        if fence && next - end <= 256 && input[next..].starts_with(b"```") {
            end = line(input, next + 3);
            next = slips(end);
            fence = false;
        }
        self.at = end;
        self.is_over = true;
        if next - end > 256 {
            return;
        }
        if let Some(mark) = begins(&input[next..], &marks) {
            self.is_over = false;
            self.mark_after(next, mark);
        } else if input[next..].starts_with(b"{")
            && matches!(self.s.format.row().body, Body::Json(_) | Body::Keyed)
        {
            self.is_over = false;
            self.payload_at(next, false, next, fence, Vec::new());
        }
    }

    /// What may come after a payload: closers and, in a frame, another call.
    fn marks_after(&self) -> Vec<&'static [u8]> {
        let openers =
            if self.has_frames() { bytes_of(self.s.format.row().openers) } else { vec![] };
        closers(self.s).into_iter().chain(openers).collect()
    }

    /// Reads on at such a mark.
    fn mark_after(&mut self, at: usize, mark: &[u8]) {
        if closers(self.s).contains(&mark) {
            return self.closed(at + mark.len());
        }
        self.last = b' ';
        self.at = at + mark.len();
        self.begin(at, true);
    }

    /// Reads what follows a closer and belongs to the call.
    fn closed(&mut self, at: usize) {
        let input = self.input;
        self.at = line(input, at);
        self.is_over = true;
        if self.at == at && input[at..].starts_with(b"\r") {
            return;
        }
        let between = if self.has_frames() { space(&input[self.at..]) } else { 0 };
        if between > 256 {
            return;
        }
        let next = self.at + between;
        if let Some(mark) = begins(&input[next..], &self.marks_after()) {
            self.is_over = false;
            self.mark_after(next, mark);
        }
    }

    fn start_call(&mut self, marker: usize) -> u32 {
        self.is_trying = false;
        self.reasoning &= !self.s.format.row().ends_reasoning;
        let index = self.calls;
        self.calls += 1;
        self.events.push(Event::Started { index, offset: marker as u64 });
        index
    }

    fn hand_out(
        &mut self,
        marker: usize,
        index: u32,
        calls: &[Element],
        repaired: &[Repair],
        refuse: &dyn Fn(ErrorCode, &[u8], u32) -> Event,
    ) {
        for (nth, element) in calls.iter().enumerate() {
            let index = if nth == 0 { index } else { self.start_call(marker) };
            self.events.push(match &element.call {
                Ok((name, arguments)) => Event::Completed {
                    index,
                    name: name.clone(),
                    arguments: arguments.clone(),
                    repaired: repaired.to_vec(),
                },
                Err(code) => refuse(*code, element.raw.as_bytes(), index),
            });
        }
    }
}

/// The end of the bytes after a payload that belong to its call.
fn tail(input: &[u8], at: usize, fence: bool) -> usize {
    let behind = line(input, at);
    if fence && input[behind..].starts_with(b"```") { line(input, behind + 3) } else { behind }
}

/// How much white space the bytes begin with.
fn space(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| b" \t\r\n\x0c".contains(byte)).count()
}

fn line(input: &[u8], at: usize) -> usize {
    match &input[at..] {
        [b'\n', ..] => at + 1,
        [b'\r', b'\n', ..] => at + 2,
        _ => at,
    }
}
