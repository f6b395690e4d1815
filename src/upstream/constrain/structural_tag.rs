//! `constrain: structural_tag`: free text up to an opener and valid calls after it, for vLLM, `SGLang`
//! and other servers with xgrammar.
//!
//! ```text
//!   {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<tool_call>"],
//!     "tags": [{"begin": "<tool_call>", "content": the grammar of calls, "end": ""}]}}
//! ```
//! The calls are described by the same grammar as for llama.cpp, in which white space is bounded:
//! xgrammar's own reading of JSON Schema lets models write blanks without end.
//!
//! Sources: xgrammar, `docs/structural_tag`; vLLM and `SGLang`, `response_format`.

use serde_json::{Map, Value, json};

use super::grammar::{self, Besides, Callable};
use crate::call_format::{Body, CallFormat};
use crate::upstream::ToolChoice;

/// Which words a server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A tree of formats: xgrammar 0.1.25 and later.
    Tree,
    /// A list of structures, each with a JSON Schema: `SGLang` before that.
    Structures,
}

/// The request fields that restrict a server to these calls. `None` if the form has no words for them.
#[must_use]
pub(super) fn request_fields(
    callable: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
    answer: Option<&Value>,
    form: Form,
) -> Option<Map<String, Value>> {
    let tag = match form {
        Form::Tree => {
            let tree = tree(callable, choice, format, answer);
            json!({"type": "structural_tag", "format": tree})
        }
        Form::Structures => structures(callable, choice, format)?,
    };
    Some(Map::from_iter([("response_format".to_owned(), tag)]))
}

/// What an answer may be.
pub(super) fn tree(
    callable: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
    answer: Option<&Value>,
) -> Value {
    let is_addressed = format.row().header.is_some() && *choice != ToolChoice::Auto;
    if is_addressed || !grammar::has_trigger(format.row()) {
        let grammar =
            grammar::of_answers(callable, choice, format, Besides { answer, ..Besides::default() });
        return json!({"type": "grammar", "grammar": grammar});
    }
    let (trigger, calls) = (format.trigger(), grammar::of_calls(callable, choice, format));
    let content = json!({"type": "grammar", "grammar": calls});
    let tag = json!({"type": "tag", "begin": trigger, "content": content, "end": ""});
    match choice {
        // After the calls of a message, the model must stop, or it goes on and invents results.
        ToolChoice::Auto => json!({
            "type": "triggered_tags", "triggers": [trigger], "tags": [tag],
            "at_least_one": false, "stop_after_first": true,
        }),
        ToolChoice::Required | ToolChoice::Named(_) => tag,
    }
}

/// The same in the older form: one structure for each tool. It knows JSON alone, and cannot force a
/// call.
fn structures(callable: Callable<'_>, choice: &ToolChoice, format: &CallFormat) -> Option<Value> {
    let row = format.row();
    let is_object = matches!(row.body, Body::Json(_) | Body::Arguments);
    if !is_object || row.frame.is_some() || row.is_array || !grammar::has_trigger(row) {
        return None;
    }
    if *choice != ToolChoice::Auto {
        return None;
    }
    let structures = callable.tools.iter().map(|tool| {
        let mut call = String::new();
        format.push_call(&mut call, &tool.name, ARGUMENTS);
        let (begin, end) = call.split_once(ARGUMENTS)?;
        Some(json!({"begin": begin, "schema": tool.parameters, "end": end.trim_end()}))
    });
    let structures = structures.collect::<Option<Vec<_>>>()?;
    Some(json!({
        "type": "structural_tag", "structures": structures, "triggers": [format.opener()],
    }))
}

/// Stands in for the arguments of a call.
const ARGUMENTS: &str = "{\"\": 0}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_format::{HERMES, MARKER_JSON, ROWS, Row};
    use crate::upstream::OfferedTool;

    fn tools() -> [OfferedTool; 1] {
        let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        [OfferedTool { name: "f".to_owned(), description: String::new(), parameters }]
    }

    fn fields(row: &'static Row, choice: &ToolChoice, form: Form) -> Option<Value> {
        let callable = Callable { tools: &tools(), named: &[] };
        let fields = request_fields(callable, choice, &CallFormat::of(row), None, form)?;
        Some(fields["response_format"].clone())
    }

    #[test]
    fn text_is_free_up_to_the_opener() {
        let tag = fields(&HERMES, &ToolChoice::Auto, Form::Tree).unwrap();
        assert_eq!(tag["type"], "structural_tag");
        let format = &tag["format"];
        assert_eq!(format["triggers"], json!(["<tool_call>"]));
        assert_eq!(format["tags"][0]["begin"], "<tool_call>");
        let grammar = format["tags"][0]["content"]["grammar"].as_str().unwrap();
        assert!(grammar.starts_with("root ::= calls\n"), "{grammar}");
        assert_eq!(
            (&format["at_least_one"], &format["stop_after_first"]),
            (&json!(false), &json!(true))
        );
    }

    #[test]
    fn a_call_that_is_required_comes_first() {
        let tag = fields(&HERMES, &ToolChoice::Required, Form::Tree).unwrap();
        assert_eq!(
            (&tag["format"]["type"], &tag["format"]["begin"]),
            (&json!("tag"), &json!("<tool_call>"))
        );
    }

    #[test]
    fn a_format_without_a_trigger_is_a_grammar() {
        for row in ROWS.iter().filter(|row| !grammar::has_trigger(row)) {
            assert_eq!(fields(row, &ToolChoice::Auto, Form::Structures), None, "{}", row.name);
            let tag = fields(row, &ToolChoice::Auto, Form::Tree).unwrap();
            assert_eq!(tag["format"]["type"], "grammar", "{}", row.name);
        }
    }

    #[test]
    fn the_older_form_has_a_structure_for_each_tool() {
        let tag = fields(&MARKER_JSON, &ToolChoice::Auto, Form::Structures).unwrap();
        let begin = "<<function_call>> {\"name\": \"f\", \"arguments\": ";
        let schema = &tools()[0].parameters;
        assert_eq!(
            tag,
            json!({
                "type": "structural_tag", "triggers": ["<<function_call>>"],
                "structures": [{"begin": begin, "schema": schema, "end": "}"}],
            })
        );
        let hermes = fields(&HERMES, &ToolChoice::Auto, Form::Structures).unwrap();
        assert_eq!(hermes["structures"][0]["end"], "}\n</tool_call>");
        assert_eq!(fields(&HERMES, &ToolChoice::Required, Form::Structures), None);
        let tagged = Row::named("qwen3_coder").unwrap();
        assert_eq!(fields(tagged, &ToolChoice::Auto, Form::Structures), None);
    }
}
