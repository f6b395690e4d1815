//! Counts what the schedules covered, and compares it with what is declared.
//!
//! A turn's *moves* are an input, the state it came in, and the state it led to. Each also lists
//! the immediate outputs, if no other input came before the poll. Its *rules* are what no state
//! shows: why a call was not run, what was fed back, what took the tools away. Both are declared
//! in `possible`. Something seen but not declared is as wrong as something declared but never
//! seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::possible;
use super::*;

/// A state, and an input that came in it.
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

    /// Counts the outputs of one input.
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

    /// What is wrong: all that was seen but not declared and, after enough schedules, all that was
    /// declared but not seen.
    pub(super) fn complaints(&self, schedules: u64) -> Vec<String> {
        let declared = possible::table();
        let line = |((state, input), what): &(Place, &str)| format!("{state} {input} > {what}");
        let moves = self.moves.keys().map(line).collect();
        let outputs = self.outputs.keys().map(line).collect();
        let rules = self.rules.keys().map(|rule| (*rule).to_owned()).collect();
        [
            compare(&moves, &declared.moves, schedules >= SCHEDULES),
            // Not every declared output has to be seen: some are rare.
            compare(&outputs, &declared.outputs, false),
            compare(&rules, &declared.rules, schedules >= SCHEDULES),
        ]
        .concat()
    }

    /// The share of declared behaviour that was seen.
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

    /// The same as a table for people, one line each.
    pub(super) fn report(&self) -> String {
        let mut report = String::new();
        let mut write = |line: std::fmt::Arguments<'_>| {
            writeln!(report, "{line}").expect("writing to memory cannot fail");
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

/// The name of an input.
pub(super) const fn name_of(input: &Input<'_>) -> &'static str {
    match input {
        Input::Rerouted { .. } => "rerouted",
        Input::Answered { .. } => "answered",
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
        Input::StoreLost => "store_lost",
        Input::Audience { .. } => "audience",
        Input::Tick => "tick",
    }
}
