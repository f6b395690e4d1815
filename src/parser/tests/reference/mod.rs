//! The parser's behaviour, implemented a second time: on the whole input, searching from the start
//! again and again, with a recursive JSON reader. It is slow and plain, and shares only repairs and
//! quoting with the parser.

mod json;

use crate::parser::fuzz::Event;
use crate::parser::{ErrorCode, Repair, Settings, repair, segment};
use json::{Element, read};

/// The events that the parser must produce for an input.
pub(super) fn events(settings: &Settings, input: &[u8]) -> Vec<Event> {
    let mut reference = Reference {
        s: settings,
        input,
        at: 0,
        reasoning: settings.reasoning && settings.starts_in_reasoning,
        run: Vec::new(),
        fresh_line: true,
        calls: 0,
        events: Vec::new(),
    };
    reference.prose();
    reference.events
}

struct Reference<'a> {
    s: &'a Settings,
    input: &'a [u8],
    at: usize,
    reasoning: bool,
    /// Text or reasoning that no opener has ended yet.
    run: Vec<u8>,
    fresh_line: bool,
    calls: u32,
    events: Vec<Event>,
}

#[derive(Clone, Copy, PartialEq)]
enum Opener {
    Marker,
    Open,
    Close,
}

impl Reference<'_> {
    fn marker(&self) -> &[u8] {
        self.s.format.opener().as_bytes()
    }

    /// What closes a call, if the format closes calls.
    fn closer(&self) -> Option<&'static [u8]> {
        self.s.format.row().closer.as_ref().map(|closer| closer.text.as_bytes())
    }

    fn prose(&mut self) {
        while let Some((start, opener, length)) = self.earliest_opener() {
            self.text(start);
            self.end_run();
            self.at = start + length;
            if opener == Opener::Marker {
                self.marker_at(start);
            } else {
                self.reasoning = opener == Opener::Open;
                self.fresh_line = true;
            }
        }
        self.text(self.input.len());
        self.end_run();
    }

    /// The earliest opener; of those that begin at the same byte, the shortest.
    fn earliest_opener(&self) -> Option<(usize, Opener, usize)> {
        let mut openers = Vec::new();
        if self.reasoning {
            openers.push((Opener::Close, &b"</think>"[..]));
        } else if self.s.reasoning {
            openers.push((Opener::Open, b"<think>"));
        }
        if self.s.calls && (!self.reasoning || self.s.tools_in_reasoning) {
            // Before an equal tag in text, after it in reasoning.
            openers.insert(usize::from(self.reasoning), (Opener::Marker, self.marker()));
        }
        openers.sort_by_key(|(_, text)| text.len());
        (self.at..self.input.len()).find_map(|start| {
            openers
                .iter()
                .find(|(_, text)| self.input[start..].starts_with(text))
                .map(|(opener, text)| (start, *opener, text.len()))
        })
    }

    fn text(&mut self, end: usize) {
        self.run.extend_from_slice(&self.input[self.at..end]);
        if end > self.at {
            self.fresh_line = self.input[end - 1] == b'\n';
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

    /// Reads on after a marker that begins at `start`.
    fn marker_at(&mut self, start: usize) {
        let at_line_start = self.fresh_line;
        let Some((payload, fence, repaired)) = self.gap() else {
            let end = self.gap_end();
            self.events.push(Event::Error {
                code: ErrorCode::MissingPayload,
                offset: start as u64,
                index: None,
                raw: segment::quote(&self.input[start..end]),
                at_line_start,
            });
            self.at = start;
            self.text(end);
            return;
        };
        self.payload_at(start, at_line_start, payload, fence, repaired);
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
        let (end, bytes) = match scan(self.s, &self.input[payload..]) {
            End::Refused { code, quoted, end, discarded } => {
                let quoted = &self.input[payload..payload + quoted];
                self.events.push(refuse(code, quoted, index));
                self.at = payload + end;
                self.fresh_line = true;
                match (discarded, self.closer()) {
                    (Discarded::End, Some(closer)) => self.closing(false, closer),
                    (Discarded::Closer, Some(closer)) => {
                        self.at = closed(self.input, self.at + closer.len(), closer);
                    }
                    _ => {}
                }
                if discarded == Discarded::Marker {
                    self.fresh_line = code == ErrorCode::UnbalancedPayload
                        && self.input[..self.at].ends_with(b"\n")
                        && end > 0;
                    let next = self.at;
                    self.at += self.marker().len();
                    self.marker_at(next);
                }
                return;
            }
            End::Cut(end, code) => {
                let bytes = &self.input[payload..payload + end];
                self.at = match self.closer().filter(|_| code == ErrorCode::UnbalancedPayload) {
                    Some(closer) => closed(self.input, payload + end + closer.len(), closer),
                    None => self.input.len(),
                };
                self.fresh_line = true;
                let text = match std::str::from_utf8(bytes) {
                    Ok(text) => text,
                    Err(e) if e.error_len().is_none() => {
                        std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap()
                    }
                    Err(_) => "",
                };
                let mut repaired = repaired;
                let mended = repair::mend(text, &mut repaired);
                let holds_closer =
                    |closer: &[u8]| (0..bytes.len()).any(|at| bytes[at..].starts_with(closer));
                let may_mend = !self.s.strict_balancing && !self.closer().is_some_and(holds_closer);
                match read(&mended) {
                    Ok(calls) if may_mend => {
                        self.hand_out(start, index, &calls, &repaired, &refuse);
                    }
                    _ => self.events.push(refuse(code, bytes, index)),
                }
                return;
            }
            End::Balanced(end) => (payload + end, &self.input[payload..payload + end]),
        };
        let mut repaired = repaired;
        let result = match std::str::from_utf8(bytes) {
            Err(_) => Err(ErrorCode::InvalidJson),
            Ok(text) => match read(text) {
                Err(ErrorCode::InvalidJson) if !self.s.strict_balancing => {
                    let mut more = repaired.clone();
                    let result = read(&repair::mend(text, &mut more));
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
        self.fresh_line = true;
        match self.closer() {
            Some(closer) => self.closing(fence, closer),
            None => self.at = tail(self.input, end, fence),
        }
    }

    /// Reads what follows a payload, in a format that closes calls.
    fn closing(&mut self, fence: bool, closer: &[u8]) {
        match closing(self.input, self.at, fence, closer) {
            After::End(end) => self.at = end,
            After::Payload(at, fence) => self.payload_at(at, false, at, fence, Vec::new()),
        }
    }

    fn start_call(&mut self, marker: usize) -> u32 {
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

    /// Where the payload begins, whether a fence opened, what was dropped.
    fn gap(&self) -> Option<(usize, bool, Vec<Repair>)> {
        let end = self.gap_end();
        let gap = std::str::from_utf8(&self.input[self.at..end]).ok()?;
        if !matches!(self.input.get(end), Some(b'{' | b'[')) {
            return None;
        }
        let word = gap.trim_matches([' ', '\t', '\r', '\n']);
        if let Some(_language) = word.strip_prefix("```") {
            return Some((end, true, vec![Repair::CodeFence]));
        }
        match word.to_ascii_lowercase().as_str() {
            "" => Some((end, false, vec![])),
            "json" | "json5" | "jsonc" | "javascript" | "js" | "python" | "py" | "tool_call"
            | "tool_code" => Some((end, false, vec![Repair::LanguageWord])),
            _ => None,
        }
    }

    /// The end of the longest prefix that may be a gap.
    fn gap_end(&self) -> usize {
        let rest = &self.input[self.at..];
        let longest = (0..=rest.len().min(256)).rev().find(|&n| self.may_be_gap(&rest[..n]));
        self.at + longest.expect("nothing may be a gap")
    }

    fn may_be_gap(&self, gap: &[u8]) -> bool {
        let Ok(gap) = std::str::from_utf8(gap) else { return false };
        let word = gap.trim_start_matches([' ', '\t', '\r', '\n']);
        if word.is_empty() || self.s.strict_balancing {
            return word.is_empty();
        }
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-+".contains(c);
        let (fenced, word) = match word.strip_prefix("```") {
            Some(language) => (true, language),
            None if "``".starts_with(word) => return true,
            None => (false, word),
        };
        let space = word.trim_start_matches(is_letter);
        let word = &word[..word.len() - space.len()];
        let known = fenced
            || [
                "json",
                "json5",
                "jsonc",
                "javascript",
                "js",
                "python",
                "py",
                "tool_call",
                "tool_code",
            ]
            .contains(&word.to_ascii_lowercase().as_str());
        space.trim_matches([' ', '\t', '\r', '\n']).is_empty()
            && (fenced || !word.is_empty())
            && (known || space.is_empty())
    }
}

/// The end of the bytes after a payload that belong to its call.
fn tail(input: &[u8], at: usize, fence: bool) -> usize {
    let behind = line(input, at);
    if fence && input[behind..].starts_with(b"```") { line(input, behind + 3) } else { behind }
}

/// What follows a payload, in a format that closes calls.
enum After {
    /// Nothing, from here on.
    End(usize),
    /// The payload of another call begins here, perhaps inside a fence.
    Payload(usize, bool),
}

fn closing(input: &[u8], at: usize, mut fence: bool, closer: &[u8]) -> After {
    let behind = line(input, at);
    // White space and slips, then perhaps a fence, then more of the same.
    let space = |from: usize| {
        let rest = &input[from..];
        from + rest.iter().take_while(|byte| b" \t\r\n}],;".contains(byte)).count()
    };
    let mut end = behind;
    let mut next = space(behind);
    if fence && next - end <= 256 && input[next..].starts_with(b"```") {
        end = line(input, next + 3);
        next = space(end);
        fence = false;
    }
    if next - end <= 256 && input[next..].starts_with(closer) {
        return After::End(closed(input, next + closer.len(), closer));
    }
    if next - end <= 256 && input[next..].starts_with(b"{") {
        return After::Payload(next, fence);
    }
    After::End(end)
}

/// The end of what follows a closer and belongs to the call.
fn closed(input: &[u8], at: usize, closer: &[u8]) -> usize {
    let behind = line(input, at);
    if input[behind..].starts_with(closer) {
        return closed(input, behind + closer.len(), closer);
    }
    behind
}

fn line(input: &[u8], at: usize) -> usize {
    match &input[at..] {
        [b'\n', ..] => at + 1,
        [b'\r', b'\n', ..] => at + 2,
        _ => at,
    }
}

enum End {
    /// The payload's length.
    Balanced(usize),
    Refused {
        code: ErrorCode,
        quoted: usize,
        end: usize,
        discarded: Discarded,
    },
    /// The payload lacks its end: where it stops, and the fault if it cannot be repaired.
    Cut(usize, ErrorCode),
}

#[derive(Clone, Copy, PartialEq)]
enum Discarded {
    End,
    Marker,
    Closer,
}

/// Walks a payload from its first bracket.
fn scan(s: &Settings, bytes: &[u8]) -> End {
    let marker = s.format.opener().as_bytes();
    let closer = s.format.row().closer.as_ref().map(|closer| closer.text.as_bytes());
    let restarts =
        !s.format.opener().bytes().all(|b| b"{}[]:, \t\r\n0123456789+-.eEtrufalsn".contains(&b));
    let mut open = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    // How many bytes in a row, up to here, are outside strings.
    let mut outside = 0;
    let mut said = None;
    for (at, &b) in bytes.iter().enumerate() {
        if at == s.max_payload_bytes && said.is_none() {
            said = Some((ErrorCode::PayloadTooLarge, at));
        }
        if let Some(q) = quote {
            if escaped {
                escaped = false;
            } else if b == b'\\' {
                escaped = true;
            } else if b == q {
                quote = None;
            }
            outside = 0;
            continue;
        }
        outside += 1;
        if restarts && outside >= marker.len() && bytes[..=at].ends_with(marker) {
            let end = at + 1 - marker.len();
            let (code, quoted) = said.unwrap_or((ErrorCode::UnbalancedPayload, end));
            return End::Refused { code, quoted, end, discarded: Discarded::Marker };
        }
        if let Some(closer) = closer
            && outside >= closer.len()
            && bytes[..=at].ends_with(closer)
        {
            let end = at + 1 - closer.len();
            return match said {
                None => End::Cut(end, ErrorCode::UnbalancedPayload),
                Some((code, quoted)) => {
                    End::Refused { code, quoted, end, discarded: Discarded::Closer }
                }
            };
        }
        let refused =
            |code, quoted| End::Refused { code, quoted, end: at + 1, discarded: Discarded::End };
        match b {
            b'"' => {
                quote = Some(b);
                outside = 0;
            }
            b'\'' if !s.strict_balancing => {
                quote = Some(b);
                outside = 0;
            }
            b'{' | b'[' => {
                open.push(b);
                if open.len() > 128 && said.is_none() {
                    said = Some((ErrorCode::PayloadTooDeep, at + 1));
                }
            }
            b'}' | b']' => {
                let deep = open.len() > 128;
                let fits = open.pop() == Some(if b == b'}' { b'{' } else { b'[' });
                if !fits && !deep && s.strict_balancing {
                    let (code, quoted) = said.unwrap_or((ErrorCode::UnbalancedPayload, at + 1));
                    return refused(code, quoted);
                }
                if open.is_empty() {
                    return match said {
                        None => End::Balanced(at + 1),
                        Some((code, quoted)) => refused(code, quoted),
                    };
                }
            }
            _ => {}
        }
    }
    match said {
        None => End::Cut(bytes.len(), ErrorCode::IncompletePayload),
        Some((code, quoted)) => {
            End::Refused { code, quoted, end: bytes.len(), discarded: Discarded::End }
        }
    }
}
