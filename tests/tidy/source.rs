//! Rust files as `tests/tidy.rs` sees them.

/// A file in which comments and the contents of literals are blanked out, line by line.
pub(crate) struct Source {
    pub(crate) path: String,
    raw: String,
    code: Vec<String>,
    /// Index of the first line of the tests, which come last.
    tests_from: usize,
}

impl Source {
    /// Parses a file's text. `all_tests` is true for files outside `src`.
    pub(crate) fn new(path: String, text: &str, all_tests: bool) -> Self {
        let code: Vec<String> = blank(text).lines().map(str::to_owned).collect();
        // Not if the tests have a file of their own: then the attribute is at the top.
        let begins_tests = |pair: &[String]| {
            pair[0].trim_start().starts_with("#[cfg(test)]") && pair[1].trim_end().ends_with('{')
        };
        let tests_from = if all_tests || path.ends_with("/tests.rs") || path.contains("/tests/") {
            0
        } else {
            code.windows(2).position(begins_tests).unwrap_or(code.len())
        };
        Self { path, raw: text.to_owned(), code, tests_from }
    }

    /// Whether the file contains only tests.
    pub(crate) fn is_test(&self) -> bool {
        self.tests_from == 0
    }

    /// The numbers, from 1, of the non-test lines that contain `name`.
    pub(crate) fn lines_naming(&self, name: &str) -> Vec<usize> {
        self.numbers_naming(name, 0, self.tests_from)
    }

    /// The numbers of the test lines that contain `name`.
    pub(crate) fn test_lines_naming(&self, name: &str) -> Vec<usize> {
        self.numbers_naming(name, self.tests_from, self.code.len())
    }

    /// A line without comments and literals; empty after the end.
    pub(crate) fn code_line(&self, number: usize) -> &str {
        self.code.get(number.wrapping_sub(1)).map_or("", String::as_str)
    }

    /// The code before the tests.
    pub(crate) fn code(&self) -> String {
        self.code[..self.tests_from].join("\n")
    }

    /// All lines, unchanged, with their numbers.
    pub(crate) fn raw_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.raw.lines())
    }

    /// The modules named after `crate::`, including those in groups, with their lines.
    pub(crate) fn crate_modules(&self) -> Vec<(String, usize)> {
        let code = self.code[..self.tests_from].join("\n");
        let mut modules = Vec::new();
        for (at, root) in code.match_indices("crate::") {
            let line = 1 + code[..at].matches('\n').count();
            let after = &code[at + root.len()..];
            let paths = after.strip_prefix('{').map_or_else(|| vec![after], members);
            for path in paths {
                let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
                let word: String = path.trim_start().chars().take_while(is_word).collect();
                // A name with a capital is a type at the crate's root.
                if word.starts_with(|c: char| c.is_ascii_lowercase()) {
                    modules.push((word, line));
                }
            }
        }
        modules
    }

    /// The number of lines of code outside the tests.
    pub(crate) fn lines_of_code(&self) -> usize {
        self.code[..self.tests_from].iter().filter(|line| !line.trim().is_empty()).count()
    }

    /// The number of test lines that are neither empty nor a comment.
    pub(crate) fn lines_of_tests(&self) -> usize {
        self.code[self.tests_from..].iter().filter(|line| !line.trim().is_empty()).count()
    }

    fn numbers_naming(&self, name: &str, from: usize, to: usize) -> Vec<usize> {
        let lines = self.code[from..to].iter().zip(from + 1..);
        lines.filter(|(line, _)| names(line, name)).map(|(_, number)| number).collect()
    }
}

