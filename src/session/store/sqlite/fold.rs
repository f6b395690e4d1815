//! Moves what was written [beside the database](super::redo) into its tables.
//!
//! That may be done twice: if the process ends before the file is emptied, the next one finds it again. So
//! what the database has already is skipped.

use std::collections::HashMap;

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::super::{Batch, LogNews, Version};
use super::redo::Folding;
use super::redo_record::{Kind, Record, records};
use super::statements::{self, Done, execute, first, restored, stored};

/// A turn in the file, and what it says of it.
#[derive(Debug)]
struct LoggedTurn<'a> {
    session_id: &'a str,
    turn_id: &'a str,
    /// What is new of it, if it has not ended.
    news: Vec<Record<'a>>,
    /// Its end.
    end: Option<Record<'a>>,
}

/// Records of one epoch that follow one another.
#[derive(Debug, Default)]
struct Run<'a> {
    epoch: u64,
    first: u64,
    last: u64,
    events: Vec<&'a [u8]>,
    journal: Option<&'a [u8]>,
}

/// What a file has that the tables lack.
#[derive(Debug, Default)]
struct Contents<'a> {
    /// The turns, in the order in which they began.
    turns: Vec<LoggedTurn<'a>>,
    /// The last record of each session, unless the end of a turn has it.
    saves: HashMap<&'a str, Record<'a>>,
    /// The deleted sessions, each up to a version of its record.
    deleted: Vec<(&'a str, Version)>,
    /// Bytes at its end that are cut or damaged.
    unread: usize,
}

/// Writes to the tables what this file has that they lack. Returns how many bytes at its end are cut or damaged,
/// and were not read.
pub(super) fn fold(connection: &Connection, Folding { file, later, .. }: &Folding) -> Done<usize> {
    let Contents { turns, saves, deleted, unread } = contents(file, later);
    for (session_id, latest) in deleted {
        statements::delete(connection, session_id, latest)?;
    }
    turns.iter().try_for_each(|turn| put_end(connection, turn))?;
    for save in saves.values() {
        put_record(connection, save)?;
    }
    turns.iter().try_for_each(|turn| put_news(connection, turn))?;
    Ok(unread)
}

/// What is in the file. What is new in the `later` one is not folded yet.
fn contents<'a>(file: &'a [u8], later: &'a [u8]) -> Contents<'a> {
    let Contents { mut turns, mut saves, mut deleted, .. } = Contents::default();
    let mut places = HashMap::new();
    // An end in the later file is in the tables before anything that comes after it.
    let is_settled = |record: &Record<'_>| matches!(record.head.kind, Kind::Settled | Kind::Forget);
    let settled = records(later).filter(is_settled);
    let mut records = records(file);
    for record in records.by_ref().chain(settled) {
        let Record { head, session_id, turn_id, .. } = record;
        match head.kind {
            Kind::News | Kind::Ended => {
                let place = *places.entry((session_id, turn_id)).or_insert(turns.len());
                if place == turns.len() {
                    turns.push(LoggedTurn { session_id, turn_id, news: Vec::new(), end: None });
                }
                if head.kind == Kind::News {
                    turns[place].news.push(record);
                } else {
                    turns[place].end(Some(record));
                    saves.remove(session_id);
                }
            }
            Kind::Save => {
                saves.insert(session_id, record);
            }
            Kind::Settled => {
                saves.remove(session_id);
                if let Some(place) = places.get(&(session_id, turn_id)) {
                    turns[*place].end(None);
                }
            }
            Kind::Forget => {
                saves.remove(session_id);
                let its = turns.iter_mut().filter(|turn| turn.session_id == session_id);
                its.for_each(|turn| turn.end(None));
                deleted.push((session_id, Version(head.first)));
            }
            Kind::Probe => {}
        }
    }
    Contents { turns, saves, deleted, unread: records.unread() }
}

impl<'a> LoggedTurn<'a> {
    /// What was new of the turn is worthless, because of its end, or because the tables have that.
    fn end(&mut self, end: Option<Record<'a>>) {
        self.news.clear();
        self.end = end;
    }
}

/// Writes the end of a turn, unless the tables have it, or a later one.
fn put_end(connection: &Connection, turn: &LoggedTurn<'_>) -> Done<()> {
    let Some(end) = &turn.end else { return Ok(()) };
    if put_record(connection, end)? {
        let Record { head, session_id, turn_id, events, .. } = *end;
        let bytes = Bytes::copy_from_slice(events);
        let batch = Batch { first: head.first, last: head.last, bytes };
        statements::put_whole_log(connection, (session_id, head.epoch), turn_id, &[batch])?;
    }
    Ok(())
}

/// Writes the record of a session. False if the tables have it, or a later one.
fn put_record(connection: &Connection, record: &Record<'_>) -> Done<bool> {
    let Record { head, session_id, .. } = *record;
    let Some(saved) = record.saved() else { return Ok(false) };
    statements::put_record(connection, session_id, (head.node, head.epoch), saved)
}

fn put_news(connection: &Connection, turn: &LoggedTurn<'_>) -> Done<()> {
    let LoggedTurn { session_id, turn_id, ref news, .. } = *turn;
    let Some(newest) = news.last() else { return Ok(()) };
    let sql = "UPDATE sessions
        SET node = CASE WHEN epoch <= ?1 THEN ?2 ELSE node END, epoch = max(epoch, ?1) WHERE id = ?3";
    let (epoch, node) = (stored(newest.head.epoch), newest.head.node.0.as_bytes());
    if execute(connection, sql, params![epoch, node, session_id])? == 0 {
        // It was deleted.
        return Ok(());
    }
    let sql = "SELECT last, EXISTS (SELECT 1 FROM journals WHERE log = number)
        FROM logs WHERE session_id = ? AND turn_id = ?";
    let known = first(connection, sql, [session_id, turn_id], |row| {
        Ok((restored(row.get(0)?), row.get::<_, bool>(1)?))
    })?;
    let (last, is_running) = known.unwrap_or((0, true));
    for run in runs(news, last, is_running) {
        statements::append(connection, (session_id, run.epoch), turn_id, &run.into_news())?;
    }
    Ok(())
}

/// What is new after event `last`. A journal without new events counts if the turn `is_running`.
fn runs<'a>(news: &[Record<'a>], mut last: u64, is_running: bool) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    for record in news {
        let head = record.head;
        let has_events = head.last > last;
        if has_events && head.first != last + 1 {
            // A record before it is lost. What comes after a gap is no part of any log.
            break;
        }
        if runs.last().is_none_or(|run| run.epoch != head.epoch) {
            runs.push(Run { epoch: head.epoch, first: last + 1, last, ..Run::default() });
        }
        let Some(run) = runs.last_mut() else { break };
        if has_events {
            (last, run.last) = (head.last, head.last);
            run.events.push(record.events);
        }
        if has_events || is_running {
            run.journal = record.journal.or(run.journal);
        }
    }
    runs
}

impl Run<'_> {
    fn into_news(self) -> LogNews {
        let Self { first, last, events, journal, .. } = self;
        let bytes = Bytes::from(events.concat());
        let batches =
            if bytes.is_empty() { Vec::new() } else { vec![Batch { first, last, bytes }] };
        LogNews { batches, journal: journal.map(Bytes::copy_from_slice) }
    }
}
