//! What must hold at every step.

use std::collections::{BTreeMap, BTreeSet};

use super::server::{Answer, Request, Server, event_of, events_of};
use crate::event::Kind;
use crate::session::cut_short::{DATA_LOSS, NOT_STORED};
use crate::session::journal::Journal;
use crate::session::record::SessionRecord;
use crate::session::store::{Epochs, NodeId, StoreError, StoredLog};

/// What has become of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Lives,
    Stopped,
    /// It was stopped once.
    CameBack,
    Killed,
}

/// What a reader was told by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// What is stored.
    Event,
    /// That the turn has begun, which is not stored. Its end follows.
    Begun,
    /// That the store does not answer.
    StoreFails,
    /// That the turn was cancelled, because its session was deleted.
    Deleted,
}

/// An event as a reader got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    pub(super) kind: Kind,
    pub(super) data: String,
}

#[derive(Debug, Default)]
pub(super) struct Rules {
    /// What went wrong.
    pub(super) broken: Vec<String>,
    /// What happened, if anybody wants to know.
    pub(super) trace: Option<Vec<String>>,
    pub(super) nodes: Vec<(NodeId, Standing)>,
    /// The calls whose start was written: by how many drivers, and how often they ran.
    calls: BTreeMap<(String, u64), (u32, u32)>,
    /// The events that readers have seen, by turn.
    told: BTreeMap<String, BTreeMap<u64, (u64, String)>>,
    /// How far turns had come by their journals.
    journals: BTreeMap<String, u64>,
    /// The nodes that were refused a session because another one has it.
    superseded: BTreeSet<(String, String)>,
    /// Turns that were ended as soon as they were taken over.
    pub(super) ended_at_once: BTreeSet<String>,
    /// What the schedule's coverage is told with the next request.
    pub(super) news: Vec<&'static str>,
}

