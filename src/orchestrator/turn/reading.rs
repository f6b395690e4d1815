//! Reading: segments from the parser, and native calls from the server, become text and calls of
//! the round.

use super::core::Core;
use super::queue::EventDraft;
use super::round::{Finder, Flow, Mistake, Surplus};
use super::script::{Shown, WordsEnd};
use super::state::{OpenRound, State};
use crate::limits;
use crate::orchestrator::call::{CallAt, CallState, Written};
use crate::parser::{self, ErrorCode, ParseError, ParsedCall, Parser, Repair, Segment};
use crate::upstream::{Delta, ReasoningItem, RoundFinish};

/// Reads more of the model's words. Each decision takes effect at the byte that causes it: after a
/// stop nothing more is read, even within the same delta.
pub(super) fn read(parser: &mut Parser, text: &str, state: &mut State, core: &mut Core) -> Flow {
    if !text.is_empty() {
        end_reasoning(parser, state, core)?;
    }
    let mut flow = Flow::Continue(());
    parser.push_str(text, until_stopped(&mut flow, state, core));
    flow
}

/// The answer goes on after reasoning that the server sends in a field of its own, perhaps with a native call.
pub(super) fn end_reasoning(parser: &mut Parser, state: &mut State, core: &mut Core) -> Flow {
    let mut flow = Flow::Continue(());
    parser.end_reasoning(until_stopped(&mut flow, state, core));
    flow
}

/// Reads more of the reasoning that the server sends in a field of its own.
pub(super) fn read_reasoning(
    parser: &mut Parser,
    text: &str,
    state: &mut State,
    core: &mut Core,
) -> Flow {
    let mut flow = Flow::Continue(());
    parser.push_reasoning(text, until_stopped(&mut flow, state, core));
    flow
}

