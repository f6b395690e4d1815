//! Lets a model that knows only some tools find the others.

use std::future;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::limits::tools::FOUND_TOOLS_MAX;
use crate::tools::search::Index;
use crate::tools::{CallContext, Catalog, Policy, Source, Tool, ToolFuture, ToolResult, ToolSpec};

/// The tool `find_tools`.
#[derive(Debug)]
pub struct FindTools {
    spec: Arc<ToolSpec>,
    tools: Catalog,
    index: Arc<Index>,
    /// How long all descriptions in one result may be together, in bytes.
    told_bytes_max: usize,
}

impl FindTools {
    /// The name of the tool. Sources of tools cannot offer one of this name: the prompt sends the
    /// model to it, and believes its results.
    pub const NAME: &str = "find_tools";

    /// Finds tools of a catalog. `index` is its index.
    #[must_use]
    pub fn new(tools: Catalog, index: Arc<Index>, told_bytes_max: usize) -> Self {
        Self { spec: Arc::new(spec()), tools, index, told_bytes_max }
    }

    /// Whether this is the gateway's own tool, and not an embedder's of the same name.
    #[must_use]
    pub fn is(spec: &ToolSpec) -> bool {
        spec.name == Self::NAME && spec.source == Source::builtin()
    }

    /// The position of this tool in a catalog that has it.
    #[must_use]
    pub fn position_in(tools: &Catalog) -> Option<usize> {
        tools.position(Self::NAME).filter(|at| Self::is(tools.at(*at)))
    }

    /// The names of the tools that a result of this tool describes.
    pub fn found(result: &ToolResult) -> impl Iterator<Item = &str> {
        let tools = result.data.as_ref().and_then(|data| data["tools"].as_array());
        tools.into_iter().flatten().filter_map(|tool| tool["name"].as_str())
    }

    /// The best matches that there is room for, and always the first.
    fn find(&self, query: &str) -> Vec<&ToolSpec> {
        let mut room = self.told_bytes_max;
        let mut found = Vec::new();
        for position in self.index.find(&[(query, 1.0)]) {
            let fits = room.checked_sub(self.tools.told_bytes(position));
            match fits {
                Some(left) => room = left,
                None if found.is_empty() => room = 0,
                None => continue,
            }
            found.push(self.tools.at(position));
            if found.len() == FOUND_TOOLS_MAX {
                break;
            }
        }
        found
    }

    fn answer(&self, query: &str) -> ToolResult {
        let found = self.find(query);
        if found.is_empty() {
            return ToolResult::data(json!({ "tools": [] })).with_instruction(
                "No function fits these words. Try others, in English and as a function's \
                 description would use them, or answer in words.",
            );
        }
        let tools: Vec<Value> = found.into_iter().map(describe).collect();
        ToolResult::data(json!({ "tools": tools })).with_instruction(
            "Call the function that fits, with arguments that fit its parameters.",
        )
    }
}

impl Tool for FindTools {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
        let query = arguments["query"].as_str().unwrap_or_default();
        Box::pin(future::ready(Ok(self.answer(query))))
    }
}

/// A tool as a model reads about it.
fn describe(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.told_parameters(),
    })
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: FindTools::NAME.to_owned(),
        description: "Finds functions that are not described here. Use it if none of those \
                      described fits."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "What the function should do, for example \"send an email\".",
                    "minLength": 1
                }
            },
            "required": ["query"],
            "additionalProperties": false
        }),
        waiting_hint: "looking for the right tool".to_owned(),
        policy: Policy::default(),
        source: Source::builtin(),
        ..ToolSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Registry;
    use crate::tools::registry::tests::described;

    fn finder(tools: usize, told_bytes_max: usize) -> FindTools {
        let mut registry = Registry::default();
        for n in 0..tools {
            let name = format!("mail_{n}");
            registry.add(described(&name, "Sends a mail.", json!({"type": "object"}))).unwrap();
        }
        let catalog = registry.catalog().clone();
        let index = Arc::new(Index::of(&catalog));
        FindTools::new(catalog, index, told_bytes_max)
    }

    fn found(finder: &FindTools, query: &str) -> Vec<String> {
        FindTools::found(&finder.answer(query)).map(str::to_owned).collect()
    }

    #[test]
    fn the_best_tools_are_described_in_full() {
        let finder = finder(1, 1000);
        let result = finder.answer("send mail");
        assert_eq!(
            result.data,
            Some(json!({"tools": [{
                "name": "mail_0", "description": "Sends a mail.", "parameters": {"type": "object"}
            }]}))
        );
    }

    #[test]
    fn another_tool_of_this_name_is_not_the_finder() {
        let mut registry = Registry::default();
        registry.add(described(FindTools::NAME, "", json!({"type": "object"}))).unwrap();
        assert_eq!(FindTools::position_in(registry.catalog()), None);
        let mut registry = Registry::default();
        registry.add(described("other", "", json!({"type": "object"}))).unwrap();
        registry.add(Arc::new(finder(0, 0))).unwrap();
        assert_eq!(FindTools::position_in(registry.catalog()), Some(1));
    }

    #[test]
    fn no_more_than_a_few_are_described() {
        let most: Vec<String> = (0..FOUND_TOOLS_MAX).map(|n| format!("mail_{n}")).collect();
        assert_eq!(found(&finder(FOUND_TOOLS_MAX, 1000), "mail"), most);
        assert_eq!(found(&finder(FOUND_TOOLS_MAX + 1, 1000), "mail"), most);
    }

    #[test]
    fn the_descriptions_fit_their_room_but_one_is_always_there() {
        let each = finder(1, 0).tools.told_bytes(0);
        assert_eq!(found(&finder(3, 2 * each), "mail"), ["mail_0", "mail_1"]);
        assert_eq!(found(&finder(3, 2 * each - 1), "mail"), ["mail_0"]);
        assert_eq!(found(&finder(3, 0), "mail"), ["mail_0"]);
    }

    #[test]
    fn words_that_fit_nothing_get_advice() {
        let result = finder(1, 1000).answer("weather");
        assert!(result.success && FindTools::found(&result).next().is_none());
        assert!(result.instruction_for_ai.unwrap().starts_with("No function fits"));
    }
}
