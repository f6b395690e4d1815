use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake};

use allocation_counter::measure;
use tokio::time::Instant;

use super::records::IndexEntry;
use super::storing::{NextUnstored, Stored};
use super::*;
use crate::event::{Event, Summary, TurnFinish, Usage};
use crate::limits::stream as limits;

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn text(text: &str) -> Event<'_> {
    Event::text(text)
}

const END: Event<'_> = Event::TurnCompleted {
    finish_reason: TurnFinish::Stop,
    stop_text: None,
    summary: Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text: "" },
};

/// The records of some events, in order.
pub(crate) fn records(events: &[Event<'_>], mut sink: impl FnMut(Record<'_>)) {
    let (log, mut writer) = Writer::new(1);
    for event in events {
        writer.push(event);
    }
    writer.publish();
    let mut reader = log.read_after(0);
    while reader.poll_read(&mut Context::from_waker(Waker::noop()), &mut sink).is_ready() {}
}

/// Everything that a reader can read now, as sequences and data, and whether the log has ended.
fn read(reader: &mut Reader) -> (Vec<(u64, String)>, bool) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut all = Vec::new();
    loop {
        let keep = |record: Record<'_>| {
            all.push((record.sequence, String::from_utf8(record.data.to_vec()).unwrap()));
        };
        match reader.poll_read(&mut cx, keep) {
            Poll::Ready(Some(())) => {}
            Poll::Ready(None) => return (all, true),
            Poll::Pending => return (all, false),
        }
    }
}

fn ids(records: &[(u64, String)]) -> Vec<u64> {
    records.iter().map(|(sequence, _)| *sequence).collect()
}

#[test]
fn readers_see_what_was_published_and_nothing_else() {
    let (log, mut writer) = Writer::new(1);
    let mut reader = log.read_after(0);
    writer.push(&text("a"));
    assert_eq!(read(&mut reader), (Vec::new(), false));
    writer.push(&text("b"));
    writer.publish();
    assert_eq!(ids(&read(&mut reader).0), [1, 2]);
    writer.push(&END);
    drop(writer);
    let (rest, ended) = read(&mut reader);
    assert_eq!((ids(&rest), ended), (vec![3], true));
}

#[test]
fn what_was_published_is_read_at_once() {
    let (log, mut writer) = Writer::new(1);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        for _ in 0..4 {
            writer.push(&text("x"));
        }
        writer.publish();
    }
    let mut reader = log.read_after(0);
    let mut records = 0;
    assert!(reader.poll_read(&mut cx, |_| records += 1).is_ready());
    assert_eq!(records, 12);
    assert!(reader.poll_read(&mut cx, |_| records += 1).is_pending());
}

/// Events of all lengths, published in all ways, come back whole, wherever a reader begins and
/// however runs are joined meanwhile.
#[test]
fn every_event_comes_back_wherever_a_reader_begins() {
    let story = "long ".repeat(300);
    for sizes in [&[1, 1, 1][..], &[700, 1, 900, 1], &[4, 480, 500, 520, 3000], &[100]] {
        let (log, mut writer) = Writer::new(1);
        let mut early = log.read_after(0);
        let (mut said, mut heard) = (Vec::new(), Vec::new());
        for (at, size) in sizes.iter().cycle().take(200).enumerate() {
            let words = format!("{at} {}", &story[..*size % story.len()]);
            writer.push(&text(&words));
            said.push(words);
            if at % 3 > 0 {
                writer.publish();
                heard.extend(read(&mut early).0);
            }
        }
        writer.push(&END);
        drop(writer);
        heard.extend(read(&mut early).0);
        let all = read(&mut log.read_after(0)).0;
        assert_eq!(heard, all, "read as it was written, and afterwards: {sizes:?}");
        for ((sequence, data), words) in all.iter().zip(&said) {
            let event: serde_json::Value = serde_json::from_str(data).unwrap();
            assert_eq!(event["data"]["text"], *words, "{sequence} of {sizes:?}");
        }
        for seen in 0..=log.last_sequence() {
            let place = usize::try_from(seen).unwrap();
            assert_eq!(read(&mut log.read_after(seen)).0, all[place..], "after {seen}");
        }
    }
}

