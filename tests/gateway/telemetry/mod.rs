//! What operators see of a turn: its metrics and its log lines.

mod counts;
mod logs;
mod metrics;
mod otlp;
mod stderr;

use serde_json::{Value, json};

use crate::support::model::{call, finish, text};
use crate::support::process::Process;
use crate::support::{Frame, Model};

/// The configuration of a gateway process with a scripted model.
fn config(model: &Model) -> String {
    format!(
        "upstreams: [{{name: model, base_url: \"http://{}/v1\", model: m}}]\n\
         limits: {{max_calls_per_turn: 4, max_tool_loops: 3}}\n\
         tools: {{demo: true}}",
        model.address
    )
}

/// One turn in which the model gives these answers in order.
async fn turn(gateway: &Process, model: &mut Model, body: &Value, script: &[&str]) -> Vec<Frame> {
    let mut stream = gateway.turn(body).await;
    for answer in script {
        let answer = text(answer) + &finish("stop") + crate::support::model::DONE;
        model.round().await.answer_with(&answer).await;
    }
    stream.rest().await
}

fn prompt(session: &str) -> Value {
    json!({"session_id": session, "prompt": "Hello?"})
}

fn choice(session: &str, asked: &[Frame], id: &str) -> Value {
    let asked = asked.iter().find(|frame| frame.event == "clarification_needed").unwrap();
    json!({"session_id": session, "clarification_response": {
        "clarification_id": asked.data["clarification_id"], "selected_option": {"id": id},
    }})
}

fn sum(n: u32) -> String {
    call("calculate", &json!({ "expression": format!("{n}+1") }))
}

fn look_up_and_send() -> String {
    let found = json!({"$result": "call_1.data.contact_id"});
    [
        call("lookup_contacts", &json!({"name": "John"})),
        call("send_message", &json!({"contact_id": found, "text": "I'm late"})),
    ]
    .join("\n")
}

fn send() -> String {
    call("send_message", &json!({"contact_id": "contact_john_doe", "text": "I'm late"}))
}
