//! The last word to a model that may call nothing more.

/// What it is told at first.
pub(in crate::orchestrator) const SYNTHESIS: &str = "Now answer in words, with what is known so \
     far. Do not call any function.";

/// The same, for a model that has not listened.
pub(in crate::orchestrator) const SYNTHESIS_AGAIN: &str = "Answer the question above in one or two \
     plain sentences. Functions are switched off.";
