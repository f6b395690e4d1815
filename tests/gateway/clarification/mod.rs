//! From a tool that needs a decision to the user's answer, over HTTP.

mod answers;
mod questions;
mod refusals;

use std::sync::Arc;

use serde_json::{Value, json};
use tether::tools::builtin::demo::{LookupContacts, SendMessage};
use tether::tools::{Clarification, ClarificationOption, Policy, ToolResult};

use crate::support::client::Reply;
use crate::support::events::outcome;
use crate::support::model::call;
use crate::support::tools::{Always, Seen, Wait, Watched};
use crate::support::{EventStream, Frame, Gateway, Model, Round};

const DOE: &str = "contact_john_doe";

/// A gateway with an address book of three Johns, and a record of the messages sent.
struct Desk {
    model: Model,
    gateway: Gateway,
    sent: Seen,
    wait: Wait,
}

impl Desk {
    async fn open() -> Self {
        let model = Model::listen();
        let (messenger, sent) = Watched::new(SendMessage::new());
        let wait = Wait::new();
        let waiting = wait.clone();
        let gateway = Gateway::with(model.address, |setup| {
            setup.tools.add(Arc::new(LookupContacts::new())).unwrap();
            setup.tools.add(Arc::new(messenger)).unwrap();
            setup.tools.add(Arc::new(waiting)).unwrap();
            let asks = Policy { may_clarify: true, ..Policy::default() };
            for (name, policy, result) in [
                ("pick_day", asks, question("text", "Which day?", &[])),
                ("pick_room", asks, question("choice_or_text", "Which room?", &["r1", "r2"])),
                // These two do not declare that they may ask, so they run at once.
                ("pick_size", Policy::default(), question("choice", "Which size?", &["s", "m"])),
                ("pick_hue", Policy::default(), question("choice", "Which hue?", &["red", "tan"])),
            ] {
                setup.tools.add(Arc::new(Always::new(name, policy, result))).unwrap();
            }
        })
        .await;
        Self { model, gateway, sent, wait }
    }

    /// Runs a turn in which the model makes these calls in one message, and which ends with a
    /// question. Returns the question.
    async fn ask(&mut self, session: &str, calls: &[String]) -> Value {
        let (mut stream, round) = self.gateway.begin(&mut self.model, session).await;
        round.answer_at_once(&calls.join("\n")).await;
        asked(&stream.rest().await)
    }

    /// Like `ask`, for the question which John is meant.
    async fn ask_which_john(&mut self, session: &str) -> Value {
        self.ask(session, &[look_up("John"), send_to(&json!({"$result": FOUND}))]).await
    }

    async fn answer(&mut self, body: &Value) -> (EventStream, Round) {
        (self.gateway.turn(body).await, self.model.round().await)
    }

    async fn session(&self, session: &str) -> Value {
        self.gateway.get(&format!("/api/v1/sessions/{session}")).await.json()
    }

    fn sent_to(&self) -> Vec<String> {
        self.sent.lock().iter().map(|to| to["contact_id"].as_str().unwrap().to_owned()).collect()
    }
}

const FOUND: &str = "call_1.data.contact_id";

fn look_up(name: &str) -> String {
    call("lookup_contacts", &json!({ "name": name }))
}

fn send_to(contact_id: &Value) -> String {
    call("send_message", &json!({"contact_id": contact_id, "text": "I'm running late"}))
}

fn question(kind: &str, question: &str, ids: &[&str]) -> ToolResult {
    let option = |id: &&str| ClarificationOption {
        id: (*id).to_owned(),
        title: format!("{id}, the nice one"),
        subtitle: None,
        confidence: None,
        metadata: None,
    };
    ToolResult::clarification(Clarification {
        r#type: kind.to_owned(),
        question: question.to_owned(),
        options: ids.iter().map(option).collect(),
        ..Clarification::default()
    })
}

/// The question that a turn ended with.
#[track_caller]
fn asked(frames: &[Frame]) -> Value {
    assert_eq!(outcome(frames), "clarification_needed", "{frames:#?}");
    let [.., asked, _] = frames else { panic!("{frames:#?}") };
    assert_eq!(asked.event, "clarification_needed");
    asked.data.clone()
}

fn option(session: &str, asked: &Value, id: &str) -> Value {
    json!({"session_id": session, "clarification_response": {
        "clarification_id": asked["clarification_id"], "selected_option": {"id": id},
    }})
}

fn text(session: &str, asked: &Value, text: &str) -> Value {
    json!({"session_id": session, "clarification_response": {
        "clarification_id": asked["clarification_id"], "text": text,
    }})
}

#[track_caller]
fn check_refusal(reply: &Reply, status: u16, code: &str, param: Option<&str>) {
    let expected = (status, code.to_owned(), param.map(str::to_owned));
    assert_eq!(reply.refusal(), expected, "{}", reply.message());
}
