//! A stream of events, read line by line according to the standard.

use std::collections::VecDeque;

use serde_json::Value;

use super::client::{Client, Head, Piece};
use super::within;

/// One frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) event: String,
    /// The `data` field of the data line's JSON.
    pub(crate) data: Value,
    pub(crate) retry: Option<String>,
    /// Its size in bytes, including the blank line.
    pub(crate) bytes: usize,
}

impl Frame {
    /// The number after the dash in its id.
    #[track_caller]
    pub(crate) fn sequence(&self) -> u64 {
        let (_, sequence) = self.id.split_once('-').expect("an epoch and a sequence");
        assert!(!sequence.starts_with('0'), "{}", self.id);
        sequence.parse().unwrap()
    }

    pub(crate) fn is_last(&self) -> bool {
        matches!(&*self.event, "turn_completed" | "turn_failed")
    }

    #[track_caller]
    fn parse(text: &str) -> Self {
        let mut frame = Self {
            id: String::new(),
            event: String::new(),
            data: Value::Null,
            retry: None,
            bytes: text.len(),
        };
        for line in text.trim_end_matches('\n').split('\n') {
            match line.split_once(": ").unwrap_or_else(|| panic!("no field: {line:?}")) {
                ("id", value) => value.clone_into(&mut frame.id),
                ("event", value) => value.clone_into(&mut frame.event),
                ("retry", value) => frame.retry = Some(value.to_owned()),
                ("data", value) => {
                    assert_eq!(frame.data, Value::Null, "one line of data: {text:?}");
                    frame.data = serde_json::from_str(value).unwrap();
                }
                _ => panic!("no field of ours: {line:?}"),
            }
        }
        let fields = frame.data.as_object().expect("an object in data");
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["type", "data"], "{text}");
        assert_eq!(fields["type"], *frame.event, "{text}");
        frame.data = frame.data["data"].take();
        frame
    }
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The way the protocol ends a response.
    Well,
    /// The connection broke.
    Cut,
}

/// A response whose body is a stream of events.
#[derive(Debug)]
pub(crate) struct EventStream {
    pub(crate) head: Head,
    pub(crate) client: Client,
    /// The body as received.
    pub(crate) raw: Vec<u8>,
    parser: Parser,
    /// Keep-alive comments seen so far.
    pub(crate) comments: usize,
    pub(crate) ending: Option<Ending>,
}

impl EventStream {
    pub(crate) fn new(head: Head, client: Client) -> Self {
        let (raw, parser) = (Vec::new(), Parser::default());
        Self { head, client, raw, parser, comments: 0, ending: None }
    }

    /// The next frame; `None` at the end of the stream, which then sets `ending`.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Option<Frame>> {
        within(async {
            loop {
                match self.parser.ready.pop_front() {
                    Some(Item::Frame(frame)) => return Some(frame),
                    Some(Item::Comment) => {
                        self.comments += 1;
                        continue;
                    }
                    None => {}
                }
                match self.client.piece().await {
                    Piece::Bytes(bytes) => {
                        self.raw.extend_from_slice(&bytes);
                        self.parser.push(&bytes);
                    }
                    Piece::End => {
                        self.ending = Some(Ending::Well);
                        assert_eq!(self.parser.partial, b"", "the stream ends inside a frame");
                        return None;
                    }
                    Piece::Cut => {
                        self.ending = Some(Ending::Cut);
                        return None;
                    }
                }
            }
        })
    }

    /// Reads up to a frame of `event`, and returns all frames so far.
    #[track_caller]
    pub(crate) fn up_to(&mut self, event: &str) -> impl Future<Output = Vec<Frame>> {
        within(async move {
            let mut frames = Vec::new();
            while let Some(frame) = self.next().await {
                let found = frame.event == event;
                frames.push(frame);
                if found {
                    return frames;
                }
            }
            panic!("no {event} in {frames:#?}");
        })
    }

    /// Reads until the text so far ends in `text`.
    #[track_caller]
    pub(crate) fn up_to_text(&mut self, text: &str) -> impl Future<Output = Vec<Frame>> {
        within(async move {
            let (mut frames, mut so_far) = (Vec::new(), String::new());
            while let Some(frame) = self.next().await {
                frames.push(frame);
                so_far += &said(&frames[frames.len() - 1..]);
                if so_far.ends_with(text) {
                    return frames;
                }
            }
            panic!("{text:?} was not said: {frames:#?}");
        })
    }

    /// Reads all frames to a proper end. Checks that their ids have no gaps and that the last
    /// event comes at the end and nowhere else.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> impl Future<Output = Vec<Frame>> {
        within(async {
            let mut frames = Vec::new();
            while let Some(frame) = self.next().await {
                frames.push(frame);
            }
            assert_eq!(self.ending, Some(Ending::Well), "{frames:#?}");
            check_order(&frames);
            assert!(frames.last().is_some_and(Frame::is_last), "no last event: {frames:#?}");
            frames
        })
    }

    /// Waits for this many more keep-alive comments. Frames are not allowed.
    #[track_caller]
    pub(crate) fn comments(&mut self, count: usize) -> impl Future<Output = ()> {
        within(async move {
            for _ in 0..count {
                self.up_to_comment().await;
            }
        })
    }

    /// Waits for the next keep-alive comment. Frames are not allowed.
    pub(crate) async fn up_to_comment(&mut self) {
        loop {
            match self.parser.ready.pop_front() {
                Some(Item::Comment) => {
                    self.comments += 1;
                    return;
                }
                Some(Item::Frame(frame)) => panic!("a frame amid silence: {frame:?}"),
                None => match self.client.piece().await {
                    Piece::Bytes(bytes) => {
                        self.raw.extend_from_slice(&bytes);
                        self.parser.push(&bytes);
                    }
                    end => panic!("{end:?} amid silence"),
                },
            }
        }
    }
}

