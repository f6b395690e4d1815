//! When calls run, in words: what `chain.rs` makes true of a message's calls.
//!
//! Only what can happen is told. A small model that reads of waiting right before it is
//! to write makes a third of its calls, so a prompt says this in front of the contract.

use std::fmt::Write as _;

use crate::conversation::render::results;
use crate::tools::{Catalog, Policy};

/// When a tool's calls run, and what that means for those behind them; nothing where
/// they neither wait nor are waited for.
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

/// Adds a section with what holds between calls, if anything does.
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

/// What a question to the user means for the model, with the first tool that may ask one.
pub(super) fn stop(tools: &Catalog) -> Option<(&str, &'static str)> {
    let asking = tools.specs().find(|spec| spec.policy.may_clarify)?;
    Some((
        &asking.name,
        "A result with next_action \"clarification_needed\" is a stop: write nothing then. The \
         user is asked, and you are told the choice with its id.",
    ))
}

/// How a call uses what an earlier one of its message will bring; nothing where no
/// tool's calls are made to follow another's.
pub(super) fn reference(tools: &Catalog) -> Option<&'static str> {
    let chains = tools.specs().count() > 1 && tools.specs().any(|spec| spec.policy.is_barrier());
    chains.then_some(
        "To use a value of an earlier call's result in the same message, write {\"$result\": \
         \"call_1.data.id\"} as the argument (calls are numbered from call_1 on, through the whole \
         conversation); otherwise wait for the results.",
    )
}
