//! Reads calls that are written as code: `[f(a='x', n=1), g()]`, or `{key:<|"|>text<|"|>,n:1}`.
//!
//! ```text
//!    pythonic   [ weather ( city = 'Oslo' , days = 3 ) ]
//!    loose      { city : <|"|> Oslo <|"|> , days : 3 }
//! ```
//!
//! Both hold the values of JSON in another notation, and are written again as JSON.

use std::borrow::Cow;
use std::str::Chars;

use serde_json::Value;
use serde_json::value::RawValue;

use super::call::{self, Content, Element, Fault, Keys};
use super::find;
use super::segment::ErrorCode;
use crate::call_format::JsonKeys;
use crate::limits::parser::DEPTH_MAX;

/// Reads the calls in a list of Python calls.
pub(super) fn pythonic<'p>(payload: &'p str, keys: &JsonKeys) -> Result<Content<'p>, Fault> {
    // Some models write JSON there.
    if payload.get(1..).unwrap_or_default().trim_start().starts_with('{') {
        return call::read(payload, Keys::Of(keys));
    }
    let mut reader = Reader { text: payload, at: 0, delimiter: None };
    let mut calls: Vec<Element<'_>> = Vec::new();
    reader.expect(b'[')?;
    reader.items(b']', |reader, _| {
        calls.push(reader.element()?);
        Ok(())
    })?;
    reader.end()?;
    if calls.is_empty() {
        return Err(Fault::new(ErrorCode::InvalidCall, "the list holds no call"));
    }
    Ok(Content::Elements(calls))
}

/// Reads calls that stand on lines. Some models write a list there.
pub(super) fn pythonic_lines<'p>(payload: &'p str, keys: &JsonKeys) -> Result<Content<'p>, Fault> {
    let payload = payload.trim();
    if payload.starts_with('[') {
        return pythonic(payload, keys);
    }
    let mut reader = Reader { text: payload, at: 0, delimiter: None };
    let mut calls: Vec<Element<'_>> = Vec::new();
    while reader.at < payload.len() {
        calls.push(reader.element()?);
        reader.takes(b',');
        reader.skip_space();
    }
    Ok(Content::Elements(calls))
}

/// Reads the arguments of a call with this name: an object whose texts stand between delimiters.
pub(super) fn loose<'p>(
    name: &str,
    payload: &'p str,
    delimiter: &'static str,
) -> Result<Content<'p>, Fault> {
    let mut reader = Reader { text: payload, at: 0, delimiter: Some(delimiter) };
    let mut json = String::new();
    reader.skip_space();
    reader.value(&mut json, 0)?;
    reader.end()?;
    Ok(Content::Call(name.to_owned(), call::converted(&json)?))
}

/// Converts a value in Python's notation to JSON. `None` if it is none.
pub(super) fn python(text: &str) -> Option<String> {
    let mut reader = Reader { text, at: 0, delimiter: None };
    let mut json = String::new();
    reader.value(&mut json, 0).and_then(|()| reader.end()).ok()?;
    Some(json)
}

/// One argument with its key, as JSON. `None` if it is none. With a delimiter, it is a member of a loose object.
pub(super) fn member(text: &str, delimiter: Option<&'static str>) -> Option<String> {
    let mut reader = Reader { text, at: 0, delimiter };
    let mut json = String::new();
    let key = reader.argument_key().ok()?;
    reader.member(&key, reader.sign(), &mut json, 0).and_then(|()| reader.end()).ok()?;
    Some(json)
}

/// The key in what comes before the value of an argument.
pub(super) fn key(text: &str, delimiter: Option<&'static str>) -> Option<String> {
    let mut reader = Reader { text, at: 0, delimiter };
    let key = reader.argument_key().ok()?;
    reader.expect(reader.sign()).and_then(|()| reader.end()).ok()?;
    Some(key)
}

/// What a text in quotes means, whose escapes are all whole.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let mut units = Utf16::default();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char == '\\' {
            units.push_escape(&mut chars);
        } else {
            units.push(char);
        }
    }
    String::from_utf16_lossy(&units.0).into()
}

/// Whether a text can be the name of a tool or of an argument.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word_part)
}

