//! Checking calls: which may run, which are refused, and which are not read at all.

use serde_json::Value;

use super::NotRun;
use super::queue::LogDraft;
use super::round::Surplus;
use super::state::OpenRound;
use crate::conversation::Outcome;
use crate::event::{FeedbackReason, TurnFinish};
use crate::orchestrator::call::{CallAt, CallDraft, CallState, Facts, Origin, Written};
use crate::orchestrator::feedback;
use crate::orchestrator::rejection::Rejection;
use crate::orchestrator::repeats;
use crate::tools::Policy;

/// The result of checking a whole call.
enum Verdict {
    /// The token limit or a filter cut it off, and completing it is not up to us.
    Cut(TurnFinish),
    /// The turn has used up its calls.
    OverCap,
    /// It repeats an earlier call of the message.
    Repeat,
    /// The model knows its tool by name only, and not what it takes.
    Untold,
    /// Something is wrong with it.
    Refused(Rejection),
    /// It waits until it may start.
    Taken,
}

impl OpenRound<'_> {
    /// Checks the calls that have become whole. Returns whether there were any.
    pub(super) fn check_new_calls(&mut self) -> bool {
        let mut found = false;
        // Calls become whole in order, so each is checked only once.
        while let Some(call) = self.core.calls.get(self.round.unchecked) {
            match &call.state {
                CallState::Arriving => break,
                CallState::Whole(_) => {
                    self.check_call(self.round.unchecked);
                    found = true;
                }
                _ => {}
            }
            self.round.unchecked = self.round.unchecked.next();
            if self.round.is_last_with_tools || self.round.surplus == Some(Surplus::Repeats) {
                // That was one too many: the rest is not checked.
                self.discard_unchecked();
            }
        }
        found
    }

    fn check_call(&mut self, at: CallAt) {
        match self.verdict(at) {
            Verdict::Cut(by) => {
                self.discard(at);
                let message = feedback::cut_call(by).to_owned();
                self.feed_back_note(Some(at), FeedbackReason::IncompleteCall, message);
            }
            Verdict::OverCap => {
                let reason = format!(
                    "a turn may make no more than {}",
                    self.core.setup.calls_max_in_words()
                );
                self.report_call_cap();
                self.end_without_run(at, NotRun::OverCap, Outcome::Skipped(reason));
            }
            Verdict::Repeat => {
                // Small models do not notice that they are done, and start over. The rest of the
                // message is not read.
                self.core.script.log(LogDraft::NotRun { call: at, why: NotRun::Repeated });
                self.discard(at);
                self.round.surplus.get_or_insert(Surplus::Repeats);
            }
            Verdict::Untold => self.tell_tool(at),
            Verdict::Refused(refusal) => self.refuse(at, refusal),
            Verdict::Taken => {}
        }
    }

    fn discard(&mut self, at: CallAt) {
        let tool = self.core.setup.policy(self.core.calls[at].name());
        self.core.calls[at].discard(tool);
    }

    /// Checks a whole call. Unless it is to be discarded, it then waits with what is now known
    /// about it. That includes refused calls, because they affect the ones after them.
    fn verdict(&mut self, at: CallAt) -> Verdict {
        let CallState::Whole(written) = &self.core.calls[at].state else { return Verdict::Taken };
        if let Some(by) = self.round.message.cut_by()
            && written.end_is_repaired
        {
            return Verdict::Cut(by);
        }
        let as_written = written.arguments.to_value();
        let arguments = self.core.setup.tools().completed(&written.name, as_written.clone());
        let is_changed = arguments != as_written;
        let mut facts = Facts { tool: self.core.setup.policy(&written.name), ..Facts::default() };
        if self.core.counted_calls(at) >= self.core.setup.max_calls as usize {
            self.core.calls[at].wait(facts, arguments, is_changed);
            return Verdict::OverCap;
        }
        facts.duplicate_of = self.original_of(at, &written.name, &arguments, facts.tool);
        if facts.duplicate_of.is_some() && !self.changes_the_world(facts.tool) {
            return Verdict::Repeat;
        }
        if self.is_untold(at, &written.name) {
            self.core.calls[at].wait(facts, arguments, is_changed);
            return Verdict::Untold;
        }
        let checked = self.check_arguments(at, written, &arguments);
        let verdict = match checked {
            Ok(needs) => {
                facts.needs = needs;
                Verdict::Taken
            }
            Err(refusal) => Verdict::Refused(refusal),
        };
        self.core.calls[at].wait(facts, arguments, is_changed);
        verdict
    }

    /// Checks a call's arguments. Returns the calls whose results they refer to. If there are any,
    /// the arguments can only be validated once those calls have ended.
    fn check_arguments(
        &self,
        at: CallAt,
        written: &Written,
        arguments: &Value,
    ) -> Result<Vec<CallAt>, Rejection> {
        let name = &*written.name;
        let origin = &self.core.calls[at].origin;
        if let Origin::Open { .. } = origin {
            // It was checked when it began, and its tool may have changed since.
            return Ok(Vec::new());
        }
        let is_known = self.core.setup.spec(name).is_some();
        let named = if is_known {
            self.core.calls.named(self.round.first_call, at, arguments)?
        } else {
            Vec::new()
        };
        // Whoever reads them, the gateway or a client, would read another number.
        if is_known && let Some(number) = written.arguments.long_integer() {
            return Err(Rejection::LongInteger(number.to_owned()));
        }
        if named.is_empty() {
            self.core.setup.check(origin, name, arguments)?;
        }
        Ok(named)
    }

    /// The earlier, identical call of the message, unless its tool is repeatable. One that has failed may be made once
    /// more: the model could not know.
    fn original_of(
        &self,
        at: CallAt,
        name: &str,
        arguments: &Value,
        tool: Option<Policy>,
    ) -> Option<CallAt> {
        if tool.is_some_and(|tool| tool.repeatable) {
            return None;
        }
        let (calls, fingerprint) = (&self.core.calls, repeats::fingerprint(arguments));
        let before = calls.places(self.round.first_call).take_while(|before| *before < at);
        let mut same = before.filter(|before| calls[*before].is_same(name, arguments, fingerprint));
        let first = same.next()?;
        if has_failed(&calls[first]) { same.next() } else { Some(first) }
    }

    /// Whether this tool, or an earlier call of the message, is mutating. Such a message is read
    /// to its end, because the rest decides whether its calls may run.
    fn changes_the_world(&self, tool: Option<Policy>) -> bool {
        tool.is_some_and(|tool| tool.mutates)
            || self.calls().iter().any(|call| call.policy().mutates)
    }
}

/// Whether it ran, and failed.
fn has_failed(call: &CallDraft) -> bool {
    let Some(call) = call.ended() else { return false };
    matches!(&call.outcome, Outcome::Ended(result) if !result.success)
}
