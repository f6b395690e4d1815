//! The contract: how a call is written, and when to make one.

use std::fmt::Write as _;

use crate::call_format::CallFormat;

/// When to call and when to answer.
pub(super) const RULES: &str = "Call a function only when the question needs what it alone can know \
     or do. Small talk, jokes, translations and general knowledge need none: answer in words. \
     Never guess a result, and never repeat what you have said before a call.";

/// Adds the contract, rules last: models follow best what they read last.
pub(super) fn push(prompt: &mut String, format: &CallFormat) {
    let _ = write!(prompt, "\n# How to call a function\n{}\n{RULES}", format.lesson());
}
