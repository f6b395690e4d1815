use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::event::TurnFinish;

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn text(text: &str) -> Event<'_> {
    Event::TextDelta { text }
}

const END: Event<'_> = Event::TurnCompleted {
    finish_reason: TurnFinish::Stop,
    summary: Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text: "" },
};

/// All that a reader has to read now, and whether the log has ended.
fn read(reader: &mut Reader) -> (String, bool) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut all = String::new();
    loop {
        match reader.poll_read(&mut cx) {
            Poll::Ready(Some(bytes)) => all.push_str(std::str::from_utf8(&bytes).unwrap()),
            Poll::Ready(None) => return (all, true),
            Poll::Pending => return (all, false),
        }
    }
}

fn ids(text: &str) -> Vec<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("id: 1-"));
    lines.map(|sequence| sequence.parse().unwrap()).collect()
}

#[test]
fn readers_see_what_was_published_and_nothing_else() {
    let (log, mut writer) = Writer::new();
    let mut reader = log.read_after(0);
    writer.push(&text("a"));
    assert_eq!(read(&mut reader), (String::new(), false));
    writer.push(&text("b"));
    writer.publish();
    assert_eq!(ids(&read(&mut reader).0), [1, 2]);
    writer.push(&END);
    drop(writer);
    let (rest, ended) = read(&mut reader);
    assert_eq!((ids(&rest), ended), (vec![3], true));
}

#[test]
fn what_was_published_together_is_read_at_once() {
    let (log, mut writer) = Writer::new();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        for _ in 0..4 {
            writer.push(&text("x"));
        }
        writer.publish();
    }
    let mut reader = log.read_after(0);
    let Poll::Ready(Some(bytes)) = reader.poll_read(&mut cx) else { panic!("nothing to read") };
    assert_eq!(ids(std::str::from_utf8(&bytes).unwrap()).len(), 12);
    assert!(reader.poll_read(&mut cx).is_pending());
}

#[test]
fn a_reader_can_begin_behind_every_frame() {
    let (log, mut writer) = Writer::new();
    let mut frames = 0;
    for together in [1, 3, 2, 1, 5] {
        for _ in 0..together {
            frames += 1;
            writer.push(&text("data: \\n\n"));
        }
        writer.publish();
    }
    writer.push(&END);
    drop(writer);
    let last = frames + 1;
    assert_eq!(log.last_sequence(), last);
    for after in 0..=last {
        let (rest, ended) = read(&mut log.read_after(after));
        assert_eq!(ids(&rest), (after + 1..=last).collect::<Vec<_>>(), "behind {after}");
        assert!(ended);
    }
}

#[test]
fn a_reader_that_waits_is_woken_once_for_what_is_published() {
    let (log, mut writer) = Writer::new();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut reader = log.read_after(0);
    for _ in 0..3 {
        assert!(reader.poll_read(&mut Context::from_waker(&waker)).is_pending());
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
    let (log, writer) = Writer::new();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut cx = Context::from_waker(&waker);
    let (one, two) = (log.read_after(0), log.read_after(0));
    assert_eq!(log.watch_audience(&mut cx), Audience { readers: 2, cancelled: false });
    drop(one);
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
    drop(two);
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
    assert_eq!(log.watch_audience(&mut cx).readers, 0);
    assert!(log.cancel());
    assert_eq!(counter.0.load(Ordering::Relaxed), 2);
    assert!(log.watch_audience(&mut cx).cancelled);
    drop(writer);
    assert!(!log.cancel(), "what is over cannot be cancelled");
}

#[test]
fn a_writer_that_dies_leaves_a_last_event() {
    let (log, mut writer) = Writer::new();
    writer.push(&text("half an ans"));
    drop(writer);
    let (all, ended) = read(&mut log.read_after(0));
    assert!(ended);
    assert_eq!(ids(&all), [1, 2]);
    assert!(all.contains("event: turn_failed") && all.contains("\"code\":\"internal\""), "{all}");
}

#[test]
fn a_reader_that_catches_up_is_given_pieces_of_bounded_size() {
    let (log, mut writer) = Writer::new();
    let words = "x".repeat(1000);
    for _ in 0..200 {
        writer.push(&text(&words));
        writer.publish();
    }
    let (mut reader, mut cx) = (log.read_after(0), Context::from_waker(Waker::noop()));
    let mut pieces = 0;
    while let Poll::Ready(Some(bytes)) = reader.poll_read(&mut cx) {
        assert!(bytes.len() <= limits::WRITE_BYTES_MAX, "{}", bytes.len());
        pieces += 1;
    }
    assert!((4..=5).contains(&pieces), "{pieces}");
}

/// A client that comes and goes while the model is silent leaves nothing behind.
#[test]
fn readers_that_left_are_not_remembered() {
    let (log, _writer) = Writer::new();
    let wakers: Vec<_> = (0..50).map(|_| Waker::from(Arc::new(Counter::default()))).collect();
    for waker in &wakers {
        assert!(log.read_after(0).poll_read(&mut Context::from_waker(waker)).is_pending());
    }
    assert!(log.state.lock().waiting.len() <= 1);
}

/// A reader that is polled again while it waits, for a timer of its own, is not
/// woken by that.
#[test]
fn waiting_again_wakes_nobody() {
    let (log, _writer) = Writer::new();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut reader = log.read_after(0);
    for _ in 0..5 {
        assert!(reader.poll_read(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
}

/// There are as many of these as there are streams that wait for their model.
#[test]
fn a_turn_that_waits_holds_little() {
    let (log, mut writer) = Writer::new();
    let id = "x".repeat(36);
    writer.push(&Event::TurnStarted {
        session_id: &id,
        turn_id: &id,
        model: "local",
        max_tool_loops: 5,
    });
    let first_block = writer.buffer.capacity();
    writer.publish();
    let structs = size_of::<TurnLog>() + size_of::<Writer>() + size_of::<Reader>();
    let batches = log.state.lock().batches.capacity() * size_of::<Batch>();
    assert!(first_block + structs + batches <= 1024, "{first_block} + {structs} + {batches}");
}

/// Readers share its blocks, so a block cannot grow once one of them has read it.
#[test]
fn a_log_grows_by_whole_blocks() {
    let (log, mut writer) = Writer::new();
    for _ in 0..1000 {
        writer.push(&text("word"));
        writer.publish();
    }
    let state = log.state.lock();
    let follows = |pair: &[Batch]| pair[0].bytes.as_ptr_range().end == pair[1].bytes.as_ptr();
    let blocks = 1 + state.batches.windows(2).filter(|pair| !follows(pair)).count();
    let least = log.bytes() / limits::LOG_BLOCK_BYTES;
    assert!((least..least * 5 / 4).contains(&blocks), "{blocks} blocks, at least {least}");
}
