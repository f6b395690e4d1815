//! Counts the calls and rounds that do not count against the limits of a turn.

use crate::limits::turn::UNTOLD_CALLS_FREE;

/// See the module docs.
#[derive(Debug, Default)]
pub(super) struct FreeCalls {
    /// At most [`UNTOLD_CALLS_FREE`].
    calls: usize,
    /// Those of the running round.
    calls_of_round: usize,
    /// Rounds of nothing else.
    rounds: u32,
}

impl FreeCalls {
    /// Those of a turn that was interrupted between two rounds.
    pub(super) const fn resumed(calls: usize, rounds: u32) -> Self {
        Self { calls, calls_of_round: 0, rounds }
    }

    /// Counts a call that is free if the turn has not had too many.
    pub(super) const fn add(&mut self) {
        if self.calls < UNTOLD_CALLS_FREE {
            self.calls += 1;
            self.calls_of_round += 1;
        }
    }

    /// Ends the round, which had this many calls. If they were all free, the round is free too,
    /// unless the model had to be told about something else.
    pub(super) fn end_round(&mut self, calls: usize, is_clean: bool) {
        let free = std::mem::take(&mut self.calls_of_round);
        self.rounds += u32::from(is_clean && free > 0 && free == calls);
    }

    pub(super) const fn calls(&self) -> usize {
        self.calls
    }

    pub(super) const fn rounds(&self) -> u32 {
        self.rounds
    }
}
