//! Calls that wait for the user's approval.

use std::sync::Arc;

use serde_json::{Value, json};
use tether::tools::{Policy, ToolResult};

use super::{RESPONSES, after, asked, body, get, id, items};
use crate::support::gateway::Setup;
use crate::support::model::call;
use crate::support::tools::Always;
use crate::support::{Gateway, Model};

/// What `wipe` returns.
const WIPED: &str = "\"wiped\":1";

fn can_wipe(setup: &mut Setup) {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let wipe = Always::new("wipe", policy, ToolResult::data(json!({"wiped": 1})));
    setup.tools.add(Arc::new(wipe)).unwrap();
}

/// A response that asks whether it may wipe.
async fn asks_to_wipe(gateway: &Gateway, model: &mut Model) -> Value {
    let wipe = body("Wipe it.", &json!({}));
    let (response, _) = asked(gateway, model, &wipe, &[&call("wipe", &json!({}))]).await;
    assert_eq!(items(&response), ["mcp_approval_request"]);
    response
}

/// The item that approves what a response asks for.
fn approval(response: &Value) -> Value {
    let id = &response["output"][0]["id"];
    json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true})
}

#[tokio::test]
async fn an_approval_lets_a_call_run() {
    let (mut model, gateway) = Gateway::with_model(can_wipe).await;
    let first = asks_to_wipe(&gateway, &mut model).await;
    let request = &first["output"][0];
    assert_eq!((&request["name"], &request["arguments"]), (&json!("wipe"), &json!("{}")));
    let answer = body(json!([approval(&first)]), &after(&first));
    let (second, told) = asked(&gateway, &mut model, &answer, &["Wiped."]).await;
    assert!(told.contains(WIPED), "{told}");
    assert_eq!(items(&second), ["mcp_call", "message"]);
    assert_eq!(second["output"][0]["approval_request_id"], request["id"]);
    assert_eq!(get(&gateway, &second).await, second);
    // What was answered once stays answered, and nothing is lost for it.
    let again = gateway.post(RESPONSES, &answer).await;
    assert_eq!(again.status(), 409, "{}", again.json());
    assert_eq!(again.json()["error"]["code"], "clarification_stale");
    let next = body("And?", &after(&second));
    let (_, told) = asked(&gateway, &mut model, &next, &["That is all."]).await;
    assert!(told.contains(WIPED), "{told}");
}

#[tokio::test]
async fn an_approved_call_runs_though_the_model_has_no_tools() {
    let (mut model, gateway) = Gateway::with_model(can_wipe).await;
    let first = asks_to_wipe(&gateway, &mut model).await;
    let mut fields = after(&first);
    fields["tool_choice"] = json!("none");
    let answer = body(json!([approval(&first)]), &fields);
    let (second, told) = asked(&gateway, &mut model, &answer, &["Wiped."]).await;
    assert!(told.contains(WIPED) && !told.contains("- wipe"), "{told}");
    assert_eq!(items(&second), ["mcp_call", "message"]);
}

#[tokio::test]
async fn an_approval_comes_with_the_whole_conversation_too() {
    let (mut model, gateway) = Gateway::with_model(can_wipe).await;
    let mut input = vec![json!({"role": "user", "content": "Wipe it."})];
    let first = body(input.clone(), &json!({}));
    let (first, _) = asked(&gateway, &mut model, &first, &[&call("wipe", &json!({}))]).await;
    let request = first["output"][0].clone();
    let answer = approval(&first);
    input.extend([request, answer.clone()]);
    let (second, told) =
        asked(&gateway, &mut model, &body(input.clone(), &json!({})), &["Wiped."]).await;
    assert!(told.contains(WIPED), "{told}");
    assert_eq!(items(&second), ["mcp_call", "message"]);
    // Nobody remembers the question of another conversation.
    let invented = vec![json!({"role": "user", "content": "Hi."}), answer];
    let (_, told) = asked(&gateway, &mut model, &body(invented, &json!({})), &["Hm."]).await;
    assert!(told.contains("Yes.") && !told.contains(WIPED), "{told}");
}

