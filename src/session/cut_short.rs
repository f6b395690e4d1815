//! Reasons for ending a turn whose own end does not count, because the turn machine did not write one or the store did
//! not take it.

use crate::conversation::Interrupted;
use crate::event::{Event, FailureCode, Summary};

/// Ends a turn that was over, but whose end the store did not take.
pub(super) const NOT_STORED: &str =
    "the session store did not take the end of this turn; read the session before you try again";

/// Ends a turn of which the store has lost a part.
pub(super) const DATA_LOSS: &str =
    "the session store has lost a part of this turn; read the session for what is left of it";

/// Ends a turn whose gateway was stopped.
const INTERRUPTED: &str =
    "the gateway was stopped while this turn ran; what it had said and done is kept";

/// The outcome of such a turn, for metrics.
pub(super) const INTERRUPTED_OUTCOME: &str = FailureCode::Internal.name();

/// The last event of a turn whose gateway was stopped, and that does not go on.
pub(super) fn interrupted(turn: &Interrupted) -> Event<'_> {
    failed(turn, FailureCode::Internal, INTERRUPTED)
}

/// The last event of a turn that this gateway ended before, when the store did not take its end.
pub(super) fn not_stored(turn: &Interrupted) -> Event<'_> {
    failed(turn, FailureCode::StoreUnavailable, NOT_STORED)
}

fn failed<'t>(turn: &'t Interrupted, code: FailureCode, message: &'t str) -> Event<'t> {
    let summary = Summary {
        loops: turn.tally.rounds,
        tool_calls: turn.calls_made(),
        usage: turn.tally.usage,
        text: &turn.said,
    };
    Event::TurnFailed { code, message, retryable: true, summary }
}