#[test]
fn a_record_knows_its_text() {
    let mut texts = Vec::new();
    let delta = Event::ToolArgumentsDelta { call_id: "call_1", delta: "{\"a\"" };
    records(&[text("a\nb"), delta, Event::Status { message: "m" }], |record| {
        texts.push(record.text.map(|text| String::from_utf8(text.to_vec()).unwrap()));
    });
    assert_eq!(texts, [Some("a\\nb".to_owned()), Some("{\\\"a\\\"".to_owned()), None]);
}

/// Long events are stored whole. A dialect that cannot send them shortens them.
#[test]
fn nothing_is_lost_before_it_is_stored() {
    let message = "x".repeat(300_000);
    let mut stored = Vec::new();
    records(&[Event::Status { message: &message }], |record| stored = record.data.to_vec());
    let event: serde_json::Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(event["data"]["message"], *message);
}

#[test]
fn a_reader_can_begin_after_every_event() {
    let (log, mut writer) = Writer::new(1);
    let mut frames = 0;
    for together in [1, 3, 2, 1, 5] {
        for _ in 0..together {
            frames += 1;
            writer.push(&text("{}\n\n"));
        }
        writer.publish();
    }
    writer.push(&END);
    drop(writer);
    let last = frames + 1;
    assert_eq!(log.last_sequence(), last);
    for after in 0..=last {
        let (rest, ended) = read(&mut log.read_after(after));
        assert_eq!(ids(&rest), (after + 1..=last).collect::<Vec<_>>(), "after {after}");
        assert!(ended);
    }
}

#[test]
fn a_reader_that_waits_is_woken_once_for_what_is_published() {
    let (log, mut writer) = Writer::new(1);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut reader = log.read_after(0);
    for _ in 0..3 {
        assert!(reader.poll_read(&mut Context::from_waker(&waker), |_| {}).is_pending());
    }
    writer.push(&text("a"));
    assert_eq!(counter.0.load(Ordering::Relaxed), 0, "not before it is published");
    writer.publish();
    writer.push(&text("b"));
    writer.publish();
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
}

#[test]
fn the_driver_is_woken_when_the_last_reader_leaves_and_when_somebody_cancels() {
    let (log, writer) = Writer::new(1);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let cx = Context::from_waker(&waker);
    let (one, two) = (log.read_after(0), log.read_after(0));
    assert_eq!(log.watch_audience(&cx), Audience { readers: 2, ..Audience::default() });
    drop(one);
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
    drop(two);
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
    assert_eq!(log.watch_audience(&cx).readers, 0);
    assert!(log.cancel());
    assert_eq!(counter.0.load(Ordering::Relaxed), 2);
    assert!(log.watch_audience(&cx).cancelled);
    drop(writer);
    assert!(!log.cancel(), "what is over cannot be cancelled");
}

#[test]
fn a_writer_that_dies_leaves_a_last_event() {
    let (log, mut writer) = Writer::new(1);
    writer.push(&text("half an ans"));
    drop(writer);
    let (all, ended) = read(&mut log.read_after(0));
    assert!(ended);
    assert_eq!(ids(&all), [1, 2]);
    let last = &all[1].1;
    assert!(last.contains("turn_failed") && last.contains("\"code\":\"internal\""), "{last}");
}

#[test]
fn a_reader_that_catches_up_is_given_pieces_of_bounded_size() {
    let (log, mut writer) = Writer::new(1);
    let words = "x".repeat(1000);
    for _ in 0..200 {
        writer.push(&text(&words));
        writer.publish();
    }
    let (mut reader, mut cx) = (log.read_after(0), Context::from_waker(Waker::noop()));
    let mut pieces = 0;
    loop {
        let mut bytes = 0;
        if reader.poll_read(&mut cx, |record| bytes += record.data.len()).is_pending() {
            break;
        }
        assert!(bytes <= limits::WRITE_BYTES_MAX, "{bytes}");
        pieces += 1;
    }
    assert!((4..=5).contains(&pieces), "{pieces}");
}

/// Keeps the sequences of what it is handed.
#[derive(Debug)]
struct Shelf {
    reader: Mutex<Reader>,
    kept: Mutex<Vec<u64>>,
}

impl Outlet for Shelf {
    fn pass_on(&self, new: &Published<'_>, _: Instant) -> bool {
        let mut kept = self.kept.lock();
        self.reader.lock().take_published(new, |record| kept.push(record.sequence))
    }
}

