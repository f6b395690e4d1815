//! The parser's meaning, written once more: over the whole input, by searching from
//! the start again and again, with a recursive reader of JSON. Slow and plain; it
//! shares nothing with the parser but the mending of a payload.

use crate::parser::fuzz::Event;
use crate::parser::{ErrorCode, Repair, Settings, repair, segment};

/// What the parser must say of an input.
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
        self.s.marker.as_bytes()
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
            // In front of an equal tag in text, behind it in reasoning.
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

    /// `self.at` is behind a marker that begins at `start`.
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
                if discarded == Discarded::ToMarker {
                    self.fresh_line = code == ErrorCode::UnbalancedPayload
                        && self.input[..self.at].ends_with(b"\n")
                        && end > 0;
                    let next = self.at;
                    self.at += self.marker().len();
                    self.marker_at(next);
                }
                return;
            }
            End::Cut => {
                let bytes = &self.input[payload..];
                self.at = self.input.len();
                let text = match std::str::from_utf8(bytes) {
                    Ok(text) => text,
                    Err(e) if e.error_len().is_none() => {
                        std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap()
                    }
                    Err(_) => "",
                };
                let mut repaired = repaired;
                let mended = repair::mend(text, &mut repaired);
                match read(&mended) {
                    Ok(calls) if !self.s.strict_balancing => {
                        self.hand_out(start, index, &calls, &repaired, &refuse);
                    }
                    _ => self.events.push(refuse(ErrorCode::IncompletePayload, bytes, index)),
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
        self.at = tail(self.input, end, fence);
        self.fresh_line = true;
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

    /// The end of the longest beginning of a gap.
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

/// The end of the bytes behind a payload that belong to it.
fn tail(input: &[u8], at: usize, fence: bool) -> usize {
    let line = |at: usize| match &input[at..] {
        [b'\n', ..] => at + 1,
        [b'\r', b'\n', ..] => at + 2,
        _ => at,
    };
    let behind = line(at);
    if fence && input[behind..].starts_with(b"```") { line(behind + 3) } else { behind }
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
    Cut,
}

#[derive(PartialEq)]
enum Discarded {
    ToEnd,
    ToMarker,
}

/// Walks a payload from its first bracket.
fn scan(s: &Settings, bytes: &[u8]) -> End {
    let marker = s.marker.as_bytes();
    let restarts = !s.marker.bytes().all(|b| b"{}[]:, \t\r\n0123456789+-.eEtrufalsn".contains(&b));
    let mut open = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    // The bytes in a row, up to here, that are outside strings.
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
            return End::Refused { code, quoted, end, discarded: Discarded::ToMarker };
        }
        let refused =
            |code, quoted| End::Refused { code, quoted, end: at + 1, discarded: Discarded::ToEnd };
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
        None => End::Cut,
        Some((code, quoted)) => {
            End::Refused { code, quoted, end: bytes.len(), discarded: Discarded::ToEnd }
        }
    }
}

#[derive(Debug, PartialEq)]
struct Element {
    raw: String,
    call: Result<(String, String), ErrorCode>,
}

/// Reads a payload's JSON and its calls.
fn read(payload: &str) -> Result<Vec<Element>, ErrorCode> {
    let json = Json::read(payload).ok_or(ErrorCode::InvalidJson)?;
    match &json.kind {
        Kind::Array(elements) if elements.is_empty() => Err(ErrorCode::InvalidCall),
        Kind::Array(elements) => {
            Ok(elements.iter().map(|e| Element { raw: e.raw.clone(), call: call(e) }).collect())
        }
        _ => Ok(vec![Element { raw: payload.to_owned(), call: Ok(call(&json)?) }]),
    }
}

fn call(json: &Json) -> Result<(String, String), ErrorCode> {
    let Kind::Object(members) = &json.kind else { return Err(ErrorCode::InvalidCall) };
    if members.iter().any(|(key, _)| key.is_none()) {
        return Err(ErrorCode::InvalidJson);
    }
    let value = |keys: &[&str]| {
        let mut found = None;
        for key in keys {
            let values: Vec<_> =
                members.iter().filter(|(k, _)| k.as_deref() == Some(key)).collect();
            if values.len() > 1 {
                return Err(ErrorCode::InvalidCall);
            }
            found = found.or_else(|| values.first().map(|(_, value)| value));
        }
        Ok(found)
    };
    let name = value(&["name", "tool_name", "tool", "function"])?;
    let arguments = value(&["arguments", "args", "parameters", "tool_args", "input"])?;
    let name = match name.map(|n| &n.kind) {
        Some(Kind::String(Some(name))) if !name.is_empty() => name.clone(),
        _ => return Err(ErrorCode::InvalidCall),
    };
    let arguments = match arguments {
        None => "{}".to_owned(),
        Some(json) => match &json.kind {
            Kind::Null => "{}".to_owned(),
            Kind::Object(_) if json.readable && json.repeats_a_key() => {
                return Err(ErrorCode::InvalidCall);
            }
            Kind::Object(_) if json.readable => json.raw.clone(),
            Kind::Object(_) => return Err(ErrorCode::InvalidJson),
            Kind::String(Some(text)) => {
                let inner = text.trim_matches([' ', '\t', '\r', '\n']);
                match Json::read(inner) {
                    Some(json @ Json { kind: Kind::Object(_), readable: true, .. })
                        if nesting(inner) < 128 && !json.repeats_a_key() =>
                    {
                        inner.to_owned()
                    }
                    _ => return Err(ErrorCode::InvalidCall),
                }
            }
            _ => return Err(ErrorCode::InvalidCall),
        },
    };
    Ok((name, arguments))
}

