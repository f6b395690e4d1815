//! `POST /v1/chat/completions`: programs that were written for `OpenAI`, with our tools behind it.

use std::sync::Arc;

use serde_json::{Value, json};
use tether::config::Secret;
use tether::server::{ModelAlias, ServerTools};
use tether::tools::{Clarification, ClarificationOption, Policy, ToolResult};

use crate::support::client::{Piece, post, request};
use crate::support::model::call;
use crate::support::tools::Always;
use crate::support::{Gateway, Model};

const COMPLETIONS: &str = "/v1/chat/completions";

fn body(messages: &Value) -> Value {
    json!({"model": "fake", "messages": messages})
}

fn user(words: &str) -> Value {
    json!({"role": "user", "content": words})
}

fn assistant(words: &str) -> Value {
    json!({"role": "assistant", "content": words})
}

/// Posts a request that the model answers in these words, one round each. Returns the answer, and
/// what the model was told last.
async fn asked(
    gateway: &Gateway,
    model: &mut Model,
    body: &Value,
    answers: &[&str],
) -> (Value, String) {
    let (reply, told) = tokio::join!(gateway.post(COMPLETIONS, body), model.answers(answers));
    assert_eq!(reply.status(), 200, "{}", reply.json());
    (reply.json(), told)
}

fn message(answer: &Value) -> &Value {
    &answer["choices"][0]["message"]
}

/// A tool of the client.
fn open_file() -> Value {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    json!({"type": "function", "function":
        {"name": "open_file", "description": "Opens a file.", "parameters": parameters}})
}

const CALCULATE: &str =
    r#"<<function_call>> {"name":"calculate","arguments":{"expression":"6*7"}}"#;

/// What it returns.
const FOUND: &str = "\"result\":\"42\"";

#[tokio::test]
async fn our_tools_run_behind_one_answer() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = body(&json!([user("What is 6*7?")]));
    let answers = [&*format!("Let me see. {CALCULATE}"), "It is 42."];
    let (answer, told) = asked(&gateway, &mut model, &body, &answers).await;
    assert!(told.contains(FOUND), "{told}");
    assert_eq!(message(&answer)["content"], "Let me see. \n\nIt is 42.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert!(message(&answer).get("tool_calls").is_none(), "{answer}");
}

#[tokio::test]
async fn a_stream_is_one_message_with_one_finish_reason() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user("What is 6*7?")]));
    body["stream"] = true.into();
    let mut client = gateway.client().await;
    client.send(post(COMPLETIONS, &[], &body.to_string())).await;
    model.round().await.answer(CALCULATE).await;
    model.round().await.answer("It is 42.").await;
    let reply = client.reply().await;
    assert_eq!(reply.head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(reply.head.header("location"), None, "it cannot be joined again");
    let text = String::from_utf8(reply.body).unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(text.matches("\"finish_reason\":\"stop\"").count(), 1, "{text}");
    assert!(!text.contains("calculate"), "{text}");
}

#[tokio::test]
async fn what_our_tools_found_is_known_in_the_next_request() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let first = body(&json!([user("What is 6*7?")]));
    let answers = [&*format!("Let me see. {CALCULATE}"), "It is 42."];
    asked(&gateway, &mut model, &first, &answers).await;
    let history =
        json!([user("What is 6*7?"), assistant("Let me see. It is 42.\r\n"), user("Sure?")]);
    let (_, told) = asked(&gateway, &mut model, &body(&history), &["Yes."]).await;
    assert!(told.contains(FOUND), "{told}");
    // Edited words are the client's own: nothing of ours belongs to them.
    let edited = json!([user("What is 6*7?"), assistant("It is 43."), user("Sure?")]);
    let (_, told) = asked(&gateway, &mut model, &body(&edited), &["Yes."]).await;
    assert!(!told.contains(FOUND) && told.contains("It is 43."), "{told}");
}