impl Shelf {
    /// Waits at the end of the log.
    fn park(self: &Arc<Self>, counter: &Arc<Counter>) {
        let outlet = Arc::downgrade(self);
        let parked = Parked { outlet, task: Waker::from(Arc::clone(counter)) };
        let mut reader = self.reader.lock();
        assert!(reader.read_or_park(&mut Some(parked), |_| {}).is_pending());
    }
}

#[test]
fn an_outlet_is_handed_what_comes_next_and_its_task_reads_anything_else() {
    let (log, mut writer) = Writer::new(1);
    let shelf = Shelf { reader: Mutex::new(log.read_after(0)), kept: Mutex::default() };
    let (shelf, counter) = (Arc::new(shelf), Arc::new(Counter::default()));
    let woken = || counter.0.load(Ordering::Relaxed);
    let mut publish = |words: &str| {
        writer.push(&text(words));
        writer.publish();
    };
    shelf.park(&counter);
    publish("one");
    publish("two");
    assert_eq!((&**shelf.kept.lock(), woken()), (&[1, 2][..], 0));

    // Out of step: something before it has not been read.
    shelf.reader.lock().seen = 1;
    publish("three");
    assert_eq!((&**shelf.kept.lock(), woken()), (&[1, 2][..], 1));
    assert_eq!(ids(&read(&mut shelf.reader.lock()).0), [2, 3]);

    // Too much at once.
    shelf.park(&counter);
    publish(&"x".repeat(limits::WRITE_BYTES_MAX));
    assert_eq!((&**shelf.kept.lock(), woken()), (&[1, 2][..], 2));
    assert_eq!(ids(&read(&mut shelf.reader.lock()).0), [4, 5], "a long text is two records");

    shelf.park(&counter);
    publish("six");
    assert_eq!((&**shelf.kept.lock(), woken()), (&[1, 2, 6][..], 2));
}

/// From a store that answers later.
#[test]
fn an_outlet_is_handed_what_is_stored_and_its_task_reads_parts_of_it() {
    let (log, mut writer) = Writer::stored(1, false);
    let shelf = Shelf { reader: Mutex::new(log.read_after(0)), kept: Mutex::default() };
    let (shelf, counter) = (Arc::new(shelf), Arc::new(Counter::default()));
    let woken = || counter.0.load(Ordering::Relaxed);
    let stored = |events| log.note_stored(Stored { events, journals: 0 });
    shelf.park(&counter);
    for words in ["one", "two", "three"] {
        writer.push(&text(words));
        writer.publish();
    }
    assert!(shelf.kept.lock().is_empty());
    stored(1);
    stored(3);
    stored(3);
    assert_eq!((&**shelf.kept.lock(), woken()), (&[1, 2, 3][..], 0));

    // These two are published together, but the store has one of them.
    writer.push(&text("four"));
    writer.push(&text("five"));
    writer.publish();
    stored(4);
    assert_eq!((&**shelf.kept.lock(), woken()), (&[1, 2, 3][..], 1));
    assert_eq!(ids(&read(&mut shelf.reader.lock()).0), [4]);
    shelf.park(&counter);
    stored(5);
    assert_eq!((&**shelf.kept.lock(), woken()), (&[1, 2, 3][..], 2), "it begins within a run");
    assert_eq!(ids(&read(&mut shelf.reader.lock()).0), [5]);
}

/// A client that comes and goes while the model is silent leaves nothing behind.
#[test]
fn readers_that_left_are_not_remembered() {
    let (log, _writer) = Writer::new(1);
    let wakers: Vec<_> = (0..50).map(|_| Waker::from(Arc::new(Counter::default()))).collect();
    for waker in &wakers {
        assert!(log.read_after(0).poll_read(&mut Context::from_waker(waker), |_| {}).is_pending());
    }
    assert!(log.state.lock().waiting.len() <= 1);
}

/// A reader that is polled again while it waits, perhaps for its own timer, does not wake itself.
#[test]
fn waiting_again_wakes_nobody() {
    let (log, _writer) = Writer::new(1);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut reader = log.read_after(0);
    for _ in 0..5 {
        assert!(reader.poll_read(&mut Context::from_waker(&waker), |_| {}).is_pending());
    }
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
}

/// What `make` makes, and the bytes that it has allocated and not freed.
fn in_use<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let mut kept = None;
    let info = measure(|| kept = Some(make()));
    (kept.unwrap(), usize::try_from(info.bytes_current).unwrap())
}