fn nesting(json: &str) -> usize {
    let (mut depth, mut most, mut string, mut escaped) = (0_usize, 0, false, false);
    for b in json.bytes() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => string = !string,
            b'{' | b'[' if !string => {
                depth += 1;
                most = most.max(depth);
            }
            b'}' | b']' if !string => depth -= 1,
            _ => {}
        }
    }
    most
}

/// A JSON value with its text.
struct Json {
    raw: String,
    kind: Kind,
    /// Whether every string is Unicode and every number fits.
    readable: bool,
}

enum Kind {
    Null,
    Scalar,
    /// `None`: with a lone surrogate.
    String(Option<String>),
    Array(Vec<Json>),
    Object(Vec<(Option<String>, Json)>),
}

impl Json {
    /// The whole text as one value, white space around it allowed.
    fn read(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        reader.space();
        let json = reader.value()?;
        reader.space();
        reader.rest.is_empty().then_some(json)
    }

    /// Whether a key stands twice in one object, at any depth.
    fn repeats_a_key(&self) -> bool {
        match &self.kind {
            Kind::Object(members) => members.iter().enumerate().any(|(at, (key, value))| {
                value.repeats_a_key() || members[..at].iter().any(|(before, _)| before == key)
            }),
            Kind::Array(elements) => elements.iter().any(Self::repeats_a_key),
            Kind::Null | Kind::Scalar | Kind::String(_) => false,
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self) -> Option<Json> {
        let before = self.rest;
        let mut readable = true;
        let kind = match before.chars().next()? {
            '{' => {
                let mut members = Vec::new();
                self.items('}', |reader| {
                    let key = reader.string()?;
                    reader.space();
                    let colon = reader.eat(":");
                    reader.space();
                    let value = reader.value()?;
                    readable &= key.is_some() && value.readable;
                    members.push((key, value));
                    colon.then_some(())
                })?;
                Kind::Object(members)
            }
            '[' => {
                let mut elements = Vec::new();
                self.items(']', |reader| {
                    let value = reader.value()?;
                    readable &= value.readable;
                    elements.push(value);
                    Some(())
                })?;
                Kind::Array(elements)
            }
            '"' => {
                let string = self.string()?;
                readable = string.is_some();
                Kind::String(string)
            }
            _ if self.eat("null") => Kind::Null,
            _ if self.eat("true") || self.eat("false") => Kind::Scalar,
            _ => {
                readable = self.number()?;
                Kind::Scalar
            }
        };
        let raw = before[..before.len() - self.rest.len()].to_owned();
        Some(Json { raw, kind, readable })
    }

    fn items(&mut self, closer: char, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let closer = closer.to_string();
        self.rest = &self.rest[1..];
        self.space();
        if self.eat(&closer) {
            return Some(());
        }
        loop {
            item(self)?;
            self.space();
            if self.eat(&closer) {
                return Some(());
            }
            if !self.eat(",") {
                return None;
            }
            self.space();
        }
    }

    /// The string's content; `Some(None)` if a lone surrogate is in it.
    #[expect(clippy::option_option, reason = "no string at all is another thing")]
    fn string(&mut self) -> Option<Option<String>> {
        if !self.eat("\"") {
            return None;
        }
        let mut units = Vec::new();
        loop {
            let c = self.rest.chars().next()?;
            self.rest = &self.rest[c.len_utf8()..];
            let c = match c {
                '"' => return Some(String::from_utf16(&units).ok()),
                '\0'..='\x1f' => return None,
                '\\' => {
                    let escape = self.rest.chars().next()?;
                    self.rest = &self.rest[escape.len_utf8()..];
                    match escape {
                        '"' | '\\' | '/' => escape,
                        'b' => '\x08',
                        'f' => '\x0c',
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        'u' => {
                            let digits = self.rest.get(..4)?;
                            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                                return None;
                            }
                            self.rest = &self.rest[4..];
                            units.push(u16::from_str_radix(digits, 16).ok()?);
                            continue;
                        }
                        _ => return None,
                    }
                }
                c => c,
            };
            units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
        }
    }

    /// Whether the number fits.
    fn number(&mut self) -> Option<bool> {
        let before = self.rest;
        self.eat("-");
        if !self.eat("0") {
            self.digits()?;
        }
        if self.eat(".") {
            self.digits()?;
        }
        if self.eat("e") || self.eat("E") {
            let _ = self.eat("+") || self.eat("-");
            self.digits()?;
        }
        let text = &before[..before.len() - self.rest.len()];
        Some(text.parse::<f64>().is_ok_and(f64::is_finite))
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let some = rest.len() < self.rest.len();
        self.rest = rest;
        some.then_some(())
    }
}
