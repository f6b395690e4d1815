//! Keeps result blocks out of the model's words. Only the gateway writes them, so one written by
//! the model is invented, or echoes an earlier message.
//!
//! ```text
//!               a first byte that may begin a block
//!   LineStart ──────────────────────────────────────> Candidate ── the whole pattern ──> Found
//!     ^   │                                             │
//!     │   └─ any other ─> MidLine <── it was none ──────┘
//!     └────── line break ────┘
//! ```
//! A block begins at the start of a line. It is one of these:
//!
//! - the heading of a tool's result, `` `NAME` (ID) returned: ``
//! - the result's JSON, in a code fence or not
//! - what the call format puts around a result
//! - any JSON object after a call in the same message, since the real result is not known yet
//!
//! White space is ignored. Markdown at the start of the line, such as `> `, is shown but otherwise
//! ignored too.
//!
//! Text is held back only while it may still be a block, and never more than [`HELD_BYTES_MAX`];
//! text that begins with a letter is never held back. If the held text turns out not to be a
//! block, its last line is read again, because it may begin one.

use std::sync::Arc;

use crate::conversation::render::echo::{echo, is_blank};
use crate::conversation::render::results::RETURNED;
use crate::limits::tools::NAME_BYTES_MAX;
use crate::limits::turn::{ECHO_BYTES_MIN, GUARDED_TOOLS_MAX, HELD_BYTES_MAX};

/// Reads the words of a turn's messages, in pieces cut anywhere.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ResultGuard {
    state: State,
    /// Whether answers may be JSON, so that no JSON is taken for a result.
    allows_json: bool,
    /// Whether the message has called a tool: any JSON after that is an invented result.
    has_called: bool,
    // In the middle of a line, words need no more than the fields above.
    /// What opens a result in the call format; empty if nothing does.
    frame: &'static str,
    /// The tools whose results have a heading.
    tools: Vec<String>,
    /// The results that may be echoed: see [`echo`].
    echoes: Vec<Arc<str>>,
}

/// Where the first line ends. A token is shorter than it takes to set the search up.
fn line_end(words: &[u8]) -> Option<usize> {
    const TOKEN_BYTES: usize = 16;
    if words.len() <= TOKEN_BYTES {
        return words.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
    }
    memchr::memchr2(b'\n', b'\r', words)
}

#[derive(Debug, Default)]
enum State {
    #[default]
    LineStart,
    /// Boxed: it is rare, and every turn has room for a state.
    Candidate(Box<Candidate>),
    MidLine,
}

/// Text that may begin a block.
#[derive(Debug, Default)]
struct Candidate {
    text: String,
    /// Bytes of `text` other than white space.
    matched: usize,
    heading: Option<Heading>,
    /// The results that `text` may begin, by position, each with the fence before it.
    results: Vec<(usize, &'static str)>,
}

/// What comes next in a heading.
#[derive(Debug, Clone, Copy)]
enum Heading {
    /// The rest of what opens a result in the call format.
    Frame(&'static str),
    /// More of the tool's name, between backticks.
    Name,
    /// The call's id in parentheses, or [`RETURNED`].
    AfterName,
    Id,
    /// The byte of [`RETURNED`] at this index.
    Returned(usize),
}

/// What may come before a block of JSON.
const FENCES: [&str; 3] = ["", "```json", "```"];

impl ResultGuard {
    /// A guard for a turn that is offered `tools`, and whose results are opened by `frame`.
    pub(super) fn new(tools: Vec<String>, frame: &'static str, allows_json: bool) -> Self {
        Self { tools, frame: frame.trim_ascii(), allows_json, ..Self::default() }
    }

    /// Learns the name of a tool that was called, even if there is no such tool.
    pub(super) fn learn_tool(&mut self, name: &str) {
        let is_new = !self.tools.iter().any(|known| known == name);
        if is_new && self.tools.len() < GUARDED_TOOLS_MAX && name.len() <= NAME_BYTES_MAX {
            self.tools.push(name.to_owned());
        }
    }

    /// Learns a result, as JSON, that later messages may echo.
    pub(super) fn learn_result(&mut self, json: impl FnOnce() -> String) {
        if self.allows_json {
            return;
        }
        if let Some(echo) = echo(&json()) {
            self.learn_echo(&echo);
        }
    }

    /// Learns what a result is known by.
    pub(super) fn learn_echo(&mut self, echo: &Arc<str>) {
        if !self.allows_json && !self.echoes.contains(echo) {
            self.echoes.push(Arc::clone(echo));
        }
    }

