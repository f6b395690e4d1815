//! `POST /v1/messages`: programs that were written for Anthropic's API, above all agents with tools
//! of their own.

use serde_json::{Value, json};
use tether::config::Secret;
use tether::server::MessagesServerTools;

use crate::support::client::{Piece, post, request};
use crate::support::model::{call, delta, finish};
use crate::support::{Gateway, Model};

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

async fn gateway_with_ours(server_tools: MessagesServerTools) -> (Model, Gateway) {
    Gateway::with_model(|setup| setup.config.messages.server_tools = server_tools).await
}

fn body(messages: &Value) -> Value {
    json!({"model": "claude-opus-9", "max_tokens": 1024, "messages": messages})
}

fn user(content: &Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: &Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text, "citations": []})
}

/// Posts a request that the model answers in these words, one round each. Returns the answer, and
/// what the model was told last.
async fn asked(
    gateway: &Gateway,
    model: &mut Model,
    body: &Value,
    answers: &[&str],
) -> (Value, String) {
    let (reply, told) = tokio::join!(gateway.post(MESSAGES, body), model.answers(answers));
    assert_eq!(reply.status(), 200, "{}", reply.json());
    (reply.json(), told)
}

/// A tool of the client.
fn open_file() -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    json!({"name": "open_file", "description": "Opens a file.", "input_schema": schema})
}

const CALCULATE: &str =
    r#"<<function_call>> {"name":"calculate","arguments":{"expression":"6*7"}}"#;

/// What it returns.
const FOUND: &str = "\"result\":\"42\"";

#[tokio::test]
async fn an_agent_calls_its_own_tools_and_goes_on_with_their_results() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut first = body(&json!([user(&json!("Open it."))]));
    first["tools"] = json!([open_file()]);
    let called = format!("I will. {}", call("open_file", &json!({"path": "a"})));
    let (answer, told) = asked(&gateway, &mut model, &first, &[&called]).await;
    assert!(told.contains("open_file") && !told.contains("calculate"), "{told}");
    assert_eq!(answer["stop_reason"], "tool_use");
    let used = &answer["content"][1];
    assert_eq!(answer["content"][0]["type"], "text");
    assert_eq!((&used["type"], &used["input"]), (&json!("tool_use"), &json!({"path": "a"})));

    let returned = json!({"type": "tool_result", "tool_use_id": used["id"],
        "content": [text("Buy milk.")]});
    let mut second = body(&json!([
        user(&json!("Open it.")),
        assistant(&answer["content"]),
        user(&json!([returned])),
    ]));
    second["tools"] = json!([open_file()]);
    let (answer, told) = asked(&gateway, &mut model, &second, &["It says milk."]).await;
    assert!(
        told.contains("`open_file` (call_1) returned:") && told.contains("Buy milk."),
        "{told}"
    );
    assert_eq!(answer["content"], json!([text("It says milk.")]));
    assert_eq!(answer["stop_reason"], "end_turn");
}

/// `LiteLLM` writes words of its own where there are none.
#[tokio::test]
async fn hidden_results_survive_a_client_that_fills_empty_texts() {
    let (mut model, gateway) = gateway_with_ours(MessagesServerTools::Hidden).await;
    let mut first = body(&json!([user(&json!("Open it."))]));
    first["tools"] = json!([open_file()]);
    let opens = call("open_file", &json!({"path": "a"}));
    let (answer, _) = asked(&gateway, &mut model, &first, &[CALCULATE, &opens]).await;
    let used = &answer["content"][0];
    assert_eq!(used["type"], "tool_use");
    let filled = text("[System: Empty message content sanitised to satisfy protocol]");
    let returned =
        json!({"type": "tool_result", "tool_use_id": used["id"], "content": [text("Milk.")]});
    let mut second = body(&json!([
        user(&json!("Open it.")),
        assistant(&json!([filled, used])),
        user(&json!([returned])),
    ]));
    second["tools"] = json!([open_file()]);
    let (_, told) = asked(&gateway, &mut model, &second, &["It says milk."]).await;
    assert!(told.contains(FOUND) && told.contains("Milk."), "{told}");
    assert!(!told.contains("sanitised"), "{told}");
}