impl Rules {
    pub(super) fn note(&mut self, now: u64, what: &str) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now:>7}  {what}"));
        }
    }

    pub(super) fn fail(&mut self, what: String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("BROKEN: {what}"));
        }
        self.broken.push(what);
    }

    pub(super) fn name_of(&self, node: NodeId) -> String {
        let at = self.nodes.iter().position(|(id, _)| *id == node);
        at.map_or_else(|| "?".to_owned(), |at| format!("n{at}"))
    }

    pub(super) fn stands(&mut self, node: NodeId, standing: Standing) {
        match self.nodes.iter_mut().find(|(id, _)| *id == node) {
            Some((_, is)) => *is = standing,
            None => self.nodes.push((node, standing)),
        }
    }

    pub(super) fn standing(&self, node: NodeId) -> Option<Standing> {
        self.nodes.iter().find(|(id, _)| *id == node).map(|(_, standing)| *standing)
    }

    pub(super) fn asks(&mut self, server: &Server, node: NodeId, request: &Request) {
        if self.trace.is_some() {
            self.note(server.now, &format!("{} asks {}", self.name_of(node), shown(request)));
        }
        if self.standing(node) == Some(Standing::Killed) {
            self.fail("a killed node asks the store".to_owned());
        }
    }

    pub(super) fn served(
        &mut self,
        server: &Server,
        request: &Request,
        outcome: &Result<Answer, StoreError>,
    ) {
        if self.trace.is_some() {
            let outcome = match outcome {
                Ok(Answer::Lease(None)) => "no lease".to_owned(),
                Ok(Answer::Lease(Some(lease))) => format!("epoch {}", lease.epoch),
                Ok(_) => "done".to_owned(),
                Err(error) => format!("refused: {error}"),
            };
            self.note(server.now, &format!("  store: {} {outcome}", shown(request)));
        }
        if let Request::Write { lease, .. } | Request::Renew(lease) = request
            && matches!(outcome, Err(StoreError::Superseded))
        {
            self.superseded.insert((lease.node.to_string(), lease.session_id.to_string()));
        }
        let Request::Write { lease, log, ends, .. } = request else { return };
        let session = &lease.session_id;
        if outcome.is_err() {
            let has_lost_it = server.holder(session).is_some_and(|holder| holder != lease.node);
            if has_lost_it && self.standing(lease.node) == Some(Standing::CameBack) {
                self.news.push("node: came back too late, and was silent");
            }
            return;
        }
        let Some((turn, news)) = log else { return };
        let writer = server.writers.get(&(session.to_string(), lease.epoch));
        if !news.batches.is_empty() && writer.is_some_and(|writer| *writer != lease.node) {
            self.fail(format!("two nodes write in epoch {} of {session}", lease.epoch));
        }
        let Some(log) = server.log(session, Some(turn)) else { return };
        if let Err(what) = check_log(log) {
            return self.fail(format!("{turn}: {what}"));
        }
        self.check_journal(log);
        if *ends {
            self.note_end(log, turn, lease.epoch);
        }
    }

    /// A journal takes the place of an older one only.
    fn check_journal(&mut self, log: &StoredLog) {
        let Some(Ok(journal)) = log.journal.as_deref().map(Journal::read) else { return };
        let before = self.journals.insert(log.turn_id.clone(), journal.after);
        if before.is_some_and(|before| before > journal.after) {
            self.fail(format!("{}: its journal goes back to {}", log.turn_id, journal.after));
        }
    }

    fn note_end(&mut self, log: &StoredLog, turn: &str, epoch: u64) {
        let events: Vec<_> = events_of(log).collect();
        let Some(((.., last), before)) = events.split_last() else { return };
        let says = |text: &str| String::from_utf8_lossy(last).contains(text);
        let is_own = before.last().is_some_and(|(written, ..)| *written == epoch);
        self.news.push(if says(NOT_STORED) && is_own {
            "end: by its own node, which had given it up"
        } else if !says("the gateway was stopped") {
            "end: by its driver"
        } else if self.ended_at_once.contains(turn) {
            "takeover: ended at once"
        } else {
            "end: by the next node, as nobody may go on"
        });
    }

    /// A driver has written that a call begins.
    pub(super) fn call_begins(&mut self, turn: &str, call: u64) {
        self.calls.entry((turn.to_owned(), call)).or_default().0 += 1;
    }

    /// The call of a turn runs.
    pub(super) fn call_runs(&mut self, server: &Server, (session, turn): (&str, &str), call: u64) {
        self.note(server.now, &format!("call {call} of {turn} runs"));
        let (begun, runs) = self.calls.entry((turn.to_owned(), call)).or_default();
        *runs += 1;
        if *begun > 1 {
            self.news.push("tool: its start was lost with its node, so it begins again");
        }
        if *runs > 1 {
            self.fail(format!("call {call} of {turn} runs twice"));
        }
        let id = format!("\"call_id\":\"call_{call}\"");
        let is_start = |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            line.contains("tool_started") && line.contains(&id)
        };
        let log = server.log_ever(session, turn);
        if !log.is_some_and(|log| events_of(log).any(|(.., line)| is_start(line))) {
            self.fail(format!("call {call} of {turn} runs before its start is stored"));
        }
    }

    /// A reader of a turn has got an event.
    pub(super) fn reads(
        &mut self,
        server: &Server,
        (session, turn): (&str, &str),
        new: &Seen,
    ) -> Told {
        let log = server.log_ever(session, turn);
        let stored = log.and_then(|log| event_of(log, new.sequence));
        if stored.as_ref() != Some(&(new.epoch, new.data.clone())) {
            // The store may be down, but it loses nothing.
            let is_excuse = new.data.contains("store_unavailable") && !new.data.contains(DATA_LOSS);
            if new.kind == Kind::TurnFailed && is_excuse {
                return Told::StoreFails;
            }
            if stored.is_none() && new.sequence == 1 && new.kind == Kind::TurnStarted {
                return Told::Begun;
            }
            // What a reader has seen before was stored, unless it is the beginning. This is all that may follow it.
            let is_cancelled = new.kind == Kind::TurnCompleted && new.data.contains("cancelled");
            let is_deleted =
                server.deletions.contains_key(session) && server.log(session, Some(turn)).is_none();
            let follows = new.sequence <= log.map_or(1, |log| log.last.max(1)) + 1;
            if !(is_cancelled && is_deleted && follows) {
                self.fail(format!("{turn}: a reader sees {new:?}; the store has {stored:?}"));
            }
            return Told::Deleted;
        }
        let told = self.told.entry(turn.to_owned()).or_default();
        let before = told.insert(new.sequence, (new.epoch, new.data.clone()));
        if before.is_some_and(|before| before != (new.epoch, new.data.clone())) {
            self.fail(format!("{turn}: two readers see different events: {new:?}"));
        }
        Told::Event
    }

    /// A node has ended the stream of a turn without a last event. It may not if the session was deleted, unless another
    /// node had the session before.
    pub(super) fn stream_ends(
        &mut self,
        server: &Server,
        (session, turn): (&str, &str),
        by: NodeId,
    ) {
        let is_superseded = self.superseded.contains(&(by.to_string(), session.to_owned()));
        if server.deleted.contains_key(turn) && !is_superseded {
            let name = self.name_of(by);
            self.fail(format!("{turn}: {name} ends a stream, and says nothing of the deletion"));
        }
    }

    /// At the end, when nothing is under way any more.
    pub(super) fn check_end(&mut self, server: &Server) {
        for (session, kept) in &server.sessions {
            let Some(bytes) = server.record(session) else { continue };
            let record = match SessionRecord::read(bytes) {
                Ok(record) => record,
                Err(error) => {
                    self.fail(format!("{session}: {error}"));
                    continue;
                }
            };
            let ended: BTreeSet<_> = kept.logs.iter().map(|log| log.turn_id.clone()).collect();
            let turns: Vec<_> = record.conversation.turns().collect();
            let kept_turns: BTreeSet<_> = turns.iter().map(|turn| turn.turn_id.clone()).collect();
            if kept_turns != ended || turns.len() != kept.logs.len() {
                self.fail(format!("{session}: logs of {ended:?}, conversation of {kept_turns:?}"));
            }
            for log in &kept.logs {
                let turn = turns.iter().find(|turn| turn.turn_id == log.turn_id);
                let said = turn.map(|turn| super::driving::said(turn));
                let spoken: String =
                    events_of(log).filter_map(|(.., line)| text_of(line)).collect();
                if said.as_ref() != Some(&spoken) {
                    self.fail(format!("{}: said {said:?}, written {spoken:?}", log.turn_id));
                }
                self.check_ended(log);
            }
        }
    }

    fn check_ended(&mut self, log: &StoredLog) {
        let turn = &log.turn_id;
        let events: BTreeMap<u64, (u64, String)> = events_of(log)
            .map(|(epoch, at, line)| (at, (epoch, String::from_utf8_lossy(line).into_owned())))
            .collect();
        let told = self.told.remove(turn).unwrap_or_default();
        if let Some(other) = told.iter().find(|(at, event)| events.get(*at) != Some(*event)) {
            self.fail(format!("{turn}: a reader saw what the log does not have: {other:?}"));
        }
        if log.journal.is_some() {
            self.fail(format!("{turn} has not ended"));
        }
        if log.epochs.starts().count() > 2 {
            self.news.push("log: written by three owners or more");
        }
    }
}

