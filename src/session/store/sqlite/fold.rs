//! Moves what was written [beside the database](super::redo) into its tables.
//!
//! That may be done twice: if the process ends before the file is emptied, the next one finds it again. So
//! what the database has already is skipped.

use std::collections::HashMap;

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::super::{Batch, LogNews, Version};
use super::redo::Folding;
use super::redo_record::{Body, End, News, Record, Saved, records};
use super::statements::{self, Done, execute, first, restored, stored};

/// A turn in the file, and what it says of it.
#[derive(Debug)]
struct RecordedTurn<'a> {
    session_id: &'a str,
    turn_id: &'a str,
    state: Recorded<'a>,
}

/// What the file says of a turn that the tables lack.
#[derive(Debug)]
enum Recorded<'a> {
    /// What is new of it, while it runs.
    News(Vec<News<'a>>),
    Ended(End<'a>),
    /// Nothing.
    Settled,
}

/// News of one epoch that follow one another.
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
    turns: Vec<RecordedTurn<'a>>,
    /// The last record of each session, unless the end of a turn has it.
    saves: HashMap<&'a str, Saved<'a>>,
    /// The deleted sessions, each up to a version of its record.
    deleted: Vec<(&'a str, Version)>,
}

/// Writes to the tables what this file has that they lack.
pub(super) fn fold(connection: &Connection, Folding { file, later, .. }: &Folding) -> Done<()> {
    let Contents { turns, saves, deleted } = contents(file, later);
    for (session_id, latest) in deleted {
        statements::delete(connection, session_id, latest)?;
    }
    turns.iter().try_for_each(|turn| put_end(connection, turn))?;
    for (session_id, saved) in saves {
        statements::put_record(connection, session_id, saved)?;
    }
    turns.iter().try_for_each(|turn| put_news(connection, turn))
}

/// What is in the file. What is new in the `later` one is not folded yet.
fn contents<'a>(file: &'a [u8], later: &'a [u8]) -> Contents<'a> {
    let Contents { mut turns, mut saves, mut deleted } = Contents::default();
    let mut places = HashMap::new();
    // An end in the later file is in the tables before anything that comes after it.
    let is_settled =
        |record: &Record<'_>| matches!(record.body, Body::Settled { .. } | Body::Forget { .. });
    let settled = records(later).filter(is_settled);
    for Record { session_id, body } in records(file).chain(settled) {
        match body {
            Body::News { turn_id, news } => {
                turn_of(&mut turns, &mut places, session_id, turn_id).take(news);
            }
            Body::Ended { turn_id, end } => {
                turn_of(&mut turns, &mut places, session_id, turn_id).state = Recorded::Ended(end);
                saves.remove(session_id);
            }
            Body::Save(saved) => {
                saves.insert(session_id, saved);
            }
            Body::Settled { turn_id } => {
                saves.remove(session_id);
                if let Some(place) = places.get(&(session_id, turn_id)) {
                    turns[*place].state = Recorded::Settled;
                }
            }
            Body::Forget { latest } => {
                saves.remove(session_id);
                let its = turns.iter_mut().filter(|turn| turn.session_id == session_id);
                its.for_each(|turn| turn.state = Recorded::Settled);
                deleted.push((session_id, latest));
            }
            Body::Probe => {}
        }
    }
    Contents { turns, saves, deleted }
}

/// This turn among those that were recorded.
fn turn_of<'t, 'a>(
    turns: &'t mut Vec<RecordedTurn<'a>>,
    places: &mut HashMap<(&'a str, &'a str), usize>,
    session_id: &'a str,
    turn_id: &'a str,
) -> &'t mut RecordedTurn<'a> {
    let place = *places.entry((session_id, turn_id)).or_insert(turns.len());
    if place == turns.len() {
        turns.push(RecordedTurn { session_id, turn_id, state: Recorded::Settled });
    }
    &mut turns[place]
}

impl<'a> RecordedTurn<'a> {
    /// Takes what is new of the turn.
    fn take(&mut self, news: News<'a>) {
        match &mut self.state {
            Recorded::News(all) => all.push(news),
            Recorded::Settled => self.state = Recorded::News(vec![news]),
            // Nothing follows the end of a turn.
            Recorded::Ended(_) => {}
        }
    }
}

/// Writes the end of a turn, unless the tables have it, or a later one.
fn put_end(connection: &Connection, turn: &RecordedTurn<'_>) -> Done<()> {
    let Recorded::Ended(End { saved, last, events }) = turn.state else { return Ok(()) };
    if statements::put_record(connection, turn.session_id, saved)? {
        let batch = Batch { first: 1, last, bytes: Bytes::copy_from_slice(events) };
        let session = (turn.session_id, saved.by.epoch);
        statements::put_whole_log(connection, session, turn.turn_id, &[batch])?;
    }
    Ok(())
}

fn put_news(connection: &Connection, turn: &RecordedTurn<'_>) -> Done<()> {
    let &RecordedTurn { session_id, turn_id, state: Recorded::News(ref news) } = turn else {
        return Ok(());
    };
    let Some(newest) = news.last() else { return Ok(()) };
    let sql = "UPDATE sessions
        SET node = CASE WHEN epoch <= ?1 THEN ?2 ELSE node END, epoch = max(epoch, ?1) WHERE id = ?3";
    let (epoch, node) = (stored(newest.by.epoch), newest.by.node.0.as_bytes());
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
fn runs<'a>(news: &[News<'a>], mut last: u64, is_running: bool) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    for news in news {
        let epoch = news.by.epoch;
        let has_events = news.last > last;
        if has_events && news.first != last + 1 {
            // A record before it is missing. What comes after a gap is no part of any log.
            break;
        }
        if runs.last().is_none_or(|run| run.epoch != epoch) {
            runs.push(Run { epoch, first: last + 1, last, ..Run::default() });
        }
        let Some(run) = runs.last_mut() else { break };
        if has_events {
            (last, run.last) = (news.last, news.last);
            run.events.push(news.events);
        }
        if has_events || is_running {
            run.journal = news.journal.or(run.journal);
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