fn is_word_part(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '.' | '-')
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// What texts stand between, if not between quotes.
    delimiter: Option<&'static str>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn fault(&self, expected: &str) -> Fault {
        let message = format!("expected {expected} at byte {} of the payload", self.at);
        Fault::new(ErrorCode::InvalidJson, message)
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes this byte, after white space, if it is there.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_there = self.rest().as_bytes().first() == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.takes(byte) { Ok(()) } else { Err(self.fault(&format!("`{}`", byte as char))) }
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.skip_space();
        if self.rest().is_empty() { Ok(()) } else { Err(self.fault("the end")) }
    }

    /// A call, with its text.
    fn element(&mut self) -> Result<Element<'t>, Fault> {
        let start = self.at;
        let (name, arguments) = self.call()?;
        let arguments = call::converted(&arguments);
        Ok((&self.text[start..self.at], arguments.map(|arguments| (name, arguments))))
    }

    /// A name, which may be dotted, and keyword arguments.
    fn call(&mut self) -> Result<(String, String), Fault> {
        let name = self.word().to_owned();
        if name.is_empty() {
            return Err(self.fault("a tool's name"));
        }
        self.expect(b'(')?;
        let mut json = "{".to_owned();
        self.items(b')', |reader, number| {
            let key = reader.argument_key()?;
            json.push_str(if number > 0 { "," } else { "" });
            reader.member(&key, b'=', &mut json, 0)
        })?;
        json.push('}');
        Ok((name, json))
    }

    /// Reads what stands between commas, up to this bracket. The last one may have a comma, too.
    fn items(
        &mut self,
        close: u8,
        mut read: impl FnMut(&mut Self, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for number in 0.. {
            if self.takes(close) {
                break;
            }
            if number > 0 {
                self.expect(b',')?;
                if self.takes(close) {
                    break;
                }
            }
            self.skip_space();
            read(self, number)?;
        }
        Ok(())
    }

    /// Adds this key and, after a sign, its value.
    fn member(
        &mut self,
        key: &str,
        sign: u8,
        json: &mut String,
        depth: usize,
    ) -> Result<(), Fault> {
        json.push_str(&Value::from(key).to_string());
        json.push(':');
        self.expect(sign)?;
        self.skip_space();
        self.value(json, depth)
    }

    /// The key of an argument.
    fn argument_key(&mut self) -> Result<String, Fault> {
        self.skip_space();
        if self.delimiter.is_some() {
            return self.key();
        }
        match self.word() {
            "" => Err(self.fault("the name of an argument")),
            key => Ok(key.to_owned()),
        }
    }

    /// What stands between the key of an argument and its value.
    const fn sign(&self) -> u8 {
        if self.delimiter.is_some() { b':' } else { b'=' }
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|char| !is_word_part(char)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Adds the value that stands here, as JSON.
    fn value(&mut self, json: &mut String, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::new(ErrorCode::PayloadTooDeep, "the values are nested too deeply"));
        }
        if let Some(text) = self.delimited()? {
            json.push_str(&Value::from(text).to_string());
            return Ok(());
        }
        match self.rest().as_bytes().first() {
            Some(&quote) if self.is_quote(quote) => {
                let text = self.quoted()?;
                json.push_str(&Value::from(text).to_string());
                Ok(())
            }
            Some(b'[') => self.list(b']', json, depth),
            Some(b'(') if self.delimiter.is_none() => self.list(b')', json, depth),
            Some(b'{') => self.object(json, depth),
            _ => self.bare(json),
        }
    }

    /// A text between delimiters, if one stands here.
    fn delimited(&mut self) -> Result<Option<&'t str>, Fault> {
        let Some(delimiter) = self.delimiter else { return Ok(None) };
        let Some(rest) = self.rest().strip_prefix(delimiter) else { return Ok(None) };
        let Some(length) = rest.find(delimiter) else { return Err(self.fault("a whole text")) };
        self.at += length + 2 * delimiter.len();
        Ok(Some(&rest[..length]))
    }

    /// A text between quotes, with Python's escapes.
    fn quoted(&mut self) -> Result<String, Fault> {
        let rest = self.rest();
        let quote = rest.as_bytes()[0];
        let mut at = 1;
        loop {
            let Some(found) = find::either(quote, b'\\', &rest.as_bytes()[at..]) else {
                return Err(self.fault("a whole text"));
            };
            at += found;
            if rest.as_bytes()[at] == quote {
                self.at += at + 1;
                return Ok(unescaped(&rest[1..at]).into_owned());
            }
            // What follows a backslash is part of the text, whatever it is.
            at = (at + 2).min(rest.len());
        }
    }

    fn list(&mut self, close: u8, json: &mut String, depth: usize) -> Result<(), Fault> {
        self.at += 1;
        json.push('[');
        self.items(close, |reader, number| {
            json.push_str(if number > 0 { "," } else { "" });
            reader.value(json, depth + 1)
        })?;
        json.push(']');
        Ok(())
    }

    fn object(&mut self, json: &mut String, depth: usize) -> Result<(), Fault> {
        self.at += 1;
        json.push('{');
        self.items(b'}', |reader, number| {
            json.push_str(if number > 0 { "," } else { "" });
            let key = reader.key()?;
            reader.member(&key, b':', json, depth + 1)
        })?;
        json.push('}');
        Ok(())
    }

    /// A key: a text or, in a loose object, whatever comes before the colon.
    fn key(&mut self) -> Result<String, Fault> {
        if let Some(key) = self.delimited()? {
            return Ok(key.to_owned());
        }
        if self.rest().bytes().next().is_some_and(|byte| self.is_quote(byte)) {
            return self.quoted();
        }
        if self.delimiter.is_none() {
            return Err(self.fault("a key in quotes"));
        }
        let rest = self.rest();
        let length = rest.find([':', '}', '"']).unwrap_or(rest.len());
        self.at += length;
        Ok(rest[..length].trim_end().to_owned())
    }

    /// Whether a text begins with this byte. In a loose object, some models write JSON.
    const fn is_quote(&self, byte: u8) -> bool {
        byte == b'"' || byte == b'\'' && self.delimiter.is_none()
    }

    /// A number, a truth value or nothing, as JSON or Python writes it. In a loose object, any other
    /// word without a quote or a colon is a text.
    fn bare(&mut self, json: &mut String) -> Result<(), Fault> {
        let rest = self.rest();
        let length = rest.find([',', ']', '}', ')', '=', ':', '"']).unwrap_or(rest.len());
        let word = rest[..length].trim_end();
        match word {
            "True" | "true" => json.push_str("true"),
            "False" | "false" => json.push_str("false"),
            "None" | "null" => json.push_str("null"),
            _ if is_number(word) => json.push_str(word),
            _ if self.delimiter.is_some() && !word.is_empty() => {
                json.push_str(&Value::from(word).to_string());
            }
            _ => return Err(self.fault("a value")),
        }
        self.at += length;
        Ok(())
    }
}