    /// A message begins. Drops what was held back of the previous one.
    pub(super) fn begin_message(&mut self) {
        (self.state, self.has_called) = (State::LineStart, false);
    }

    /// A call of the message is over. The message may continue with its result, which is not known
    /// yet.
    pub(super) fn end_call(&mut self) {
        (self.state, self.has_called) = (State::LineStart, true);
    }

    /// Takes the next words and appends to `out` whatever is not held back. Returns whether a
    /// block was found; if so, the rest of the message should not be read.
    pub(super) fn push(&mut self, words: &str, out: &mut String) -> bool {
        let mut rest = words;
        while !rest.is_empty() {
            match &mut self.state {
                State::MidLine => {
                    let Some(end) = line_end(rest.as_bytes()) else {
                        out.push_str(rest);
                        return false;
                    };
                    let (line, next) = rest.split_at(end + 1);
                    out.push_str(line);
                    (self.state, rest) = (State::LineStart, next);
                }
                State::LineStart => {
                    let begun = rest.trim_start_matches(is_before_words);
                    out.push_str(&rest[..rest.len() - begun.len()]);
                    rest = begun;
                    if let Some(first) = rest.chars().next() {
                        if first == '{' && self.has_called && !self.allows_json {
                            return true;
                        }
                        let candidate = Candidate::begin(first, self.frame, self.echoes.len());
                        let candidate = candidate.map(Box::new);
                        self.state = candidate.map_or(State::MidLine, State::Candidate);
                    }
                }
                State::Candidate(candidate) => {
                    match candidate.read(rest, &self.tools, &self.echoes) {
                        Read::Found => return true,
                        Read::More => return false,
                        Read::NoBlock(read) => {
                            rest = &rest[read..];
                            let text = std::mem::take(&mut candidate.text);
                            if self.release(&text, out) {
                                return true;
                            }
                        }
                    }
                }
            }
        }
        false
    }

    /// The message is over, or continues with something other than words. Returns whether the held
    /// text is a block after all, cut short; otherwise appends it to `out`.
    pub(super) fn finish(&mut self, out: &mut String) -> bool {
        while let State::Candidate(candidate) = &mut self.state {
            let is_block = candidate.has_most_of_a_result();
            let text = std::mem::take(&mut candidate.text);
            self.state = State::LineStart;
            if is_block || self.release(&text, out) {
                return true;
            }
        }
        false
    }

    /// Appends held `text`, which is not a block, to `out`. If it has several lines, reads the
    /// last one again. Returns whether a block was found there.
    fn release(&mut self, text: &str, out: &mut String) -> bool {
        let Some(end) = memchr::memrchr2(b'\n', b'\r', text.as_bytes()) else {
            self.state = State::MidLine;
            out.push_str(text);
            return false;
        };
        let (lines, last) = text.split_at(end + 1);
        self.state = State::LineStart;
        out.push_str(lines);
        self.push(last, out)
    }
}

/// White space, and Markdown that may begin a line.
fn is_before_words(char: char) -> bool {
    is_blank(char) || matches!(char, '*' | '>' | '-' | '#')
}

/// The outcome of reading on.
enum Read {
    /// It may still be a block.
    More,
    Found,
    /// It is not a block; this many bytes were read to find out.
    NoBlock(usize),
}

impl Candidate {
    /// `None` if no block begins with `first`.
    fn begin(first: char, frame: &'static str, results: usize) -> Option<Self> {
        let heading = match first {
            '`' => Some(Heading::Name),
            _ if frame.starts_with(first) => Some(Heading::Frame(frame)),
            _ => None,
        };
        // `[` may begin either.
        let may_be_result = matches!(first, '`' | '{' | '[') && results > 0;
        (heading.is_some() || may_be_result).then(|| Self {
            heading,
            results: (0..results).flat_map(|at| FENCES.map(|fence| (at, fence))).collect(),
            ..Self::default()
        })
    }

    fn read(&mut self, words: &str, tools: &[String], echoes: &[Arc<str>]) -> Read {
        for (at, char) in words.char_indices() {
            let end = at + char.len_utf8();
            self.text.push(char);
            if self.text.len() > HELD_BYTES_MAX {
                return Read::NoBlock(end);
            }
            if is_blank(char) {
                continue;
            }
            if self.read_heading(char, tools) || self.read_results(&words[at..end], echoes) {
                return Read::Found;
            }
            if self.heading.is_none() && self.results.is_empty() {
                return Read::NoBlock(end);
            }
        }
        Read::More
    }

