//! The store's server: what the scripts in `session/store/redis/scripts` do, on plain data.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Flaw;
use crate::session::store::{
    Batch, Epochs, Lease, LogNews, NodeId, Renewed, StoreError, StoredLog, StoredRecord, Version,
    Watched,
};

/// What a node asks.
#[derive(Debug, Clone)]
pub(super) enum Request {
    Acquire {
        session: String,
        node: NodeId,
        asked: u64,
        grant: u64,
    },
    Renew(Lease),
    Release(Lease),
    Cancel {
        session: String,
        turn: String,
    },
    Load(String),
    Write {
        lease: Lease,
        record: Option<NewRecord>,
        log: Option<(String, LogNews)>,
        ends: bool,
        asked: u64,
    },
    Read {
        session: String,
        turn: Option<String>,
        seen: u64,
    },
    Interrupted,
    Forget(String),
    WasForgotten(String),
    Check,
}

#[derive(Debug, Clone)]
pub(super) struct NewRecord {
    pub(super) expected: Option<Version>,
    pub(super) version: Version,
    pub(super) bytes: Bytes,
}

#[derive(Debug, Clone)]
pub(super) enum Answer {
    Lease(Option<Lease>),
    Renewed(Renewed),
    Flag(bool),
    Record(Option<StoredRecord>),
    Written(Option<Version>),
    Log(Option<StoredLog>),
    Ids(Vec<String>),
    Done,
}

impl Request {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "acquire",
            Self::Renew(_) => "renew",
            Self::Release(_) => "release",
            Self::Cancel { .. } => "cancel",
            Self::Load(_) => "load",
            Self::Write { ends: true, .. } => "finish",
            Self::Write { record: Some(_), .. } => "save",
            Self::Write { .. } => "append",
            Self::Read { .. } => "read",
            Self::Interrupted => "interrupted",
            Self::Forget(_) => "forget",
            Self::WasForgotten(_) => "was_forgotten",
            Self::Check => "check",
        }
    }
}

/// A session, as the scripts keep it.
#[derive(Debug, Default)]
pub(super) struct Kept {
    epoch: u64,
    node: Option<NodeId>,
    asked: u64,
    lease: Option<Granted>,
    /// The lease that was given back last.
    given_back: Option<u64>,
    /// A note: an earlier session with this id was forgotten, which had this lease.
    forgotten: Option<Forgotten>,
    cancel: Option<String>,
    record: Option<Saved>,
    pub(super) logs: Vec<StoredLog>,
}

#[derive(Debug)]
struct Granted {
    grant: u64,
    deadline: u64,
}

#[derive(Debug, Clone, Copy)]
struct Forgotten {
    grant: Option<u64>,
    /// Until when the note stays, if no session begins meanwhile.
    until: u64,
}

#[derive(Debug)]
struct Saved {
    record: StoredRecord,
    before: Option<Version>,
    by: u64,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) now: u64,
    pub(super) lease_ms: u64,
    pub(super) sessions: BTreeMap<String, Kept>,
    /// Who has written events in an epoch of a session.
    pub(super) writers: BTreeMap<(String, u64), NodeId>,
    /// Who had the sessions that were forgotten, at the last time.
    pub(super) deletions: BTreeMap<String, Option<NodeId>>,
    /// The logs of their turns.
    pub(super) deleted: BTreeMap<String, StoredLog>,
    /// What wakes watches.
    pub(super) published: Vec<(String, Watched)>,
    pub(super) flaw: Flaw,
}

type Served = Result<Answer, StoreError>;

impl Server {
    pub(super) fn new(lease_ms: u64, flaw: Flaw) -> Self {
        Self {
            now: 0,
            lease_ms,
            sessions: BTreeMap::new(),
            writers: BTreeMap::new(),
            deletions: BTreeMap::new(),
            deleted: BTreeMap::new(),
            published: Vec::new(),
            flaw,
        }
    }

