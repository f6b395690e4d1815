//! The body of the fuzz target `stored_data`; an ordinary test replays its corpus.

use super::exported;
use super::journal::Journal;
use super::record::{SessionRecord, turn};
use super::store::{Batch, fuzz};

/// Target `stored_data`: whatever is read from a store is the same after it is written and read again, and
/// everything before the damage in a file is read.
///
/// The first byte chooses what the rest is: the record of a session or of a turn, a journal, an
/// exported session, a log in Redis, or parts of a file of running turns and of its buffer.
///
/// # Panics
/// If that does not hold.
pub fn stored_data(data: &[u8]) {
    let Some((&choice, stored)) = data.split_first() else { return };
    match choice % 6 {
        0 => check_written(stored, |json| Some(SessionRecord::read(json).ok()?.write())),
        1 => check_written(stored, |json| Some(turn::write(&turn::read(json).ok()?))),
        2 => {
            check_written(stored, |json| Some(Journal::read(json).ok()?.write()));
            check_interrupted(stored);
        }
        3 => check_exported(stored),
        4 => fuzz::check_log(stored),
        _ => {
            fuzz::check_redo_file(stored);
            fuzz::check_redo_buffer(stored);
        }
    }
}

/// Data that can be read is unchanged after it is written and read again.
fn check_written(stored: &[u8], rewrite: impl Fn(&[u8]) -> Option<String>) {
    let Some(written) = rewrite(stored) else { return };
    let again = rewrite(written.as_bytes()).expect("it can be read again");
    assert_eq!(again, written, "written again");
}

/// A turn can be ended from its journal, the first line, with any log, the rest.
fn check_interrupted(stored: &[u8]) {
    let mut parts = stored.splitn(2, |byte| *byte == b'\n');
    let (Some(journal), Some(log)) = (parts.next(), parts.next()) else { return };
    let Ok(journal) = Journal::read(journal) else { return };
    let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() as u64;
    let batch = Batch { first: 1, last: lines, bytes: log.to_vec().into() };
    let ended = journal.interrupted(&[batch]).into_ended();
    assert!(ended.ending.is_some(), "{ended:?}");
    let written = turn::write(&ended);
    let read = turn::read(written.as_bytes()).expect("it can be stored");
    assert_eq!(turn::write(&read), written);
}

fn check_exported(line: &[u8]) {
    let Ok(copy) = exported::read(line) else { return };
    let written = exported::write(&copy).expect("it can be exported again");
    let inside = written.strip_suffix(b"\n").expect("it is a line");
    assert!(!inside.contains(&b'\n'), "it is one line");
    let again = exported::read(&written).expect("it can be read again");
    let rewritten = exported::write(&again).expect("it can be exported again");
    assert_eq!(String::from_utf8_lossy(&rewritten), String::from_utf8_lossy(&written));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_stored_data() {
        crate::corpus::replay("stored_data", stored_data);
    }
}
