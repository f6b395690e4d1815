//! Which of a message's calls may run now.

use serde::Serialize;

use super::draft::{CallDraft, CallState};

/// When calls run: `tools.execution`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// As soon as a call is complete, while the model still speaks.
    #[default]
    Eager,
    /// When the model's message has ended.
    AfterTurn,
}

/// The first waiting call that may start, as its position.
///
/// `calls` are those of the running round, `first` is the position of the first.
pub(super) fn next_to_start(
    calls: &[CallDraft],
    first: usize,
    execution: Execution,
    round_over: bool,
    parallel_max: usize,
) -> Option<usize> {
    if execution == Execution::AfterTurn && !round_over {
        return None;
    }
    let running = calls.iter().filter(|call| matches!(call.state, CallState::Running));
    if running.count() >= parallel_max {
        return None;
    }
    let waiting = |call: &CallDraft| matches!(call.state, CallState::Waiting(_));
    calls.iter().position(waiting).map(|offset| first + offset)
}
