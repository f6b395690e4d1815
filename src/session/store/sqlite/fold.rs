//! Moves what running turns have written [beside the database](super::redo) into its tables.
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

/// Writes to the tables what this file has of turns that were not over.
pub(super) fn fold(connection: &Connection, Folding { file, later }: &Folding) -> Done<()> {
    unfinished(file, later).iter().try_for_each(|turn| put(connection, turn))
}

/// The turns of the file, in the order in which they began. What is new of them in the `later` one is not folded
/// yet.
fn unfinished<'a>(file: &'a [u8], later: &'a [u8]) -> Vec<Unfinished<'a>> {
    let mut turns: Vec<Unfinished<'_>> = Vec::new();
    let mut places = HashMap::new();
    let ends = records(later).filter(|record| record.head.kind != Kind::News);
    for record in records(file).chain(ends) {
        let Record { head, session_id, turn_id, .. } = record;
        match head.kind {
            Kind::News => {
                let place = *places.entry((session_id, turn_id)).or_insert(turns.len());
                if place == turns.len() {
                    turns.push(Unfinished { session_id, turn_id, news: Vec::new() });
                }
                turns[place].news.push(record);
            }
            Kind::End => {
                if let Some(place) = places.get(&(session_id, turn_id)) {
                    turns[*place].news.clear();
                }
            }
            Kind::Forget => {
                let its = turns.iter_mut().filter(|turn| turn.session_id == session_id);
                its.for_each(|turn| turn.news.clear());
            }
            Kind::Probe => {}
        }
    }
    turns
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