    /// Whether there is enough of a result to tell it from an answer that was cut off.
    fn has_most_of_a_result(&self) -> bool {
        self.results.iter().any(|(_, fence)| self.matched >= fence.len() + ECHO_BYTES_MIN)
    }

    /// Whether this character completes the heading.
    fn read_heading(&mut self, char: char, tools: &[String]) -> bool {
        let is_of_name = char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '-');
        self.heading = match self.heading {
            Some(Heading::Frame(frame)) => match frame.strip_prefix(char).map(str::trim_start) {
                Some("") => return true,
                rest => rest.map(Heading::Frame),
            },
            Some(Heading::Name) if self.matched == 0 || is_of_name => Some(Heading::Name),
            Some(Heading::Name) if char == '`' && self.names_one_of(tools) => {
                Some(Heading::AfterName)
            }
            Some(Heading::AfterName) if char == '(' => Some(Heading::Id),
            Some(Heading::AfterName) if char == 'r' => Some(Heading::Returned(1)),
            Some(Heading::Id) if is_of_name => Some(Heading::Id),
            Some(Heading::Id) if char == ')' => Some(Heading::Returned(0)),
            Some(Heading::Returned(at)) if char == char::from(RETURNED.as_bytes()[at]) => {
                if at + 1 == RETURNED.len() {
                    return true;
                }
                Some(Heading::Returned(at + 1))
            }
            _ => None,
        };
        false
    }

    /// Whether the text between the backticks is the name of a tool.
    fn names_one_of(&self, tools: &[String]) -> bool {
        let name = self.text.trim_matches('`').trim_ascii();
        tools.iter().any(|tool| tool == name)
    }

    /// Whether there is now enough of a result to tell it from an answer.
    fn read_results(&mut self, char: &str, echoes: &[Arc<str>]) -> bool {
        let (matched, mut is_found) = (self.matched, false);
        self.matched += char.len();
        self.results.retain(|&(at, fence)| {
            let result = echoes[at].as_bytes();
            let expected = fence.as_bytes().iter().chain(result).skip(matched).take(char.len());
            let fits = expected.eq(char.as_bytes());
            is_found |= fits && matched + char.len() >= fence.len() + result.len();
            fits
        });
        is_found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call_format::ROWS;
    use crate::limits::turn::MATCHED_BYTES_MAX;

    fn guard() -> ResultGuard {
        let clock = json!({ "timezone": "Asia/Tokyo", "time": "Friday, 2 May, 21:40" });
        let long = json!({ "found": "é".repeat(MATCHED_BYTES_MAX) });
        let priced = json!({ "name": "n".repeat(MATCHED_BYTES_MAX / 2), "price": 10 });
        let results =
            [clock, long, priced, json!([{ "title": "Dune" }]), json!({}), json!("21:40")];
        let mut guard = ResultGuard::new(vec!["a".to_owned()], "<tool_response>\n", false);
        guard.learn_tool("get_current_time");
        for result in results {
            guard.learn_result(|| result.to_string());
        }
        guard
    }

    /// What a message cut into these pieces lets through, and whether it had a block.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, bool) {
        let (mut guard, mut out) = (guard(), String::new());
        let is_found = pieces.into_iter().any(|piece| guard.push(piece, &mut out));
        let is_found = is_found || guard.finish(&mut out);
        (out, is_found)
    }

    /// Reads the message whole, character by character, and cut at every place.
    #[track_caller]
    fn check(message: &str, out: &str, is_found: bool) {
        let expected = (out.to_owned(), is_found);
        assert_eq!(read([message]), expected);
        let chars: Vec<String> = message.chars().map(String::from).collect();
        assert_eq!(read(chars.iter().map(String::as_str)), expected, "by characters");
        for (at, _) in message.char_indices() {
            let (before, after) = message.split_at(at);
            assert_eq!(read([before, after]), expected, "cut at {at}");
        }
    }

    #[test]
    fn result_tags_of_the_format_are_a_block() {
        check("<tool_response>\n12", "", true);
        check("It is:\n<tool_response>", "It is:\n", true);
        for text in ["a <tool_response>", "<tool_", "<tool_responses", "<b>bold</b>"] {
            check(text, text, false);
        }
    }

