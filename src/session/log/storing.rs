//! How a running turn reaches the store: what is new of its log, and how far that has come.
//!
//! ```text
//!   events   1  2  3  4  5  6  7  8     handed over by the writer
//!            '- stored -'  '- on -'     readers see what is stored
//!                          their way
//! ```
//!
//! | storing stops, because | the driver | readers see last |
//! | --- | --- | --- |
//! | another gateway has the session | is cancelled | what is stored: they re-join there |
//! | the session was deleted, on any node | is cancelled | that the turn was cancelled, after what is stored |
//! | the store does not answer, or has lost events | fails the turn | its end, if that can be stored, or a failure |

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::records::{Batch, Run};
use super::{EndRequest, Seen, State, TurnLog, encode, wake};
use crate::conversation;
use crate::event::Event;

/// What the log of a turn has beside its records, if the turn is stored while it runs.
#[derive(Debug, Default)]
pub(super) struct Storing {
    /// Whether readers see events before they are stored.
    is_lazy: bool,
    /// The last draft, until it is on its way to the store.
    draft: Option<Box<Draft>>,
    /// How much has been handed over.
    journals: u64,
    /// How much of it is stored.
    stored: Stored,
    /// Whether the log is sealed: what is new from now on is stored with the session.
    is_sealed: bool,
    state: StoringState,
    /// Until then, no other gateway can have the session. `None` if it can have it only once this one has ended.
    held_until: Option<Instant>,
    /// Wait until more is stored, or the lease is renewed.
    waiting: Vec<Waker>,
}

/// A turn as far as its steps are whole.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// The last event that belongs to it.
    pub(crate) after: u64,
    /// Its request, as the gateway wrote it.
    pub(crate) asked: Option<Arc<RawValue>>,
    /// How many gateways have gone on with it from here.
    pub(crate) takeovers: u32,
    pub(crate) tally: conversation::Tally,
    pub(crate) turn: Arc<conversation::Turn>,
}

/// How much of a turn is stored: its events up to this one, and so many journals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(super) events: u64,
    pub(super) journals: u64,
}

/// Waits until this much of a turn is stored.
#[derive(Debug)]
pub(crate) struct Barrier {
    /// `None` if the turn is not stored while it runs.
    log: Option<Arc<TurnLog>>,
    upto: Stored,
}

/// Whether the turn is still stored while it runs, or why not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StoringState {
    #[default]
    Open,
    /// Another gateway has the session.
    Superseded,
    /// It was deleted.
    Deleted,
    /// The store does not answer.
    Silent,
    /// The store has lost a part of the turn, or all of it.
    DataLoss,
}

/// Why a turn is no longer stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unstorable {
    /// Another gateway has the session.
    Superseded,
    /// The session was deleted.
    Deleted,
    /// The store does not answer.
    Silent,
    /// The store has lost what it had confirmed.
    DataLoss,
}

/// Appends what is new of a running turn to its store without waiting, for the writer of its log: for each token, a
/// second look at the log and a task that is woken would cost more than a write to a file.
pub trait Appender: fmt::Debug + Send + Sync {
    /// Appends this. False if nothing was appended: then it is stored by whoever asks for what is not stored yet.
    fn append(&self, news: &LogNewsRef<'_>) -> bool;
}

/// [`LogNews`](crate::session::store::LogNews), borrowed, so that nothing is copied before it is encoded.
#[derive(Debug, Clone, Copy)]
pub struct LogNewsRef<'a> {
    /// The sequence of its first event; 0 if there are none.
    pub first: u64,
    /// That of the last.
    pub last: u64,
    /// Its events, which continue the log without a gap.
    pub runs: &'a [Run],
    /// What another gateway needs to end the turn, in place of the journal before.
    pub journal: Option<&'a [u8]>,
}

/// What the writer of a log needs to store what it writes.
#[derive(Debug)]
pub(crate) struct InlineAppender {
    pub(crate) appender: Arc<dyn Appender>,
    /// Writes the journal of a draft; `None` if that takes long.
    pub(crate) write_journal: fn(&Draft) -> Option<String>,
}

