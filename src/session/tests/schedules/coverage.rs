//! The situations that the schedules have to have seen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Every situation there is. One that was never seen is as wrong as one that is not listed.
const DECLARED: &[&str] = &[
    "begin: a running turn makes way",
    "begin: busy",
    "begin: its key began a turn that runs elsewhere",
    "begin: its key began a turn that is over",
    "cancel: from another node",
    "cancel: where it runs",
    "cancel: the turn ended as cancelled",
    "delete: a reader is refused",
    "delete: a reader is told that the turn was cancelled, elsewhere",
    "delete: a reader is told that the turn was cancelled, where it ran",
    "delete: its owner hears of it, by append",
    "delete: its owner hears of it, by finish",
    "delete: its owner hears of it, by renew",
    "delete: its owner hears of it, by save",
    "delete: nobody had the session",
    "delete: where it runs",
    "delete: from another node",
    "end: by its driver",
    "end: by the next node, as nobody may go on",
    "end: by its own node, which had given it up",
    "fenced: acquire",
    "fenced: append",
    "fenced: finish",
    "fenced: renew",
    "fenced: save",
    "log: written by three owners or more",
    "node: came back too late, and was silent",
    "node: killed while it ran a turn",
    "node: stopped while it ran a turn",
    "reader: was told that the store does not answer",
    "reader: followed across a takeover without joining again",
    "reader: joined again after a takeover",
    "reader: left and came back",
    "store: an answer came too late",
    "store: asked twice to acquire",
    "store: asked twice to append",
    "store: asked twice to finish",
    "store: asked twice to release",
    "store: asked twice to renew",
    "store: asked twice to save",
    "store: down for longer than the wait",
    "store: lost a request",
    "store: lost the answer to acquire",
    "store: lost the answer to append",
    "store: lost the answer to finish",
    "store: lost the answer to renew",
    "store: lost the answer to save",
    "store: restarted",
    "takeover: after a kill",
    "takeover: after a stop",
    "takeover: while its owner still lives",
    "takeover: given back",
    "takeover: ended at once",
    "tool: it had begun elsewhere, and is not run again",
    "tool: its start was lost with its node, so it begins again",
    "tool: ran",
    "wake-up: late",
    "wake-up: lost",
];

/// How often each situation was seen.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    pub(super) fn saw(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what.clone()).or_default() += count;
        }
    }

    /// What is wrong: all that was seen but not declared and, if all has to be seen, all that was
    /// declared but not seen.
    pub(super) fn complaints(&self, all_is_seen: bool) -> Vec<String> {
        let strangers = self.0.keys().filter(|what| !DECLARED.contains(&&***what));
        let unseen = DECLARED.iter().filter(|what| all_is_seen && !self.0.contains_key(**what));
        let strangers = strangers.map(|what| format!("seen, not declared: {what}"));
        strangers.chain(unseen.map(|what| format!("declared, never seen: {what}"))).collect()
    }

    /// A table for people.
    pub(super) fn report(&self) -> String {
        let mut report = String::new();
        for (what, count) in &self.0 {
            writeln!(report, "  {count:>9}  {what}").expect("writing to memory cannot fail");
        }
        report
    }

    pub(super) fn summary(&self) -> String {
        format!("{} of {} situations", self.0.len(), DECLARED.len())
    }
}