#[tokio::test]
async fn hidden_turns_are_not_shared_between_keys() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        let keys = ["a", "b"].map(|key| Secret::new(key.to_owned()));
        setup.config.server.api_keys = keys.into();
    })
    .await;
    let send = async |key: &'static str, messages: Value| {
        let header = format!("Authorization: Bearer {key}");
        let mut client = gateway.client().await;
        client.send(post(COMPLETIONS, &[&header], &body(&messages).to_string())).await;
        client
    };
    let mut client = send("a", json!([user("What is 6*7?")])).await;
    model.round().await.answer(CALCULATE).await;
    model.round().await.answer("It is 42.").await;
    assert_eq!(client.reply().await.status(), 200);
    let history = json!([user("What is 6*7?"), assistant("It is 42."), user("Sure?")]);
    for (key, knows) in [("b", false), ("a", true)] {
        let mut client = send(key, history.clone()).await;
        let round = model.round().await;
        assert_eq!(round.request.contents().contains(FOUND), knows, "{key}");
        round.answer("Yes.").await;
        client.reply().await;
    }
}

#[tokio::test]
async fn calls_of_the_client_are_its_own_and_ours_are_restored_beside_them() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut first = body(&json!([user("Open it.")]));
    first["tools"] = json!([open_file()]);
    let both = format!("{CALCULATE} {}", call("open_file", &json!({"path": "a"})));
    let (answer, _) = asked(&gateway, &mut model, &first, &[&both]).await;
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    let calls = message(&answer)["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "ours is not among them: {answer}");
    assert_eq!(calls[0]["function"], json!({"name": "open_file", "arguments": "{\"path\":\"a\"}"}));

    let result = json!({"role": "tool", "tool_call_id": calls[0]["id"], "content": "Buy milk."});
    let mut second = body(&json!([user("Open it."), message(&answer), result]));
    second["tools"] = json!([open_file()]);
    let (answer, told) = asked(&gateway, &mut model, &second, &["It says milk."]).await;
    assert!(told.contains(FOUND), "{told}");
    assert!(
        told.contains("`open_file` (call_2) returned:") && told.contains("Buy milk."),
        "{told}"
    );
    assert_eq!(message(&answer)["content"], "It says milk.");

    // The words of the whole exchange lead back to all of it.
    let mut history = second["messages"].as_array().unwrap().clone();
    history.extend([assistant("It says milk."), user("Thanks.")]);
    let (_, told) =
        asked(&gateway, &mut model, &body(&history.into()), &["You are welcome."]).await;
    assert!(told.contains(FOUND), "{told}");
}

#[tokio::test]
async fn results_of_calls_that_nobody_remembers_are_told_as_they_are() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let calls = json!([{"id": "x", "type": "function",
        "function": {"name": "open_file", "arguments": "{\"path\":\"a\"}"}}]);
    let called = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let result = json!({"role": "tool", "tool_call_id": "x", "content": "Buy milk."});
    let mut body = body(&json!([user("Open it."), called, result]));
    body["tools"] = json!([open_file()]);
    let (answer, told) = asked(&gateway, &mut model, &body, &["Milk."]).await;
    assert!(told.contains("Buy milk."), "{told}");
    assert_eq!(message(&answer)["content"], "Milk.");
}

#[tokio::test]
async fn a_suffix_of_the_models_name_takes_our_tools_away() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user("Hi.")]));
    body["model"] = "fake:no-tools".into();
    let (answer, told) = asked(&gateway, &mut model, &body, &["Hello."]).await;
    assert!(!told.contains("calculate"), "{told}");
    assert_eq!(answer["model"], "fake:no-tools", "as it was asked for");
}

#[tokio::test]
async fn the_clients_instructions_take_the_place_of_ours() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let system = json!({"role": "system", "content": "Speak like a pirate."});
    let body = body(&json!([system, user("Hi.")]));
    let (_, told) = asked(&gateway, &mut model, &body, &["Ahoy."]).await;
    assert!(told.contains("Speak like a pirate."), "{told}");
    assert!(!told.contains("You are a helpful assistant."), "{told}");
    assert!(told.contains("calculate"), "our tools are still there");
}

