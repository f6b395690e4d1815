//! What a turn has said so far, and what has yet to be polled.
//!
//! Text is stored once. A queued event is a range of it, which grows until it is polled:
//!
//! ```text
//!   text    Let me look.\n It is noon.
//!           '-- polled --''- queued -'^ what comes next makes the queued range longer
//! ```

use std::collections::VecDeque;
use std::ops::Range;

use super::queue::{Action, EventDraft, LogDraft, Queued};
use crate::orchestrator::call::CallAt;
use crate::orchestrator::result_guard::ResultGuard;
use crate::orchestrator::stop_texts::StopTexts;

/// Room for a short answer: some thirty tokens.
const ANSWER_BYTES_USUAL: usize = 128;

/// The turn's text, and the queue of what comes out. What every token needs comes first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Script {
    queue: VecDeque<Queued>,
    /// The words of the whole turn.
    pub(super) text: String,
    /// The round of the message whose first words are still to come.
    begins: Option<u32>,
    /// Those of them that the user has seen, if words are shown only once they are known to be the
    /// answer.
    shown: Option<String>,
    /// Ends messages where the client wants them to end. Boxed: most clients want no such thing.
    stops: Option<Box<StopTexts>>,
    /// Keeps result blocks out of the words.
    pub(super) guard: ResultGuard,
    // Each token needs the fields above.
    reasoning: String,
    /// Arguments as the model writes them, if clients want them as they arrive.
    arguments: String,
}

/// The words that are shown of those that the model wrote.
#[derive(Debug)]
pub(super) struct Shown {
    /// Their range in the text.
    pub(super) range: Range<usize>,
    /// Why nothing that follows is shown.
    pub(super) end: Option<WordsEnd>,
}

/// Why the words of a message end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordsEnd {
    /// A result block follows.
    Results,
    /// A text follows at which the client wants the answer to end.
    StopText,
}

impl Script {
    /// `withholds` says whether words are shown only by [`show`](Self::show).
    pub(super) fn new(guard: ResultGuard, stops: StopTexts, withholds: bool) -> Self {
        let (text, reasoning, arguments) = (String::new(), String::new(), String::new());
        let shown = withholds.then(String::new);
        let stops = (!stops.is_empty()).then(|| Box::new(stops));
        let queue = VecDeque::new();
        Self { text, shown, reasoning, arguments, guard, stops, begins: None, queue }
    }

    /// Goes on after these words, all of which the user has seen.
    pub(super) fn resume(&mut self, said: String) {
        if let Some(shown) = &mut self.shown {
            shown.clone_from(&said);
        }
        self.text = said;
    }

    /// Whether words are shown only by [`show`](Self::show).
    pub(super) const fn withholds(&self) -> bool {
        self.shown.is_some()
    }

    /// What the user has seen.
    pub(super) fn seen(&self) -> &str {
        self.shown.as_deref().unwrap_or(&self.text)
    }

    /// The same, at the end.
    pub(super) fn take_seen(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.shown.take().unwrap_or(text)
    }

    /// Shows words that were withheld: a range of the text.
    pub(super) fn show(&mut self, words: Range<usize>) {
        if let Some(shown) = &mut self.shown {
            let is_first = shown.is_empty();
            shown.push_str(&self.text[words.clone()]);
            self.say_words(words, is_first);
        }
    }

    /// A message begins, in this round if it does not go on with the one before. Drops the words that were held back of
    /// that one.
    pub(super) fn begin_message(&mut self, round: Option<u32>) {
        self.begins = round;
        self.guard.begin_message();
        if let Some(stops) = &mut self.stops {
            stops.begin_message();
        }
    }

    /// The text at which the client wanted the message to end, if it was found in it.
    pub(super) fn stop_text(&self) -> Option<&str> {
        self.stops.as_ref()?.found()
    }

    pub(super) fn next(&mut self) -> Option<Queued> {
        // A single entry is popped from the back, so that the next one reuses its slot, which is still in the cache.
        if self.queue.len() == 1 { self.queue.pop_back() } else { self.queue.pop_front() }
    }

    pub(super) fn say(&mut self, event: EventDraft) {
        self.queue.push_back(Queued::Say(event));
    }

    pub(super) fn act(&mut self, action: Action) {
        self.queue.push_back(Queued::Do(action));
    }

    pub(super) fn log(&mut self, line: LogDraft) {
        self.act(Action::Log(line));
    }

