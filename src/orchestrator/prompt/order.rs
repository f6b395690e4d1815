//! When calls run, in words: what `chain.rs` enforces.
//!
//! Only what can happen is mentioned. A small model that reads about waiting right before it
//! writes makes only a third as many calls, so this section comes before the contract.

use std::fmt::Write as _;

use crate::conversation::render::results;
use crate::tools::{Catalog, Policy};

/// When a tool's calls run, and what that means for later ones; `None` if they neither wait nor
/// make others wait.
pub(super) fn words(policy: Policy) -> Option<String> {
    if !policy.is_barrier() {
        return None;
    }
    let begins = if policy.mutates {
        "It runs when your message is over and every earlier call has succeeded. "
    } else if policy.sequential {
        "It runs when every earlier call is over. "
    } else {
        ""
    };
    let breaks = if policy.may_clarify { "fails or asks the user" } else { "fails" };
    Some(format!("{begins}Later calls wait for it; if it {breaks}, they are not run."))
}

/// Adds a section on how calls depend on each other, if they can.
pub(super) fn push(prompt: &mut String, tools: &Catalog) {
    let stop = stop(tools).map(|(tool, stop)| {
        let heading = results::heading(tool, "call_1");
        format!(
            "{stop} It looks like this:\n{heading} {{\"next_action\": \"clarification_needed\", \
             \"clarification\": {{...}}}}"
        )
    });
    let reference = reference(tools).map(str::to_owned);
    let told: Vec<_> = stop.into_iter().chain(reference).collect();
    if !told.is_empty() {
        let _ = writeln!(prompt, "\n# When to wait\n{}", told.join("\n"));
    }
}

/// What a question to the user means for the model, and the first tool that may ask one.
pub(super) fn stop(tools: &Catalog) -> Option<(&str, &'static str)> {
    let asking = tools.specs().find(|spec| spec.policy.may_clarify)?;
    Some((
        &asking.name,
        "A result with next_action \"clarification_needed\" means stop: write nothing more. The \
         user is asked, and you then get the choice with its id.",
    ))
}

/// How a call uses the result of an earlier call of the same message; `None` if there is only one
/// tool, or no tool has calls that others wait for.
pub(super) fn reference(tools: &Catalog) -> Option<&'static str> {
    let chains = tools.specs().count() > 1 && tools.specs().any(|spec| spec.policy.is_barrier());
    chains.then_some(
        "To use a value from an earlier call's result in the same message, write {\"$result\": \
         \"call_1.data.id\"} as the argument (calls are numbered call_1, call_2, ... through the \
         whole conversation); otherwise wait for the results.",
    )
}