/// Takes segments until one stops the message, which `flow` then says.
fn until_stopped<'t>(
    flow: &'t mut Flow,
    state: &'t mut State,
    core: &'t mut Core,
) -> impl FnMut(Segment<'_>) + 't {
    move |segment| {
        if flow.is_continue() {
            *flow = state.take(segment, Finder::Parser, core);
        }
    }
}

impl State {
    /// Takes a segment of the model's message.
    fn take(&mut self, segment: Segment<'_>, finder: Finder, core: &mut Core) -> Flow {
        match self {
            Self::Synthesizing(closing) => closing.take(&segment, core),
            _ => match self.open_round(core) {
                Some(mut round) => round.take(segment, finder),
                None => Flow::Break(()),
            },
        }
    }

    /// Takes a native call from the server. From here on it is treated like one that the parser
    /// found. Some servers look for calls even if they were sent no tools: mlx-lm does if the chat template has a tag
    /// that it knows.
    pub(super) fn take_native(&mut self, delta: Delta<'_>, core: &mut Core) -> Flow {
        // Some servers send `{}` before the arguments.
        if let Delta::CallCompleted { index, name, arguments } = delta
            && (name.is_empty() || matches!(arguments.trim(), "" | "{}"))
            && self.was_cut_in(index, core)
        {
            let cut = Segment::Error(parser::cut_call(index, arguments));
            return self.take(cut, Finder::Server, core);
        }
        let settings = &core.setup.rules().parser;
        let segment = match delta {
            Delta::CallStarted { index } => Segment::CallStarted { index, offset: 0 },
            Delta::CallArguments { index, json } if settings.argument_deltas => {
                Segment::ArgumentsDelta { index, json }
            }
            Delta::CallCompleted { index, name, arguments }
                if arguments.trim().is_empty() && core.setup.may_lose_arguments(name) =>
            {
                Segment::Error(parser::lost_arguments(index))
            }
            Delta::CallCompleted { index, name, arguments } => {
                let call = parser::read_call(index, name, arguments, settings);
                call.map_or_else(Segment::Error, Segment::CallCompleted)
            }
            _ => return Flow::Continue(()),
        };
        self.take(segment, Finder::Server, core)
    }

    /// Ends the message: takes what the parser and the result guard still hold.
    pub(super) fn finish_reading(&mut self, parser: &mut Parser, core: &mut Core) {
        match self {
            Self::Synthesizing(closing) => {
                parser.finish(|segment| {
                    let _ = closing.take(&segment, core);
                });
                closing.release_words(core);
            }
            Self::Planning(_) => {
                let Some(mut round) = self.open_round(core) else { return };
                if round.round.message.is_cut() {
                    parser.cut_off(|segment| round.note(segment, Finder::Parser));
                } else {
                    parser.finish(|segment| round.note(segment, Finder::Parser));
                }
                round.release_words();
                round.fail_unfinished();
                round.note_lost_call();
            }
            Self::Executing { .. } | Self::Over(_) => {}
        }
    }

    /// Takes what a server says about the message as a whole.
    pub(super) fn take_end(&mut self, delta: Delta<'_>) {
        let Some(message) = self.unread() else { return };
        match delta {
            Delta::Finish(finish) => message.finish = Some(finish),
            Delta::Usage(usage) => message.tokens.count(usage),
            _ => {}
        }
    }

    /// Whether the message was cut off in this call: it is the last one, and the server has said so by now.
    fn was_cut_in(&mut self, index: u32, core: &mut Core) -> bool {
        self.open_round(core).is_some_and(|round| {
            let last = round.core.calls.places(round.round.first_call).next_back();
            round.round.message.is_cut() && round.at(index) == last
        })
    }

    /// Keeps a reasoning item, which the server wants sent back with the message.
    pub(super) fn take_reasoning_item(&mut self, json: &str, core: &Core) {
        if let Some(message) = self.unread() {
            let (upstream, json) = (core.answering().to_owned(), json.to_owned());
            message.push_reasoning(ReasoningItem { upstream, json });
        }
    }
}

impl OpenRound<'_> {
    /// Takes a segment of the message and starts the calls that it completes. Stops a round from
    /// which nothing more can come: it has used up its calls or its mistakes, repeats a call,
    /// invents results, has a call that the user must approve first, or the only one that the client takes.
    fn take(&mut self, segment: Segment<'_>, finder: Finder) -> Flow {
        self.note(segment, finder);
        if self.check_new_calls() {
            self.advance_calls();
            if self.asks_approval() || self.has_its_only_call() {
                return Flow::Break(());
            }
        }
        if self.round.has_words_after_call == Some(true) {
            self.acknowledge_now();
        }
        if self.round.is_last_with_tools || self.round.surplus.is_some() {
            return Flow::Break(());
        }
        Flow::Continue(())
    }

    /// Notes a segment of the message without deciding anything.
    fn note(&mut self, segment: Segment<'_>, finder: Finder) {
        if !matches!(segment, Segment::Text(_)) {
            self.release_words();
        }
        match segment {
            _ if self.round.ends_early() => {}
            segment if is_of_call(&segment) && !self.round.claim(finder) => {}
            Segment::Text(text) => {
                let shown = self.core.script.push_words(text);
                self.note_words(shown);
            }
            Segment::Reasoning(text) => self.core.script.push_reasoning(text),
            Segment::CallStarted { .. } => self.begin_call(),
            Segment::CallNamed { .. } | Segment::Span(_) => {}
            Segment::ArgumentsDelta { index, json } => {
                if let Some(at) = self.at(index) {
                    self.core.script.push_arguments(at, json);
                }
            }
            Segment::CallCompleted(call) => {
                self.core.script.guard.learn_tool(&call.name);
                self.core.script.guard.end_call();
                self.complete_call(call);
            }
            Segment::Error(error) => self.note_mistake(error),
        }
    }

    fn release_words(&mut self) {
        let shown = self.core.script.release_words();
        self.note_words(shown);
    }

    fn note_words(&mut self, Shown { range, end }: Shown) {
        if let Some(end) = end {
            self.round.surplus = Some(match end {
                WordsEnd::Results => Surplus::Results,
                WordsEnd::StopText => Surplus::StopText,
            });
        }
        if let Some(has_words) = &mut self.round.has_words_after_call {
            *has_words |= !self.core.script.text[range.clone()].trim_ascii().is_empty();
        }
        self.round.message.push_text(range);
    }

    /// A call begins. One over the limit is still taken, so that it can be reported.
    fn begin_call(&mut self) {
        if self.core.calls.len() > self.core.begun_calls_max() {
            self.round.surplus = Some(Surplus::Excess);
            return;
        }
        let call = self.core.calls.begin(self.round.message.round);
        self.core.script.say(EventDraft::MarkerDetected { call });
    }

    fn complete_call(&mut self, call: ParsedCall) {
        let Some(at) = self.at(call.index) else { return };
        let repairs = [Repair::OpenBracket, Repair::OpenString];
        let end_is_repaired = repairs.iter().any(|repair| call.repaired.contains(repair));
        let ParsedCall { name, arguments, .. } = call;
        self.core.calls[at].complete(Written { name, arguments, end_is_repaired });
        self.round.message.push_call(at);
        self.round.has_words_after_call = Some(false);
    }

    fn note_mistake(&mut self, error: ParseError) {
        // Mentioning the marker is not a mistake; only a line that begins with it is.
        if error.code == ErrorCode::MissingPayload && !error.at_line_start {
            return;
        }
        self.core.script.guard.end_call();
        if self.round.mistakes.len() == limits::turn::MISTAKES_MAX {
            self.round.surplus = Some(Surplus::Excess);
            return;
        }
        let call = error.index.and_then(|index| self.at(index));
        if let Some(call) = call {
            self.core.calls[call].discard(None);
        }
        self.round.has_words_after_call = Some(false);
        self.round.mistakes.push(Mistake { call, error });
    }

    /// The call with this index in the round, if it was taken.
    fn at(&self, index: u32) -> Option<CallAt> {
        self.core.calls.of_round(self.round.first_call, index)
    }

    /// Discards the calls that have not been checked.
    pub(super) fn discard_unchecked(&mut self) {
        for call in self.core.calls.since_mut(self.round.unchecked) {
            if matches!(call.state, CallState::Arriving | CallState::Whole(_)) {
                call.discard(None);
            }
        }
    }

    /// Turns a call that the server announced and did not send into a mistake.
    fn note_lost_call(&mut self) {
        let has_calls = self.core.calls.places(self.round.first_call).next().is_some();
        let is_lost = self.round.message.finish == Some(RoundFinish::ToolCalls)
            && self.core.setup.may_call()
            && !has_calls
            && self.round.mistakes.is_empty()
            && !self.round.message.has_words(&self.core.script.text);
        if is_lost {
            self.note_mistake(parser::lost_call());
        }
    }

    /// Turns unfinished calls into mistakes: they were cut off.
    pub(super) fn fail_unfinished(&mut self) {
        for (at, index) in self.core.calls.places(self.round.first_call).zip(0..) {
            if matches!(self.core.calls[at].state, CallState::Arriving) {
                self.note_mistake(ParseError {
                    code: ErrorCode::IncompletePayload,
                    message: "the answer ended inside the call".to_owned(),
                    offset: 0,
                    raw: String::new(),
                    index: Some(index),
                    at_line_start: true,
                });
            }
        }
    }
}

/// Whether a segment is about a call that has begun.
const fn is_of_call(segment: &Segment<'_>) -> bool {
    match segment {
        Segment::CallStarted { .. }
        | Segment::CallNamed { .. }
        | Segment::ArgumentsDelta { .. }
        | Segment::CallCompleted(_) => true,
        Segment::Error(error) => error.index.is_some(),
        Segment::Text(_) | Segment::Reasoning(_) | Segment::Span(_) => false,
    }
}