#[tokio::test]
async fn a_refused_answer_leaves_the_chain_as_it_was() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (first, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
    let mut request = id(&first).replace("resp_", "mcpr_");
    request.push_str("_1");
    let item = json!({
        "type": "mcp_approval_response", "approval_request_id": request, "approve": true,
    });
    let refused = gateway.post(RESPONSES, &body(json!([item]), &after(&first))).await;
    assert_eq!(refused.status(), 400, "{}", refused.json());
    assert_eq!(get(&gateway, &first).await, first);
    let next = body("And?", &after(&first));
    let (next, told) = asked(&gateway, &mut model, &next, &["So."]).await;
    assert!(told.contains("Ho."), "{told}");
    assert_eq!(id(&first)[..37], id(&next)[..37], "in the same session");
}

/// The user has approved it after that.
#[tokio::test]
async fn a_branch_from_before_an_approval_asks_again() {
    let (mut model, gateway) = Gateway::with_model(can_wipe).await;
    let (first, _) = asked(&gateway, &mut model, &body("Hi.", &json!({})), &["Ho."]).await;
    let wipe = &*call("wipe", &json!({}));
    let again = |previous| body("Wipe it.", &after(previous));
    let (second, _) = asked(&gateway, &mut model, &again(&first), &[wipe]).await;
    assert_eq!(items(&second), ["mcp_approval_request"]);
    // The second option: the tool may run in the whole session.
    let answer = body("2", &after(&second));
    let (third, told) = asked(&gateway, &mut model, &answer, &["Wiped."]).await;
    assert!(told.contains(WIPED), "{told}");
    let (fourth, _) = asked(&gateway, &mut model, &again(&third), &[wipe, "Wiped."]).await;
    assert_eq!(items(&fourth), ["mcp_call", "message"]);
    for previous in [&first, &third] {
        let (branch, _) = asked(&gateway, &mut model, &again(previous), &[wipe]).await;
        assert_eq!(items(&branch), ["mcp_approval_request"]);
    }
}

#[tokio::test]
async fn words_beside_an_approval_are_told() {
    let user = json!({"role": "user", "content": "But be quick."});
    for is_before in [true, false] {
        let (mut model, gateway) = Gateway::with_model(can_wipe).await;
        let first = asks_to_wipe(&gateway, &mut model).await;
        let mut input = vec![approval(&first), user.clone()];
        if is_before {
            input.reverse();
        }
        let answer = body(input, &after(&first));
        let (second, told) = asked(&gateway, &mut model, &answer, &["Wiped."]).await;
        assert_eq!(items(&second), ["mcp_call", "message"], "before: {is_before}");
        assert!(told.contains(WIPED) && told.contains("But be quick."), "{told}");
        let next = body("And?", &after(&second));
        let (_, told) = asked(&gateway, &mut model, &next, &["That is all."]).await;
        assert!(told.contains("But be quick."), "{told}");
    }
}

#[tokio::test]
async fn an_approval_that_cannot_be_one_is_refused_and_the_question_stays_open() {
    let (mut model, gateway) = Gateway::with_model(can_wipe).await;
    let first = asks_to_wipe(&gateway, &mut model).await;
    for (member, wrong) in [
        ("approval_request_id", json!("mcpr_nonsense")),
        ("approval_request_id", first["id"].clone()),
        ("approval_request_id", Value::Null),
        ("approve", json!("true")),
        ("approve", json!(1)),
        ("approve", Value::Null),
    ] {
        let mut item = approval(&first);
        item[member] = wrong;
        let refused = gateway.post(RESPONSES, &body(json!([item]), &after(&first))).await;
        assert_eq!(refused.status(), 400, "{item}");
        assert_eq!(refused.json()["error"]["param"], "input");
    }
    let answer = body(json!([approval(&first)]), &after(&first));
    let (_, told) = asked(&gateway, &mut model, &answer, &["Wiped."]).await;
    assert!(told.contains(WIPED), "{told}");
}
