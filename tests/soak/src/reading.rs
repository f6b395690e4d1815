//! What a client has read of its turn so far, over all its connections.

use crate::answer::{Answer, Malformed};
use crate::clock::now_us;
use crate::directive::Directive;
use crate::events::{Event, Events};
use crate::tally::Tally;
use crate::token::Checker;

#[derive(Debug)]
pub(crate) struct Reading {
    directive: Directive,
    /// Whether the lag of its tokens counts.
    counts_lag: bool,
    answer: Answer,
    events: Events,
    checker: Checker,
    /// The number of the last event.
    sequence: u64,
    tools: u64,
    end: Option<End>,
    /// Tokens that were written before are late because of the client.
    live_from: u64,
}

/// The last event of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Cancelled,
    Failed,
}

impl Reading {
    pub(crate) fn new(directive: Directive, counts_lag: bool) -> Self {
        Self {
            directive,
            counts_lag,
            answer: Answer::new(),
            events: Events::default(),
            checker: Checker::default(),
            sequence: 0,
            tools: 0,
            end: None,
            live_from: 0,
        }
    }

    /// Another answer follows: what was begun in the one before is dropped.
    pub(crate) fn begin_answer(&mut self) {
        self.answer = Answer::new();
        self.events = Events::default();
        self.live_from = u64::MAX;
    }

    pub(crate) const fn answer(&self) -> &Answer {
        &self.answer
    }

    pub(crate) const fn end(&self) -> Option<End> {
        self.end
    }

    /// The number of the last event; 0 before the first.
    pub(crate) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Reads more of the answer.
    pub(crate) fn push(&mut self, bytes: &[u8], tally: &Tally) -> Result<(), Malformed> {
        let Self { answer, events, checker, sequence, tools, end, live_from, counts_lag, .. } =
            self;
        let now = now_us();
        *live_from = now.min(*live_from);
        let mut fresh = 0;
        let is_stream = |status| matches!(status, 0 | 200);
        let before = checker.count();
        let was_refused = !is_stream(answer.status());
        answer.push(bytes, |body| {
            if was_refused {
                return;
            }
            events.push(body, |number, event| {
                fresh += 1;
                if number != *sequence + 1 {
                    tally.misnumbered.one();
                }
                *sequence = number;
                match event {
                    Event::Text(text) => checker.push(text, |at| {
                        if *counts_lag && at >= *live_from {
                            tally.lag.record(now.saturating_sub(at));
                        }
                    }),
                    Event::Tool(true) => *tools += 1,
                    Event::Completed => *end = Some(End::Completed),
                    Event::Cancelled => *end = Some(End::Cancelled),
                    Event::Failed => {
                        *end = Some(End::Failed);
                        tally.keep_sample(|| String::from_utf8_lossy(body).into_owned());
                    }
                    Event::Tool(false) | Event::Other => {}
                }
            });
        })?;
        tally.tokens.add(checker.count() - before);
        Ok(())
    }

    /// Counts what is missing in a turn that is over.
    pub(crate) fn finish(&mut self, tally: &Tally) {
        if self.end == Some(End::Completed) {
            self.checker.finish(self.directive.tokens);
            tally.tools_missing.add(self.directive.calls.abs_diff(self.tools));
        }
        self.count(tally);
    }

    /// Counts what was wrong up to here.
    pub(crate) fn count(&self, tally: &Tally) {
        tally.lost.add(self.checker.lost);
        tally.doubled.add(self.checker.doubled);
        tally.tools.add(self.tools);
    }
}
