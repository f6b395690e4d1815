//! What a participant made of a stream, and whether it is right.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::stream::Stream;

/// Takes what a participant finds. In timed runs it only copies everything to one buffer that has room
/// for it, as the floors do.
#[derive(Debug)]
pub(crate) struct Output {
    /// Text outside calls; in timed runs also names and arguments.
    pub(crate) text: String,
    /// Chunks that went in.
    pub(crate) fed: usize,
    pub(crate) error: Option<String>,
    calls: Vec<(String, String)>,
    is_judged: bool,
    /// The most chunks that went in one after the other while nothing came out.
    pub(crate) silence: usize,
    spoke_at: usize,
    deadline: Instant,
}

/// The verdict on what has no fault.
pub(crate) const RIGHT: &str = "right";

/// Chunks between two looks at the clock.
const LOOK_EVERY: usize = 64;

impl Output {
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self {
            text: String::with_capacity(2 * bytes + 4096),
            fed: 0,
            error: None,
            calls: Vec::new(),
            is_judged: false,
            silence: 0,
            spoke_at: 0,
            deadline: now(),
        }
    }

    /// Forgets everything but its room.
    pub(crate) fn begin(&mut self, is_judged: bool, cap: Duration) {
        self.text.clear();
        self.calls.clear();
        self.error = None;
        (self.fed, self.silence, self.spoke_at) = (0, 0, 0);
        self.is_judged = is_judged;
        self.deadline = now() + cap;
    }

    /// When the run is stopped.
    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether a run has taken too long.
    pub(crate) fn is_late(&self) -> bool {
        is_past(self.deadline, self.fed)
    }

    /// Text outside calls.
    #[inline]
    pub(crate) fn text(&mut self, text: &str) {
        if self.is_judged && !text.is_empty() {
            self.speak();
        }
        self.text.push_str(text);
    }

    /// A piece of a call.
    #[inline]
    pub(crate) fn call(&mut self, index: usize, name: Option<&str>, arguments: &str) {
        if self.is_judged {
            return self.note_call(index, name, arguments);
        }
        if let Some(name) = name {
            self.text.push_str(name);
        }
        self.text.push_str(arguments);
    }

    #[cold]
    fn note_call(&mut self, index: usize, name: Option<&str>, arguments: &str) {
        self.speak();
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, Default::default);
        }
        let call = &mut self.calls[index];
        call.0.push_str(name.unwrap_or_default());
        call.1.push_str(arguments);
    }

    #[cold]
    fn speak(&mut self) {
        self.silence = self.silence.max(self.fed.saturating_sub(self.spoke_at + 1));
        self.spoke_at = self.fed;
    }

    /// What is wrong with it, or [`RIGHT`]. White space around calls is each format's own affair.
    pub(crate) fn verdict(&self, stream: &Stream) -> String {
        let mut faults = Vec::new();
        if let Some(error) = &self.error {
            faults.push(format!("error: {error}"));
        }
        if !self.text.split_whitespace().eq(stream.prose.split_whitespace()) {
            faults.push(format!("{} bytes of text, not {}", self.text.len(), stream.prose.len()));
        }
        if self.calls.len() != stream.calls.len() {
            faults.push(format!("{} calls, not {}", self.calls.len(), stream.calls.len()));
        }
        let pairs = || self.calls.iter().zip(&stream.calls);
        let names = pairs().filter(|(found, wanted)| found.0 != wanted.0).count();
        let arguments = pairs()
            .filter(|(found, wanted)| {
                serde_json::from_str::<Value>(&found.1).ok().as_ref() != Some(&wanted.1)
            })
            .count();
        for (count, what) in [(names, "names"), (arguments, "arguments")] {
            if count > 0 {
                faults.push(format!("{count} wrong {what}"));
            }
        }
        if faults.is_empty() { RIGHT.to_owned() } else { faults.join("; ") }
    }
}

/// Whether a run of so many chunks has taken too long. Looks at the clock now and then.
pub(crate) fn is_past(deadline: Instant, fed: usize) -> bool {
    fed.is_multiple_of(LOOK_EVERY) && now() >= deadline
}

#[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
