//! The words of an HTML page.
//!
//! Models need no markup, and most of a page is markup. This is no browser: what a page hides with
//! a style sheet is shown.

/// Elements whose content is not text.
const WITHOUT_WORDS: &[&str] =
    &["head", "iframe", "noscript", "script", "style", "svg", "template"];
/// Elements that continue the line around them.
const INLINE: &[&str] = &[
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time",
    "tt", "u", "var", "wbr",
];

/// The text of a page: without tags, comments, scripts and styles, with a line for each block.
pub(super) fn text(html: &str) -> String {
    let mut text = Text::default();
    let mut rest = html;
    while let Some((before, markup)) = rest.split_once('<') {
        text.push(before);
        rest = match markup.as_bytes().first() {
            Some(b'!' | b'?') => after_declaration(markup),
            Some(b'/' | b'a'..=b'z' | b'A'..=b'Z') => {
                let name = tag_name(markup);
                if !INLINE.contains(&&*name) {
                    text.break_line();
                }
                let after = after_tag(markup);
                if WITHOUT_WORDS.contains(&&*name) { after_element(after, &name) } else { after }
            }
            _ => {
                text.push("<");
                markup
            }
        };
    }
    text.push(rest);
    text.done.trim().to_owned()
}

/// Text with its white space collapsed.
#[derive(Default)]
struct Text {
    done: String,
    /// White space that comes before the next word: a space or a line break.
    space: Option<char>,
}

impl Text {
    fn push(&mut self, text: &str) {
        for char in decoded(text) {
            if char.is_whitespace() {
                self.space = self.space.or(Some(' '));
            } else {
                self.done.extend(self.space.take());
                self.done.push(char);
            }
        }
    }

    fn break_line(&mut self) {
        self.space = Some('\n');
    }
}

/// The name of the tag whose `<` has just been read, in lower case; `/` for closing tags is not
/// part of it.
fn tag_name(markup: &str) -> String {
    let name = markup.strip_prefix('/').unwrap_or(markup);
    let end = name.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(name.len());
    name[..end].to_ascii_lowercase()
}

/// What follows a tag. A `>` in quotes does not end it.
fn after_tag(markup: &str) -> &str {
    let mut quote = None;
    for (at, byte) in markup.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return &markup[at + 1..],
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    ""
}

/// What follows a comment, a document type or a processing instruction.
fn after_declaration(markup: &str) -> &str {
    let end = if markup.starts_with("!--") { "-->" } else { ">" };
    markup.split_once(end).map_or("", |(_, after)| after)
}

/// What follows the closing tag of an element whose content is skipped.
fn after_element<'h>(content: &'h str, name: &str) -> &'h str {
    let mut rest = content;
    while let Some((_, markup)) = rest.split_once("</") {
        if tag_name(markup) == name {
            return after_tag(markup);
        }
        rest = markup;
    }
    ""
}

/// The characters of a text, with the references that pages really use resolved.
fn decoded(text: &str) -> impl Iterator<Item = char> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        if first == '&'
            && let Some((char, after)) = reference(&rest[1..])
        {
            rest = after;
            return Some(char);
        }
        rest = &rest[first.len_utf8()..];
        Some(first)
    })
}

/// The character whose reference begins with the `&` that has just been read, and what follows it.
fn reference(text: &str) -> Option<(char, &str)> {
    // The longest known reference is a number: `#1114111`.
    let end = text.bytes().take(9).position(|byte| byte == b';')?;
    let (name, after) = (&text[..end], &text[end + 1..]);
    let char = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "copy" => '©',
        "hellip" => '…',
        "mdash" => '—',
        "ndash" => '–',
        name => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((char, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markup_goes_and_words_remain() {
        for (html, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("<p>One</p>\n\n<p>Two  <b>bold</b>!</p>", "One\nTwo bold!"),
            ("a<br>b<hr/>c", "a\nb\nc"),
            ("<!DOCTYPE html><!-- <p>no</p> --><?xml x?>yes", "yes"),
            ("<head><title>t</title></head><body>b</body>", "b"),
            ("x<script>if (a < b) { '</p>' }</script >y", "x\ny"),
            ("x<STYLE>a>b{}</Style>y", "x\ny"),
            ("<a href='a>b' title=\"<p>\">link</a>", "link"),
            ("1 < 2 && 3 > 2 &amp; so on", "1 < 2 && 3 > 2 & so on"),
            (
                "&lt;b&gt; &#65;&#x42; &nbsp; &unknown; &#xd800; &#99999999;",
                "<b> AB &unknown; &#xd800; &#99999999;",
            ),
            ("<ul><li>One<li>Two</ul>", "One\nTwo"),
            ("x<p", "x"),
            ("x<!-- open", "x"),
            ("x<script>open", "x"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    proptest! {
        #[test]
        fn any_page_has_a_text_that_is_no_longer(html in "(<|>|/|!|-|\"|&|;|#|script|p|ö| |\\PC){0,60}") {
            prop_assert!(text(&html).len() <= html.len());
        }
    }

    #[test]
    fn time_is_linear_in_the_length() {
        for piece in ["<", "<!--", "<script>", "</", "<a '", "&", "&#", "<script></"] {
            text(&piece.repeat(100_000));
        }
    }
}