/// Every log is a sequence without gaps whose words are in order, and ends once.
fn check_log(log: &StoredLog) -> Result<(), String> {
    let starts: Vec<_> = log.epochs.starts().collect();
    if Epochs::of(&starts).is_none() {
        return Err(format!("epochs out of order: {starts:?}"));
    }
    let (mut next, mut word, mut has_ended) = (1, 1, false);
    for (_, sequence, line) in events_of(log) {
        if sequence != next || has_ended {
            return Err(format!("event {sequence} follows {}", next - 1));
        }
        next += 1;
        let line_text = String::from_utf8_lossy(line);
        has_ended = line_text.contains("turn_completed") || line_text.contains("turn_failed");
        if let Some(text) = text_of(line) {
            if text != format!("{word} ") {
                return Err(format!("word {word} is missing before {text:?}"));
            }
            word += 1;
        }
    }
    if next - 1 != log.last {
        return Err(format!("{} events, of {}", next - 1, log.last));
    }
    if log.journal.is_none() && !has_ended {
        return Err("it is over without a last event".to_owned());
    }
    Ok(())
}

fn text_of(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let rest = text.strip_prefix("{\"type\":\"text_delta\",\"data\":{\"text\":\"")?;
    Some(rest.strip_suffix("\"}}")?.to_owned())
}

fn shown(request: &Request) -> String {
    match request {
        Request::Write { lease, record, log, .. } => {
            let batches = log.iter().flat_map(|(_, news)| &news.batches);
            let ends: Vec<_> = batches.map(|batch| (batch.first, batch.last)).collect();
            let turn = log.as_ref().map(|(turn, news)| (turn, news.journal.is_some()));
            let (epoch, session) = (lease.epoch, &lease.session_id);
            let version = record.as_ref().map(|record| record.version.0 % 1000);
            format!("{} {session} epoch {epoch} {turn:?} {ends:?} {version:?}", request.name())
        }
        Request::Renew(lease) | Request::Release(lease) => {
            format!("{} {} epoch {}", request.name(), lease.session_id, lease.epoch)
        }
        Request::Acquire { session, asked, .. } => format!("acquire {session} {asked}"),
        other => format!("{other:?}"),
    }
}
