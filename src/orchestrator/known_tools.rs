//! The tools that a turn's model knows: those it is told about at the start, and those it learns
//! about.

use std::sync::Arc;

use super::selection::Selection;
use crate::conversation::trim;
use crate::tools::{Catalog, ToolSpec};
use crate::upstream::OfferedTool;

/// See the module docs. Tools are in the form that constraints and native calls need.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownTools {
    /// Those it knows in full. What it learns is added at the end, so that the beginning of its
    /// prompt stays the same.
    pub(super) offered: Arc<[OfferedTool]>,
    /// Those it knows by name.
    pub(super) named: Arc<[String]>,
    /// Roughly how many tokens a server adds to its prompt for those that it presents.
    pub(super) tokens: usize,
}

impl KnownTools {
    pub(super) fn of(selection: &Selection, tools: &Catalog) -> Self {
        let named = selection.named.iter().map(|at| tools.at(*at).name.clone());
        let offered: Arc<[_]> = selection.told.iter().map(|at| offer(tools.at(*at))).collect();
        Self { tokens: tokens(&offered), offered, named: named.collect() }
    }

    /// Whether the model knows what this tool takes.
    pub(super) fn has(&self, name: &str) -> bool {
        self.offered.iter().any(|tool| tool.name == name)
    }

    /// The names of those that it has learned about since it knew `before`.
    pub(super) fn learned_since(&self, before: &Self) -> impl Iterator<Item = &str> {
        self.offered.iter().skip(before.offered.len()).map(|tool| &*tool.name)
    }

    /// The model has learned what these tools take.
    pub(super) fn learn<'a>(&mut self, specs: impl Iterator<Item = &'a ToolSpec>) {
        let mut learned: Vec<OfferedTool> = Vec::new();
        for spec in specs {
            if !self.has(&spec.name) && !learned.iter().any(|tool| tool.name == spec.name) {
                learned.push(offer(spec));
            }
        }
        if learned.is_empty() {
            return;
        }
        let is_learned = |name: &&String| learned.iter().any(|tool| tool.name == **name);
        self.named = self.named.iter().filter(|name| !is_learned(name)).cloned().collect();
        self.tokens += tokens(&learned);
        self.offered = self.offered.iter().cloned().chain(learned).collect();
    }
}

/// See [`KnownTools::tokens`]. Writes all schemas, so turns that know the same tools count them once.
pub(super) fn tokens(offered: &[OfferedTool]) -> usize {
    let of_tool = |tool: &OfferedTool| {
        trim::tokens(&tool.name)
            + trim::tokens(&tool.description)
            + trim::tokens(&tool.parameters.to_string())
    };
    offered.iter().map(of_tool).sum()
}

fn offer(spec: &ToolSpec) -> OfferedTool {
    OfferedTool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        parameters: spec.told_parameters().clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> ToolSpec {
        ToolSpec { name: name.to_owned(), ..ToolSpec::default() }
    }

    fn known(offered: &[&str], named: &[&str]) -> KnownTools {
        let offered: Arc<[_]> = offered.iter().map(|name| offer(&spec(name))).collect();
        let named = named.iter().map(|name| (*name).to_owned()).collect();
        KnownTools { tokens: tokens(&offered), offered, named }
    }

    #[test]
    fn what_is_learned_is_added_at_the_end() {
        let mut known = known(&["a", "b"], &["c", "d"]);
        let learned = ["d", "b", "d", "e"].map(spec);
        known.learn(learned.iter());
        let offered: Vec<&str> = known.offered.iter().map(|tool| &*tool.name).collect();
        assert_eq!(offered, ["a", "b", "d", "e"]);
        assert_eq!(&*known.named, ["c"]);
        assert_eq!(known.tokens, tokens(&known.offered));
        assert!(known.has("d") && !known.has("c"));
    }

    #[test]
    fn nothing_new_changes_nothing() {
        let mut known = known(&["a"], &["b"]);
        let before = known.clone();
        known.learn([spec("a")].iter());
        assert!(Arc::ptr_eq(&known.offered, &before.offered));
        assert!(Arc::ptr_eq(&known.named, &before.named));
    }
}
