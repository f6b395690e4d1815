//! Fits the running turn into a context. Its steps stay, because the model continues from
//! them, unless it has gone on from a client's results, and so may be of any length. Calls that did not run have no result worth keeping, but can be as long as any
//! other: they are shortened, and left out if that is not enough.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Call, Outcome, Part, Step, Turn};
use crate::limits::turn as limits;
use crate::parser::Arguments;
use crate::text;
use crate::tools::ToolResult;

/// The turn, cut to fit into `budget`, and its size. Calls that did not run are shortened, oldest
/// first, then left out, oldest first. The newest stays, shortened, because the model should make
/// it again. Calls that ran stay whole, so the turn may still be too large.
pub(super) fn to_fit(
    turn: &Turn,
    budget: usize,
    tokens: impl Fn(&Turn) -> usize,
) -> (Cow<'_, Turn>, usize) {
    let whole = tokens(turn);
    let unrun = turn.steps.iter().flat_map(Step::calls).filter(|call| is_unrun(call)).count();
    if whole <= budget || unrun == 0 {
        return (Cow::Borrowed(turn), whole);
    }
    // Each cut makes the turn smaller, so a binary search finds the fewest.
    let cuts = |count: usize| {
        let turn = with_cuts(turn, count.min(unrun), count.saturating_sub(unrun));
        let tokens = tokens(&turn);
        (turn, tokens)
    };
    let (mut fewest, mut most) = (1, 2 * unrun - 1);
    while fewest < most {
        let middle = usize::midpoint(fewest, most);
        if cuts(middle).1 <= budget {
            most = middle;
        } else {
            fewest = middle + 1;
        }
    }
    let (turn, tokens) = cuts(fewest);
    (Cow::Owned(turn), tokens)
}

/// Whether a call has a reason instead of a result.
fn is_unrun(call: &Call) -> bool {
    match &call.outcome {
        Outcome::NotRun(result) => !result.success,
        Outcome::Skipped(_) | Outcome::Unapproved(_) => true,
        Outcome::Ended(_) | Outcome::Cancelled | Outcome::HandedOut | Outcome::Claimed(_) => false,
    }
}

/// The turn without the first `left_out` of the calls that did not run, and with the first
/// `shortened` of them shortened.
fn with_cuts(turn: &Turn, shortened: usize, left_out: usize) -> Turn {
    let mut turn = turn.clone();
    let mut unrun = 0;
    for step in &mut turn.steps {
        let mut parts = Vec::with_capacity(step.parts.len());
        let mut lost_its_call = false;
        for part in step.parts.drain(..) {
            // Reasoning without the calls it led to makes no sense.
            if lost_its_call && !matches!(part, Part::Call(_)) {
                drop_reasoning(&mut parts);
                lost_its_call = false;
            }
            match part {
                Part::Call(call) if is_unrun(&call) => {
                    unrun += 1;
                    if unrun <= left_out {
                        lost_its_call = true;
                    } else if unrun <= shortened {
                        parts.push(Part::Call(Arc::new(shorten(&call))));
                    } else {
                        parts.push(Part::Call(call));
                    }
                }
                part => parts.push(part),
            }
        }
        if lost_its_call {
            drop_reasoning(&mut parts);
        }
        step.parts = parts;
    }
    turn
}

/// Drops the reasoning at the end, if no call follows it.
fn drop_reasoning(parts: &mut Vec<Part>) {
    while matches!(parts.last(), Some(Part::Reasoning(_))) {
        parts.pop();
    }
}

