//! Judges a task's turns. This is pure: records in, verdicts out.

mod accepted;
mod answer;
mod shown;
pub(crate) mod subset;

use serde::Serialize;
use tether::tools::builtin::FindTools;

use crate::record::{Call, Transcript, Turn, Written};
use crate::tasks::Wanted;

/// The mistakes that keep a call from running.
const REFUSALS: [&str; 5] = [
    "tool_not_found",
    "invalid_arguments",
    "malformed_call",
    "incomplete_call",
    "payload_too_large",
];

/// The verdict on a task. A question that its set does not ask is `None`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// The calls were the right ones.
    pub(crate) right: Option<bool>,
    /// A call ran, and no call was refused.
    pub(crate) valid: Option<bool>,
    /// The answer is in words and contains what it must.
    pub(crate) answered: Option<bool>,
    /// The same, but the gateway composed the answer because the model gave none.
    pub(crate) composed: Option<bool>,
    /// There was a call, or an attempt at one, although none was needed.
    pub(crate) false_call: Option<bool>,
    /// How many calls are equal to an earlier one, whether they ran or not.
    pub(crate) repeated: usize,
    /// The user saw a block of results after the model had seen results or feedback.
    pub(crate) echoed: bool,
    /// The user saw a results block before that.
    pub(crate) invented: bool,
}

/// Judges the turns of a task.
pub(crate) fn judge(wanted: &Wanted, turns: &[Turn], transcript: &Transcript) -> Verdict {
    let (echoed, invented) = shown_results(turns);
    let repeated = repeated(&transcript.written);
    let verdict = Verdict { repeated, echoed, invented, ..Verdict::default() };
    let mut calls = turns.iter().flat_map(|turn| &turn.calls);
    match wanted {
        Wanted::Calls(accepted) => {
            // A search for tools only prepares the calls.
            let asked = || calls.clone().filter(|call| call.name != FindTools::NAME);
            let first_round = asked().map(|call| call.round).min();
            let first: Vec<&Call> =
                asked().filter(|call| Some(call.round) == first_round).collect();
            let is_right = first.len() == accepted.len()
                && each_has_its_own(accepted, &first, |accepted, call| {
                    accepted.name == call.name
                        && accepted::accepts(&accepted.arguments, &call.arguments)
                });
            let is_valid = calls.next().is_some() && !turns.iter().any(has_refusal);
            Verdict { right: Some(is_right), valid: Some(is_valid), ..verdict }
        }
        Wanted::Answer { calls: wanted, answer, choose: _ } => {
            let succeeded: Vec<&Call> = calls.filter(|call| call.succeeded()).collect();
            let is_right = each_has_its_own(wanted, &succeeded, |wanted, call| {
                wanted.name == call.name && subset::holds_all(&wanted.arguments, &call.arguments)
            });
            let is_answered = words(turns).is_some_and(|words| answer::contains(&words, answer));
            let composed = Some(is_answered && transcript.is_composed);
            Verdict { right: Some(is_right), answered: Some(is_answered), composed, ..verdict }
        }
        Wanted::NoCall => {
            let is_called = calls.next().is_some()
                || turns.iter().any(|turn| turn.markers > 0 || has_refusal(turn));
            let is_answered = words(turns).is_some();
            Verdict { false_call: Some(is_called), answered: Some(is_answered), ..verdict }
        }
    }
}

/// The final answer of the turns. A results block does not count, whatever it contains.
fn words(turns: &[Turn]) -> Option<String> {
    let last = turns.last()?;
    let is_completed = last.end.as_ref().is_some_and(|end| end.completed);
    let answer = last.answer();
    let is_answer = is_completed && !answer.trim().is_empty() && !shown::shows_results(&answer);
    is_answer.then_some(answer)
}

fn has_refusal(turn: &Turn) -> bool {
    turn.feedback.iter().any(|feedback| REFUSALS.contains(&&*feedback.reason))
}

/// Whether every one of `wanted` can be matched with a different one of `given`.
fn each_has_its_own<W, G: Copy>(
    wanted: &[W],
    given: &[G],
    fits: impl Fn(&W, G) -> bool + Copy,
) -> bool {
    let Some((first, others)) = wanted.split_first() else { return true };
    (0..given.len()).any(|at| {
        let left = || [&given[..at], &given[at + 1..]].concat();
        fits(first, given[at]) && each_has_its_own(others, &left(), fits)
    })
}

/// How many calls are equal to an earlier one.
fn repeated(written: &[Written]) -> usize {
    let is_repeated = |at: &usize| {
        let call = &written[*at];
        let is_same = |earlier: &Written| {
            earlier.name == call.name && subset::equal(&earlier.arguments, &call.arguments)
        };
        written[..*at].iter().any(is_same)
    };
    (0..written.len()).filter(is_repeated).count()
}

/// Whether the user saw an echoed result, and whether an invented one.
fn shown_results(turns: &[Turn]) -> (bool, bool) {
    let (mut echoed, mut invented) = (false, false);
    let mut was_told = false;
    for turn in turns {
        let mut see = |text: &str, is_told: bool| {
            if shown::shows_results(text) {
                *(if was_told || is_told { &mut echoed } else { &mut invented }) = true;
            }
        };
        for said in &turn.said {
            see(&said.text, said.is_told);
        }
        // A client may show only the last event's text.
        if let Some(end) = turn.end.as_ref().filter(|end| end.text != turn.text()) {
            see(&end.text, turn.is_told());
        }
        was_told |= turn.is_told();
    }
    (echoed, invented)
}

#[cfg(test)]
mod tests;
