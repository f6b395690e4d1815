//! Inert data: tool output written so that a model that copies it makes no call and begins no
//! message of another role.
//!
//! If something could pass for more than text, its first character is escaped as in JSON,
//! `\u003c`. Whoever reads the JSON gets the same value, and models understand it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::call_format::CallFormat;

/// Text in which every mark of the format and every role token is escaped.
pub(crate) fn text<'a>(text: &'a str, format: &CallFormat) -> Cow<'a, str> {
    let mut inert = String::new();
    let mut rest = text;
    while let Some(at) = find_live(rest, format) {
        let (before, live) = rest.split_at(at);
        inert.push_str(before);
        let mut chars = live.chars();
        if let Some(first) = chars.next() {
            for unit in first.encode_utf16(&mut [0; 2]) {
                let _ = write!(inert, "\\u{unit:04x}");
            }
        }
        rest = chars.as_str();
    }
    if inert.is_empty() {
        return Cow::Borrowed(text);
    }
    inert.push_str(rest);
    Cow::Owned(inert)
}

/// A value as JSON whose strings are escaped in the same way.
pub(crate) fn json(value: &(impl Serialize + ?Sized), format: &CallFormat) -> String {
    let mut json = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut json, Inert { format });
    value.serialize(&mut serializer).expect("keys are strings, and nothing else can fail");
    String::from_utf8(json).expect("JSON is UTF-8")
}

/// The position of the first character that must be escaped.
fn find_live(text: &str, format: &CallFormat) -> Option<usize> {
    let candidates = text.char_indices().filter(|(_, char)| {
        matches!(char, '<' | '[') || format.marks().any(|mark| mark.starts_with(*char))
    });
    candidates.map(|(at, _)| at).find(|at| {
        let here = &text[*at..];
        here.starts_with('<')
            || is_role_token(here)
            || format.marks().any(|mark| !mark.is_empty() && here.starts_with(mark))
    })
}

/// Whether the text begins with a token such as `[INST]` or `[/TOOL_RESULTS]`. Role tokens of
/// other kinds begin with `<`.
fn is_role_token(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('[') else { return false };
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    let name = inner.trim_start_matches(|char: char| char.is_ascii_uppercase() || char == '_');
    name.len() < inner.len() && name.starts_with(']')
}

/// JSON without white space, whose strings are inert.
struct Inert<'a> {
    format: &'a CallFormat,
}

impl Formatter for Inert<'_> {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        CompactFormatter.write_string_fragment(writer, &text(fragment, self.format))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::call_format::{ROWS, Row};

    #[track_caller]
    fn check(marker: &str, plain: &str, expected: &str) {
        let format = CallFormat::marker(marker);
        assert_eq!(text(plain, &format), expected);
        let value = json!({ "a": [plain] });
        let written = json(&value, &format);
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value, "the same value");
        if !marker.contains(['"', '\\']) {
            let strings = written.strip_prefix("{\"a\":[\"").unwrap();
            assert!(!strings.contains(marker), "{written}");
        }
    }

    #[test]
    fn markers_and_role_tokens_do_not_survive() {
        for (marker, plain, expected) in [
            ("<<f>>", "a < b", r"a \u003c b"),
            ("<<f>>", "<<f>> {}", r"\u003c\u003cf>> {}"),
            ("<<f>>", "<|im_start|>system", r"\u003c|im_start|>system"),
            ("<<f>>", "[INST] do [/INST]", r"\u005bINST] do \u005b/INST]"),
            ("<<f>>", "[TOOL_CALLS][{}]", r"\u005bTOOL_CALLS][{}]"),
            ("[[do]]", "see [[do]] {}", r"see \u005b[do]] {}"),
            ("§§ call", "a §§ call", r"a \u00a7§ call"),
            ("🔧:", "🔧: {}", r"\ud83d\udd27: {}"),
            ("CALL", "CALLCALL", r"\u0043ALL\u0043ALL"),
        ] {
            check(marker, plain, expected);
        }
    }

    #[test]
    fn what_begins_a_call_of_any_format_does_not_survive() {
        for (row, plain, expected) in [
            ("functionary_v32", ">>>f", r"\u003e>>f"),
            ("functionary_v32", ">>f", ">>f"),
            ("cohere_r_plus", "Action: f", r"\u0041ction: f"),
            ("minimax_m3", "]<]minimax[>[<tool_call>", r"\u005d\u003c]minimax[>[\u003ctool_call>"),
            ("mistral_array", "[TOOL_CALLS][", r"\u005bTOOL_CALLS]["),
        ] {
            assert_eq!(text(plain, &CallFormat::of(Row::named(row).unwrap())), expected, "{row}");
        }
        for row in ROWS.iter().filter(|row| !row.is_bare() && row.header.is_none()) {
            let format = CallFormat::of(row);
            let mut call = String::new();
            format.push_call(&mut call, "f", "{}");
            let inert = text(&call, &format);
            assert!(!inert.contains(row.first_mark()), "{}: {inert}", row.name);
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for plain in ["", "a > b", "[1, 2]", "[]", "[/]", "[Tokyo]", "[a](b)", "x[I]y[", "[INST"] {
            let expected = plain.replace("[I]", r"\u005bI]");
            check("[[do]]", plain, &expected);
        }
        assert!(matches!(text("nothing to do", &CallFormat::marker("<<f>>")), Cow::Borrowed(_)));
    }

    #[test]
    fn json_syntax_stays_json() {
        let value = json!([[["[[", "true"], true], { "[[": null }]);
        for marker in ["[[", "true", "\"", "{", "\\"] {
            let written = json(&value, &CallFormat::marker(marker));
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value, "{marker}");
        }
    }
}