    /// Adds the model's words, up to a result block or a stop text.
    pub(super) fn push_words(&mut self, words: &str) -> Shown {
        let start = self.text.len();
        if start == 0 {
            // Growing from one token would copy it several times.
            self.text.reserve(ANSWER_BYTES_USUAL);
        }
        let unseen = self.put_back_words();
        let ends_in_results = self.guard.push(words, &mut self.text);
        let end = self.end_words(unseen, ends_in_results, ends_in_results);
        self.say_text_from(start, end)
    }

    /// Adds words that were held back as the possible start of a result block or a stop text: the
    /// message continues differently, or is over.
    pub(super) fn release_words(&mut self) -> Shown {
        let start = self.text.len();
        let unseen = self.put_back_words();
        let ends_in_results = self.guard.finish(&mut self.text);
        let end = self.end_words(unseen, ends_in_results, true);
        self.say_text_from(start, end)
    }

    /// Puts back the words that were held back as the possible start of a stop text. Returns where the words begin that
    /// have not been searched since.
    fn put_back_words(&mut self) -> usize {
        if let Some(stops) = &mut self.stops {
            stops.put_back(&mut self.text);
        }
        self.text.len()
    }

    /// Why the words end, if they do: a stop text in those from `unseen` on, or results after them. If they are the
    /// `last`, none is held back.
    fn end_words(&mut self, unseen: usize, ends_in_results: bool, last: bool) -> Option<WordsEnd> {
        let end = ends_in_results.then_some(WordsEnd::Results);
        let Some(stops) = &mut self.stops else { return end };
        if stops.check(&mut self.text, unseen) {
            return Some(WordsEnd::StopText);
        }
        if last {
            stops.finish(&mut self.text);
        }
        end
    }

    fn say_text_from(&mut self, start: usize, words_end: Option<WordsEnd>) -> Shown {
        let end = self.text.len();
        if start < end && !self.withholds() {
            self.say_words(start..end, start == 0);
        }
        Shown { range: start..end, end: words_end }
    }

    /// Shows words of the text, which the user has seen up to there. `is_first`: there is nothing before them.
    fn say_words(&mut self, words: Range<usize>, is_first: bool) {
        let r#loop = self.begins.take().filter(|_| !is_first);
        match self.queue.back_mut() {
            Some(Queued::Say(EventDraft::Text { words: queued, .. })) if r#loop.is_none() => {
                queued.end = words.end;
            }
            _ => self.say(EventDraft::Text { r#loop, words }),
        }
    }

    /// Adds an answer by the gateway itself, as its own paragraph.
    pub(super) fn push_answer(&mut self, answer: &str) {
        let mut start = self.text.len();
        let is_first = self.seen().is_empty();
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str("\n\n");
        }
        if let Some(shown) = &mut self.shown {
            // What was withheld does not stand before it.
            start = self.text.len();
            shown.push_str(answer);
        }
        self.text.push_str(answer);
        self.say_words(start..self.text.len(), is_first);
    }

    pub(super) fn push_reasoning(&mut self, text: &str) {
        let start = self.reasoning.len();
        self.reasoning.push_str(text);
        let end = self.reasoning.len();
        match self.queue.back_mut() {
            Some(Queued::Say(EventDraft::Reasoning(range))) => range.end = end,
            _ => self.say(EventDraft::Reasoning(start..end)),
        }
    }

    pub(super) fn push_arguments(&mut self, at: CallAt, delta: &str) {
        let start = self.arguments.len();
        self.arguments.push_str(delta);
        let end = self.arguments.len();
        match self.queue.back_mut() {
            Some(Queued::Say(EventDraft::ArgumentsDelta { call, delta })) if *call == at => {
                delta.end = end;
            }
            _ => self.say(EventDraft::ArgumentsDelta { call: at, delta: start..end }),
        }
    }

    pub(super) fn reasoning(&self, range: Range<usize>) -> &str {
        &self.reasoning[range]
    }

    pub(super) fn arguments(&self, range: Range<usize>) -> &str {
        &self.arguments[range]
    }

    /// Takes the last words back out of the queue, if nothing follows them.
    pub(super) fn take_back_words(&mut self) -> Option<Queued> {
        let is_words = matches!(self.queue.back(), Some(Queued::Say(EventDraft::Text { .. })));
        if is_words { self.queue.pop_back() } else { None }
    }

    /// Puts back what [`take_back_words`](Self::take_back_words) took.
    pub(super) fn put_back(&mut self, words: Option<Queued>) {
        self.queue.extend(words);
    }
}
