//! The tools: what each is called, does and takes, and when it runs.
//!
//! Strangers describe their tools. Nothing they write can pass for a call or for a message, and
//! nothing is hidden in it.

use std::fmt::Write as _;

use super::order;
use crate::call_format::CallFormat;
use crate::conversation::render::inert;
use crate::tools::{Catalog, clean};

/// Adds a section with every tool. Schemas are on one line but otherwise unchanged: models have
/// seen JSON Schema countless times, and calls are checked against these.
pub(super) fn push(prompt: &mut String, tools: &Catalog, format: &CallFormat) {
    prompt.push_str("\n\n# The functions you can call\n");
    for spec in tools.specs() {
        let description = inert::text(&spec.description, format);
        let _ = writeln!(prompt, "- {}: {description}", spec.name);
        let schema = inert::json(spec.told_parameters(), format);
        let _ = writeln!(prompt, "  arguments (JSON Schema): {}", clean::json(&schema));
        if let Some(order) = order::words(spec.policy) {
            let _ = writeln!(prompt, "  {order}");
        }
    }
}
