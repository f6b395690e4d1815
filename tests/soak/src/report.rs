//! What came out: a table, then a line for each promise.

use std::fmt::Write as _;

use crate::histogram::Histogram;

/// A growing report.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<(String, String)>,
    promises: String,
    broken: usize,
}

impl Report {
    pub(crate) fn row(&mut self, what: &str, value: impl Into<String>) {
        self.rows.push((what.to_owned(), value.into()));
    }

    /// A promise that holds if there is nothing to say against it.
    pub(crate) fn promise(&mut self, promise: &str, objection: Option<String>) {
        let line = match objection {
            None => format!("PASS {promise}"),
            Some(objection) => {
                self.broken += 1;
                format!("FAIL {promise}: {objection}")
            }
        };
        self.promises.push_str(&line);
        self.promises.push('\n');
    }

    pub(crate) const fn is_kept(&self) -> bool {
        self.broken == 0
    }

    /// The whole report, as text.
    pub(crate) fn text(&self) -> String {
        let width = self.rows.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (what, value) in &self.rows {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{what:width$}  {value}");
        }
        text + &self.promises
    }
}

/// The median, the 99th percentile and the maximum.
pub(crate) fn times(histogram: &Histogram) -> String {
    if histogram.count() == 0 {
        return "-".to_owned();
    }
    let [p50, p99] = [500, 990].map(|rank| millis(histogram.per_mille(rank)));
    format!("{p50} / {p99} / {} ms", millis(histogram.max()))
}

/// Microseconds as milliseconds.
fn millis(us: u64) -> String {
    format!("{}.{}", us / 1000, us % 1000 / 100)
}

/// Bytes as mebibytes.
pub(crate) fn mib(bytes: u64) -> String {
    let tenths = bytes * 10 / (1024 * 1024);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Something that should not be there.
pub(crate) fn none(count: u64, what: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} {what}"))
}
