//! What the schedules went through, counted, and held against what there is.
//!
//! A turn's *moves* are what came in, in which state, and where it led; beside each
//! stands what came out at once, where nothing else came in before the poll. Its
//! *rules* are what no state shows: why a call was not run, what was fed back, what
//! took the tools away. Both are declared in `possible`; what is seen and not
//! declared is as wrong as what is declared and never seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::possible;
use super::*;

/// Where something came in, and what it was.
type Place = (&'static str, &'static str);

#[derive(Debug, Default)]
pub(super) struct Coverage {
    moves: BTreeMap<(Place, &'static str), u64>,
    outputs: BTreeMap<(Place, &'static str), u64>,
    rules: BTreeMap<&'static str, u64>,
}

impl Coverage {
    pub(super) fn moved(&mut self, place: Place, after: TurnState) {
        *self.moves.entry((place, after.name())).or_default() += 1;
    }

    /// What came of one input.
    pub(super) fn put_out(&mut self, place: Place, outputs: &[&'static str]) {
        for output in outputs {
            *self.outputs.entry((place, output)).or_default() += 1;
        }
    }

    pub(super) fn saw(&mut self, rule: &'static str) {
        *self.rules.entry(rule).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: Self) {
        for (key, count) in other.moves {
            *self.moves.entry(key).or_default() += count;
        }
        for (key, count) in other.outputs {
            *self.outputs.entry(key).or_default() += count;
        }
        for (key, count) in other.rules {
            *self.rules.entry(key).or_default() += count;
        }
    }

    /// What is wrong: seen and not declared, and where so many schedules should have
    /// seen all, what was declared in vain.
    pub(super) fn complaints(&self, schedules: u64) -> Vec<String> {
        let declared = possible::table();
        let line = |((state, input), what): &(Place, &str)| format!("{state} {input} > {what}");
        let moves = self.moves.keys().map(line).collect();
        let outputs = self.outputs.keys().map(line).collect();
        let rules = self.rules.keys().map(|rule| (*rule).to_owned()).collect();
        [
            compare(&moves, &declared.moves, schedules >= SCHEDULES),
            // What comes out where is allowed, not asked for: some of it is rare.
            compare(&outputs, &declared.outputs, false),
            compare(&rules, &declared.rules, schedules >= SCHEDULES),
        ]
        .concat()
    }

    /// How much of what there is was seen.
    pub(super) fn summary(&self) -> String {
        let declared = possible::table();
        let share = |seen: usize, all: &BTreeSet<String>| format!("{seen} of {}", all.len());
        format!(
            "{} moves, {} rules, {} outputs of moves",
            share(self.moves.len(), &declared.moves),
            share(self.rules.len(), &declared.rules),
            share(self.outputs.len(), &declared.outputs)
        )
    }

    /// The same as a table for people, a line each.
    pub(super) fn report(&self) -> String {
        let mut report = String::new();
        let mut write = |line: std::fmt::Arguments<'_>| {
            writeln!(report, "{line}").expect("memory takes all");
        };
        for (((state, input), after), count) in &self.moves {
            write(format_args!("  {count:>9}  {state:<12} {input:<15} -> {after}"));
        }
        for (rule, count) in &self.rules {
            write(format_args!("  {count:>9}  {rule}"));
        }
        report
    }
}

fn compare(seen: &BTreeSet<String>, declared: &BTreeSet<String>, all_is_seen: bool) -> Vec<String> {
    let undeclared = seen.difference(declared).map(|what| format!("seen, not declared: {what}"));
    let unseen = declared.difference(seen).filter(|_| all_is_seen);
    undeclared.chain(unseen.map(|what| format!("declared, never seen: {what}"))).collect()
}

/// What comes in, by name.
pub(super) const fn name_of(input: &Input<'_>) -> &'static str {
    match input {
        Input::Rerouted { .. } => "rerouted",
        Input::Delta(Delta::Text(_)) => "text",
        Input::Delta(Delta::Reasoning(_)) => "reasoning",
        Input::Delta(Delta::ReasoningItem(_)) => "reasoning_item",
        Input::Delta(Delta::CallStarted { .. }) => "call_started",
        Input::Delta(Delta::CallArguments { .. }) => "call_arguments",
        Input::Delta(Delta::CallCompleted { .. }) => "call_completed",
        Input::Delta(Delta::Finish(_)) => "finish",
        Input::Delta(Delta::Usage(_)) => "usage",
        Input::RoundEnded => "round_ended",
        Input::RoundFailed { .. } => "round_failed",
        Input::ToolProgressed { .. } => "tool_progressed",
        Input::ToolAsked { .. } => "tool_asked",
        Input::ToolEnded { .. } => "tool_ended",
        Input::Logged(_) => "logged",
        Input::Cancel => "cancel",
        Input::Audience { .. } => "audience",
        Input::Tick => "tick",
    }
}