#[tokio::test]
async fn what_needs_approval_is_not_run() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
        let wipe = Always::new("wipe", policy, ToolResult::data(json!({})));
        setup.tools.add(Arc::new(wipe)).unwrap();
    })
    .await;
    let body = body(&json!([user("Wipe it.")]));
    let answers = [&*call("wipe", &json!({})), "I may not."];
    let (_, told) = asked(&gateway, &mut model, &body, &answers).await;
    assert!(told.contains("it needs the user's approval, which nobody can give here"), "{told}");
}

#[tokio::test]
async fn models_are_listed_with_and_without_our_tools() {
    let (_model, gateway) = Gateway::with_model(|_| {}).await;
    let list = gateway.get("/v1/models").await.json();
    assert_eq!(list["object"], "list");
    let ids: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["fake", "fake:no-tools"]);
    let one = gateway.get("/v1/models/fake:no-tools").await.json();
    assert_eq!((&one["id"], &one["object"]), (&json!("fake:no-tools"), &json!("model")));
    assert_eq!(gateway.get("/v1/models/other").await.status(), 404);
    assert_eq!(list["models"], json!([]), "Codex insists on it");
}

#[tokio::test]
async fn a_models_name_chooses_the_tools() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        let (name, tools) = ("fake-calc".to_owned(), Some(vec!["calculate".to_owned()]));
        setup.config.chat.models =
            vec![ModelAlias { name, upstream: None, tools, server_tools: None }];
        setup.config.chat.any_model = true;
    })
    .await;
    let names = ["fake-calc", "fake-calc:no-tools", "gpt-4o", "gpt-4o:no-tools"];
    for (name, calculates, knows_time) in [
        (names[0], true, false),
        (names[1], false, false),
        (names[2], true, true),
        (names[3], false, false),
    ] {
        let mut body = body(&json!([user("Hi.")]));
        body["model"] = name.into();
        let (answer, told) = asked(&gateway, &mut model, &body, &["Hello."]).await;
        assert_eq!(told.contains("calculate"), calculates, "{name}: {told}");
        assert_eq!(told.contains("get_current_time"), knows_time, "{name}: {told}");
        assert_eq!(answer["model"], name, "as it was asked for");
    }
    assert_eq!(gateway.get("/v1/models/fake-calc:no-tools").await.status(), 200);
    assert_eq!(gateway.get("/v1/models/gpt-4o").await.status(), 404, "it is not listed");
}

#[tokio::test]
async fn a_named_tool_of_the_client_is_the_only_one_offered() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user("Open it.")]));
    body["tools"] = json!([open_file()]);
    body["tool_choice"] = json!({"type": "function", "function": {"name": "open_file"}});
    let answers = ["No.", &*call("open_file", &json!({"path": "a"}))];
    let (answer, told) = asked(&gateway, &mut model, &body, &answers).await;
    assert!(told.contains("open_file") && !told.contains("calculate"), "{told}");
    assert_eq!(message(&answer)["tool_calls"][0]["function"]["name"], "open_file");
}

#[tokio::test]
async fn allowed_tools_are_a_hard_limit() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user("What is 6*7?")]));
    body["tools"] = json!([open_file()]);
    let tools = json!([{"type": "function", "function": {"name": "calculate"}}]);
    let allowed = json!({"mode": "required", "tools": tools});
    body["tool_choice"] = json!({"type": "allowed_tools", "allowed_tools": allowed});
    let open = call("open_file", &json!({"path": "a"}));
    let (answer, told) = asked(&gateway, &mut model, &body, &[&open, CALCULATE, "It is 42."]).await;
    assert!(told.contains(FOUND) && !told.contains("get_current_time"), "{told}");
    assert!(message(&answer).get("tool_calls").is_none(), "{answer}");
    assert_eq!(message(&answer)["content"], "It is 42.");
}