    #[test]
    fn what_opens_a_result_in_a_format_is_a_block_beside_known_results() {
        for row in ROWS.iter().filter(|row| !row.result[0].is_empty()) {
            let [open, _] = row.result;
            for cut in (0..=open.len()).filter(|cut| open.is_char_boundary(*cut)) {
                let mut guard = ResultGuard::new(Vec::new(), open, false);
                for result in ["{\"time\":\"Friday, 2 May\"}", "[{\"title\":\"Dune and more\"}]"] {
                    guard.learn_result(|| result.to_owned());
                }
                let mut out = String::new();
                let pieces = [&open[..cut], &open[cut..]];
                assert!(
                    pieces.iter().any(|piece| guard.push(piece, &mut out)),
                    "{open} cut at {cut}"
                );
                assert_eq!(out, "");
            }
        }
    }

    #[test]
    fn headings_and_results_at_the_start_of_a_line_are_blocks() {
        for block in [
            "`get_current_time` returned: {\"timezone\": 1}",
            "`get_current_time` (call_12) returned: x",
            "`a` (call-1.2) returned: x",
            "` a ` ( call_1 ) returned :",
            "{\"timezone\":\"Asia/Tokyo\",\"time\":\"Friday, 2 May, 21:40\"}",
            "{ \"timezone\": \"Asia/Tokyo\",\n  \"time\": \"Friday, 2 May, 21:40\" } and more",
            "```json\n{\"timezone\":\"Asia/Tokyo\",\"time\":\"Friday, 2 May, 21:40\"}\n```",
            "```\n[{\"title\":\"Dune\"}]\n```",
            "[{\"title\": \"Dune\"}]",
        ] {
            check(block, "", true);
            check(&format!(" \n{block}"), " \n", true);
            check(&format!("It is late.\n{block}"), "It is late.\n", true);
        }
        let inside = "It is {\"timezone\":\"Asia/Tokyo\",\"time\":\"Friday, 2 May, 21:40\"}";
        check(inside, inside, false);
    }

    #[test]
    fn a_block_below_what_looked_like_another_is_one() {
        for before in ["```\n", "```json\n", "`get_current_time`\n", "{\n", "{\r", "``\n{\n"] {
            for block in ["`a` (call_1) returned: x", "[{\"title\":\"Dune\"}]"] {
                if before != "```\n" && before != "```json\n" || block.starts_with('`') {
                    check(&format!("{before}{block}"), before, true);
                }
            }
        }
        check("{\n{\"timezone\":\"Asia/To", "{\n", true);
    }

    #[test]
    fn an_answer_that_differs_from_a_result_at_its_end_is_no_echo() {
        let answer = format!("{{\"name\":\"{}\",\"price\":12}}", "n".repeat(MATCHED_BYTES_MAX / 2));
        check(&answer, &answer, false);
        check(&answer.replace("12", "10"), "", true);
    }

    #[test]
    fn the_beginning_of_a_long_result_is_enough() {
        let long = format!("{{\"found\":\"{}", "é".repeat(MATCHED_BYTES_MAX / 2));
        check(&long, "", true);
    }

    #[test]
    fn a_result_cut_by_the_end_of_the_message_is_a_block() {
        check("{\"timezone\":\"Asia/To", "", true);
        check("{\"tim", "{\"tim", false);
        let enough = &"{\"timezone\":\"Asia/Tokyo\""[..ECHO_BYTES_MIN];
        check(enough, "", true);
        let less = &enough[..ECHO_BYTES_MIN - 1];
        check(less, less, false);
        check("`get_current_time` retur", "`get_current_time` retur", false);
    }

    #[test]
    fn other_words_are_let_through() {
        for words in [
            "",
            "It is 21:40 in Tokyo.",
            "`get_current_time` tells the time.",
            "`` returned: nothing",
            "`é` returned: nothing",
            "`calculate` (the tool) gave nothing",
            "`calculate` reads numbers.",
            "`main` returned: 3, because the loop ends early.",
            "```json\n{\"timezone\":\"Europe/Rome\"}\n```",
            "{\"timezone\":\"Europe/Rome\"}",
            "{}",
            "21:40",
            "[1] The book is Dune.\n[2] So is this.",
            "日本\n`日本`\n{日本}",
        ] {
            check(words, words, false);
        }
    }

    #[test]
    fn invisible_characters_do_not_hide_a_block() {
        for blank in ["\u{a0}", "\u{3000}", "\u{200b}", "\u{feff}", "\u{b}", "Well.\r"] {
            check(&format!("{blank}`a` (call_1) returned: x"), blank, true);
        }
        check("`a`\u{a0}(call_1) returned: x", "", true);
    }