impl InlineAppender {
    /// Appends the events of these runs up to this one, and the draft. False if that has failed, or takes longer: see
    /// [`next_unstored`](TurnLog::next_unstored).
    pub(super) fn append(&self, runs: &[Run], last: u64, draft: Option<&Draft>) -> bool {
        let journal = match draft.map(self.write_journal) {
            None => None,
            Some(None) => return false,
            Some(written) => written,
        };
        let (first, last) = runs.first().map_or((0, 0), |run| (run.first, last));
        let journal = journal.as_ref().map(String::as_bytes);
        self.appender.append(&LogNewsRef { first, last, runs, journal })
    }
}

/// What is to be done for the store.
#[derive(Debug)]
pub(crate) enum NextUnstored {
    /// Store this.
    News(Unstored),
    /// Ask again once more of the log was written: nobody is woken for that.
    Nothing,
    /// Stop asking: from now on, nothing is to be stored on its own.
    Over,
}

/// What is to be stored of a turn.
#[derive(Debug)]
pub(crate) struct Unstored {
    pub(crate) batches: Vec<Batch>,
    pub(crate) draft: Option<Box<Draft>>,
    /// How much of the turn is stored with this.
    pub(crate) upto: Stored,
}

impl Barrier {
    /// Waits for nothing.
    #[cfg(test)]
    pub(crate) const OPEN: Self = Self::new(None, Stored { events: 0, journals: 0 });

    pub(super) const fn new(log: Option<Arc<TurnLog>>, upto: Stored) -> Self {
        Self { log, upto }
    }

    /// Waits until this much is stored and this gateway's lease has not lapsed. Never returns if the store fails or the
    /// lease is lost: the turn learns of that by itself, and must drop this, because what waits here must not happen.
    pub(crate) async fn wait(self) {
        if let Some(log) = self.log {
            poll_fn(|cx| log.poll_stored(cx, self.upto)).await;
        }
    }
}

impl Storing {
    pub(super) fn new(is_lazy: bool) -> Self {
        Self { is_lazy, ..Self::default() }
    }

    /// Of a log whose events up to this one are stored.
    pub(super) fn after(last: u64, is_lazy: bool) -> Self {
        let stored = Stored { events: last, journals: 0 };
        Self { stored, ..Self::new(is_lazy) }
    }

    /// Whether readers see events at once.
    pub(super) const fn shows_at_once(&self) -> bool {
        self.is_lazy
    }

    /// Whether everything is stored up to this event, all that was handed over, and what follows can be.
    pub(super) fn is_caught_up(&self, last: u64) -> bool {
        let all = Stored { events: last, journals: self.journals };
        self.stored == all && !self.is_sealed && self.state == StoringState::Open
    }

    /// Notes that so much is stored.
    pub(super) fn note_stored(&mut self, stored: Stored) {
        self.stored = stored;
        self.wake_waiting();
    }

    /// The last event that readers may see in the end, if not all.
    pub(super) fn shown_at_most(&self) -> Option<u64> {
        (self.state == StoringState::Superseded && !self.is_lazy).then_some(self.stored.events)
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, StoringState::Silent | StoringState::DataLoss)
    }

    /// Hands over a draft, if there is a new one.
    pub(super) fn hand_over(&mut self, draft: Option<Box<Draft>>, journals: u64) {
        self.draft = draft.or_else(|| self.draft.take());
        self.journals = journals;
    }

    /// What is new from now on is stored with the session.
    pub(super) fn seal(&mut self) {
        self.is_sealed = true;
        self.draft = None;
    }

    /// Whether what waits may happen: the store works, and no other gateway can have the session. A gateway that stood
    /// still may get the store's answer before it notices that its lease has lapsed.
    fn may_act(&self) -> bool {
        self.state == StoringState::Open
            && self.held_until.is_none_or(|until| Instant::now() < until)
    }

    fn wake_waiting(&mut self) {
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }
}

