//! Repairs a payload that is not JSON, if it is obvious what the model meant.
//!
//! A repair works on the whole payload, and its result depends on nothing else. The result may
//! still not be JSON: a missing word is not guessed.

use std::fmt::Write;

use serde::Serialize;

use super::examined;

/// A kind of repair, as listed with a completed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// A code fence around the payload was dropped.
    CodeFence,
    /// A language word before the payload was dropped.
    LanguageWord,
    /// A bracket was closed with one of the wrong kind.
    BracketOrder,
    /// Brackets were open at the end: the call may have been cut off.
    OpenBracket,
    /// A string in the arguments was open at the end: the call may have been cut off. A name that
    /// was cut off is not repaired, because it may be another tool's.
    OpenString,
    /// A comma came before a closing bracket.
    TrailingComma,
    /// Single quotes delimited a string.
    SingleQuotes,
    /// A string contained a raw control character.
    ControlCharacter,
    /// `True`, `False` or `None` was written for `true`, `false` or `null`.
    PythonLiteral,
}

impl Repair {
    /// Its name, as `tether parse` prints it.
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

/// Repairs a payload, and adds each kind of repair to `repaired` once.
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

/// Adds a kind of repair, unless it is there.
pub(super) fn note(repaired: &mut Vec<Repair>, repair: Repair) {
    if !repaired.contains(&repair) {
        repaired.push(repair);
    }
}

struct Mender<'p, 'r> {
    rest: &'p str,
    out: String,
    /// The closers of the open brackets.
    open: Vec<char>,
    /// Where in `out` a comma is, if only white space and commas follow it.
    comma: Option<usize>,
    /// How many brackets are open between a call's keys: 1, or 2 in an array.
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

    /// Copies a string. False if it has no end and must not be given one.
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

    /// Copies an escape sequence. If the input ends inside it, it is dropped, provided that its
    /// string can be closed.
    fn escape(&mut self) {
        let length = match self.rest.as_bytes().get(1) {
            Some(b'\'') => {
                self.note(Repair::SingleQuotes);
                self.take(1);
                return self.copy(1);
            }
            Some(b'u') => 6,
            // An escaped raw control character is repaired next.
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