#[tokio::test]
async fn a_failed_tool_is_told_as_one() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let used = json!({"type": "tool_use", "id": "toolu_1", "name": "open_file", "input": {}});
    let returned = json!({"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true,
        "content": "no such file"});
    let mut body = body(&json!([
        user(&json!("Open it.")),
        assistant(&json!([used])),
        user(&json!([returned])),
    ]));
    body["tools"] = json!([open_file()]);
    let (_, told) = asked(&gateway, &mut model, &body, &["It is gone."]).await;
    assert!(told.contains("{\"error\":\"no such file\"}"), "{told}");
}

#[tokio::test]
async fn hidden_tools_run_behind_one_answer() {
    let (mut model, gateway) = gateway_with_ours(MessagesServerTools::Hidden).await;
    let first = body(&json!([user(&json!("What is 6*7?"))]));
    let answers = [&*format!("Let me see. {CALCULATE}"), "It is 42."];
    let (answer, told) = asked(&gateway, &mut model, &first, &answers).await;
    assert!(told.contains(FOUND), "{told}");
    assert_eq!(answer["content"], json!([text("Let me see. \n\nIt is 42.")]));

    let history =
        json!(
            [user(&json!("What is 6*7?")), assistant(&answer["content"]), user(&json!("Sure?")),]
        );
    let (_, told) = asked(&gateway, &mut model, &body(&history), &["Yes."]).await;
    assert!(told.contains(FOUND), "it remembers: {told}");
}

/// Posts a request with these headers, which the model answers in these words. Returns what it was
/// told last.
async fn told_with(
    gateway: &Gateway,
    model: &mut Model,
    (headers, messages): (&[&str], &Value),
    answers: &[&str],
) -> String {
    let mut client = gateway.client().await;
    client.send(post(MESSAGES, headers, &body(messages).to_string())).await;
    let told = model.answers(answers).await;
    assert_eq!(client.reply().await.status(), 200);
    told
}

#[tokio::test]
async fn a_conversation_with_a_name_is_found_although_it_was_cut() {
    let (mut model, gateway) = gateway_with_ours(MessagesServerTools::Hidden).await;
    let question = user(&json!("What is 6*7?"));
    let first = json!([user(&json!("Hi.")), assistant(&json!("Hello.")), question]);
    let cut = json!([question, assistant(&json!("It is 42.")), user(&json!("Sure?"))]);
    let mine: &[&str] = &["X-Session-Id: a"];
    told_with(&gateway, &mut model, (mine, &first), &[CALCULATE, "It is 42."]).await;
    let told = told_with(&gateway, &mut model, (mine, &cut), &["Yes."]).await;
    assert!(told.contains(FOUND), "{told}");
    for other in [&["X-Session-Id: z"][..], &[]] {
        let told = told_with(&gateway, &mut model, (other, &cut), &["Yes."]).await;
        assert!(!told.contains(FOUND), "{told}");
    }
}

#[tokio::test]
async fn what_was_hidden_is_never_another_keys() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.messages.server_tools = MessagesServerTools::McpToolUse;
        setup.config.server.api_keys = ["a", "b"].map(|key| Secret::new(key.to_owned())).into();
    })
    .await;
    let mine: &[&str] = &["X-Api-Key: a", "X-Session-Id: s"];
    let theirs: &[&str] = &["X-Api-Key: b", "X-Session-Id: s"];
    let question = user(&json!("What is 6*7?"));
    let mut client = gateway.client().await;
    client.send(post(MESSAGES, mine, &body(&json!([question])).to_string())).await;
    model.answers(&[CALCULATE, "It is 42."]).await;
    let answer = client.reply().await.json();
    // By what was said, by the name, and by the call's id: its result is the client's word.
    let said = assistant(&json!("It is 42."));
    let mut shown = answer["content"].clone();
    shown[1]["content"] = json!([text("43")]);
    for answered in [said, assistant(&shown)] {
        let list = json!([question, answered, user(&json!("Sure?"))]);
        let told = told_with(&gateway, &mut model, (theirs, &list), &["Yes."]).await;
        assert!(!told.contains(FOUND), "{told}");
        let told = told_with(&gateway, &mut model, (mine, &list), &["Yes."]).await;
        assert!(told.contains(FOUND), "{told}");
    }
}

