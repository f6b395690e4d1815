//! Responses that continue others.

use serde_json::{Value, json};
use tether::limits::server::BODY_DEPTH_MAX;

use super::{CALCULATE, FOUND, RESPONSES, after, asked, body, id, items, open, path};
use crate::support::Gateway;
use crate::support::client::post;
use crate::support::model::call;

fn open_file() -> Value {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    json!({"tools": [{"type": "function", "name": "open_file", "parameters": parameters}]})
}

#[tokio::test]
async fn a_chain_knows_what_was_hidden_and_goes_on_in_one_session() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let first = body("What is 6*7?", &json!({"instructions": "Speak like a pirate."}));
    let (first, told) = asked(&gateway, &mut model, &first, &[CALCULATE, "It is 42."]).await;
    assert!(told.contains("Speak like a pirate."), "{told}");
    let second = body("Sure?", &after(&first));
    let (second, told) = asked(&gateway, &mut model, &second, &["Aye."]).await;
    assert!(told.contains(FOUND) && told.contains("Sure?"), "{told}");
    assert!(!told.contains("pirate"), "instructions are for one response");
    assert_eq!(second["previous_response_id"], first["id"]);
    assert_eq!(gateway.running.gateway().memory_usage().sessions, 1);
    assert_eq!(id(&first)[..37], id(&second)[..37], "the root is the same");
}

#[tokio::test]
async fn two_children_of_one_response_know_nothing_of_each_other() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let root = body("My name is Ann.", &json!({}));
    let (root, _) = asked(&gateway, &mut model, &root, &["Hello Ann."]).await;
    let one = body("I like crimson.", &after(&root));
    let (one, _) = asked(&gateway, &mut model, &one, &["Crimson it is."]).await;
    let two = body("I like azure.", &after(&root));
    let (two, told) = asked(&gateway, &mut model, &two, &["Azure it is."]).await;
    assert!(told.contains("Ann") && !told.contains("crimson"), "{told}");
    assert_ne!(id(&two)[..37], id(&root)[..37], "a branch is a chain of its own");
    for (child, colour, other) in [(&one, "crimson", "azure"), (&two, "azure", "crimson")] {
        let last = body("Which?", &after(child));
        let (_, told) = asked(&gateway, &mut model, &last, &["That one."]).await;
        assert!(told.contains("Ann") && told.contains(colour) && !told.contains(other), "{told}");
    }
}

/// Some clients send the call again, beside its output.
#[tokio::test]
async fn a_call_that_is_repeated_with_its_output_is_told_once() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let first = body("Open it.", &open_file());
    let call = call("open_file", &json!({"path": "a"}));
    let (first, _) = asked(&gateway, &mut model, &first, &[&call]).await;
    let call = &first["output"][0];
    let output =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "Milk."});
    let mut more = open_file();
    more["previous_response_id"] = first["id"].clone();
    let next = body(json!([call, output]), &more);
    let (next, told) = asked(&gateway, &mut model, &next, &["Done."]).await;
    assert_eq!(next["output"][0]["content"][0]["text"], "Done.");
    for words in ["Open it.", "Milk."] {
        assert_eq!(told.matches(words).count(), 1, "{told}");
    }
}

#[tokio::test]
async fn instructions_that_come_with_each_request_are_told_once() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let said = |words| json!([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": words}]);
    let first = body(said("Hello?"), &json!({}));
    let (mut last, _) = asked(&gateway, &mut model, &first, &["Yes."]).await;
    for words in ["Really?", "And now?"] {
        let next = body(said(words), &after(&last));
        let (next, told) = asked(&gateway, &mut model, &next, &["Yes."]).await;
        assert_eq!(told.matches("Be brief.").count(), 1, "{told}");
        last = next;
    }
}

#[tokio::test]
async fn outputs_of_the_clients_tools_continue_the_response_again_and_again() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let both = format!("{CALCULATE} {}", call("open_file", &json!({"path": "a"})));
    let first = body("Open it.", &open_file());
    let (first, _) = asked(&gateway, &mut model, &first, &[&both]).await;
    assert_eq!(items(&first), ["mcp_call", "function_call"]);
    let output = |text: &str| {
        let call_id = &first["output"][1]["call_id"];
        let item = json!({"type": "function_call_output", "call_id": call_id, "output": text});
        let mut more = open_file();
        more["previous_response_id"] = first["id"].clone();
        body(json!([item]), &more)
    };
    // The second time, the turn that waited has been continued, and is restored.
    for text in ["Buy milk.", "Buy eggs."] {
        let (next, told) = asked(&gateway, &mut model, &output(text), &["Done."]).await;
        assert!(told.contains(FOUND) && told.contains(text), "{told}");
        assert!(!(told.contains("milk") && told.contains("eggs")), "{told}");
        assert_eq!(next["output"][0]["content"][0]["text"], "Done.");
    }
}

/// The first message puts the output into the turn that waited for it.
#[tokio::test]
async fn outputs_beside_a_message_can_be_sent_again_and_again() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let call = call("open_file", &json!({"path": "a"}));
    let (first, _) = asked(&gateway, &mut model, &body("Open it.", &open_file()), &[&call]).await;
    let next = |output: &str| {
        let call_id = &first["output"][0]["call_id"];
        let output = json!({"type": "function_call_output", "call_id": call_id, "output": output});
        body(json!([output, {"role": "user", "content": "And?"}]), &after(&first))
    };
    for (output, other) in [("Buy milk.", "eggs"), ("Buy eggs.", "milk")] {
        let (_, told) = asked(&gateway, &mut model, &next(output), &["Done."]).await;
        assert!(told.contains(output) && !told.contains(other), "{told}");
    }
}