    #[test]
    fn a_block_is_found_after_markdown_at_the_start_of_a_line() {
        for before in ["**", "> ", "- ", "### ", "Well.\n* "] {
            check(&format!("{before}`a` (call_1) returned: x"), before, true);
        }
        check("-5 is the result.\n- `a` is a tool", "-5 is the result.\n- `a` is a tool", false);
    }

    #[test]
    fn a_fence_cut_by_the_token_limit_is_not_a_block() {
        check("```json\n{\"time", "```json\n{\"time", false);
    }

    #[test]
    fn words_after_a_thought_do_not_begin_a_line() {
        let (mut guard, mut out) = (guard(), String::new());
        assert!(!guard.push("In the log ", &mut out) && !guard.finish(&mut out));
        assert!(!guard.push("`a` returned: 4 is shown.", &mut out));
        assert_eq!(out, "In the log `a` returned: 4 is shown.");
    }

    #[test]
    fn any_object_after_a_call_is_a_block() {
        let (mut guard, mut out) = (guard(), String::new());
        guard.end_call();
        assert!(!guard.push("[a](b)\n", &mut out));
        assert!(guard.push("{\"new\": 1}", &mut out));
        guard.begin_message();
        assert!(!guard.push("{\"new\": 1}", &mut out));
    }

    #[test]
    fn a_call_ends_its_line() {
        let (mut guard, mut out) = (guard(), String::new());
        assert!(!guard.push("Let me see: ", &mut out) && !guard.finish(&mut out));
        guard.end_call();
        assert!(guard.push("{\"new\": 1}", &mut out));
    }

    #[test]
    fn if_json_is_wanted_only_headings_are_blocks() {
        let mut guard = ResultGuard::new(Vec::new(), "", true);
        guard.learn_tool("a");
        guard.learn_result(|| panic!("must not be serialized"));
        guard.learn_echo(&Arc::from("{\"timezone\""));
        guard.end_call();
        let mut out = String::new();
        assert!(!guard.push("{\"timezone\":\"Asia/Tokyo\"}\n", &mut out));
        assert!(guard.push("`a` returned: ", &mut out));
    }

    #[test]
    fn a_new_message_resets_the_guard() {
        let (mut guard, mut out) = (guard(), String::new());
        assert!(!guard.push("{\"timezone\":", &mut out));
        guard.begin_message();
        assert!(!guard.push("It is late.", &mut out));
        assert_eq!(out, "It is late.");
    }

    #[test]
    fn the_names_of_tools_are_bounded() {
        let mut guard = ResultGuard::new(Vec::new(), "", false);
        for tool in 0..=GUARDED_TOOLS_MAX {
            guard.learn_tool(&format!("t{tool}"));
        }
        for (last, is_known) in [(GUARDED_TOOLS_MAX - 1, true), (GUARDED_TOOLS_MAX, false)] {
            guard.begin_message();
            let heading = format!("`t{last}` returned: ");
            assert_eq!(guard.push(&heading, &mut String::new()), is_known, "{last}");
        }
    }

    #[test]
    fn a_tool_takes_one_place_and_a_long_name_none() {
        let mut guard = ResultGuard::new(Vec::new(), "", false);
        for _ in 0..GUARDED_TOOLS_MAX {
            guard.learn_tool("again");
        }
        let names = [NAME_BYTES_MAX, NAME_BYTES_MAX + 1].map(|length| "n".repeat(length));
        for (name, is_known) in names.iter().zip([true, false]) {
            guard.learn_tool(name);
            guard.begin_message();
            let heading = format!("`{name}` returned: ");
            assert_eq!(guard.push(&heading, &mut String::new()), is_known, "{}", name.len());
        }
    }

    #[test]
    fn held_text_is_bounded() {
        let blank = " ".repeat(HELD_BYTES_MAX - 1);
        let (mut guard, mut out) = (guard(), String::new());
        assert!(!guard.push(&format!("{{{blank}"), &mut out));
        assert_eq!(out, "", "at the bound");
        assert!(!guard.push(" ", &mut out));
        assert_eq!(out.len(), HELD_BYTES_MAX + 1, "one over");
    }

    #[test]
    fn words_that_begin_with_a_letter_are_never_held() {
        for first in ('a'..='z').chain('A'..='Z').chain('0'..='9') {
            let (mut guard, mut out) = (guard(), String::new());
            assert!(!guard.push(first.encode_utf8(&mut [0; 4]), &mut out));
            assert_eq!(out.len(), 1);
        }
    }
}
