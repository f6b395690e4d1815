//! Lines of standard error as progress.

use crate::tools::Progress;

/// How many lines without a number fit between two whole numbers. Enough that the next number is still higher.
const STEPS_PER_UNIT: f64 = 1000.0;
/// Numbers from here on are text: rounding could swallow a step added to them.
const NUMBER_MAX: f64 = 1e12;

/// Reads lines as progress, which always rises. Those without a number count up from the last.
#[derive(Debug, Default)]
pub(super) struct Lines {
    last: Option<f64>,
    /// Whether a line has had a number.
    has_number: bool,
}

impl Lines {
    /// The progress that a line reports: `12/40 text`, `30% text` or, with any other text, a step more than before. A
    /// number that is no higher than before, as when the program's next phase begins, is part of the text.
    pub(super) fn read(&mut self, line: &str) -> Progress {
        let line = line.trim();
        let (number, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let found = fraction(number).or_else(|| percentage(number));
        let higher = found.filter(|(done, _)| self.last.is_none_or(|last| *done > last));
        let Some((done, total)) = higher else {
            let next = self.next();
            self.last = Some(next);
            return Progress::new(next).saying(line);
        };
        (self.last, self.has_number) = (Some(done), true);
        let progress = Progress::new(done).of(total);
        if text.is_empty() { progress } else { progress.saying(text.trim_start()) }
    }

    fn next(&self) -> f64 {
        let last = self.last.unwrap_or_default();
        if self.has_number {
            ((last * STEPS_PER_UNIT).round() + 1.0) / STEPS_PER_UNIT
        } else {
            last + 1.0
        }
    }
}

fn fraction(text: &str) -> Option<(f64, f64)> {
    let (done, total) = text.split_once('/')?;
    Some((number(done)?, number(total)?))
}

fn percentage(text: &str) -> Option<(f64, f64)> {
    Some((number(text.strip_suffix('%')?)?, 100.0))
}

/// A plain number: no sign, no exponent, no `inf`, and not so many digits that it becomes infinite.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|number| is_plain && *number < NUMBER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lines report, one after another.
    #[track_caller]
    fn check(lines: &[(&str, Progress)]) {
        let mut read = Lines::default();
        for (line, expected) in lines {
            assert_eq!(read.read(line), *expected, "{line}");
        }
    }

    fn step(progress: f64, line: &str) -> Progress {
        Progress::new(progress).saying(line)
    }

    #[test]
    fn numbers_at_the_start_of_a_line_are_progress() {
        check(&[
            ("0/40", Progress::new(0.0).of(40.0)),
            ("12/40 reading a.txt", Progress::new(12.0).of(40.0).saying("reading a.txt")),
            ("30%", Progress::new(30.0).of(100.0)),
            ("  45.5%   half done ", Progress::new(45.5).of(100.0).saying("half done")),
        ]);
    }

    #[test]
    fn other_lines_count_up() {
        check(&[("reading", step(1.0, "reading")), ("linking", step(2.0, "linking"))]);
        check(&[
            ("45.5%", Progress::new(45.5).of(100.0)),
            ("linking", step(45.501, "linking")),
            ("1/x y", step(45.502, "1/x y")),
            ("-1/2 y", step(45.503, "-1/2 y")),
            ("inf% y", step(45.504, "inf% y")),
            ("46%", Progress::new(46.0).of(100.0)),
        ]);
    }

    #[test]
    fn a_number_that_is_no_higher_is_part_of_the_text() {
        check(&[
            ("100% download", Progress::new(100.0).of(100.0).saying("download")),
            ("10% install", step(100.001, "10% install")),
            ("100% install", step(100.002, "100% install")),
            ("1/3 test", step(100.003, "1/3 test")),
        ]);
    }

    #[test]
    fn a_number_that_is_too_long_is_part_of_the_text() {
        let digits = "9".repeat(400);
        for number in [format!("{digits}/5"), format!("5/{digits}"), format!("{digits}%")] {
            check(&[(&number, step(1.0, &number)), ("2/4", Progress::new(2.0).of(4.0))]);
        }
    }
}
