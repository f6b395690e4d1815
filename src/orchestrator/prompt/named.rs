//! The tools that the model knows by name only, and how it learns more about them.

use std::fmt::Write as _;

use crate::orchestrator::selection::Selection;
use crate::tools::builtin::FindTools;
use crate::tools::{Catalog, ToolSpec};

/// Adds their names, by source, if there are any.
pub(super) fn push(prompt: &mut String, tools: &Catalog, selection: &Selection) {
    if !selection.is_partial() {
        return;
    }
    prompt.push_str("\n# More functions, not described here\n");
    let specs: Vec<&ToolSpec> = selection.named.iter().map(|at| tools.at(*at)).collect();
    for of_one in specs.chunk_by(|a, b| a.source == b.source) {
        let names: Vec<&str> = of_one.iter().map(|spec| &*spec.name).collect();
        let _ = match &*of_one[0].source.name {
            "" => writeln!(prompt, "- {}", names.join(", ")),
            source => writeln!(prompt, "- {source}: {}", names.join(", ")),
        };
    }
    if selection.unnamed > 0 {
        let more = if selection.named.is_empty() { "" } else { " more" };
        let _ = writeln!(prompt, "- {}{more}, without a name here", selection.unnamed);
    }
    if FindTools::position_in(tools).is_some() {
        let _ = writeln!(
            prompt,
            "If none of the functions described fits, call {} to read what these do and take.",
            FindTools::NAME
        );
    }
}