#[tokio::test]
async fn requests_that_cannot_be_answered_are_refused_as_openai_does() {
    let (_model, gateway) = Gateway::with_model(|_| {}).await;
    let hi = json!([user("Hi.")]);
    for (body, status, code, param) in [
        (json!({"messages": hi}), 400, "invalid_request", "model"),
        (json!({"model": "gpt-9", "messages": hi}), 404, "model_not_found", "model"),
        (json!({"model": "fake"}), 400, "invalid_request", "messages"),
        (json!({"model": "fake", "messages": []}), 400, "invalid_request", "messages"),
        (json!({"model": "fake", "messages": hi, "n": 2}), 400, "invalid_request", "n"),
        (
            json!({"model": "fake", "messages": hi, "max_completion_tokens": 0}),
            400,
            "invalid_request",
            "max_completion_tokens",
        ),
        (
            json!({"model": "fake", "messages": hi, "tool_choice": "often"}),
            400,
            "invalid_request",
            "tool_choice",
        ),
        (
            json!({"model": "fake", "messages": hi, "tools": [{"type": "function"}]}),
            400,
            "invalid_request",
            "tools",
        ),
    ] {
        let reply = gateway.post(COMPLETIONS, &body).await;
        assert_eq!(reply.status(), status, "{body}");
        let error = &reply.json()["error"];
        assert_eq!((&error["code"], &error["param"]), (&json!(code), &json!(param)), "{body}");
        assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    }
}

#[tokio::test]
async fn fields_that_mean_nothing_here_are_skipped() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user("Hi.")]));
    let more = json!({
        "user": "u", "metadata": {}, "store": true, "service_tier": "auto", "chat_id": "c",
        "options": {"num_ctx": 1}, "keep_alive": "5m", "logprobs": false, "n": 1,
        "response_format": {"type": "text"}, "tools": [{"type": "web_search"}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (answer, _) = asked(&gateway, &mut model, &body, &["Hello."]).await;
    assert_eq!(message(&answer)["content"], "Hello.");
}

#[tokio::test]
async fn a_failed_turn_has_an_errors_status() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = body(&json!([user("Hi.")]));
    let failing = async {
        let mut round = model.round().await;
        round.write("HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno").await;
        round.keep();
    };
    let (reply, ()) = tokio::join!(gateway.post(COMPLETIONS, &body), failing);
    assert_eq!(reply.status(), 502);
    assert_eq!(reply.json()["error"]["code"], "upstream_error");
    assert_eq!(reply.head.header("x-should-retry"), Some("false"), "it would fail again");
}

#[tokio::test]
async fn a_request_leaves_no_session_behind() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = body(&json!([user("Hi.")]));
    asked(&gateway, &mut model, &body, &["Hello."]).await;
    assert_eq!(gateway.running.gateway().memory_usage().sessions, 0);
}

#[tokio::test]
async fn it_needs_the_key() {
    let (_model, gateway) = Gateway::with_model(|setup| {
        setup.config.server.api_keys = vec![Secret::new("k".to_owned())];
    })
    .await;
    for (method, path) in [("POST", COMPLETIONS), ("GET", "/v1/models"), ("GET", "/v1/models/fake")]
    {
        let reply = gateway.exchange(request(method, path, &[], "")).await;
        assert_eq!(reply.status(), 401, "{path}");
        assert_eq!(reply.json()["error"]["type"], "authentication_error");
    }
}

#[tokio::test]
async fn a_cancelled_stream_breaks_off() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user("Hi.")]));
    body["stream"] = true.into();
    let mut client = gateway.client().await;
    client.send(post(COMPLETIONS, &[], &body.to_string())).await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("Well").await;
    assert_eq!(client.head().await.status, 200);
    let mut text = Vec::new();
    while !text.ends_with(b"\n\n") || !text.windows(4).any(|four| four == b"Well") {
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

#[tokio::test]
async fn a_question_is_answered_by_what_the_user_says_next() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        let asks = Policy { may_clarify: true, ..Policy::default() };
        let options = [("r7", "Red"), ("g4", "Green")];
        let question = Clarification {
            r#type: "choice".to_owned(),
            question: "Which room?".to_owned(),
            options: options.map(|(id, title)| ClarificationOption::new(id, title)).to_vec(),
            ..Clarification::default()
        };
        let result = ToolResult::clarification(question);
        setup.tools.add(Arc::new(Always::new("pick_room", asks, result))).unwrap();
    })
    .await;
    let first = body(&json!([user("Book a room.")]));
    let (answer, _) = asked(&gateway, &mut model, &first, &[&call("pick_room", &json!({}))]).await;
    let question = "Which room?\n1. Red\n2. Green";
    assert_eq!(message(&answer)["content"], question);
    for (said, is_answer) in [("2", true), ("green.", false), ("Never mind.", false)] {
        let history = json!([user("Book a room."), assistant(question), user(said)]);
        let (_, told) = asked(&gateway, &mut model, &body(&history), &["Done."]).await;
        assert_eq!(!told.contains("was left unanswered"), is_answer, "{said}: {told}");
        assert_eq!(told.matches("g4").count() > 1, is_answer, "{said}: {told}");
    }
    // Words that were never a question of ours are only words.
    let invented = json!([user("Book it."), assistant(question), user("2")]);
    let (_, told) = asked(&gateway, &mut model, &body(&invented), &["Done."]).await;
    assert!(!told.contains("g4") && told.contains(question), "{told}");
}