impl TurnLog {
    /// What is not stored yet.
    pub(crate) fn next_unstored(&self) -> NextUnstored {
        let mut guard = self.state.lock();
        let State { storing: Some(storing), records, .. } = &mut *guard else {
            return NextUnstored::Over;
        };
        if storing.is_sealed || storing.state != StoringState::Open {
            return NextUnstored::Over;
        }
        let draft = storing.draft.take();
        if storing.stored.events == records.last() && draft.is_none() {
            return NextUnstored::Nothing;
        }
        let batches = records.batches_after(storing.stored.events);
        let upto = Stored { events: records.last(), journals: storing.journals };
        NextUnstored::News(Unstored { batches, draft, upto })
    }

    /// Notes that so much is stored, and shows it to readers.
    pub(crate) fn note_stored(&self, stored: Stored) {
        let mut state = self.state.lock();
        if let Some(storing) = &mut state.storing {
            storing.note_stored(stored);
        }
        let seen = state.visible;
        if !state.ended && stored.events > seen {
            state.visible = stored.events;
            self.pass_on_after(seen, state);
        }
    }

    /// Gives up storing the turn while it runs: readers see no more before its end. If the store fails, the driver
    /// learns of it. If another gateway has the session, the log ends where it was stored, without a last
    /// event, and clients re-join it there. If the session was [deleted](Self::delete), here or on another node,
    /// the log ends as cancelled.
    pub(crate) fn stop_storing(&self, why: Unstorable) {
        let mut state = self.state.lock();
        let State { storing: Some(storing), stop, .. } = &mut *state else { return };
        if why == Unstorable::Deleted {
            *stop = EndRequest::Delete;
        }
        if storing.is_sealed || storing.state != StoringState::Open {
            return;
        }
        storing.state = match (why, *stop == EndRequest::Delete) {
            (Unstorable::Silent, _) => StoringState::Silent,
            (Unstorable::Superseded, false) => StoringState::Superseded,
            (Unstorable::DataLoss, false) => StoringState::DataLoss,
            (Unstorable::Deleted, _) | (Unstorable::Superseded | Unstorable::DataLoss, true) => {
                StoringState::Deleted
            }
        };
        let driver = state.driver.take();
        drop(state);
        wake(driver);
    }

    /// No other gateway can have the session until then.
    pub(crate) fn note_held_until(&self, until: Instant) {
        if let Some(storing) = &mut self.state.lock().storing {
            storing.held_until = Some(until);
            storing.wake_waiting();
        }
    }

