//! What a server has been asked to hold its model to, and what it has refused.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tracing::{debug, warn};

use super::kept::{Fields, Kept};
use super::{Constrain, Constraint, Form};
use crate::upstream::ChatRequest;
use crate::upstream::models::Flavour;
use crate::upstream::server_error::ServerError;

/// The constraint of an upstream. What its server refuses is not asked for again.
#[derive(Debug, Default)]
pub(crate) struct Held {
    constrain: Constrain,
    /// How many times it was refused; each time, something weaker is asked for.
    refusals: AtomicU8,
    /// Whether there was anything to refuse.
    has_asked: AtomicBool,
    kept: Kept,
}

impl Held {
    /// The configured constraint.
    #[must_use]
    pub(crate) fn new(constrain: Constrain) -> Self {
        Self { constrain, ..Self::default() }
    }

    /// The request fields that ask a server of this kind for it. `prompt` is what the model reads, or empty if
    /// the server writes that itself. `None` if there is nothing to ask for.
    #[must_use]
    pub(crate) fn request_fields(
        &self,
        flavour: Flavour,
        round: &ChatRequest,
        prompt: &str,
    ) -> Option<Arc<Fields>> {
        self.kept.request_fields(self.on(flavour)?, round, prompt)
    }

    /// What to ask a server of this kind for.
    #[must_use]
    fn on(&self, flavour: Flavour) -> Option<Constraint> {
        let wanted = self.constrain.on(flavour);
        let asked =
            (0..self.refusals()).fold(wanted, |asked, _| asked.and_then(Constraint::weaker));
        // Of vLLM's backends, guidance alone refuses the tree. It takes the older form, reads an opener in angle
        // brackets as a special token, and ends answers after a word.
        let is_older = asked == Some(Constraint::StructuralTag(Form::Structures));
        let asked = asked.filter(|_| !(is_older && flavour == Flavour::Vllm));
        self.has_asked.store(asked.is_some(), Ordering::Relaxed);
        asked
    }

    /// How many times it was refused.
    #[must_use]
    pub(crate) fn refusals(&self) -> u8 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Learns from what the server said when it refused a request, if that is about the constraint.
    /// Rounds that are refused together, all of the same variant, count once. Returns whether it is the first of them.
    pub(crate) fn learn_refusal(&self, told: &str, has_tools: bool, variant: u8) -> bool {
        const WORDS: [&str; 7] = [
            "grammar",
            "structural_tag",
            "response_format",
            "json_schema",
            // xgrammar, Outlines and lm-format-enforcer, as vLLM passes their words on.
            "json schema",
            "structured_outputs",
            "structured output",
        ];
        // A body may quote the request, which has these words in any case.
        let error = ServerError::from_body(told.as_bytes());
        let said = error.message.to_ascii_lowercase();
        let is_refusal = WORDS.iter().any(|word| said.contains(word));
        let has_asked = self.has_asked.load(Ordering::Relaxed) && has_tools;
        if !has_asked || !is_refusal || variant >= REFUSALS_MAX {
            return false;
        }
        let is_first = self.change(variant, variant + 1);
        if is_first {
            debug!(reason = %error, "the constraint is refused");
            warn!("the model server refused the constraint; trying a weaker one, or none");
        }
        is_first
    }

    /// Takes back what a round has learnt from the refusals of these variants: asking for less has not helped.
    /// What another round has learnt since stays.
    pub(crate) fn unlearn(&self, refused: RangeInclusive<u8>) {
        self.change(*refused.end() + 1, *refused.start());
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.refusals.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Forgets what was refused: the server may have been replaced.
    pub(crate) fn forget(&self) {
        self.refusals.store(0, Ordering::Relaxed);
    }
}

/// After this many refusals, no constraint is left to try.
const REFUSALS_MAX: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_not_asked_for_again() {
        let held = Held::new(Constrain::Auto);
        assert_eq!(held.on(Flavour::Sglang), Some(Constraint::StructuralTag(Form::Tree)));
        held.learn_refusal("unknown field in structural_tag", true, held.refusals());
        assert_eq!(held.on(Flavour::Sglang), Some(Constraint::StructuralTag(Form::Structures)));
        held.learn_refusal("response_format is invalid", true, held.refusals());
        assert_eq!(held.on(Flavour::Sglang), None);
        held.learn_refusal("grammar", true, held.refusals());
        assert_eq!(held.refusals(), REFUSALS_MAX, "there was nothing to refuse");
        held.unlearn(1..=1);
        assert_eq!(held.on(Flavour::Sglang), Some(Constraint::StructuralTag(Form::Structures)));
        held.learn_refusal("structural_tag", true, 0);
        assert_eq!(held.refusals(), 1, "another round was refused together with the first");
        assert_eq!(held.on(Flavour::Vllm), None, "it has no use for the older form");
        held.forget();
        assert_eq!(held.on(Flavour::LlamaCpp), Some(Constraint::LlamaGrammar));
        held.learn_refusal("failed to parse grammar", true, held.refusals());
        assert_eq!(held.on(Flavour::LlamaCpp), None);
    }

    #[test]
    fn a_round_takes_back_only_what_it_has_learnt() {
        let held = Held::new(Constrain::Auto);
        assert!(held.on(Flavour::Sglang).is_some());
        assert!(held.learn_refusal("structural_tag", true, 0));
        assert!(!held.learn_refusal("structural_tag", true, 0), "others were refused with it");
        assert!(held.learn_refusal("response_format", true, 1), "another round, later");
        held.unlearn(0..=0);
        assert_eq!(held.refusals(), 2);
        held.unlearn(0..=1);
        assert_eq!(held.refusals(), 0);
    }

    #[test]
    fn other_refusals_say_nothing_about_it() {
        let held = Held::new(Constrain::LlamaGrammar);
        held.learn_refusal("grammar", true, held.refusals());
        assert_eq!(held.on(Flavour::Other), Some(Constraint::LlamaGrammar), "it was not asked yet");
        // What a client wants of an answer is sent without tools.
        held.learn_refusal("response_format", false, 0);
        held.learn_refusal("the prompt is too long", true, held.refusals());
        assert_eq!(held.on(Flavour::Other), Some(Constraint::LlamaGrammar));
        let nothing = Held::new(Constrain::None);
        nothing.learn_refusal("grammar", true, nothing.refusals());
        assert_eq!((nothing.on(Flavour::LlamaCpp), nothing.refusals()), (None, 0));
    }
}
