//! Colours, if the terminal has them, and its width.

/// Writes text in a style, or plainly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) is_on: bool,
}

impl Paint {
    pub(super) fn dim(self, text: &str) -> String {
        self.styled("2", text)
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.styled("1", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.styled("31", text)
    }

    pub(super) fn green(self, text: &str) -> String {
        self.styled("32", text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.styled("33", text)
    }

    fn styled(self, code: &str, text: &str) -> String {
        if self.is_on && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// At most this many columns of a line, counting two for characters that may take two.
pub(super) fn fit(line: &str, columns: usize) -> String {
    let width = |char: char| if char < '\u{1100}' { 1 } else { 2 };
    let mut taken = 0;
    let mut end = line.len();
    let mut kept = 0;
    for (at, char) in line.char_indices() {
        if taken + width(char) > columns {
            end = kept;
            break;
        }
        taken += width(char);
        if taken < columns {
            kept = at + char.len_utf8();
        }
    }
    if end == line.len() { line.to_owned() } else { format!("{}…", &line[..end]) }
}