/// A text in UTF-16, because two escapes can be the halves of one character.
#[derive(Default)]
struct Utf16(Vec<u16>);

impl Utf16 {
    fn push(&mut self, char: char) {
        self.0.extend_from_slice(char.encode_utf16(&mut [0; 2]));
    }

    /// Adds the character that an escape means. `chars` is after the backslash.
    fn push_escape(&mut self, chars: &mut Chars<'_>) {
        match chars.next() {
            Some('n') => self.push('\n'),
            Some('t') => self.push('\t'),
            Some('r') => self.push('\r'),
            Some('b') => self.push('\u{8}'),
            Some('f') => self.push('\u{c}'),
            Some('a') => self.push('\u{7}'),
            Some('v') => self.push('\u{b}'),
            Some(digit @ '0'..='7') => self.push_octal(digit, chars),
            Some('x') => self.push_code(chars, 2),
            Some('u') => self.push_code(chars, 4),
            Some('U') => self.push_code(chars, 8),
            Some(char @ ('\\' | '\'' | '"' | '/')) => self.push(char),
            Some('\n') | None => {}
            // Python keeps the backslash of an escape that it does not know.
            Some(other) => {
                self.push('\\');
                self.push(other);
            }
        }
    }

    /// Adds the character with this code: up to three octal digits, of which this is the first.
    fn push_octal(&mut self, first: char, chars: &mut Chars<'_>) {
        let mut code = first.to_digit(8).unwrap_or_default();
        for _ in 0..2 {
            let Some(digit) = chars.as_str().chars().next().and_then(|digit| digit.to_digit(8))
            else {
                break;
            };
            chars.next();
            code = 8 * code + digit;
        }
        self.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    }

    /// Adds the character whose code is the next `digits` hexadecimal digits.
    fn push_code(&mut self, chars: &mut Chars<'_>, digits: usize) {
        let text = chars.as_str();
        let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
        let length = text.bytes().take(digits).take_while(|byte| is_digit(byte)).count();
        *chars = text[length..].chars();
        let code = u32::from_str_radix(&text[..length], 16).ok().filter(|_| length == digits);
        match (code.and_then(char::from_u32), code.map(u16::try_from)) {
            (Some(char), _) => self.push(char),
            (None, Some(Ok(half))) => self.0.push(half),
            (None, _) => self.push(char::REPLACEMENT_CHARACTER),
        }
    }
}