/// There is one for each stream that waits for its model.
#[test]
fn a_turn_that_waits_holds_little() {
    let id = "x".repeat(36);
    let ((log, _writer), bytes) = in_use(|| {
        let (log, mut writer) = Writer::new(1);
        writer.push(&Event::TurnStarted {
            session_id: &id,
            turn_id: &id,
            model: "local",
            max_tool_loops: 5,
        });
        writer.publish();
        (log, writer)
    });
    let _reader = log.read_after(0);
    let structs = size_of::<Writer>() + size_of::<Reader>();
    assert!(bytes + structs <= 1600, "{bytes} + {structs}");
}

/// Pushes events of `size` bytes of text, `together` at a time, up to 300 kB. Returns their number.
fn fill(writer: &mut Writer, size: usize, together: usize) -> usize {
    let (words, mut pushed) = ("x".repeat(size), 0);
    while writer.bytes() < 300_000 {
        writer.push(&text(&words));
        pushed += 1;
        if pushed % together == 0 {
            writer.publish();
        }
    }
    pushed
}

/// However long the events are and however they are published, a log that is being written uses at
/// most a quarter more than their bytes, plus the index. A finished log wastes nothing.
#[test]
fn a_log_wastes_little() {
    for size in [4, 60, 200, 490, 520, 1000, 2040, 8000, 65_536] {
        for together in [1, 2, 7] {
            let ((log, writer, pushed), held) = in_use(|| {
                let (log, mut writer) = Writer::new(1);
                let pushed = fill(&mut writer, size, together);
                (log, writer, pushed)
            });
            let bytes = log.bytes();
            let runs = (bytes / 512 + 2) * RUN_BYTES;
            let most = bytes * 5 / 4 + pushed * 2 * size_of::<IndexEntry>() + 2 * runs + 16 * 1024;
            assert!((bytes..=most + size).contains(&held), "{size} by {together}: {held}, {most}");
            drop((log, writer));

            let (log, held) = in_use(|| {
                let (log, mut writer) = Writer::new(1);
                fill(&mut writer, size, together);
                log
            });
            let most = log.bytes() + (pushed + 2) * size_of::<IndexEntry>() + runs + 1024;
            assert!(
                (bytes..=most).contains(&held),
                "{size} by {together}: {held}, {most} when over"
            );
        }
    }
}

/// A session that stays for hours holds on to few pages, whatever is freed around it.
#[test]
fn a_log_that_is_over_is_in_long_runs_and_reads_the_same() {
    let lines = |log: &TurnLog| {
        let mut lines = Vec::new();
        log.replay(|record| lines.push((record.sequence, record.kind, record.data.to_vec())));
        lines
    };
    for size in [4, 60, 200, 490, 1100, 8000] {
        let (log, mut writer) = Writer::new(1);
        fill(&mut writer, size, 3);
        writer.push(&text(&"x".repeat(5000)));
        fill(&mut writer, size, 2);
        writer.publish();
        let before = lines(&log);
        drop(writer);
        let after = lines(&log);
        assert_eq!(after[..before.len()], before, "{size}");
        let runs = log.state.lock().records.batches_after(0).len();
        let least = log.bytes() / limits::SEALED_RUN_BYTES;
        assert!(runs <= 2 * least + 1, "{size}: {runs} runs, {least} at least");
    }
}

/// The size of a run, with what its shared bytes need besides themselves.
const RUN_BYTES: usize = size_of::<Run>() + 4 * size_of::<usize>();

/// A restored log is the log that was stored: each record with its kind and its text.
#[test]
fn a_stored_log_is_read_as_it_was_written() {
    let delta = Event::ToolArgumentsDelta { call_id: "a\",\"delta\":\"b", delta: "{\"a\":\"" };
    let long = "x".repeat(5000);
    let events = [
        Event::TurnStarted { session_id: "s", turn_id: "t", model: "m", max_tool_loops: 1 },
        text("\n\"}}"),
        text(""),
        Event::ReasoningDelta { text: "\u{2028}" },
        delta,
        Event::Status { message: &long },
        Event::Status { message: "m" },
        END,
    ];
    for together in 1..=events.len() {
        let (live, mut writer) = Writer::new(3);
        for batch in events.chunks(together) {
            for event in batch {
                writer.push(event);
            }
            writer.publish();
        }
        drop(writer);
        let all = every_record(&live.read_after(0));
        let batches = live.rest();
        for first in 0..batches.len() {
            let seen = batches[first].first - 1;
            let restored = TurnLog::restore(
                Epochs::begun_in(3),
                batches[first..].to_vec(),
                live.last_sequence(),
            );
            let rest = every_record(&restored.unwrap().read_after(seen));
            assert_eq!(rest, all[usize::try_from(seen).unwrap()..], "{together}");
        }
        let none = TurnLog::restore(Epochs::begun_in(3), Vec::new(), live.last_sequence()).unwrap();
        assert_eq!(none.last_sequence(), live.last_sequence());
        assert!(none.has_ended());
    }
}

