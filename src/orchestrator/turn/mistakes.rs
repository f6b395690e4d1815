//! Counts the model's mistakes.

use crate::event::FeedbackReason;

/// In how many rounds of the turn each kind of mistake occurred. All mistakes of a kind in one
/// message count as one attempt.
#[derive(Debug, Default)]
pub(super) struct MistakeCounts {
    kinds: Vec<KindCount>,
    /// How many rounds had any mistake.
    rounds: u32,
    last_round: Option<u32>,
}

#[derive(Debug)]
struct KindCount {
    reason: FeedbackReason,
    attempts: u32,
    last_round: u32,
}

impl MistakeCounts {
    /// Those of a turn that was interrupted: the attempts of each kind, and the rounds with any.
    pub(super) fn resumed(attempts: Vec<(FeedbackReason, u32)>, rounds: u32) -> Self {
        // Rounds begin at 1: the one that is asked again counts anew.
        let kind = |(reason, attempts)| KindCount { reason, attempts, last_round: 0 };
        Self { kinds: attempts.into_iter().map(kind).collect(), rounds, last_round: None }
    }

    /// The attempts of each kind that has occurred.
    pub(super) fn attempts(&self) -> Vec<(FeedbackReason, u32)> {
        self.kinds.iter().map(|kind| (kind.reason, kind.attempts)).collect()
    }

    /// Counts a mistake in a round. Returns which attempt it is, from 1.
    pub(super) fn count(&mut self, reason: FeedbackReason, round: u32) -> u32 {
        if self.last_round.replace(round) != Some(round) {
            self.rounds += 1;
        }
        let Some(kind) = self.kinds.iter_mut().find(|kind| kind.reason == reason) else {
            self.kinds.push(KindCount { reason, attempts: 1, last_round: round });
            return 1;
        };
        kind.attempts += u32::from(kind.last_round != round);
        kind.last_round = round;
        kind.attempts
    }

    pub(super) const fn rounds(&self) -> u32 {
        self.rounds
    }
}