/// As after a lost answer. What the client put before its message is no turn of the session.
#[tokio::test]
async fn a_chain_that_begins_with_a_history_is_repeated_by_its_key() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let items = json!([
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Ho."},
        {"role": "user", "content": "And?"},
    ]);
    let body = body(items, &json!({})).to_string();
    let key = "Idempotency-Key: k";
    let mut client = gateway.client().await;
    client.send(post(RESPONSES, &[key], &body)).await;
    model.round().await.answer("Yes.").await;
    let first = client.reply().await.json();
    let again = gateway.exchange(post(RESPONSES, &[key], &body)).await.json();
    assert_eq!(first["id"], again["id"]);
}

/// What the client puts between the response and its next message is not a turn of the session.
#[tokio::test]
async fn words_of_the_assistant_may_come_before_the_next_message() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (mut last, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
    for words in ["One.", "Two."] {
        let items = json!([
            {"role": "user", "content": "Your turn."},
            {"role": "assistant", "content": "I passed."},
            {"role": "user", "content": words},
        ]);
        let (next, told) =
            asked(&gateway, &mut model, &body(items, &after(&last)), &["Yes."]).await;
        assert!(told.contains("I passed.") && told.contains(words), "{told}");
        assert_eq!(id(&next)[..37], id(&last)[..37], "the chain goes on");
        last = next;
    }
}

#[tokio::test]
async fn a_second_child_does_not_wait_for_the_first() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (root, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
    let mut more = after(&root);
    more["stream"] = true.into();
    let mut first = open(&gateway, &body("One.", &more)).await;
    let round = model.round().await;
    let two = body("Two.", &after(&root));
    let (second, told) = asked(&gateway, &mut model, &two, &["2."]).await;
    assert!(!told.contains("One."), "{told}");
    assert_ne!(id(&second)[..37], id(&root)[..37]);
    round.answer("1.").await;
    assert_eq!(first.reply().await.status(), 200);
}

#[tokio::test]
async fn instructions_among_the_items_hold_for_the_whole_chain() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let developer = |text: &str| json!({"role": "developer", "content": text});
    let user = json!({"role": "user", "content": "Hi."});
    let root = body(json!([developer("Be brief."), user]), &json!({"instructions": "Rhyme."}));
    let (root, told) = asked(&gateway, &mut model, &root, &["Ho."]).await;
    assert!(told.contains("Be brief.") && told.contains("Rhyme."), "{told}");
    let next = body(json!([developer("Be kind."), user]), &after(&root));
    let (next, told) = asked(&gateway, &mut model, &next, &["Ho."]).await;
    assert!(told.contains("Be brief.\n\nBe kind."), "{told}");
    assert!(!told.contains("Rhyme."), "{told}");
    for (parent, is_kind) in [(&next, true), (&root, false)] {
        let (_, told) = asked(&gateway, &mut model, &body("And?", &after(parent)), &["Ho."]).await;
        assert!(told.contains("Be brief."), "{told}");
        assert_eq!(told.contains("Be kind."), is_kind, "{told}");
    }
}

/// Both found the parent as the latest of its session. Only one of them can go on there.
#[tokio::test]
async fn children_at_the_same_time_all_begin() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    for _ in 0..8 {
        let (root, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
        let child = body("And?", &after(&root));
        let post = || gateway.post(RESPONSES, &child);
        let answers = async {
            let rounds = [model.round().await, model.round().await, model.round().await];
            for round in rounds {
                round.answer("So.").await;
            }
        };
        let (one, two, three, ()) = tokio::join!(post(), post(), post(), answers);
        for child in [one, two, three] {
            assert_eq!(child.status(), 200, "{}", child.json());
        }
    }
}

#[tokio::test]
async fn a_response_that_runs_cannot_be_continued_yet() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let queued = gateway.post(RESPONSES, &body("Hi.", &json!({"background": true}))).await.json();
    let round = model.round().await;
    let refused = gateway.post(RESPONSES, &body("And?", &after(&queued))).await;
    assert_eq!(refused.status(), 409);
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains(id(&queued)));
    round.answer("Ho.").await;
}

/// Whatever a body may hold, its session can still be read.
#[tokio::test]
async fn a_chain_with_the_deepest_body_goes_on() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let nested = |levels: usize| (1..levels).fold(json!([]), |inner, _| json!([inner]));
    // The body and the metadata are levels too.
    let deepest = |levels: usize| body("Hi.", &json!({"metadata": {"a": nested(levels - 2)}}));
    let deep = deepest(BODY_DEPTH_MAX);
    let answering = async { model.round().await.answer("Ho.").await };
    let (first, ()) = tokio::join!(gateway.post(RESPONSES, &deep), answering);
    assert_eq!(first.status(), 200);
    let text = String::from_utf8(first.body).unwrap();
    let first = json!({"id": text.split('"').find(|it| it.starts_with("resp_"))});
    assert_eq!(gateway.get(&path(&first)).await.status(), 200);
    let deep = json!({"type": "x", "a": nested(BODY_DEPTH_MAX - 3)});
    let items = json!([{"role": "user", "content": "And?"}, deep]);
    let (next, told) = asked(&gateway, &mut model, &body(items, &after(&first)), &["So."]).await;
    assert!(told.contains("Ho."), "{told}");
    assert_eq!(gateway.get(&path(&next)).await.status(), 200);
    let refused = gateway.post(RESPONSES, &deepest(BODY_DEPTH_MAX + 1)).await;
    assert_eq!(refused.status(), 400);
}