type Owned = (u64, u64, crate::event::Kind, Vec<u8>, Option<Vec<u8>>);

fn every_record(reader: &Reader) -> Vec<Owned> {
    let mut all = Vec::new();
    let mut reader = reader.log.read_after(reader.seen);
    let mut keep = |record: Record<'_>| {
        let Record { epoch, sequence, kind, data, text } = record;
        all.push((epoch, sequence, kind, data.to_vec(), text.map(<[u8]>::to_vec)));
    };
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(())) = reader.poll_read(&mut cx, &mut keep) {}
    all
}

#[test]
fn what_no_log_has_stored_is_refused() {
    let batch = |first, last, text: &'static str| Batch { first, last, bytes: text.into() };
    let line = "{\"type\":\"status\",\"data\":{}}\n";
    assert!(
        TurnLog::restore(Epochs::begun_in(1), vec![batch(1, 1, line), batch(2, 2, line)], 2)
            .is_some()
    );
    for (batches, last) in [
        (vec![batch(1, 2, line)], 2),
        (vec![batch(1, 1, line)], 2),
        (vec![batch(1, 1, line), batch(3, 3, line)], 3),
        (vec![batch(0, 0, line)], 0),
        (vec![batch(1, 1, &line[..line.len() - 1])], 1),
        (vec![batch(1, 1, "{}\n")], 1),
        (vec![batch(1, 1, "{\"type\":\"nonsense\"}\n")], 1),
        (vec![batch(1, 1, "{\"type\":\"text_delta\"}\n")], 1),
        (vec![batch(1, 1, "{\"type\":\"tool_arguments_delta\",\"data\":{\"call_id\":\"}\n")], 1),
        (vec![batch(1, 1, "\n")], 1),
    ] {
        assert!(
            TurnLog::restore(Epochs::begun_in(1), batches.clone(), last).is_none(),
            "{batches:?}"
        );
    }
}

/// The store has lost its end, and another gateway has gone on from an earlier event: a reader must not see the one's
/// events followed by the other's.
#[test]
fn a_followed_log_has_no_events_of_another_ending() {
    let batch = |first, last| {
        let lines = "{\"type\":\"status\",\"data\":{}}\n"
            .repeat(usize::try_from(last - first + 1).unwrap());
        Batch { first, last, bytes: lines.into() }
    };
    let begun = Epochs::begun_in(1);
    let log = TurnLog::followed(begun.clone(), vec![batch(1, 4)], 4).unwrap();
    assert!(log.extend(begun.clone(), vec![batch(5, 5)], 5));
    assert!(!log.extend(begun.then(4, 2), vec![batch(6, 6)], 6));
    assert!(log.extend(begun.then(6, 2), vec![batch(6, 6)], 6));
}

/// Or else it would be told what a killed process forgets, and that a turn is over before its session is free.
#[test]
fn a_replay_shows_no_more_than_readers_see() {
    let (log, mut writer) = Writer::stored(1, false);
    let replayed = || {
        let mut count = 0;
        log.replay(|_| count += 1);
        count
    };
    writer.push(&Event::text("a"));
    writer.publish();
    assert_eq!(replayed(), 0, "it is not stored yet");
    let NextUnstored::News(news) = log.next_unstored() else { panic!("nothing is new") };
    log.note_stored(news.upto);
    assert_eq!(replayed(), 1);
    writer.seal();
    assert_eq!(replayed(), 1, "the end is not stored yet");
    let mut whole = 0;
    log.replay_sealed(|_| whole += 1);
    assert_eq!(whole, 2);
    drop(writer);
    assert_eq!(replayed(), 2);
}
