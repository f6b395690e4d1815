//! `tether sessions import`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

use super::{Failures, failed};
use crate::cli::{CliError, print_diagnostic};
use crate::limits::session::EXPORT_LINE_BYTES_MAX;
use crate::session::exported;
use crate::session::store::{SessionCopy, Store, now_ms};
use crate::telemetry::millis;

/// The file, or standard input.
///
/// # Errors
/// If the file cannot be opened.
pub(super) fn input(file: Option<&Path>) -> Result<Box<dyn BufRead>, CliError> {
    Ok(match file {
        Some(path) if path != Path::new("-") => {
            let unreadable =
                |error: io::Error| CliError::Usage(format!("{}: {error}", path.display()));
            let mut input = BufReader::new(File::open(path).map_err(unreadable)?);
            // A folder can be opened, but not read.
            input.fill_buf().map_err(unreadable)?;
            Box::new(input)
        }
        _ => Box::new(io::stdin().lock()),
    })
}

/// Writes the sessions of all lines that can be read to the store, each whole or not at all.
///
/// # Errors
/// [`CliError::Silent`] if some could not be imported; otherwise if the store or the input fails.
pub(super) async fn run(
    store: &dyn Store,
    mut input: impl BufRead,
    replace: bool,
    ttl: Duration,
) -> Result<(), CliError> {
    let (mut failures, mut imported) = (Failures::default(), 0_usize);
    let mut line = Vec::new();
    let mut number = 0_usize;
    let result = loop {
        number += 1;
        match read_line(&mut input, &mut line, EXPORT_LINE_BYTES_MAX) {
            Ok(Read::Line) if line.trim_ascii().is_empty() => continue,
            Ok(Read::Line) => {}
            Ok(Read::TooLong) => {
                failures.report(format_args!(
                    "line {number} is longer than {} MiB, so no `export` has written it",
                    EXPORT_LINE_BYTES_MAX >> 20
                ));
                continue;
            }
            Ok(Read::End) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
        let copy = match exported::read(&line) {
            Ok(copy) => SessionCopy { used_at_ms: used_at(copy.used_at_ms, ttl), ..copy },
            Err(error) => {
                failures.report(format_args!("line {number}: {error}"));
                continue;
            }
        };
        let id = copy.id.clone();
        match store.restore(copy, replace).await {
            Ok(true) => imported += 1,
            Ok(false) if replace => failures.report(format_args!(
                "line {number}: a turn runs in the session {id:?}; import it again once that is over"
            )),
            Ok(false) => failures.report(format_args!(
                "line {number}: there is a session {id:?} already; `--replace` overwrites it"
            )),
            // It would fail for the others too.
            Err(error) => break Err(failed(format_args!("line {number}: {id}: {error}"))),
        }
    };
    print_diagnostic("note", format_args!("sessions imported: {imported}"));
    result?;
    failures.end()
}

/// When an imported session was last used. The gateway would drop one whose time is up as soon as it
/// starts, which is not why anybody imports it, so that one counts as used now.
fn used_at(exported_ms: u64, ttl: Duration) -> u64 {
    let now = now_ms();
    if exported_ms.saturating_add(millis(ttl)) <= now { now } else { exported_ms.min(now) }
}

enum Read {
    /// A line of the input is in the buffer.
    Line,
    /// A line was skipped.
    TooLong,
    /// There are no more.
    End,
}

/// Reads the next line, of up to this many bytes.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<Read> {
    line.clear();
    // One more, for the LF.
    let most = bytes_max as u64 + 1;
    if input.by_ref().take(most).read_until(b'\n', line)? == 0 {
        return Ok(Read::End);
    }
    if line.len() <= bytes_max || line.ends_with(b"\n") {
        return Ok(Read::Line);
    }
    input.skip_until(b'\n')?;
    Ok(Read::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_up_to_the_bound_and_skipped_over_it() {
        let mut input = &b"12345\n123456\n1\n123456"[..];
        let mut line = Vec::new();
        let mut next = || {
            let read = read_line(&mut input, &mut line, 5).unwrap();
            (matches!(read, Read::Line).then(|| line.clone()), matches!(read, Read::End))
        };
        assert_eq!(next(), (Some(b"12345\n".to_vec()), false));
        assert_eq!(next(), (None, false), "too long");
        assert_eq!(next(), (Some(b"1\n".to_vec()), false));
        assert_eq!(next(), (None, false), "too long, without LF");
        assert_eq!(next(), (None, true));
    }

    #[test]
    fn a_session_whose_time_is_up_counts_as_used_now() {
        let (now, ttl) = (now_ms(), Duration::from_secs(60));
        assert!(used_at(now - 60_000, ttl) >= now);
        assert_eq!(used_at(now - 30_000, ttl), now - 30_000);
        assert!(used_at(u64::MAX, ttl) <= now_ms(), "a clock that was ahead");
    }
}
