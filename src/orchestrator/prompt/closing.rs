//! The closing request, to a model that may make no more calls.

/// The first request.
pub(in crate::orchestrator) const SYNTHESIS: &str = "Now answer in words, with what is known so \
     far. Do not call any function.";

/// The same, for a model that ignored the first.
pub(in crate::orchestrator) const SYNTHESIS_AGAIN: &str = "Answer the question above in one or two \
     plain sentences. Functions are switched off.";
