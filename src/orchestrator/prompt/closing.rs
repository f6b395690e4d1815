//! The closing request, to a model that may make no more calls.

/// The first request.
pub(in crate::orchestrator) const SYNTHESIS: &str = "Now answer in words, with what is known so \
     far. Do not call any function.";

/// The same, for a model that ignored the first.
pub(in crate::orchestrator) const SYNTHESIS_AGAIN: &str = "Answer the question above in one or two \
     plain sentences. Functions are switched off.";

/// The first request, if the answer has a form, which the system prompt describes.
pub(in crate::orchestrator) const SYNTHESIS_IN_FORM: &str = "Now write the answer in the form that \
     is required, with what is known so far. Do not call any function.";
