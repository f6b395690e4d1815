//! Moves what was written [beside the database](super::redo) into its tables.
//!
//! That may be done twice: if the process ends before the file is emptied, the next one finds it again. So
//! what the database has already is skipped.

use std::collections::HashMap;

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::super::{Batch, LogNews};
use super::redo::Folding;
use super::redo_record::{Kind, Record, records};
use super::statements::{self, Done, execute, first, restored, stored};

/// A turn in the file, and what it says of it.
#[derive(Debug)]
struct Unfinished<'a> {
    session_id: &'a str,
    turn_id: &'a str,
    news: Vec<Record<'a>>,
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

/// What a file has that is not over.
#[derive(Debug, Default)]
struct Contents<'a> {
    /// The turns, in the order in which they began.
    turns: Vec<Unfinished<'a>>,
    /// The last record of each session.
    saves: HashMap<&'a str, Record<'a>>,
    /// Bytes at its end that are cut or damaged.
    unread: usize,
}

/// Writes to the tables what this file has of sessions whose turns were not over. Returns how many bytes at its
/// end are cut or damaged, and were not read.
pub(super) fn fold(connection: &Connection, Folding { file, later }: &Folding) -> Done<usize> {
    let Contents { turns, saves, unread } = contents(file, later);
    saves.values().try_for_each(|save| put_record(connection, save))?;
    turns.iter().try_for_each(|turn| put(connection, turn))?;
    Ok(unread)
}

/// What is in the file. What is new in the `later` one is not folded yet.
fn contents<'a>(file: &'a [u8], later: &'a [u8]) -> Contents<'a> {
    let Contents { mut turns, mut saves, .. } = Contents::default();
    let mut places = HashMap::new();
    let is_end = |record: &Record<'_>| matches!(record.head.kind, Kind::End | Kind::Forget);
    let ends = records(later).filter(is_end);
    let mut records = records(file);
    for record in records.by_ref().chain(ends) {
        let Record { head, session_id, turn_id, .. } = record;
        match head.kind {
            Kind::News => {
                let place = *places.entry((session_id, turn_id)).or_insert(turns.len());
                if place == turns.len() {
                    turns.push(Unfinished { session_id, turn_id, news: Vec::new() });
                }
                turns[place].news.push(record);
            }
            Kind::Save => {
                saves.insert(session_id, record);
            }
            Kind::End => {
                saves.remove(session_id);
                if let Some(place) = places.get(&(session_id, turn_id)) {
                    turns[*place].news.clear();
                }
            }
            Kind::Forget => {
                saves.remove(session_id);
                let its = turns.iter_mut().filter(|turn| turn.session_id == session_id);
                its.for_each(|turn| turn.news.clear());
            }
            Kind::Probe => {}
        }
    }
    Contents { turns, saves, unread: records.unread() }
}

/// Writes the record of a session, unless the tables have a later one.
fn put_record(connection: &Connection, save: &Record<'_>) -> Done<()> {
    let Record { head, session_id, journal: record, .. } = *save;
    let sql = "INSERT INTO sessions (id, version, record, epoch, node, used_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (id) DO UPDATE
        SET version = ?2, record = ?3, epoch = max(epoch, ?4), node = ?5, used_at = ?6
        WHERE version IS NULL OR version < ?2";
    let [version, epoch, used_at] = [head.first, head.epoch, head.last].map(stored);
    let (record, node) = (record.unwrap_or_default(), head.node.0.as_bytes());
    execute(connection, sql, params![session_id, version, record, epoch, node, used_at])?;
    Ok(())
}

fn put(connection: &Connection, turn: &Unfinished<'_>) -> Done<()> {
    let Unfinished { session_id, turn_id, ref news } = *turn;
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