/// Sends a request with this header, which the model answers in these words. Returns what the model
/// was told last.
async fn told_with(
    gateway: &Gateway,
    model: &mut Model,
    (header, body): (&str, &Value),
    answers: &[&str],
) -> String {
    let mut client = gateway.client().await;
    client.send(post(COMPLETIONS, &[header], &body.to_string())).await;
    let mut told = String::new();
    for answer in answers {
        let round = model.round().await;
        told = round.request.contents();
        round.answer(answer).await;
    }
    assert_eq!(client.reply().await.status(), 200);
    told
}

#[tokio::test]
async fn a_conversation_with_a_name_is_found_although_it_was_cut() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.chat.session_headers = vec!["X-OpenWebUI-Chat-Id".to_owned()];
    })
    .await;
    let first = body(&json!([user("Hello?"), assistant("Hello."), user("What is 6*7?")]));
    // The beginning is gone, so the hash of what was said is another.
    let cut = body(&json!([user("What is 6*7?"), assistant("It is  42."), user("Sure?")]));
    let named = |body: &Value, name: &str| {
        let mut body = body.clone();
        body["tether"] = json!({ "session_id": name });
        body
    };
    let answers = [CALCULATE, "It is 42."];
    let none = "X-Other: 1";
    for (at, (header, named_first)) in [
        ("X-Session-Id: a", first.clone()),
        ("x-openwebui-chat-id: b", first.clone()),
        (none, named(&first, "c")),
    ]
    .into_iter()
    .enumerate()
    {
        told_with(&gateway, &mut model, (header, &named_first), &answers).await;
        let again = if at == 2 { named(&cut, "c") } else { cut.clone() };
        let told = told_with(&gateway, &mut model, (header, &again), &["Yes."]).await;
        assert!(told.contains(FOUND), "{header}: {told}");
        let told = told_with(&gateway, &mut model, ("X-Session-Id: z", &cut), &["Yes."]).await;
        assert!(!told.contains(FOUND), "{header}: {told}");
    }
    let edited = json!([user("What is 6*7?"), assistant("It is 43."), user("Sure?")]);
    let request = ("X-Session-Id: a", &body(&edited));
    let told = told_with(&gateway, &mut model, request, &["Yes."]).await;
    assert!(!told.contains(FOUND) && told.contains("It is 43."), "{told}");
}

#[tokio::test]
async fn a_request_can_say_which_of_our_tools_it_wants() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut body = body(&json!([user("What is 6*7?")]));
    body["tether"] = json!({"tools": ["calculate"], "server_tools": "extension"});
    let (answer, told) = asked(&gateway, &mut model, &body, &[CALCULATE, "It is 42."]).await;
    assert!(!told.contains("get_current_time"), "{told}");
    let shown = answer["tether"]["tools"].as_array().unwrap();
    assert!(shown.iter().any(|event| event["data"]["tool_name"] == "calculate"), "{answer}");
    for (tether, param) in [
        (json!({"tool": []}), "tether.tool"),
        (json!({"tools": "calculate"}), "tether.tools"),
        (json!({"server_tools": "all"}), "tether.server_tools"),
        (json!({"session_id": ""}), "tether.session_id"),
        (json!({"session_id": "x".repeat(257)}), "tether.session_id"),
        (json!([]), "tether"),
    ] {
        body["tether"] = tether.clone();
        let reply = gateway.post(COMPLETIONS, &body).await;
        let error = reply.json();
        assert_eq!((reply.status(), &error["error"]["param"]), (400, &json!(param)), "{error}");
    }
}

