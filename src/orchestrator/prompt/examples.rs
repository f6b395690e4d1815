//! What is shown instead of told: whole exchanges, as turns that come before the session's
//! own. In them a model sees how a call is written, what comes back, that an answer in words
//! follows, and that not every message needs a call.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::conversation::{Call, Ending, Outcome, Part, Step, Turn, Utterance, UtteranceKind};
use crate::event::{AcknowledgementSource, TurnFinish};
use crate::orchestrator::hints;
use crate::parser::Arguments;
use crate::tools::{Example, Registry, ToolResult, ToolSpec};

/// The exchanges of the first tool that brings an example, or of one that everybody knows.
pub(super) fn turns(tools: &Registry) -> Vec<Turn> {
    let shown = tools.specs().find_map(of_tool).unwrap_or_else(well_known);
    let thanks = turn("Thank you!", vec![Part::Text("You're welcome!".to_owned())]);
    vec![use_of(shown), thanks]
}

/// A tool's use, with the sentence that the user hears before it runs.
struct Shown {
    name: String,
    acknowledgement: Option<String>,
    example: Example,
}

fn of_tool(spec: &ToolSpec) -> Option<Shown> {
    let acknowledgement = hints::sentence([&*spec.waiting_hint].into_iter());
    Some(Shown { name: spec.name.clone(), acknowledgement, example: spec.example.clone()? })
}

fn well_known() -> Shown {
    let example = Example {
        question: "how is the weather in Tokyo?".to_owned(),
        arguments: json!({ "city": "Tokyo" }),
        result: json!({ "city": "Tokyo", "condition": "cloudy", "temperature_c": 17 }),
        answer: "It is cloudy in Tokyo, at 17 °C.".to_owned(),
    };
    let acknowledgement = Some("Looking up the weather.".to_owned());
    Shown { name: "get_weather".to_owned(), acknowledgement, example }
}

fn use_of(Shown { name, acknowledgement, example }: Shown) -> Turn {
    let Example { question, arguments, result, answer } = example;
    let call = Call {
        call_id: "call_0".to_owned(),
        name,
        arguments: Arguments::parse(&spaced(&arguments)).expect("a JSON object"),
        resolved_arguments: None,
        outcome: Outcome::Ended(ToolResult::data(result)),
    };
    // As the running turn has it in front of a call: a model that sees the sentence in one
    // of them alone calls again instead of answering.
    let said = acknowledgement.map(|text| {
        let kind = UtteranceKind::Acknowledgement(AcknowledgementSource::Hints);
        Part::Said(Utterance { kind, text, tools: Vec::new(), at_ms: 0 })
    });
    let call = Part::Call(Arc::new(call));
    let mut turn = turn(&question, said.into_iter().chain([call]).collect());
    turn.steps.push(step(vec![Part::Text(answer)]));
    turn
}

fn turn(prompt: &str, parts: Vec<Part>) -> Turn {
    Turn {
        prompt: prompt.to_owned(),
        steps: vec![step(parts)],
        ending: Ending::Completed(TurnFinish::Stop),
        ..Turn::default()
    }
}

fn step(parts: Vec<Part>) -> Step {
    Step { parts, ..Step::default() }
}

/// A flat object with a space after each colon and comma, as models write it.
fn spaced(arguments: &Value) -> String {
    let Value::Object(object) = arguments else { return arguments.to_string() };
    let members =
        object.iter().map(|(key, value)| format!("{}: {value}", Value::from(key.as_str())));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}
