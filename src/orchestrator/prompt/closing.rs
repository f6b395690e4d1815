//! The last word to a model that is asked again: the closing request, and how to go on.

/// The first request.
pub(in crate::orchestrator) const SYNTHESIS: &str = "Now answer in words, with what is known so \
     far. Do not call any function.";

/// The same, for a model that ignored the first.
pub(in crate::orchestrator) const SYNTHESIS_AGAIN: &str = "Answer the question above in one or two \
     plain sentences. Functions are switched off.";

/// The first request, if the answer has a form, which the system prompt describes.
pub(in crate::orchestrator) const SYNTHESIS_IN_FORM: &str = "Now write the answer in the form that \
     is required, with what is known so far. Do not call any function.";

/// The request to go on with a message that was cut off, because its gateway was stopped.
pub(in crate::orchestrator) const GO_ON: &str = "Your answer was cut off there. Go on with the very \
     next word. Do not repeat anything, and do not mention the interruption.";
