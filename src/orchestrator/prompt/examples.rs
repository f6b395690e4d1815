//! Examples, which show rather than tell: whole exchanges, as turns before the session's own. They
//! show that not every message needs a call, how a call is written, what comes back, and that an
//! answer in words follows.
//!
//! Calls come last, and no words come before them: a model does what it saw last.
//! `docs/prompting.md` has the figures.

use std::iter;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::conversation::{Call, Ending, Outcome, Part, Step, Turn};
use crate::event::TurnFinish;
use crate::parser::Arguments;
use crate::tools::{Catalog, Example, ToolResult, ToolSpec};

/// How many tools are shown in use. With just one, small models call it whatever they are asked.
const TOOLS_MAX: usize = 2;

/// A greeting, and a use of the first tools that have an example, or else of a well-known one.
pub(super) fn turns(tools: &Catalog) -> Vec<Turn> {
    let greeting = turn("Hello!", vec![Part::Text("Hello! How can I help you?".to_owned())]);
    let mut uses: Vec<Turn> = tools.specs().filter_map(of_tool).take(TOOLS_MAX).collect();
    if uses.is_empty() {
        uses.push(well_known());
    }
    iter::once(greeting).chain(uses).collect()
}

fn of_tool(spec: &ToolSpec) -> Option<Turn> {
    use_of(&spec.name, spec.example.clone()?)
}

fn well_known() -> Turn {
    let example = Example {
        question: "how is the weather in Tokyo?".to_owned(),
        arguments: json!({ "city": "Tokyo" }),
        result: json!({ "city": "Tokyo", "condition": "cloudy", "temperature_c": 17 }),
        answer: "It is cloudy in Tokyo, at 17 °C.".to_owned(),
    };
    use_of("get_weather", example).expect("its arguments are an object")
}

/// `None` if the arguments are not an object: no call could have them.
fn use_of(name: &str, example: Example) -> Option<Turn> {
    let Example { question, arguments, result, answer } = example;
    let call = Call {
        call_id: "call_0".to_owned(),
        name: name.to_owned(),
        arguments: Arguments::parse(&spaced(&arguments)).ok()?,
        resolved_arguments: None,
        outcome: Outcome::Ended(ToolResult::data(result)),
    };
    let mut turn = turn(&question, vec![Part::Call(Arc::new(call))]);
    turn.steps.push(step(vec![Part::Text(answer)]));
    Some(turn)
}

fn turn(prompt: &str, parts: Vec<Part>) -> Turn {
    Turn {
        prompt: prompt.to_owned(),
        steps: vec![step(parts)],
        ending: Some(Ending::Completed(TurnFinish::Stop)),
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