    pub(super) fn serve(&mut self, request: Request) -> Served {
        let now = self.now;
        self.sessions.retain(|_, kept| {
            kept.epoch > 0 || kept.forgotten.is_some_and(|forgotten| forgotten.until > now)
        });
        Ok(match request {
            Request::Acquire { session, node, asked, grant } => {
                Answer::Lease(self.acquire(&session, node, (asked, grant)))
            }
            Request::Renew(lease) => {
                let deadline = self.now + self.lease_ms;
                self.held(&lease)?.deadline = deadline;
                let kept = self.sessions.get(&*lease.session_id);
                let cancel = kept.and_then(|kept| kept.cancel.clone());
                Answer::Renewed(Renewed { cancel, ..Renewed::default() })
            }
            Request::Release(lease) => self.release(&lease),
            Request::Cancel { session, turn } => Answer::Flag(self.cancel(&session, turn)),
            Request::Load(session) => {
                let saved = self.sessions.get(&session).and_then(|kept| kept.record.as_ref());
                Answer::Record(saved.map(|saved| saved.record.clone()))
            }
            Request::Write { lease, record, log, ends, asked } => {
                Answer::Written(self.write((&lease, asked), record, log, ends)?)
            }
            Request::Read { session, turn, seen } => {
                Answer::Log(self.log(&session, turn.as_deref()).map(|log| after(log, seen)))
            }
            Request::Interrupted => Answer::Ids(self.interrupted()),
            Request::Forget(session) => Answer::Flag(self.forget(&session)),
            Request::WasForgotten(session) => {
                let kept = self.sessions.get(&session);
                Answer::Flag(kept.is_some_and(|kept| kept.forgotten.is_some()))
            }
            Request::Check => Answer::Done,
        })
    }

    pub(super) fn log(&self, session: &str, turn: Option<&str>) -> Option<&StoredLog> {
        let mut logs = self.sessions.get(session)?.logs.iter().rev();
        logs.find(|log| turn.is_none_or(|turn| log.turn_id == turn))
    }

    /// The log of a turn, even if its session was forgotten.
    pub(super) fn log_ever(&self, session: &str, turn: &str) -> Option<&StoredLog> {
        self.log(session, Some(turn)).or_else(|| self.deleted.get(turn))
    }

    pub(super) fn record(&self, session: &str) -> Option<&Bytes> {
        Some(&self.sessions.get(session)?.record.as_ref()?.record.bytes)
    }

    /// Lets the lease of a session lapse. False if nobody has one.
    pub(super) fn let_lapse(&mut self, session: &str) -> bool {
        let now = self.now;
        let granted = self.sessions.get_mut(session).and_then(|kept| kept.lease.as_mut());
        granted.map(|granted| granted.deadline = now).is_some()
    }

    /// Who holds a session.
    pub(super) fn holder(&self, session: &str) -> Option<NodeId> {
        let kept = self.sessions.get(session)?;
        let granted = kept.lease.as_ref().filter(|granted| granted.deadline > self.now);
        granted.and(kept.node)
    }

    fn acquire(
        &mut self,
        session: &str,
        node: NodeId,
        (asked, grant): (u64, u64),
    ) -> Option<Lease> {
        let (now, deadline, flaw) = (self.now, self.now + self.lease_ms, self.flaw);
        let kept = self.sessions.entry(session.to_owned()).or_default();
        if kept.node == Some(node) {
            if kept.asked > asked {
                return None;
            }
        } else if kept.lease.as_ref().is_some_and(|granted| granted.deadline > now) {
            return None;
        } else {
            kept.epoch += u64::from(flaw != Flaw::SameEpoch || kept.epoch == 0);
            self.published.push((session.to_owned(), Watched::Log));
        }
        kept.node = Some(node);
        kept.asked = asked;
        kept.lease = Some(Granted { grant, deadline });
        kept.forget_cancel();
        let session_id = session.into();
        Some(Lease { session_id, node, epoch: kept.epoch, grant })
    }

    fn release(&mut self, lease: &Lease) -> Answer {
        let Some(kept) = self.sessions.get_mut(&*lease.session_id) else { return Answer::Done };
        if kept.lease.as_ref().is_none_or(|granted| granted.grant != lease.grant) {
            return Answer::Done;
        }
        kept.lease = None;
        kept.given_back = Some(lease.grant);
        kept.forget_cancel();
        if kept.record.is_none() {
            let forgotten = kept.forgotten;
            self.sessions.remove(&*lease.session_id);
            self.leave_note(&lease.session_id, forgotten);
        }
        self.published.push((lease.session_id.to_string(), Watched::Log));
        Answer::Done
    }

    fn cancel(&mut self, session: &str, turn: String) -> bool {
        let now = self.now;
        let Some(kept) = self.sessions.get_mut(session) else { return false };
        let is_held = kept.lease.as_ref().is_some_and(|granted| granted.deadline > now);
        if !is_held && !kept.has_journal() {
            return false;
        }
        kept.cancel = Some(turn);
        self.published.push((session.to_owned(), Watched::Owner));
        true
    }

