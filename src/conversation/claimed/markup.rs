//! Calls that a client shows as HTML.
//!
//! `Open WebUI` writes each call into the assistant's text as a block:
//!
//!   <details type="tool_calls" done="true" arguments="&quot;{}&quot;">
//!   <summary>Tool Executed</summary>
//!   </details>
//!
//! and sends it back. A model that sees such blocks writes more of them, instead of calls.
//!
//! `LiteLLM` writes a sentence of its own where an API refuses an empty text.

use std::borrow::Cow;
use std::ops::Range;

/// What `LiteLLM` sends Anthropic's API in place of an empty text.
const NO_WORDS: &str = "[System: Empty message content sanitised to satisfy protocol]";

/// The text without blocks of calls, and nothing in place of [`NO_WORDS`]. Each block begins its line; what is inside
/// of a line or in fenced code is an example. A block without an end is left in, because nobody knows what belongs to
/// it.
pub(super) fn without_calls(text: &str) -> Cow<'_, str> {
    if text == NO_WORDS {
        return Cow::Borrowed("");
    }
    let blocks = blocks(text);
    if blocks.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut rest = String::new();
    let mut at = 0;
    for block in blocks {
        rest.push_str(&text[at..block.start]);
        at = block.end;
    }
    rest.push_str(&text[at..]);
    Cow::Owned(rest.trim().to_owned())
}

/// Where the blocks of calls are: in order, and none inside another.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    let mut is_code = false;
    while let Some(tag) = next_tag(text, at) {
        if open.is_empty() {
            is_code ^= has_odd_fences(text, at..tag.start);
        }
        at = tag.end;
        if is_code {
            continue;
        }
        match tag.kind {
            Kind::Opening { is_of_calls } => {
                let end_of_last = blocks.last().map_or(0, |last| last.end);
                let is_of_calls = is_of_calls && begins_line(text, tag.start, end_of_last);
                open.push((tag.start, is_of_calls));
            }
            Kind::Closing => {
                let Some((start, true)) = open.pop() else { continue };
                while blocks.last().is_some_and(|inner| inner.start > start) {
                    blocks.pop();
                }
                blocks.push(start..tag.end);
            }
        }
    }
    blocks
}

/// Whether the lines that begin in this range open or close a block of code that stays so.
fn has_odd_fences(text: &str, range: Range<usize>) -> bool {
    let begins = range.start == 0 || text[..range.start].ends_with('\n');
    let lines = text[range].split('\n').skip(usize::from(!begins));
    let is_fence = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("```") || line.starts_with("~~~")
    };
    lines.filter(is_fence).count() % 2 == 1
}

/// Whether nothing is before this place in its line, or only a block that ends there.
fn begins_line(text: &str, at: usize, end_of_last: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with('\n') || before.len() == end_of_last
}

struct Tag {
    start: usize,
    end: usize,
    kind: Kind,
}

enum Kind {
    Opening { is_of_calls: bool },
    Closing,
}

const OPENING: &str = "<details";
const CLOSING: &str = "</details>";

/// The next tag of a block. A tag without an end ends the search: looking for more after it could
/// take quadratic time.
fn next_tag(text: &str, from: usize) -> Option<Tag> {
    for (at, _) in text[from..].match_indices('<') {
        let (start, here) = (from + at, &text[from + at..]);
        if here.starts_with(CLOSING) {
            return Some(Tag { start, end: start + CLOSING.len(), kind: Kind::Closing });
        }
        let Some(attributes) = here.strip_prefix(OPENING) else { continue };
        if attributes.starts_with(|next: char| next == '>' || next.is_ascii_whitespace()) {
            let (length, is_of_calls) = read_attributes(attributes)?;
            let end = start + OPENING.len() + length;
            return Some(Tag { start, end, kind: Kind::Opening { is_of_calls } });
        }
    }
    None
}

/// The length of a tag's attributes and its `>`, and whether they say that it is about calls.
fn read_attributes(text: &str) -> Option<(usize, bool)> {
    const TYPES: [&[u8]; 3] = [b"type=\"tool_calls\"", b"type='tool_calls'", b"type=tool_calls"];
    let bytes = text.as_bytes();
    let (mut quote, mut is_of_calls) = (None, false);
    for (at, &byte) in bytes.iter().enumerate() {
        if let Some(opened) = quote {
            quote = (byte != opened).then_some(opened);
            continue;
        }
        match byte {
            b'"' | b'\'' => quote = Some(byte),
            b'>' => return Some((at + 1, is_of_calls)),
            _ if byte.is_ascii_whitespace() => {
                is_of_calls |= TYPES.iter().any(|it| bytes[at + 1..].starts_with(it));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(without_calls(text), expected);
    }

    #[test]
    fn blocks_of_calls_are_removed() {
        check("<details type=\"tool_calls\" done=\"true\">\n<summary>x</summary>\n</details>", "");
        check("<details id='1' type='tool_calls'></details>\nIt is 4.", "It is 4.");
        check("So:\n <details type=tool_calls></details> 4.", "So:\n  4.");
        check(
            "a\n<details type=\"tool_calls\"></details> <details type=\"tool_calls\"></details>c",
            "a\n c",
        );
        let block = "<details type=\"tool_calls\"></details>";
        check(&format!("```\n{block}\n```\n{block}x"), &format!("```\n{block}\n```\nx"));
        check(
            &format!("```\n<details type=\"tool_calls\">\n```\n{block}x"),
            "```\n<details type=\"tool_calls\">\n```\nx",
        );
        check("<details a=\"> </details>\" type=\"tool_calls\"></details>b", "b");
    }

    #[test]
    fn what_stands_for_no_words_is_none() {
        check(NO_WORDS, "");
        let quoted = format!("It wrote {NO_WORDS}");
        check(&quoted, &quoted);
    }

    #[test]
    fn a_block_ends_with_its_own_end() {
        check("a\n<details type=\"tool_calls\"><details>x</details>y</details>b", "a\nb");
        check(
            "a\n<details type=\"tool_calls\"><details type=\"tool_calls\"></details></details>b",
            "a\nb",
        );
        check(
            "<details>\n<details type=\"tool_calls\"></details>x</details>",
            "<details>\nx</details>",
        );
    }

    #[test]
    fn anything_else_stays() {
        for text in [
            "",
            "a < b",
            "<details><summary>More</summary>type=\"tool_calls\"</details>",
            "<details type=\"reasoning\">x</details>",
            "<details title=\" type=tool_calls \">x</details>",
            "<detailsx type=\"tool_calls\"></details>",
            "</details> x",
            "<details type=\"tool_calls\"> it goes on",
            "<details type=\"tool_calls\" </details>",
            "<details type=\"tool_calls",
            "Write `<details type=\"tool_calls\"></details>` in HTML.",
            "So: <details type=\"tool_calls\"></details>",
            "~~~html\n<details type=\"tool_calls\"></details>\n~~~",
            "x <details",
        ] {
            check(text, text);
        }
    }
}