    /// Ready once this much is stored and what waits for it may happen.
    fn poll_stored(&self, cx: &Context<'_>, upto: Stored) -> Poll<()> {
        let mut state = self.state.lock();
        let Some(storing) = &mut state.storing else { return Poll::Ready(()) };
        let Stored { events, journals } = storing.stored;
        if events >= upto.events && journals >= upto.journals && storing.may_act() {
            return Poll::Ready(());
        }
        if !storing.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            storing.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Replaces what readers have not seen by this event: the store does not take it. Only the first event stays, because
    /// no stream begins with its end. Call this once the log is [sealed](super::Writer::seal).
    pub(crate) fn end_unstored(&self, event: &Event<'_>) {
        let mut state = self.state.lock();
        let kept = state.visible.max(state.records.last().min(1));
        state.records.end_after(kept, encode::line(event).into(), event.kind());
    }

    /// Notes that the store has all of the log, which is sealed.
    pub(crate) fn note_kept(&self) {
        let mut state = self.state.lock();
        let last = state.records.last();
        if let Some(storing) = &mut state.storing {
            storing.stored.events = last;
        }
    }

    /// If the session was deleted, replaces what the store did not take by the last event of a turn that was cancelled.
    /// Another gateway may have shown an event under the same id, if the store took one and its answer was lost.
    /// Nobody can tell: a deleted session cannot be joined again. Call this once the log is
    /// [sealed](super::Writer::seal).
    pub(super) fn end_if_deleted(&self) {
        let state = self.state.lock();
        let last = state.records.last();
        let is_stored = state.storing.as_ref().is_none_or(|it| it.stored.events == last);
        let is_deleted = state.stop == EndRequest::Delete;
        drop(state);
        if is_deleted && !is_stored {
            self.end_unstored(&Seen::of(self).cancelled());
            self.note_kept();
        }
    }

    /// Whether the store has failed: it does not answer, or has lost a part of the turn.
    pub(crate) fn has_store_failed(&self) -> bool {
        self.state.lock().storing.as_deref().is_some_and(Storing::has_failed)
    }

    /// Notes that another gateway has the session: see [`stop_storing`](Self::stop_storing). The log may be
    /// sealed.
    pub(crate) fn note_superseded(&self) {
        let mut state = self.state.lock();
        if let Some(storing) = &mut state.storing {
            storing.state = StoringState::Superseded;
        }
    }

    /// Whether another gateway has the session, and goes on with the turn or has ended it.
    pub(crate) fn is_superseded(&self) -> bool {
        self.is_in(StoringState::Superseded)
    }

    /// Whether the store has lost a part of the turn, so that no gateway goes on with it.
    pub(crate) fn has_data_loss(&self) -> bool {
        self.is_in(StoringState::DataLoss)
    }

    fn is_in(&self, state: StoringState) -> bool {
        self.state.lock().storing.as_ref().is_some_and(|storing| storing.state == state)
    }

    /// All batches. Call this once the log is [sealed](super::Writer::seal).
    #[must_use]
    pub(crate) fn all(&self) -> Vec<Batch> {
        self.after(0)
    }

    /// The batches after event `seen`. Call this once the log is [sealed](super::Writer::seal).
    #[must_use]
    pub(crate) fn after(&self, seen: u64) -> Vec<Batch> {
        self.state.lock().records.batches_after(seen)
    }

    /// The batches that are not stored yet. Call this once the log is [sealed](super::Writer::seal).
    #[must_use]
    pub(crate) fn rest(&self) -> Vec<Batch> {
        let state = self.state.lock();
        state.records.batches_after(state.storing.as_ref().map_or(0, |it| it.stored.events))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Waker;
    use std::time::Duration;

    use futures::poll;
    use parking_lot::Mutex;
    use tokio::time::advance;

    use super::super::{Epochs, Reader, StoredEvents, Writer};
    use super::*;
    use crate::conversation::Tally;
    use crate::event::Kind;

    /// Publishes a piece of text.
    fn say(writer: &mut Writer, text: &str) {
        writer.push(&Event::text(text));
        writer.publish();
    }

    /// What is on its way to the store; `None` if nothing is.
    fn take(log: &TurnLog) -> Option<Unstored> {
        match log.next_unstored() {
            NextUnstored::News(news) => Some(news),
            NextUnstored::Nothing | NextUnstored::Over => None,
        }
    }

    /// How many new events a reader sees.
    fn seen(reader: &mut Reader) -> usize {
        let mut count = 0;
        while let Poll::Ready(Some(())) =
            reader.poll_read(&mut Context::from_waker(Waker::noop()), |_| count += 1)
        {}
        count
    }

    fn is_open(log: &Arc<TurnLog>, writer: &Writer) -> bool {
        let upto = Stored { events: writer.last(), journals: writer.journals() };
        log.poll_stored(&Context::from_waker(Waker::noop()), upto).is_ready()
    }

    #[test]
    fn readers_see_what_is_stored() {
        let (log, mut writer) = Writer::stored(1, false);
        let mut reader = log.read_after(0);
        say(&mut writer, "a");
        let first = take(&log).unwrap();
        say(&mut writer, "b");
        say(&mut writer, "c");
        assert_eq!(seen(&mut reader), 0, "nothing is stored yet");
        log.note_stored(first.upto);
        assert_eq!(seen(&mut reader), 1);
        let more = take(&log).unwrap();
        let ends: Vec<_> = more.batches.iter().map(|batch| (batch.first, batch.last)).collect();
        assert_eq!(ends, [(2, 2), (3, 3)], "what has gathered meanwhile");
        log.note_stored(more.upto);
        assert_eq!(seen(&mut reader), 2);
        assert!(take(&log).is_none());
    }

    #[test]
    fn lazy_readers_see_it_at_once() {
        let (log, mut writer) = Writer::stored(1, true);
        let mut reader = log.read_after(0);
        say(&mut writer, "a");
        assert_eq!(seen(&mut reader), 1);
        assert_eq!(take(&log).unwrap().batches.len(), 1, "and it is stored all the same");
    }

    /// A turn that outlives a round has not ended the process that took it over.
    #[test]
    fn takeovers_are_counted_within_a_round() {
        let epochs = Epochs::begun_in(1);
        let stored = StoredEvents { epochs: &epochs, batches: Vec::new(), last: 0 };
        let mut writer = Writer::resumed(stored, 2, false, 2).unwrap();
        let log = Arc::clone(writer.log());
        for (rounds, takeovers) in [(1, 2), (1, 2), (2, 0)] {
            writer.note_journal(&Arc::default(), Tally { rounds, ..Tally::default() }, None);
            writer.publish();
            let news = take(&log).unwrap();
            assert_eq!(news.draft.unwrap().takeovers, takeovers, "round {rounds}");
            log.note_stored(news.upto);
        }
    }

    /// Notes what it has: the first event and the last, and whether there was a draft.
    #[derive(Debug, Default)]
    struct FakeAppender {
        fails_next: AtomicBool,
        has: Mutex<Vec<(u64, u64, bool)>>,
    }

    impl Appender for FakeAppender {
        fn append(&self, news: &LogNewsRef<'_>) -> bool {
            let fails = self.fails_next.swap(false, Ordering::Relaxed);
            if !fails {
                self.has.lock().push((news.first, news.last, news.journal.is_some()));
            }
            !fails
        }
    }

    const SHORT_JOURNAL: fn(&Draft) -> Option<String> = |_| Some("journal".to_owned());

    /// The log of a turn in such a store, which has not been read yet.
    fn stored_inline(
        write_journal: fn(&Draft) -> Option<String>,
    ) -> (Arc<TurnLog>, Writer, Reader, Arc<FakeAppender>) {
        let store = Arc::new(FakeAppender::default());
        let (log, mut writer) = Writer::stored(1, false);
        let appender = Arc::clone(&store) as Arc<dyn Appender>;
        writer.set_appender(InlineAppender { appender, write_journal });
        let reader = log.read_after(0);
        (log, writer, reader, store)
    }

    #[test]
    fn what_is_stored_at_once_is_seen_at_once() {
        let (log, mut writer, mut reader, store) = stored_inline(SHORT_JOURNAL);
        writer.note_journal(&Arc::default(), Tally::default(), None);
        say(&mut writer, "a");
        assert!(is_open(&log, &writer));
        writer.push(&Event::text(&"long ".repeat(20_000)));
        say(&mut writer, "b");
        assert_eq!(seen(&mut reader) as u64, writer.last());
        assert_eq!(*store.has.lock(), [(1, 1, true), (2, writer.last(), false)]);
        assert!(take(&log).is_none(), "it is not stored twice");
    }

    #[test]
    fn what_is_not_stored_at_once_is_stored_before_what_follows() {
        let (log, mut writer, mut reader, store) = stored_inline(SHORT_JOURNAL);
        store.fails_next.store(true, Ordering::Relaxed);
        writer.note_journal(&Arc::default(), Tally::default(), None);
        say(&mut writer, "a");
        say(&mut writer, "b");
        assert_eq!((seen(&mut reader), store.has.lock().len()), (0, 0));
        let news = take(&log).unwrap();
        assert!(news.draft.is_some(), "the journal was not lost");
        say(&mut writer, "c");
        log.note_stored(news.upto);
        assert_eq!((seen(&mut reader), store.has.lock().len()), (2, 0));
        log.note_stored(take(&log).unwrap().upto);
        say(&mut writer, "d");
        assert_eq!((seen(&mut reader), store.has.lock().clone()), (2, vec![(4, 4, false)]));
    }

    /// It is written off the worker, and stored with all that is new by then.
    #[test]
    fn a_long_journal_is_not_stored_at_once() {
        let (log, mut writer, mut reader, store) = stored_inline(|_| None);
        writer.note_journal(&Arc::default(), Tally::default(), None);
        say(&mut writer, "a");
        assert_eq!((seen(&mut reader), store.has.lock().len()), (0, 0));
        let news = take(&log).unwrap();
        assert!(news.draft.is_some());
        log.note_stored(news.upto);
        say(&mut writer, "b");
        assert_eq!((seen(&mut reader), store.has.lock().clone()), (2, vec![(2, 2, false)]));
    }

    #[test]
    fn nothing_is_stored_at_once_after_storing_has_stopped() {
        let (log, mut writer, mut reader, store) = stored_inline(SHORT_JOURNAL);
        say(&mut writer, "a");
        log.stop_storing(Unstorable::Superseded);
        say(&mut writer, "b");
        assert_eq!((seen(&mut reader), store.has.lock().len()), (1, 1));
    }

    #[test]
    fn what_follows_a_seal_is_stored_with_the_session() {
        let (log, mut writer) = Writer::stored(1, false);
        say(&mut writer, "a");
        log.note_stored(take(&log).unwrap().upto);
        say(&mut writer, "b");
        writer.seal();
        assert!(take(&log).is_none());
        let rest = log.rest();
        assert_eq!((rest[0].first, rest.last().unwrap().last), (2, 3));
        let mut reader = log.read_after(0);
        assert_eq!(seen(&mut reader), 1, "the end is not shown before the session is free");
        drop(writer);
        assert_eq!(seen(&mut reader), 2);
    }

    #[test]
    fn a_barrier_opens_once_its_events_and_its_journal_are_stored() {
        let (log, mut writer) = Writer::stored(1, false);
        say(&mut writer, "a");
        writer.note_journal(&Arc::default(), Tally::default(), None);
        assert!(!is_open(&log, &writer));
        let events = take(&log).unwrap();
        assert!(events.draft.is_none(), "it was not published");
        log.note_stored(events.upto);
        assert!(!is_open(&log, &writer));
        writer.publish();
        let journal = take(&log).unwrap();
        assert_eq!(journal.draft.as_ref().map(|draft| draft.after), Some(1));
        log.note_stored(journal.upto);
        assert!(is_open(&log, &writer));
    }

    #[tokio::test(start_paused = true)]
    async fn a_barrier_stays_closed_while_another_gateway_may_have_the_session() {
        let (log, mut writer) = Writer::stored(1, false);
        say(&mut writer, "a");
        log.note_stored(take(&log).unwrap().upto);
        assert!(is_open(&log, &writer));
        let until = Instant::now() + Duration::from_secs(1);
        log.note_held_until(until);
        assert!(is_open(&log, &writer));
        advance(Duration::from_secs(1)).await;
        let mut waiting = Box::pin(writer.barrier().wait());
        assert!(poll!(&mut waiting).is_pending());
        log.note_held_until(until + Duration::from_secs(1));
        waiting.await;
        log.stop_storing(Unstorable::Superseded);
        assert!(!is_open(&log, &writer), "what was stored before must not happen now");
    }

    #[test]
    fn a_store_that_fails_lets_nothing_pass_and_shows_nothing() {
        let all =
            [Unstorable::Superseded, Unstorable::Deleted, Unstorable::Silent, Unstorable::DataLoss];
        for why in all {
            let (log, mut writer) = Writer::stored(1, false);
            let mut reader = log.read_after(0);
            say(&mut writer, "a");
            let _ = take(&log);
            log.stop_storing(why);
            say(&mut writer, "b");
            assert_eq!(seen(&mut reader), 0);
            assert!(take(&log).is_none());
            assert!(!is_open(&log, &writer), "what waits for the store must not happen");
            let audience = log.watch_audience(&Context::from_waker(Waker::noop()));
            let has_failed = matches!(why, Unstorable::Silent | Unstorable::DataLoss);
            assert_eq!(audience.has_store_failed, has_failed);
        }
    }

    /// What a reader has seen at the end of a turn of which one event was stored.
    fn seen_in_the_end(end: impl FnOnce(&TurnLog, &mut Writer)) -> Vec<Kind> {
        let (log, mut writer) = Writer::stored(1, false);
        let mut reader = log.read_after(0);
        say(&mut writer, "a");
        log.note_stored(take(&log).unwrap().upto);
        say(&mut writer, "b");
        end(&log, &mut writer);
        drop(writer);
        let mut kinds = Vec::new();
        while let Poll::Ready(Some(())) = reader
            .poll_read(&mut Context::from_waker(Waker::noop()), |record| kinds.push(record.kind))
        {
        }
        kinds
    }

    #[test]
    fn the_log_of_a_session_that_was_taken_over_ends_where_it_was_stored() {
        let stored = [Kind::TextDelta];
        assert_eq!(seen_in_the_end(|log, _| log.stop_storing(Unstorable::Superseded)), stored);
        let at_the_end = seen_in_the_end(|log, writer| {
            writer.seal();
            log.note_superseded();
        });
        assert_eq!(at_the_end, stored);
        let cancelled = seen_in_the_end(|log, writer| {
            log.cancel();
            log.stop_storing(Unstorable::Silent);
            writer.seal();
            log.note_superseded();
        });
        assert_eq!(cancelled, stored, "another node goes on with it, cancelled here or not");
    }

    #[test]
    fn the_log_of_a_deleted_session_ends_as_cancelled_after_what_is_stored() {
        let ways: [fn(&TurnLog, &mut Writer); 6] = [
            |log, _| log.delete(),
            |log, _| log.stop_storing(Unstorable::Deleted),
            |log, _| {
                log.delete();
                log.stop_storing(Unstorable::Superseded);
            },
            |log, _| {
                log.stop_storing(Unstorable::Superseded);
                log.delete();
            },
            |log, writer| {
                writer.seal();
                log.delete();
            },
            |log, _| {
                log.leave();
                log.stop_storing(Unstorable::Deleted);
            },
        ];
        for (number, way) in ways.into_iter().enumerate() {
            assert_eq!(seen_in_the_end(way), [Kind::TextDelta, Kind::TurnCompleted], "{number}");
        }
    }

    #[test]
    fn an_end_that_was_stored_before_a_deletion_is_shown() {
        let seen = seen_in_the_end(|log, writer| {
            writer.seal();
            log.note_kept();
            log.delete();
        });
        assert_eq!(seen, [Kind::TextDelta, Kind::TextDelta, Kind::TurnFailed]);
    }

    #[test]
    fn an_end_that_is_not_stored_follows_what_is() {
        let failed = Event::cut_short(crate::event::FailureCode::StoreUnavailable, "down");
        let seen = seen_in_the_end(|log, writer| {
            log.stop_storing(Unstorable::Silent);
            writer.seal();
            log.end_unstored(&failed);
        });
        assert_eq!(seen, [Kind::TextDelta, Kind::TurnFailed]);
    }

    /// Clients take the first event for the one that says which turn it is.
    #[test]
    fn an_end_is_never_the_first_event() {
        let (log, mut writer) = Writer::stored(1, false);
        say(&mut writer, "a");
        log.stop_storing(Unstorable::Silent);
        writer.seal();
        let failed = Event::cut_short(crate::event::FailureCode::StoreUnavailable, "down");
        log.end_unstored(&failed);
        drop(writer);
        let mut kinds = Vec::new();
        log.replay(|record| kinds.push(record.kind));
        assert_eq!(kinds, [Kind::TextDelta, Kind::TurnFailed]);
    }
}