/// Whether `line` contains `name` as a whole word.
pub(crate) fn names(line: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The members of an import group whose brace is already open.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0_usize, 0);
    let mut members = Vec::new();
    for (at, c) in group.char_indices() {
        match c {
            ',' | '}' if depth == 0 => {
                members.push(&group[start..at]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    members
}

/// Blanks out comments and literals without moving any line.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let hidden = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest, code.chars().next_back()) {
            length
        } else if next == '"' {
            string(rest)
        } else {
            character(rest).unwrap_or_default()
        };
        let (token, after) = rest.split_at(hidden.max(next.len_utf8()));
        if hidden == 0 {
            code.push_str(token);
        } else {
            code.extend(token.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = after;
    }
    code
}

/// Length of the string literal at the start of `rest`.
fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of the raw string literal at the start of `rest`, if there is one.
fn raw_string(rest: &str, before: Option<char>) -> Option<usize> {
    let in_word = before.is_some_and(|c| (c.is_alphanumeric() && c != 'b') || c == '_');
    let hashes = rest.strip_prefix('r').filter(|_| !in_word)?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    let body = hashes[count..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(count));
    let start = rest.len() - body.len();
    Some(body.find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

/// Length of the character literal at the start of `rest`, if there is one. A lifetime is not.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    if let Some(escape) = body.strip_prefix('\\') {
        let first = escape.chars().next()?;
        return escape[first.len_utf8()..].find('\'').map(|at| 2 + first.len_utf8() + at + 1);
    }
    let first = body.chars().next()?;
    body[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

/// The names of the events in `src/event.rs`, each with its own fields. Flattened fields are
/// not included.
pub(crate) fn events(code: &str) -> Vec<(String, Vec<String>)> {
    let body = code.split_once("pub enum Event<'a> {").expect("the enum of events").1;
    let body = body.split_once("\n}").expect("its end").0;
    let mut events: Vec<(String, Vec<String>)> = Vec::new();
    let mut flattened = false;
    for line in body.lines() {
        let text = line.trim();
        if let Some(variant) = text.strip_suffix(" {") {
            events.push((snake_case(variant), Vec::new()));
        } else if text.starts_with("#[serde(flatten)]") {
            flattened = true;
        } else if let (Some((field, _)), false) = (text.split_once(": "), text.starts_with("//")) {
            let fields = &mut events.last_mut().expect("a field belongs to an event").1;
            if !flattened {
                fields.push(field.trim_start_matches("r#").to_owned());
            }
            flattened = false;
        }
    }
    events
}

/// Every word that a `match` in `src/event.rs` puts on the wire.
pub(crate) fn wire_names(code: &str) -> Vec<&str> {
    let after = code.split("=> \"").skip(1);
    after.filter_map(|rest| rest.split_once('"')).map(|(word, _)| word).collect()
}

pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_out() {
        for (text, code) in [
            ("a // tokio", "a         "),
            ("a /* x\ny */ b", "a     \n     b"),
            ("f(\"a \\\" b\", c)", "f(        , c)"),
            ("r#\"a\"b\"# c", "         c"),
            ("br\"x\" c", "b     c"),
            ("'\"' x '\\'' y 'a", "    x      y 'a"),
            ("'\\u{1f}' x", "         x"),
            ("&'a str", "&'a str"),
        ] {
            assert_eq!(blank(text), code, "{text}");
        }
    }

    #[test]
    fn names_are_whole_words() {
        assert!(names("use tokio::net;", "tokio"));
        assert!(!names("use tokio_stream;", "tokio"));
        assert!(!names("let mytokio = 1;", "tokio"));
        assert!(names("std::env::var()", "std::env"));
    }

    #[test]
    fn modules_after_crate_are_found() {
        let source = Source::new(
            "a.rs".to_owned(),
            "#[cfg(test)]\nmod tests;\nuse crate::limits::KIB;\nuse crate::{\n  event::{a, b}, \
             tools::X,\n};\ncrate::Fail;\n#[cfg(test)]\nmod more {\nuse crate::server;",
            false,
        );
        let modules = source.crate_modules();
        let expected = [("limits", 3), ("event", 4), ("tools", 4)];
        assert_eq!(modules, expected.map(|(module, line)| (module.to_owned(), line)));
        assert_eq!(source.lines_of_code(), 7);
    }

    #[test]
    fn events_and_fields_are_read_from_their_enum() {
        let code = "pub enum Event<'a> {\n    /// One: two.\n    TextDelta {\n        /// T.\n        \
                    text: &'a str,\n        r#loop: u32,\n        #[serde(flatten)]\n        \
                    more: More,\n    },\n}\nfn f() { match 1 { A => \"text_delta\" } }";
        let fields = vec!["text".to_owned(), "loop".to_owned()];
        assert_eq!(events(code), [("text_delta".to_owned(), fields)]);
        assert_eq!(wire_names(code), ["text_delta"]);
    }
}