    /// Whether there was a record. Leaves a note.
    fn forget(&mut self, session: &str) -> bool {
        let holder = self.holder(session);
        if self.sessions.get(session).is_none_or(|kept| kept.epoch == 0) {
            return false;
        }
        self.published.push((session.to_owned(), Watched::Log));
        self.published.push((session.to_owned(), Watched::Owner));
        let had = self.sessions.remove(session);
        let Some(Kept { lease, given_back, forgotten, logs, record, .. }) = had else {
            return false;
        };
        self.deletions.insert(session.to_owned(), holder);
        let mut note = forgotten;
        if lease.is_some() || !logs.is_empty() || record.is_some() {
            let grant = lease.map(|granted| granted.grant).or(given_back);
            note = Some(Forgotten { grant, until: 0 });
        }
        self.leave_note(session, note);
        // Epochs begin anew.
        self.writers.retain(|(id, _), _| id != session);
        self.deleted.extend(logs.into_iter().map(|log| (log.turn_id.clone(), log)));
        record.is_some()
    }

    fn leave_note(&mut self, session: &str, note: Option<Forgotten>) {
        let Some(Forgotten { grant, .. }) = note else { return };
        let forgotten = Some(Forgotten { grant, until: self.now + 2 * self.lease_ms });
        self.sessions.insert(session.to_owned(), Kept { forgotten, ..Kept::default() });
    }

    /// Why a lease is not held: `loss` in `prelude.lua`.
    fn loss(&self, lease: &Lease) -> StoreError {
        let Some(kept) = self.sessions.get(&*lease.session_id) else {
            return StoreError::DataLoss;
        };
        let forgotten = kept.forgotten.filter(|forgotten| forgotten.until > self.now);
        let is_its = forgotten.is_some_and(|forgotten| forgotten.grant == Some(lease.grant));
        if is_its || forgotten.is_some() && kept.epoch == 0 {
            return StoreError::NoSession;
        }
        let is_lost = if kept.given_back == Some(lease.grant) || forgotten.is_some() {
            false
        } else if kept.epoch != lease.epoch {
            kept.epoch < lease.epoch
        } else {
            kept.node != Some(lease.node) || kept.lease.is_none()
        };
        if is_lost { StoreError::DataLoss } else { StoreError::Superseded }
    }

    /// The lease, if it is held.
    fn held(&mut self, lease: &Lease) -> Result<&mut Granted, StoreError> {
        let (now, flaw, loss) = (self.now, self.flaw, self.loss(lease));
        let kept = self.sessions.get_mut(&*lease.session_id);
        let granted = kept.and_then(|kept| kept.lease.as_mut());
        let holds = |granted: &&mut Granted| {
            let is_its = granted.grant == lease.grant && granted.deadline > now;
            is_its || flaw == Flaw::NoFence
        };
        granted.filter(holds).ok_or(loss)
    }

    fn write(
        &mut self,
        (lease, asked): (&Lease, u64),
        record: Option<NewRecord>,
        log: Option<(String, LogNews)>,
        ends: bool,
    ) -> Result<Option<Version>, StoreError> {
        if let Err(lost) = self.held(lease) {
            // The end of a turn gives its lease back.
            let turn = log.map(|(turn, _)| turn).filter(|_| ends);
            return self.was_finished(lease, record, turn).map(Some).ok_or(lost);
        }
        let (flaw, writer) = (self.flaw, (lease.session_id.to_string(), lease.epoch));
        let kept = self.sessions.get_mut(&*lease.session_id).ok_or(StoreError::Superseded)?;
        if kept.asked > asked && flaw != Flaw::NoOrder {
            return Err(StoreError::Superseded);
        }
        let mut written = None;
        let record = match record {
            Some(new) => {
                let has = kept.record.as_ref();
                let is_done = has.is_some_and(|saved| {
                    let is_same = saved.before == new.expected && saved.by == lease.grant;
                    is_same && saved.record.bytes == new.bytes && flaw != Flaw::NotIdempotent
                });
                if has.map(|saved| saved.record.version) == new.expected {
                    written = Some(new.version);
                    Some(new)
                } else if is_done {
                    written = has.map(|saved| saved.record.version);
                    None
                } else {
                    return Err(StoreError::Superseded);
                }
            }
            None => None,
        };
        if let Some((turn, news)) = log {
            if !news.batches.is_empty() {
                self.writers.entry(writer).or_insert(lease.node);
            }
            kept.append(&turn, news, lease.epoch, flaw)?;
            if ends && let Some(log) = kept.logs.iter_mut().find(|log| log.turn_id == turn) {
                log.journal = None;
            }
            self.published.push((lease.session_id.to_string(), Watched::Log));
        }
        if let Some(NewRecord { expected, version, bytes }) = record {
            let record = StoredRecord { version, bytes };
            kept.record = Some(Saved { record, before: expected, by: lease.grant });
        }
        kept.asked = kept.asked.max(asked);
        if ends {
            kept.lease = None;
            kept.given_back = Some(lease.grant);
            kept.forget_cancel();
        }
        Ok(written)
    }

