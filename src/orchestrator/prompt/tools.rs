//! The tools: what each is called, does and takes, and when it runs.

use std::fmt::Write as _;

use super::order;
use crate::tools::Catalog;

/// Adds a section with every tool. Schemas are on one line but otherwise unchanged: models have
/// seen JSON Schema countless times, and calls are checked against these.
pub(super) fn push(prompt: &mut String, tools: &Catalog) {
    prompt.push_str("\n\n# The functions you can call\n");
    for spec in tools.specs() {
        let _ = writeln!(prompt, "- {}: {}", spec.name, spec.description);
        let _ = writeln!(prompt, "  arguments (JSON Schema): {}", spec.parameters);
        if let Some(order) = order::words(spec.policy) {
            let _ = writeln!(prompt, "  {order}");
        }
    }
}