/// Splits bytes into frames and comments.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    partial: Vec<u8>,
    ready: VecDeque<Item>,
}

#[derive(Debug)]
enum Item {
    Frame(Frame),
    Comment,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        while let Some((item, length)) = self.split() {
            self.partial.drain(..length);
            self.ready.push_back(item);
        }
    }

    fn split(&self) -> Option<(Item, usize)> {
        const COMMENT: &[u8] = b": keep-alive\n";
        if self.partial.starts_with(b":") {
            if self.partial.len() < COMMENT.len() {
                return None;
            }
            assert_eq!(&self.partial[..COMMENT.len()], COMMENT, "the one comment there is");
            return Some((Item::Comment, COMMENT.len()));
        }
        let end = super::client::find(&self.partial, b"\n\n")? + 2;
        let text = std::str::from_utf8(&self.partial[..end]).expect("UTF-8");
        Some((Item::Frame(Frame::parse(text)), end))
    }
}

/// The frames of a whole body.
#[track_caller]
pub(crate) fn frames(body: &[u8]) -> Vec<Frame> {
    let mut parser = Parser::default();
    parser.push(body);
    assert_eq!(parser.partial, b"", "the body ends inside a frame");
    let frame = |item| match item {
        Item::Frame(frame) => Some(frame),
        Item::Comment => None,
    };
    parser.ready.into_iter().filter_map(frame).collect()
}

/// Checks that ids have no gaps and that nothing follows a last event.
#[track_caller]
pub(crate) fn check_order(frames: &[Frame]) {
    for pair in frames.windows(2) {
        assert_eq!(pair[0].sequence() + 1, pair[1].sequence(), "{pair:?}");
        assert!(!pair[0].is_last(), "something follows the last event: {pair:?}");
    }
}

/// The text of all frames.
pub(crate) fn said(frames: &[Frame]) -> String {
    let deltas = frames.iter().filter(|frame| frame.event == "text_delta");
    deltas.map(|frame| frame.data["text"].as_str().unwrap()).collect()
}

/// The names of the frames' events, without adjacent repeats.
pub(crate) fn names(frames: &[Frame]) -> Vec<&str> {
    let mut names: Vec<&str> = frames.iter().map(|frame| &*frame.event).collect();
    names.dedup();
    names
}

/// The `finish_reason` or `code` of the last frame.
#[track_caller]
pub(crate) fn outcome(frames: &[Frame]) -> &str {
    let last = frames.last().expect("a frame");
    let field = match &*last.event {
        "turn_completed" => "finish_reason",
        "turn_failed" => "code",
        other => panic!("{other} is no end: {frames:#?}"),
    };
    last.data[field].as_str().unwrap()
}
