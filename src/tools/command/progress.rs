//! Lines of standard error as progress.

use crate::tools::Progress;

/// Reads lines as progress. Those without a number count up from the last.
#[derive(Debug, Default)]
pub(super) struct Lines {
    last: f64,
}

impl Lines {
    /// The progress that a line reports: `12/40 text`, `30% text` or, with any other text, one step
    /// more than before.
    pub(super) fn read(&mut self, line: &str) -> Progress {
        let line = line.trim();
        let (number, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let progress = match (fraction(number), percentage(number)) {
            (Some((done, total)), _) => Progress::new(done).of(total),
            (None, Some(percent)) => Progress::new(percent).of(100.0),
            (None, None) => {
                self.last += 1.0;
                return Progress::new(self.last).saying(line);
            }
        };
        self.last = self.last.max(progress.progress);
        if text.is_empty() { progress } else { progress.saying(text.trim_start()) }
    }
}

fn fraction(text: &str) -> Option<(f64, f64)> {
    let (done, total) = text.split_once('/')?;
    Some((number(done)?, number(total)?))
}

fn percentage(text: &str) -> Option<f64> {
    number(text.strip_suffix('%')?)
}

/// A plain number: no sign, no exponent, nothing like `inf`.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_start_of_a_line_are_progress() {
        let mut lines = Lines::default();
        for (line, expected) in [
            ("12/40 reading a.txt", Progress::new(12.0).of(40.0).saying("reading a.txt")),
            ("30%", Progress::new(30.0).of(100.0)),
            ("  45.5%   half done ", Progress::new(45.5).of(100.0).saying("half done")),
            ("linking", Progress::new(46.5).saying("linking")),
            ("still linking", Progress::new(47.5).saying("still linking")),
            ("1/x y", Progress::new(48.5).saying("1/x y")),
            ("-1/2 y", Progress::new(49.5).saying("-1/2 y")),
            ("inf% y", Progress::new(50.5).saying("inf% y")),
        ] {
            assert_eq!(lines.read(line), expected, "{line}");
        }
    }
}