/// The call with the first bytes of its arguments and of the reason why it did not run.
fn shorten(call: &Call) -> Call {
    let arguments = match call.arguments.as_str().len() {
        ..=limits::UNRUN_ARGUMENTS_BYTES_MAX => call.arguments.clone(),
        bytes => Arguments::parse(&format!(r#"{{"...": "{bytes} bytes left out"}}"#))
            .expect("it is an object"),
    };
    let brief = |words: &str| text::cut(words, limits::UNRUN_REASON_BYTES_MAX);
    let outcome = match &call.outcome {
        Outcome::NotRun(result) => {
            Outcome::NotRun(ToolResult::error(brief(result.error.as_deref().unwrap_or_default())))
        }
        Outcome::Skipped(reason) => Outcome::Skipped(brief(reason)),
        outcome => outcome.clone(),
    };
    Call { arguments, outcome, ..call.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::upstream::ReasoningItem;

    fn call(arguments: usize, outcome: Outcome) -> Part {
        let arguments = Arguments::parse(&json!({ "a": "x".repeat(arguments) }).to_string());
        Part::Call(Arc::new(Call {
            call_id: String::new(),
            name: "write".to_owned(),
            arguments: arguments.unwrap(),
            resolved_arguments: None,
            outcome,
        }))
    }

    fn refused() -> Part {
        call(1000, Outcome::NotRun(ToolResult::error("no ".repeat(200))))
    }

    fn turn(parts: Vec<Part>) -> Turn {
        let steps = parts.into_iter().map(|part| Step { parts: vec![part], ..Step::default() });
        Turn { steps: steps.collect(), ..Turn::default() }
    }

    /// Bytes of arguments and of reasons.
    fn bytes(turn: &Turn) -> usize {
        let calls = turn.steps.iter().flat_map(Step::calls);
        let each = calls.map(|call| {
            call.arguments.as_str().len() + call.result().error.as_ref().map_or(0, String::len)
        });
        each.sum()
    }

    /// What is left of each step's call: its whole self, a short one, or nothing.
    fn left(turn: &Turn, budget: usize) -> Vec<&'static str> {
        let (fitted, taken) = to_fit(turn, budget, bytes);
        assert_eq!(taken, bytes(&fitted));
        let left = |(step, before): (&Step, &Step)| match step.calls().next() {
            None => "",
            Some(call) if Some(call) == before.calls().next() => "whole",
            Some(_) => "short",
        };
        fitted.steps.iter().zip(&turn.steps).map(left).collect()
    }

    #[test]
    fn the_oldest_are_shortened_first_and_then_left_out() {
        let turn = turn(vec![refused(), refused(), refused()]);
        let whole = bytes(&turn) / 3;
        let Part::Call(call) = refused() else { unreachable!() };
        let short = shorten(&call);
        let short = short.arguments.as_str().len() + short.result().error.as_ref().unwrap().len();
        for (fits, expected) in [
            (3 * whole, ["whole", "whole", "whole"]),
            (2 * whole + short, ["short", "whole", "whole"]),
            (whole + 2 * short, ["short", "short", "whole"]),
            (3 * short, ["short", "short", "short"]),
            (2 * short, ["", "short", "short"]),
            (short, ["", "", "short"]),
        ] {
            assert_eq!(left(&turn, fits), expected, "at {fits}");
            let is_least = fits == short;
            assert_eq!(left(&turn, fits - 1) == expected, is_least, "below {fits}");
        }
        assert_eq!(left(&turn, 0), ["", "", "short"], "the newest stays");
    }

    #[test]
    fn calls_that_ran_stay_whole() {
        let ran = || call(1000, Outcome::Ended(ToolResult::data(json!(1))));
        let repeat = call(1000, Outcome::NotRun(ToolResult::data(json!(1))));
        let skipped = call(1000, Outcome::Skipped("too many".to_owned()));
        let turn = turn(vec![ran(), skipped, call(1000, Outcome::Cancelled), refused(), repeat]);
        assert_eq!(left(&turn, 0), ["whole", "", "whole", "short", "whole"]);
    }

    #[test]
    fn short_arguments_are_not_shortened() {
        let reason = "x".repeat(limits::UNRUN_REASON_BYTES_MAX);
        let of = |bytes: usize| {
            let arguments = bytes - r#"{"a":""}"#.len();
            turn(vec![call(arguments, Outcome::NotRun(ToolResult::error(reason.clone())))])
        };
        assert_eq!(left(&of(limits::UNRUN_ARGUMENTS_BYTES_MAX), 0), ["whole"]);
        assert_eq!(left(&of(limits::UNRUN_ARGUMENTS_BYTES_MAX + 1), 0), ["short"]);
    }

    #[test]
    fn reasoning_goes_with_its_last_call() {
        let thought = || {
            let (upstream, json) = ("u".to_owned(), "{}".to_owned());
            Part::Reasoning(Arc::new(ReasoningItem { upstream, json }))
        };
        let ran = || call(10, Outcome::Ended(ToolResult::data(json!(1))));
        // Everything is left out but the newest call, which did not run, and what ran.
        for (parts, left) in [
            (vec![thought(), refused(), thought(), refused()], "rc"),
            (vec![thought(), refused(), refused()], "rc"),
            (vec![thought(), refused(), ran(), thought(), refused()], "rcrc"),
            (vec![thought(), ran(), refused(), refused()], "rcc"),
        ] {
            let turn = Turn { steps: vec![Step { parts, ..Step::default() }], ..Turn::default() };
            let (fitted, _) = to_fit(&turn, 0, bytes);
            let kinds = fitted.steps[0].parts.iter().map(|part| match part {
                Part::Reasoning(_) => 'r',
                Part::Call(_) => 'c',
                _ => '?',
            });
            assert_eq!(kinds.collect::<String>(), left);
        }
    }
}
