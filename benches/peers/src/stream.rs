//! The streams: texts and calls of the parser's benches, the calls written as each participant reads
//! them, in pieces like tokens.

use std::ops::Range;

use serde_json::{Value, json};

use crate::workload::{Cut, Style, chunks, hundred_calls, one_call, text};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// How a call begins in the streams that [`one_call`] and [`hundred_calls`] make.
const MARKER: &str = "<<function_call>> ";
/// Tokens of their own in the models that write them, so they arrive whole.
const SPECIAL_TOKENS: &[&str] = &["<tool_call>", "</tool_call>", "<|python_tag|>"];

/// How a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Markup {
    /// `<<function_call>> {"name": …, "arguments": …}` and the end of the line: Tether's default.
    MarkerLine,
    /// The same JSON between `<tool_call>` and `</tool_call>`, each on a line: Hermes, Qwen.
    Hermes,
    /// `<|python_tag|>{"name": …, "parameters": …}`: Llama 3.
    Llama,
}

/// One thing to read, in any markup.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    /// With calls as marker lines.
    text: String,
    cut: Cut,
    pub(crate) has_calls: bool,
}

pub(crate) fn works() -> Vec<Work> {
    let text = |name, cut, style| Work { name, text: text(MIB, style), cut, has_calls: false };
    let call =
        |name, bytes| Work { name, text: one_call(bytes), cut: Cut::Tokens, has_calls: true };
    vec![
        text("prose", Cut::Tokens, Style::Prose),
        text("prose, 64 KiB chunks", Cut::Bytes(64 * KIB), Style::Prose),
        text("code", Cut::Tokens, Style::Code),
        text("markdown", Cut::Tokens, Style::Markdown),
        call("call of 16 KiB", 16 * KIB),
        call("call of 256 KiB", 256 * KIB),
        call("call of 1 MiB", MIB),
        Work { name: "100 small calls", text: hundred_calls(), cut: Cut::Tokens, has_calls: true },
    ]
}

/// What a participant reads, and what it should find.
#[derive(Debug)]
pub(crate) struct Stream {
    text: String,
    cuts: Vec<Range<usize>>,
    /// The text outside calls.
    pub(crate) prose: String,
    /// Name and arguments of each call.
    pub(crate) calls: Vec<(String, Value)>,
}

impl Work {
    pub(crate) fn stream(&self, markup: Markup) -> Stream {
        let (mut text, mut prose, mut calls) = (String::new(), String::new(), Vec::new());
        for line in self.text.split_inclusive('\n') {
            if let Some(json) = line.strip_prefix(MARKER) {
                let call: Value = serde_json::from_str(json).expect("a benchmark's own call");
                text.push_str(&markup.call(json.trim_end()));
                calls.push((
                    call["name"].as_str().unwrap_or_default().to_owned(),
                    call["arguments"].clone(),
                ));
            } else {
                text.push_str(line);
                prose.push_str(line);
            }
        }
        let cuts = with_whole_tokens(&text, chunks(&text, self.cut));
        Stream { text, cuts, prose, calls }
    }
}

impl Stream {
    pub(crate) fn chunks(&self) -> Vec<&str> {
        self.cuts.iter().map(|cut| &self.text[cut.clone()]).collect()
    }

    pub(crate) const fn len(&self) -> usize {
        self.text.len()
    }
}

impl Markup {
    fn call(self, json: &str) -> String {
        match self {
            Self::MarkerLine => format!("{MARKER}{json}\n"),
            Self::Hermes => format!("<tool_call>\n{json}\n</tool_call>\n"),
            // The first one is the call's own: nothing in a name has to be escaped.
            Self::Llama => {
                format!("<|python_tag|>{}\n", json.replacen("\"arguments\":", "\"parameters\":", 1))
            }
        }
    }
}

/// The tools that the calls name.
pub(crate) fn tool_schemas() -> [(&'static str, Value); 2] {
    [
        (
            "write_file",
            json!({ "type": "object", "properties": {
                "path": { "type": "string" }, "content": { "type": "string" } } }),
        ),
        (
            "get_weather",
            json!({ "type": "object", "properties": {
                "city": { "type": "string" }, "day": { "type": "integer" },
                "note": { "type": "string" } } }),
        ),
    ]
}

/// Joins chunks that cut a special token.
fn with_whole_tokens(text: &str, cuts: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut tokens: Vec<Range<usize>> = SPECIAL_TOKENS
        .iter()
        .flat_map(|token| text.match_indices(token).map(|(at, _)| at..at + token.len()))
        .collect();
    tokens.sort_by_key(|token| token.start);
    let mut tokens = tokens.into_iter().peekable();
    let mut joined: Vec<Range<usize>> = Vec::new();
    for cut in cuts {
        while tokens.next_if(|token| token.end <= cut.start).is_some() {}
        let is_cut = tokens.peek().is_some_and(|token| token.start < cut.start);
        match joined.last_mut() {
            Some(last) if is_cut => last.end = cut.end,
            _ => joined.push(cut),
        }
    }
    joined
}
