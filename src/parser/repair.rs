//! Mends a payload that is not JSON where it is plain what the model meant.
//!
//! It works on the whole payload and its result depends on nothing else. What it
//! gives back may still not be JSON: a word left out is not guessed.

use std::fmt::Write;

use serde::Serialize;

use super::examined;

/// A kind of mending, for the event that the call completes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// A code fence around the payload was dropped.
    CodeFence,
    /// A language word in front of the payload was dropped.
    LanguageWord,
    /// A bracket was closed with one of the wrong kind.
    BracketOrder,
    /// Brackets were open at the end of input: the call may have been cut.
    OpenBracket,
    /// A string of the arguments was open at the end of input: the call may have
    /// been cut. A name that was cut is not mended, it may be another tool's.
    OpenString,
    /// A comma stood in front of a closing bracket.
    TrailingComma,
    /// Single quotes delimited a string.
    SingleQuotes,
    /// A raw control character stood inside a string.
    ControlCharacter,
    /// `True`, `False` or `None` stood for `true`, `false` or `null`.
    PythonLiteral,
}

impl Repair {
    /// The code as events spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CodeFence => "code_fence",
            Self::LanguageWord => "language_word",
            Self::BracketOrder => "bracket_order",
            Self::OpenBracket => "open_bracket",
            Self::OpenString => "open_string",
            Self::TrailingComma => "trailing_comma",
            Self::SingleQuotes => "single_quotes",
            Self::ControlCharacter => "control_character",
            Self::PythonLiteral => "python_literal",
        }
    }
}

/// Mends a payload and adds what was done to `repaired`, each kind once.
pub(super) fn mend(payload: &str, repaired: &mut Vec<Repair>) -> String {
    examined::note(payload.len());
    let mut mender = Mender {
        rest: payload,
        out: String::with_capacity(payload.len() + 16),
        open: Vec::new(),
        comma: None,
        envelope: if payload.starts_with('[') { 2 } else { 1 },
        repaired,
    };
    mender.run();
    mender.out
}

/// Notes a kind of mending once.
pub(super) fn note(repaired: &mut Vec<Repair>, repair: Repair) {
    if !repaired.contains(&repair) {
        repaired.push(repair);
    }
}

struct Mender<'p, 'r> {
    rest: &'p str,
    out: String,
    /// The brackets that are open, as their closers.
    open: Vec<char>,
    /// Where in `out` a comma stands that nothing but white space and commas follow.
    comma: Option<usize>,
    /// As many brackets are open between a call's keys.
    envelope: usize,
    repaired: &'r mut Vec<Repair>,
}

impl<'p> Mender<'p, '_> {
    fn run(&mut self) {
        while let Some(c) = self.rest.chars().next() {
            match c {
                '"' | '\'' => {
                    if !self.string(c) {
                        return;
                    }
                }
                '{' => self.open(c, '}'),
                '[' => self.open(c, ']'),
                '}' | ']' => self.close(c),
                ',' => {
                    self.comma.get_or_insert(self.out.len());
                    self.copy(1);
                }
                _ if c.is_ascii_alphabetic() => self.word(),
                _ if c.is_ascii_whitespace() => self.copy(1),
                _ => {
                    self.comma = None;
                    self.copy(c.len_utf8());
                }
            }
        }
        if !self.open.is_empty() {
            self.drop_comma();
            self.note(Repair::OpenBracket);
            self.out.extend(self.open.drain(..).rev());
        }
    }

    fn note(&mut self, repair: Repair) {
        note(self.repaired, repair);
    }

    fn take(&mut self, length: usize) -> &'p str {
        let (head, tail) = self.rest.split_at(length);
        self.rest = tail;
        head
    }

    fn copy(&mut self, length: usize) {
        let head = self.take(length);
        self.out.push_str(head);
    }

    fn open(&mut self, bracket: char, closer: char) {
        self.comma = None;
        self.open.push(closer);
        self.take(1);
        self.out.push(bracket);
    }

    fn close(&mut self, bracket: char) {
        self.drop_comma();
        self.take(1);
        let closer = self.open.pop().unwrap_or(bracket);
        if closer != bracket {
            self.note(Repair::BracketOrder);
        }
        self.out.push(closer);
    }

    fn drop_comma(&mut self) {
        if let Some(at) = self.comma.take() {
            let white = self.out.split_off(at).replace(',', "");
            self.out.push_str(&white);
            self.note(Repair::TrailingComma);
        }
    }

    fn word(&mut self) {
        self.comma = None;
        let length =
            self.rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let word = self.take(length);
        let json = match word {
            "True" => "true",
            "False" => "false",
            "None" => "null",
            _ => return self.out.push_str(word),
        };
        self.note(Repair::PythonLiteral);
        self.out.push_str(json);
    }

    /// Copies a string, and returns whether it has an end.
    fn string(&mut self, quote: char) -> bool {
        self.comma = None;
        if quote == '\'' {
            self.note(Repair::SingleQuotes);
        }
        self.take(1);
        self.out.push('"');
        loop {
            let plain = self
                .rest
                .bytes()
                .take_while(|&b| b >= b' ' && !matches!(b, b'"' | b'\'' | b'\\'))
                .count();
            self.copy(plain);
            match self.rest.chars().next() {
                None if self.in_arguments() => {
                    self.note(Repair::OpenString);
                    break;
                }
                None => return false,
                Some(c) if c == quote => {
                    self.take(1);
                    break;
                }
                Some('"') => {
                    self.take(1);
                    self.out.push_str("\\\"");
                }
                Some('\\') => self.escape(),
                Some('\'') => self.copy(1),
                Some(control) => self.control(control),
            }
        }
        self.out.push('"');
        true
    }

    fn in_arguments(&self) -> bool {
        self.open.len() > self.envelope
    }

    /// Copies an escape sequence; one that the end of input cut is dropped
    /// with the rest of its string's end.
    fn escape(&mut self) {
        let length = match self.rest.as_bytes().get(1) {
            Some(b'\'') => {
                self.note(Repair::SingleQuotes);
                self.take(1);
                return self.copy(1);
            }
            Some(b'u') => 6,
            // What is escaped may be a raw control character: that is mended next.
            Some(0..b' ') => 1,
            Some(byte) if byte.is_ascii() => 2,
            Some(_) => 1,
            None => 2,
        };
        if length > self.rest.len() {
            let cut = self.take(self.rest.len());
            if !self.in_arguments() {
                self.out.push_str(cut);
            }
        } else if self.rest.is_char_boundary(length) {
            self.copy(length);
        } else {
            self.copy(1);
        }
    }

    fn control(&mut self, control: char) {
        self.note(Repair::ControlCharacter);
        self.take(1);
        match control {
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            _ => {
                let code = u32::from(control);
                write!(self.out, "\\u{code:04x}").expect("a `String` takes everything");
            }
        }
    }
}