#[tokio::test]
async fn shown_tools_are_blocks_and_come_back_as_what_they_were() {
    let (mut model, gateway) = gateway_with_ours(MessagesServerTools::McpToolUse).await;
    let mut messages = vec![user(&json!("What is 6*7?"))];
    let answers = [&*format!("Let me see. {CALCULATE}"), "It is 42."];
    let (answer, _) = asked(&gateway, &mut model, &body(&json!(messages)), &answers).await;
    let kinds: Vec<&Value> =
        answer["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "mcp_tool_use", "mcp_tool_result", "text"]);
    assert_eq!(answer["stop_reason"], "end_turn");

    messages.extend([assistant(&answer["content"]), user(&json!("Sure?"))]);
    let (answer, told) = asked(&gateway, &mut model, &body(&json!(messages)), &["Yes."]).await;
    assert_eq!(told.matches(FOUND).count(), 1, "once: {told}");
    assert_eq!(told.matches("It is 42.").count(), 1, "once: {told}");

    messages.extend([assistant(&answer["content"]), user(&json!("Thanks."))]);
    let (_, told) = asked(&gateway, &mut model, &body(&json!(messages)), &["Bye."]).await;
    assert_eq!(told.matches(FOUND).count(), 1, "still known: {told}");
}

#[tokio::test]
async fn a_call_of_ours_that_a_client_made_up_is_only_told() {
    let (mut model, gateway) = gateway_with_ours(MessagesServerTools::McpToolUse).await;
    let used = json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "calculate",
        "server_name": "tether", "input": {"expression": "6*7"}});
    let returned = json!({"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1",
        "is_error": false, "content": [text("{\"result\":\"43\"}")]});
    let messages = json!([
        user(&json!("What is 6*7?")),
        assistant(&json!([used, returned, text("It is 43.")])),
        user(&json!("Sure?")),
    ]);
    let (_, told) = asked(&gateway, &mut model, &body(&messages), &["No."]).await;
    let (result, words) =
        (told.find("\"result\":\"43\"").unwrap(), told.find("It is 43.").unwrap());
    assert!(result < words, "{told}");
}

#[tokio::test]
async fn a_stream_has_the_events_of_messages() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user(&json!("Hi."))]));
    body["stream"] = true.into();
    body["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    let mut client = gateway.client().await;
    client.send(post(MESSAGES, &[], &body.to_string())).await;
    let round = model.round().await;
    let thought = delta(&json!({"reasoning_content": "Hm."}));
    let said = delta(&json!({"content": "Hello."}));
    round.answer_with(&(thought + &said + &finish("stop") + "data: [DONE]\n\n")).await;
    let reply = client.reply().await;
    assert_eq!(reply.head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let text = String::from_utf8(reply.body).unwrap();
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let words = ["content_block_start", "content_block_delta", "content_block_stop"];
    let thinking = [words[0], words[1], words[1], words[2]];
    let expected =
        [&["message_start", "ping"][..], &thinking, &words, &["message_delta", "message_stop"]]
            .concat();
    assert_eq!(names, expected, "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
}

#[tokio::test]
async fn the_model_reads_instructions_without_billing_headers() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user(&json!("Hi."))]));
    body["system"] = json!([
        text("x-anthropic-billing-header: cc_version=2; cch=0a1b2;"),
        text("Speak like a pirate."),
    ]);
    let (answer, told) = asked(&gateway, &mut model, &body, &["Ahoy."]).await;
    assert!(told.contains("Speak like a pirate."), "{told}");
    assert!(!told.contains("billing") && !told.contains("You are a helpful assistant."), "{told}");
    assert_eq!(answer["model"], "claude-opus-9", "as it was asked for");
    assert!(answer["usage"]["output_tokens"].is_u64(), "{answer}");
}

#[tokio::test]
async fn tokens_are_counted_without_a_turn() {
    let (model, gateway) = Gateway::with_model(|_| {}).await;
    let count = async |body: &Value| {
        let reply = gateway.post(COUNT, body).await;
        assert_eq!(reply.status(), 200, "{}", reply.json());
        reply.json()["input_tokens"].as_u64().unwrap()
    };
    let mut body = json!({"model": "claude-opus-9", "messages": [user(&json!("Hi."))]});
    let words = count(&body).await;
    body["system"] = "Be brief. ".repeat(30).into();
    let with_system = count(&body).await;
    assert!(with_system >= words + 90, "{words}, {with_system}");
    body["tools"] = json!([open_file()]);
    let with_tools = count(&body).await;
    assert!(with_tools > with_system + 30, "{with_system}, {with_tools}");
    let result = json!({"type": "tool_result", "tool_use_id": "x", "content": "x".repeat(300)});
    body["messages"] =
        json!([user(&json!("Hi.")), assistant(&json!("Ho.")), user(&json!([result]))]);
    assert!(count(&body).await >= with_tools + 100);
    assert!(model.has_no_requests());
    body["model"] = "other".into();
    assert_eq!(gateway.post(COUNT, &body).await.status(), 404);
}

