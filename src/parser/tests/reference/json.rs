//! Reads a payload's JSON and its calls, by recursion.

use crate::parser::ErrorCode;

#[derive(Debug, PartialEq)]
pub(super) struct Element {
    pub(super) raw: String,
    pub(super) call: Result<(String, String), ErrorCode>,
}

/// Reads a payload's JSON and its calls.
pub(super) fn read(payload: &str) -> Result<Vec<Element>, ErrorCode> {
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
        let mut found = Vec::new();
        for key in keys {
            let values = members.iter().filter(|(k, _)| k.as_deref() == Some(key));
            let values: Vec<_> = values.map(|(_, value)| value).collect();
            if values.len() > 1 {
                return Err(ErrorCode::InvalidCall);
            }
            found.extend(values);
        }
        Ok(found)
    };
    let is_null = |json: &&Json| matches!(json.kind, Kind::Null);
    let name = value(&["name", "tool_name", "tool", "function"])?.into_iter().next();
    let arguments = value(&["arguments", "args", "parameters", "tool_args", "input"])?;
    let arguments = arguments.into_iter().find(|json| !is_null(json));
    let known = [
        "name",
        "tool_name",
        "tool",
        "function",
        "arguments",
        "args",
        "parameters",
        "tool_args",
        "input",
        "id",
        "type",
        "index",
        "description",
    ];
    let strays = members.iter().any(|(key, _)| !known.contains(&key.as_deref().unwrap_or("")));
    let name = match name.map(|n| &n.kind) {
        Some(Kind::String(Some(name))) if !name.is_empty() => name.clone(),
        _ => return Err(ErrorCode::InvalidCall),
    };
    if arguments.is_none() && strays {
        return Err(ErrorCode::InvalidCall);
    }
    let arguments = match arguments {
        None => "{}".to_owned(),
        Some(json) => match &json.kind {
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
    /// `None` if it has a lone surrogate.
    String(Option<String>),
    Array(Vec<Json>),
    Object(Vec<(Option<String>, Json)>),
}

impl Json {
    /// Reads the whole text as one value, with white space allowed around it.
    fn read(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        reader.space();
        let json = reader.value()?;
        reader.space();
        reader.rest.is_empty().then_some(json)
    }

    /// Whether any object, at any depth, repeats a key.
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

    /// The string's content; `Some(None)` if it has a lone surrogate.
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
