//! Constraints that let a model write only valid calls; one pure file per kind.
//!
//! ```text
//!   tools, choice, format ──grammar──> GBNF ──┬── llama_grammar ───> "grammar", lazy if the server can
//!                      │                      └── structural_tag ──> "response_format": text, then calls
//!                      └────────────────────────── json_schema ────> "response_format": one call
//! ```

#[cfg(test)]
mod cases;
pub(crate) mod grammar;
mod held;
mod json_schema;
mod kept;
mod llama_grammar;
mod structural_tag;

pub(crate) use held::Held;
pub(crate) use kept::Fields;
pub(crate) use structural_tag::Form;

use serde::Serialize;
use serde_json::{Map, Value};

use self::grammar::{Besides, Callable};
use crate::call_format::Row;
use crate::upstream::models::Flavour;
use crate::upstream::{ChatRequest, ToolChoice};

/// What restricts the model of an upstream to valid calls: `upstreams[].constrain`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Constrain {
    /// What the server is known to hold to.
    #[default]
    Auto,
    /// Only the prompt.
    None,
    /// A GBNF grammar, for llama.cpp and software built on it.
    LlamaGrammar,
    /// Tags, for vLLM, `SGLang` and other servers with xgrammar.
    StructuralTag,
    /// A JSON Schema for answers that must be a call, for all others.
    JsonSchema,
}

/// What a constraint has to know of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PromptEnd {
    /// Whether the server writes the prompt itself.
    is_unknown: bool,
    /// What closes the reasoning that the prompt has begun.
    reasoning: Option<&'static str>,
}

impl PromptEnd {
    /// The end of this prompt, for a model that writes calls like this. It is empty if the server writes it.
    fn of(prompt: &str, row: &Row) -> Self {
        Self { is_unknown: prompt.is_empty(), reasoning: row.reasoning_open_in(prompt) }
    }
}

/// What a request is restricted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// See [`Constrain::LlamaGrammar`].
    LlamaGrammar,
    /// See [`Constrain::StructuralTag`].
    StructuralTag(Form),
    /// See [`Constrain::JsonSchema`].
    JsonSchema,
}

impl Constrain {
    /// All of them, with their names in the configuration.
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        ("auto", Self::Auto),
        ("none", Self::None),
        ("llama_grammar", Self::LlamaGrammar),
        ("structural_tag", Self::StructuralTag),
        ("json_schema", Self::JsonSchema),
    ];

    /// The constraint for a server of this kind.
    #[must_use]
    pub(crate) const fn on(self, flavour: Flavour) -> Option<Constraint> {
        match (self, flavour) {
            (Self::LlamaGrammar, _) | (Self::Auto, Flavour::LlamaCpp) => {
                Some(Constraint::LlamaGrammar)
            }
            (Self::StructuralTag, _) | (Self::Auto, Flavour::Vllm | Flavour::Sglang) => {
                Some(Constraint::StructuralTag(Form::Tree))
            }
            (Self::JsonSchema, _) => Some(Constraint::JsonSchema),
            (Self::None, _) | (Self::Auto, Flavour::Ollama | Flavour::Other) => None,
        }
    }
}

impl Constraint {
    /// The request fields that ask a server to hold the round's calls to the constraint. `None` if it has no words
    /// for them.
    #[must_use]
    fn request_fields(self, round: &ChatRequest, end: PromptEnd) -> Option<Map<String, Value>> {
        let ChatRequest { tools, named, tool_choice, answer, format, .. } = round;
        let answer = answer.as_deref();
        let callable = Callable { tools, named };
        match self {
            Self::LlamaGrammar => {
                let row = format.row();
                // Chat Completions ignores the request to sleep, so asking is harmless there.
                // `/completion` honours it, and then breaks the stream if a token joins the opener's
                // last character to what follows. Only an opener that is a special token is safe.
                let may_sleep = end.is_unknown || row.has_special;
                let sleeps =
                    may_sleep && *tool_choice == ToolChoice::Auto && grammar::has_trigger(row);
                let grammar = grammar::of_answers(
                    callable,
                    tool_choice,
                    format,
                    Besides { reasoning: end.reasoning, answer },
                );
                Some(llama_grammar::request_fields(grammar, sleeps.then(|| format.trigger())))
            }
            Self::StructuralTag(form) => {
                structural_tag::request_fields(callable, tool_choice, format, answer, form)
            }
            Self::JsonSchema => json_schema::request_fields(callable, tool_choice, format),
        }
    }

    /// What to ask for if a server has refused this.
    #[must_use]
    pub(crate) const fn weaker(self) -> Option<Self> {
        match self {
            Self::StructuralTag(Form::Tree) => Some(Self::StructuralTag(Form::Structures)),
            Self::LlamaGrammar | Self::StructuralTag(Form::Structures) | Self::JsonSchema => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call_format::{CallContract, CallFormat, HERMES, ROWS, Row};
    use crate::upstream::OfferedTool;

    fn fields(row: &'static Row, choice: ToolChoice, prompt: &str) -> Map<String, Value> {
        let parameters = json!({"type": "object", "properties": {}});
        let tool = OfferedTool { name: "f".to_owned(), description: String::new(), parameters };
        let round = ChatRequest {
            tools: [tool].into(),
            tool_choice: choice,
            contract: CallContract::InText(row),
            format: CallFormat::of(row),
            ..ChatRequest::default()
        };
        Constraint::LlamaGrammar.request_fields(&round, PromptEnd::of(prompt, row)).unwrap()
    }

    #[test]
    fn the_opener_wakes_a_lazy_grammar() {
        let fields = fields(&HERMES, ToolChoice::Auto, "");
        assert_eq!(fields["grammar_lazy"], true);
        assert_eq!(fields["grammar_triggers"], json!([{"type": 1, "value": "<tool_call>"}]));
        assert!(fields["grammar"].as_str().unwrap().starts_with("text-0 ::= "));
    }

    #[test]
    fn behind_a_prompt_only_a_special_opener_wakes_a_grammar() {
        for row in ROWS {
            let sleeps = fields(row, ToolChoice::Auto, "<prompt>").contains_key("grammar_lazy");
            let may_sleep = row.has_special && grammar::has_trigger(row);
            assert_eq!(sleeps, may_sleep, "{}", row.name);
        }
    }

    #[test]
    fn a_grammar_that_forces_a_call_never_sleeps() {
        for row in ROWS {
            for prompt in ["", "<prompt>"] {
                let fields = fields(row, ToolChoice::Required, prompt);
                assert_eq!(fields.keys().collect::<Vec<_>>(), ["grammar"], "{}", row.name);
            }
        }
    }
}