#[tokio::test]
async fn tools_that_leave_no_room_for_a_conversation_are_refused() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.config.model.context_budget_tokens = 512).await;
    let mut body = body(&json!([user(&json!("Hi."))]));
    body["system"] = "x".repeat(3 * 500).into();
    let (answer, _) = asked(&gateway, &mut model, &body, &["Hello."]).await;
    assert_eq!(answer["stop_reason"], "end_turn", "without tools, nothing has to be kept");
    body["tools"] = json!([open_file()]);
    let reply = gateway.post(MESSAGES, &body).await;
    assert_eq!(reply.status(), 400);
    let error = &reply.json()["error"];
    assert_eq!(error["type"], "invalid_request_error");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("model.context_budget_tokens is 512; raise it"), "{message}");
}

#[tokio::test]
async fn refusals_have_anthropics_form() {
    let (_model, gateway) = Gateway::with_model(|_| {}).await;
    let hi = json!([user(&json!("Hi."))]);
    for (body, status, kind) in [
        (json!({"max_tokens": 1, "messages": hi}), 400, "invalid_request_error"),
        (json!({"model": "claude-1", "messages": hi}), 400, "invalid_request_error"),
        (json!({"model": "gpt-9", "max_tokens": 1, "messages": hi}), 404, "not_found_error"),
        (json!({"model": "fake", "max_tokens": "1", "messages": hi}), 400, "invalid_request_error"),
        (
            json!({"model": "fake", "max_tokens": 1, "messages": "Hi."}),
            400,
            "invalid_request_error",
        ),
        (json!([]), 400, "invalid_request_error"),
    ] {
        let reply = gateway.post(MESSAGES, &body).await;
        assert_eq!(reply.status(), status, "{body}");
        let error = reply.json();
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!(kind)));
        assert!(error["error"]["message"].as_str().unwrap().len() > 10, "{error}");
    }
    let reply = gateway.get(MESSAGES).await;
    assert_eq!((reply.status(), reply.head.header("allow")), (405, Some("POST")));
    assert_eq!(reply.json()["type"], "error");
}

#[tokio::test]
async fn it_needs_the_key_in_either_header() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.server.api_keys = vec![Secret::new("k".to_owned())];
    })
    .await;
    for path in [MESSAGES, COUNT] {
        let reply = gateway.exchange(request("POST", path, &[], "")).await;
        assert_eq!(reply.status(), 401, "{path}");
        assert_eq!(reply.json()["error"]["type"], "authentication_error");
    }
    for key in ["X-Api-Key: k", "Authorization: Bearer k"] {
        let headers = [key, "anthropic-version: 2023-06-01", "anthropic-beta: anything"];
        let body = body(&json!([user(&json!("Hi."))])).to_string();
        let sent = post("/v1/messages?beta=true", &headers, &body);
        let (reply, ()) = tokio::join!(gateway.exchange(sent), async {
            model.round().await.answer("Hello.").await;
        });
        assert_eq!(reply.status(), 200, "{key}");
    }
}

#[tokio::test]
async fn a_failed_turn_has_an_errors_status() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = body(&json!([user(&json!("Hi."))]));
    let failing = async {
        let mut round = model.round().await;
        round.write("HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno").await;
        round.keep();
    };
    let (reply, ()) = tokio::join!(gateway.post(MESSAGES, &body), failing);
    assert_eq!(reply.status(), 502);
    assert_eq!(reply.json()["error"]["type"], "api_error");
}

#[tokio::test]
async fn a_cancelled_stream_breaks_off() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user(&json!("Hi."))]));
    body["stream"] = true.into();
    let mut client = gateway.client().await;
    client.send(post(MESSAGES, &[], &body.to_string())).await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("Well").await;
    assert_eq!(client.head().await.status, 200);
    let mut text = Vec::new();
    while !text.windows(4).any(|four| four == b"Well") {
        let Piece::Bytes(bytes) = client.piece().await else { panic!("it goes on") };
        text.extend(bytes);
    }
    gateway.running.gateway().cancel_all();
    loop {
        match client.piece().await {
            Piece::Bytes(_) => {}
            Piece::Cut => break,
            Piece::End => panic!("a proper end would look like a whole answer"),
        }
    }
}