    /// The version of a record that this lease has written in this way before, when it ended the turn.
    fn was_finished(
        &self,
        lease: &Lease,
        record: Option<NewRecord>,
        turn: Option<String>,
    ) -> Option<Version> {
        let (new, kept) = (record?, self.sessions.get(&*lease.session_id)?);
        let (turn, saved) = (turn?, kept.record.as_ref()?);
        if kept.logs.iter().any(|log| log.turn_id == turn && log.journal.is_some()) {
            return None;
        }
        let is_same = saved.before == new.expected && saved.by == lease.grant;
        (is_same && saved.record.bytes == new.bytes).then_some(saved.record.version)
    }

    fn interrupted(&self) -> Vec<String> {
        let is_left = |kept: &Kept| {
            let is_held = kept.lease.as_ref().is_some_and(|granted| granted.deadline > self.now);
            !is_held && kept.has_journal()
        };
        let left = self.sessions.iter().filter(|(_, kept)| is_left(kept));
        left.map(|(session, _)| session.clone()).collect()
    }
}

impl Kept {
    fn has_journal(&self) -> bool {
        self.logs.iter().any(|log| log.journal.is_some())
    }

    /// A turn that its owner has left behind is still to be cancelled.
    fn forget_cancel(&mut self) {
        if !self.has_journal() {
            self.cancel = None;
        }
    }

    fn append(
        &mut self,
        turn: &str,
        LogNews { batches, journal }: LogNews,
        epoch: u64,
        flaw: Flaw,
    ) -> Result<(), StoreError> {
        let at = self.logs.iter().position(|log| log.turn_id == turn);
        let last = at.map_or(0, |at| self.logs[at].last);
        // Those that are there already came with the same request.
        let is_new = |batch: &Batch| batch.last > last || flaw == Flaw::NotIdempotent;
        let batches: Vec<Batch> = batches.into_iter().skip_while(|it| !is_new(it)).collect();
        let follows = batches.first().is_none_or(|batch| batch.first == last + 1);
        if !follows && flaw != Flaw::NotIdempotent {
            return Err(StoreError::DataLoss);
        }
        let Some(at) = at else {
            let (turn_id, epochs) = (turn.to_owned(), Epochs::begun_in(epoch));
            let last = batches.last().map_or(0, |batch| batch.last);
            self.logs.push(StoredLog { turn_id, epochs, last, batches, journal });
            return Ok(());
        };
        let log = &mut self.logs[at];
        log.epochs = log.epochs.then(last + 1, epoch);
        log.last = batches.last().map_or(last, |batch| batch.last);
        log.batches.extend(batches);
        log.journal = journal.or_else(|| log.journal.take());
        Ok(())
    }
}

/// The log without the batches that end at or before event `seen`.
fn after(log: &StoredLog, seen: u64) -> StoredLog {
    let batches = log.batches.iter().filter(|batch| batch.last > seen).cloned().collect();
    let StoredLog { turn_id, epochs, last, journal, .. } = log;
    let (turn_id, epochs) = (turn_id.clone(), epochs.clone());
    StoredLog { turn_id, epochs, last: *last, batches, journal: journal.clone() }
}

/// An event of a log, as its epoch and its line.
pub(super) fn event_of(log: &StoredLog, sequence: u64) -> Option<(u64, String)> {
    let at = log.batches.partition_point(|batch| batch.last < sequence);
    let Batch { first, bytes, .. } = log.batches.get(at)?;
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let line = lines.nth(usize::try_from(sequence.checked_sub(*first)?).ok()?)?;
    Some((log.epochs.at(sequence), String::from_utf8_lossy(line).into_owned()))
}

/// The events of a log, as epochs, sequences and lines.
pub(super) fn events_of(log: &StoredLog) -> impl Iterator<Item = (u64, u64, &[u8])> {
    log.batches.iter().flat_map(|batch| {
        let lines = batch.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        (batch.first..).zip(lines).map(|(at, line)| (log.epochs.at(at), at, line))
    })
}