#[tokio::test]
async fn a_models_name_chooses_what_is_shown_of_our_tools() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        let (name, server_tools) = ("fake-shown".to_owned(), Some(ServerTools::Reasoning));
        let alias = ModelAlias { name, upstream: None, tools: None, server_tools };
        setup.config.chat.models = vec![alias];
    })
    .await;
    for (name, own, is_shown) in [
        ("fake", json!({}), false),
        ("fake-shown", json!({}), true),
        ("fake-shown", json!({"server_tools": "off"}), false),
    ] {
        let mut body = body(&json!([user("What is 6*7?")]));
        body["model"] = name.into();
        body["tether"] = own;
        let (answer, _) = asked(&gateway, &mut model, &body, &[CALCULATE, "It is 42."]).await;
        let reasoning = message(&answer)["reasoning_content"].as_str().unwrap_or_default();
        assert_eq!(reasoning.contains("Calling calculate."), is_shown, "{answer}");
    }
}

#[tokio::test]
async fn one_call_at_a_time_if_the_client_wants_that() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let both = ["a", "b"].map(|path| call("open_file", &json!({ "path": path }))).join("\n");
    for (parallel, calls) in [(true, 2), (false, 1)] {
        let mut body = body(&json!([user("Open a and b.")]));
        body["tools"] = json!([open_file()]);
        body["parallel_tool_calls"] = parallel.into();
        let (answer, _) = asked(&gateway, &mut model, &body, &[&both]).await;
        assert_eq!(message(&answer)["tool_calls"].as_array().unwrap().len(), calls);
    }
}

/// SDKs send a request again after an error. A tool may have sent a mail.
#[tokio::test]
async fn what_failed_after_a_tool_has_run_is_not_to_be_repeated() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = body(&json!([user("What is 6*7?")]));
    // A proxy may send a request again after 503, and only then.
    for (said, status) in [("400 Bad", 502), ("503 Busy\r\nRetry-After: 60", 500)] {
        let failing = async {
            model.round().await.answer(CALCULATE).await;
            let mut round = model.round().await;
            round.write(format!("HTTP/1.1 {said}\r\nContent-Length: 2\r\n\r\nno")).await;
            round.keep();
        };
        let (reply, ()) = tokio::join!(gateway.post(COMPLETIONS, &body), failing);
        assert_eq!(reply.status(), status, "{}", reply.json());
        assert_eq!(reply.head.header("x-should-retry"), Some("false"));
    }
}

#[tokio::test]
async fn instructions_alone_are_answered() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let system = json!({"role": "system", "content": "Say hi."});
    for messages in [json!([system]), json!([user("")]), json!([assistant("")])] {
        let (answer, told) = asked(&gateway, &mut model, &body(&messages), &["Hi."]).await;
        assert_eq!(message(&answer)["content"], "Hi.");
        assert!(told.contains("(The user has sent no words.)"), "{told}");
    }
    let refused = gateway.post(COMPLETIONS, &body(&json!([]))).await;
    assert_eq!((refused.status(), &refused.json()["error"]["param"]), (400, &json!("messages")));
}

/// The model would know the last message alone, and nobody would know why.
#[tokio::test]
async fn instructions_that_leave_no_room_are_refused() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let long = |bytes| json!({"role": "system", "content": "x".repeat(bytes)});
    let fits = body(&json!([long(20_000), user("Hi.")]));
    asked(&gateway, &mut model, &fits, &["Hi."]).await;
    let refused = gateway.post(COMPLETIONS, &body(&json!([long(30_000), user("Hi.")]))).await;
    assert_eq!(refused.status(), 400, "{}", refused.json());
    assert_eq!(refused.json()["error"]["code"], "invalid_prompt");
    assert!(refused.json().to_string().contains("model.context_budget_tokens"));
}
