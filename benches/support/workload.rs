//! Model output for benchmarks: the same on every machine, in chunks as a model server or network
//! cuts them.

use std::ops::Range;

/// What a text contains besides words.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    /// Only punctuation, nothing that could begin an opener.
    Prose,
    /// Code and markup, mostly with `<`.
    Code,
    /// Links, lists and inline code, with `[` and `{`.
    Markdown,
}

/// How a text is cut.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    /// Into pieces of 3 to 4 bytes, like tokens.
    Tokens,
    /// Into pieces of this many bytes.
    Bytes(usize),
}

const WORDS: &[&str] = &[
    "the",
    "model",
    "of",
    "a",
    "stream",
    "and",
    "in",
    "token",
    "is",
    "that",
    "it",
    "answers",
    "request",
    "with",
    "as",
    "value",
    "because",
    "each",
    "returns",
    "between",
    "naïve",
    "café",
    "日本語",
    "résumé",
    "→",
    "connection",
    "implementation",
    "however",
    "only",
    "after",
];

const CODE: &[&str] = &[
    "<div class=\"row\">",
    "</div>",
    "if a < b {",
    "x <= y",
    "Vec<u8>",
    "<br/>",
    "<!-- note -->",
    "a << 2",
    "<<EOF",
    "fn f<T>() -> Option<T>",
    "<function>",
    "<t",
    "</thing>",
    "1 < 2 && 3 > 2",
];

const MARKDOWN: &[&str] = &[
    "[a link](docs/page.md)",
    "`map[key]`",
    "- [x] done",
    "`fn f() {}`",
    "{{ template }}",
    "[1]",
    "**bold**",
];

/// A small pseudorandom generator (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed >> 33) % bound as u64).unwrap_or_default()
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }
}

/// At least `bytes` of text.
pub(crate) fn text(bytes: usize, style: Style) -> String {
    let mut numbers = Numbers(7);
    let mut text = String::with_capacity(bytes + 64);
    let mut words = 0;
    while text.len() < bytes {
        let from = match style {
            Style::Code if numbers.below(6) == 0 => CODE,
            Style::Markdown if numbers.below(6) == 0 => MARKDOWN,
            _ => WORDS,
        };
        text.push_str(numbers.pick(from));
        words += 1;
        text.push_str(if words % 97 == 0 {
            ".\n\n"
        } else if words % 11 == 0 {
            ", "
        } else {
            " "
        });
    }
    text
}

/// A call that writes a file of about `bytes`, after a few words.
pub(crate) fn one_call(bytes: usize) -> String {
    let content = text(bytes, Style::Code).replace(", ", ",\n\t\"quoted\" ");
    let arguments = serde_json::json!({ "path": "src/main.rs", "content": content });
    format!("I will write it now.\n{}", call("write_file", &arguments))
}

/// A hundred small calls, each after a paragraph.
pub(crate) fn hundred_calls() -> String {
    let paragraph = text(240, Style::Prose);
    let mut stream = String::new();
    for day in 0..100 {
        let arguments = serde_json::json!({ "city": "Oslo", "day": day, "note": "a \"b\" {c}" });
        stream.push_str(&paragraph);
        stream.push('\n');
        stream.push_str(&call("get_weather", &arguments));
        stream.push('\n');
    }
    stream
}

fn call(name: &str, arguments: &serde_json::Value) -> String {
    format!("<<function_call>> {{\"name\": \"{name}\", \"arguments\": {arguments}}}\n")
}

/// Cuts a text at character boundaries.
pub(crate) fn chunks(text: &str, cut: Cut) -> Vec<Range<usize>> {
    let mut numbers = Numbers(11);
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let length = match cut {
            Cut::Tokens => 3 + numbers.below(2),
            Cut::Bytes(length) => length,
        };
        let mut end = (start + length).min(text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        chunks.push(start..end);
        start = end;
    }
    chunks
}