fn is_number(word: &str) -> bool {
    word.starts_with(|char: char| char == '-' || char.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: JsonKeys = JsonKeys { name: &["name"], arguments: &["arguments"] };

    /// The calls in a list, or why there are none.
    fn calls(payload: &str) -> Result<Vec<(String, String)>, String> {
        let content = pythonic(payload, &KEYS).map_err(|fault| fault.message)?;
        let Content::Elements(elements) = content else { panic!("a list") };
        let call = |(_, call): Element<'_>| {
            call.map(|(name, it)| (name, it.as_str().to_owned())).map_err(|fault| fault.message)
        };
        elements.into_iter().map(call).collect()
    }

    #[track_caller]
    fn check(value: &str, expected: &str) {
        let arguments = format!("{{\"a\":{expected}}}");
        assert_eq!(calls(&format!("[f(a={value})]")), Ok(vec![("f".to_owned(), arguments)]));
    }

    #[test]
    fn values_are_those_of_python_and_json() {
        check("True", "true");
        check("false", "false");
        check("None", "null");
        check("null", "null");
        check("-1.5e3", "-1.5e3");
        check("[]", "[]");
        check("(1, 'x',)", "[1,\"x\"]");
        check("{'k': [True], \"l\": {}}", "{\"k\":[true],\"l\":{}}");
    }

    #[test]
    fn texts_have_pythons_escapes() {
        check(r#""a'b""#, r#""a'b""#);
        check(r"'a\'b\\c\n\té\x41'", r#""a'b\\c\n\té""#.replace('é', "éA").as_str());
        check(r"'\d+'", r#""\\d+""#);
        check(r"'\ud800'", "\"\u{fffd}\"");
        check(r"'\ud83e\udd80\U0001F980'", "\"🦀🦀\"");
        check(r"'\101\60\0\a\v\18'", r#""A0\u0000\u0007\u000b\u00018""#);
        check(r#"'\r\b\f\/\"'"#, r#""\r\b\f/\"""#);
        check(r"'\x4'", "\"\u{fffd}\"");
        check(r"'\uZ'", "\"\u{fffd}Z\"");
        check("'é → 🦀'", "\"é → 🦀\"");
    }

    #[test]
    fn what_is_no_list_of_calls_is_refused() {
        for payload in [
            "[]",
            "[1]",
            "[f]",
            "[f(1)]",
            "[f(a)]",
            "[f(a=)]",
            "[f(a=b)]",
            "[f(a=1 b=2)]",
            "[f(a='x)]",
            "[f(a=01)]",
            "[f()g()]",
            "[f(),,]",
            "[f(a={1: 2})]",
            "[f(a=g())]",
            "[f(a=1, a=2)]",
            "[a](b)",
        ] {
            assert!(calls(payload).is_err(), "{payload}");
        }
    }

    #[test]
    fn a_list_may_be_json() {
        let made = vec![("f".to_owned(), "{\"a\": 1}".to_owned())];
        assert_eq!(calls(r#"[ {"name": "f", "arguments": {"a": 1}}]"#), Ok(made));
    }

    #[test]
    fn an_object_may_have_bare_keys_and_words() {
        let read = |payload: &str| match loose("f", payload, "<q>") {
            Ok(Content::Call(_, arguments)) => Ok(arguments.as_str().to_owned()),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.message),
        };
        for (payload, expected) in [
            ("{}", "{}"),
            ("{a:<q>x{\"<q>,b c:1}", r#"{"a":"x{\"","b c":1}"#),
            ("{<q>a<q>:[true,null,word]}", r#"{"a":[true,null,"word"]}"#),
            ("{ a : { b : <q><q> } , }", r#"{"a":{"b":""}}"#),
            ("{a:'x',b:5 apples,c:true?}", r#"{"a":"'x'","b":"5 apples","c":"true?"}"#),
            (r#"{"a": ["x, y", 1], "b:c": "http://d"}"#, r#"{"a":["x, y",1],"b:c":"http://d"}"#),
        ] {
            assert_eq!(read(payload).as_deref(), Ok(expected));
        }
        for payload in [
            "{a}",
            "{a:}",
            "{a:<q>x}",
            "{a:1,a:2}",
            "[1]",
            "{a:1}}",
            "{a:b:c}",
            "{a\"b\":1}",
            "{a:b \"c\"}",
        ] {
            assert!(read(payload).is_err(), "{payload}");
        }
    }
}
