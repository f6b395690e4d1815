//! `POST /api/v1/ag-ui`: AG-UI's front ends, with our tools behind it.

use std::sync::Arc;

use serde_json::{Value, json};
use tether::config::Secret;
use tether::tools::{Clarification, ClarificationOption, Policy, Registry, ToolResult};

use crate::support::client::{Reply, post};
use crate::support::gateway::Endpoint;
use crate::support::model::call;
use crate::support::tools::{Always, Wait, Watched};
use crate::support::{Gateway, Model};

pub(super) const RUN: &str = "/api/v1/ag-ui";

const CALCULATE: &str =
    r#"<<function_call>> {"name":"calculate","arguments":{"expression":"6*7"}}"#;

pub(super) fn user(words: &str) -> Value {
    json!({"id": "u", "role": "user", "content": words})
}

pub(super) fn body(messages: &[Value]) -> Value {
    json!({"threadId": "t", "runId": "r", "messages": messages, "tools": [], "context": []})
}

pub(super) fn resuming(
    messages: &[Value],
    id: &Value,
    status: &str,
    payload: Option<Value>,
) -> Value {
    let mut entry = json!({"interruptId": id, "status": status});
    if let Some(payload) = payload {
        entry["payload"] = payload;
    }
    let mut body = body(messages);
    body["resume"] = json!([entry]);
    body
}

#[track_caller]
pub(super) fn events(reply: &Reply) -> Vec<Value> {
    let text = std::str::from_utf8(&reply.body).unwrap();
    assert_eq!(reply.status(), 200, "{text}");
    let frames = text.split_terminator("\n\n").filter(|frame| *frame != ":");
    let json = |frame: &str| serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap();
    frames.map(json).collect()
}

/// The messages that a client makes of events, after those that it sent.
pub(super) fn messages(sent: &[Value], events: &[Value]) -> Vec<Value> {
    let mut made = sent.to_vec();
    for event in events {
        let id = &event["messageId"];
        match event["type"].as_str().unwrap() {
            "TEXT_MESSAGE_START" => {
                made.push(json!({"id": id, "role": "assistant", "content": ""}));
            }
            "TEXT_MESSAGE_CONTENT" => {
                let message = made.iter_mut().find(|message| message["id"] == *id).unwrap();
                let words = format!(
                    "{}{}",
                    message["content"].as_str().unwrap(),
                    event["delta"].as_str().unwrap()
                );
                message["content"] = words.into();
            }
            "TOOL_CALL_START" => {
                let id = &event["toolCallId"];
                let function = json!({"name": event["toolCallName"], "arguments": "{}"});
                let call = json!({"id": id, "type": "function", "function": function});
                let parent = event.get("parentMessageId");
                match made.iter_mut().find(|message| Some(&message["id"]) == parent) {
                    Some(message) => match &mut message["toolCalls"] {
                        Value::Array(calls) => calls.push(call),
                        none => *none = json!([call]),
                    },
                    None => made.push(json!({"id": id, "role": "assistant", "toolCalls": [call]})),
                }
            }
            "TOOL_CALL_RESULT" => made.push(json!({
                "id": id, "role": "tool", "toolCallId": event["toolCallId"],
                "content": event["content"],
            })),
            _ => {}
        }
    }
    made
}

/// Posts a run that the model answers in these words, one round each. Returns its events, and what
/// the model was told last.
pub(super) async fn ran(
    gateway: &Endpoint,
    model: &mut Model,
    body: &Value,
    answers: &[&str],
) -> (Vec<Value>, String) {
    let posting = async { events(&gateway.post(RUN, body).await) };
    tokio::join!(posting, model.answers(answers))
}

pub(super) fn event<'e>(events: &'e [Value], kind: &str) -> &'e Value {
    let found = events.iter().find(|event| event["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {events:?}"))
}

pub(super) fn interrupt(events: &[Value]) -> &Value {
    let outcome = &event(events, "RUN_FINISHED")["outcome"];
    assert_eq!(outcome["type"], "interrupt", "{events:?}");
    &outcome["interrupts"][0]
}

#[tokio::test]
async fn our_tools_are_shown_and_known_in_the_next_run() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let sent = [user("What is 6*7?")];
    let answers = [&*format!("Let me see. {CALCULATE}"), "It is 42."];
    let (events, _) = ran(&gateway, &mut model, &body(&sent), &answers).await;
    assert!(event(&events, "TOOL_CALL_RESULT")["content"].as_str().unwrap().contains("42"));
    assert_eq!(event(&events, "RUN_FINISHED")["outcome"], json!({"type": "success"}));
    let mut history = messages(&sent, &events);
    for message in &mut history {
        if message["role"] == "tool" {
            message["content"] = "43".into();
        }
    }
    history.push(user("Sure?"));
    let (_, told) = ran(&gateway, &mut model, &body(&history), &["Yes."]).await;
    assert!(told.contains("\"result\":\"42\"") && !told.contains("43"), "{told}");
    assert_eq!(told.matches("It is 42.").count(), 1, "it is told once: {told}");
    assert_eq!(gateway.running.gateway().memory_usage().sessions, 0, "no session is left");
}

#[tokio::test]
async fn of_a_thread_that_kept_only_its_texts_our_tools_are_known() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let page = json!([{"description": "The page", "value": "Sums"}]);
    let mut first = body(&[user("What is 6*7?")]);
    first["context"] = page.clone();
    let answers = [&*format!("Let me see. {CALCULATE}"), "It is 42."];
    let (_, told) = ran(&gateway, &mut model, &first, &answers).await;
    assert!(told.contains("The page:\nSums"), "{told}");
    let says = |words: &str| json!({"id": words, "role": "assistant", "content": words});
    let list = [user("What is 6*7?"), says("Let me see. "), says("It is 42."), user("Sure?")];
    let mut second = body(&list);
    second["context"] = page;
    let (_, told) = ran(&gateway, &mut model, &second, &["Yes."]).await;
    assert!(told.contains("\"result\":\"42\""), "{told}");
    second["threadId"] = "another".into();
    let (_, told) = ran(&gateway, &mut model, &second, &["Yes."]).await;
    assert!(!told.contains("\"result\":\"42\""), "{told}");
}

/// A call is on a line of its own.
#[tokio::test]
async fn lines_around_calls_are_no_messages() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let calls = format!("\n{CALCULATE}\n{}\n", CALCULATE.replace("6*7", "6*8"));
    let sent = [user("Hi.")];
    let (events, _) = ran(&gateway, &mut model, &body(&sent), &[&calls, "\nDone."]).await;
    let made = messages(&sent, &events);
    let words = made.iter().filter(|it| it["role"] == "assistant" && it.get("content").is_some());
    let words: Vec<&Value> = words.map(|message| &message["content"]).collect();
    assert_eq!(words, ["Done."], "{made:?}");
}

#[tokio::test]
async fn tools_of_the_client_run_beside_ours() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let sent = [user("Open it.")];
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let mut request = body(&sent);
    request["tools"] =
        json!([{"name": "open_file", "description": "Opens.", "parameters": schema}]);
    let both = format!("{CALCULATE} {}", call("open_file", &json!({"path": "a"})));
    let (events, _) = ran(&gateway, &mut model, &request, &[&both]).await;
    let results = events.iter().filter(|event| event["type"] == "TOOL_CALL_RESULT");
    assert_eq!(results.count(), 1, "ours alone: {events:?}");
    let mut history = messages(&sent, &events);
    let starts = events.iter().rev().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
    let id = &starts["toolCallId"];
    history.push(json!({"id": "x", "role": "tool", "toolCallId": id, "content": "Buy milk."}));
    request["messages"] = history.into();
    let (_, told) = ran(&gateway, &mut model, &request, &["It says milk."]).await;
    assert!(told.contains("Buy milk.") && told.contains("\"result\":\"42\""), "{told}");
}

#[tokio::test]
async fn the_choice_of_a_tool_leaves_only_that_or_none() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut request = body(&[user("Open it.")]);
    request["tools"] = json!([{"name": "open_file", "parameters": {"type": "object"}}]);
    let open = call("open_file", &json!({}));
    request["forwardedProps"] = json!({"tether": {"tool_choice": {"name": "open_file"}}});
    let (events, _) = ran(&gateway, &mut model, &request, &[CALCULATE, &open]).await;
    let calls = events.iter().filter(|event| event["type"] == "TOOL_CALL_START");
    let calls: Vec<&Value> = calls.map(|event| &event["toolCallName"]).collect();
    assert_eq!(calls, ["open_file"]);
    request["forwardedProps"] = json!({"tether": {"tool_choice": "none"}});
    let (events, told) = ran(&gateway, &mut model, &request, &[&open]).await;
    assert!(!told.contains("open_file") && !told.contains("calculate"), "{told}");
    assert!(!events.iter().any(|event| event["type"] == "TOOL_CALL_START"), "{events:?}");
    request["forwardedProps"] = json!({"tether": {"tool_choice": "often"}});
    let (status, _, at) = gateway.post(RUN, &request).await.refusal();
    assert_eq!((status, at.as_deref()), (400, Some("forwardedProps.tether.tool_choice")));
}

pub(super) fn which_john() -> Always {
    let question = Clarification {
        r#type: "choice".to_owned(),
        question: "Which John?".to_owned(),
        options: vec![
            ClarificationOption::new("jd", "Doe"),
            ClarificationOption::new("js", "Smith"),
        ],
        ..Clarification::default()
    };
    Always::new("look", Policy::NONE, ToolResult::clarification(question))
}

/// Asks. Returns the messages of the run's snapshot, and its interrupt.
pub(super) async fn asked(gateway: &Endpoint, model: &mut Model) -> (Vec<Value>, Value) {
    let words = format!("Let me see. {}", call("look", &json!({})));
    let sent = [user("Call John.")];
    let (events, _) = ran(gateway, model, &body(&sent), &[&words]).await;
    let snapshot = event(&events, "MESSAGES_SNAPSHOT")["messages"].as_array().unwrap().clone();
    let made = messages(&sent, &events);
    assert_eq!(snapshot.len(), made.len(), "{snapshot:?}");
    (snapshot, interrupt(&events).clone())
}

#[tokio::test]
async fn an_interrupted_run_is_resumed_by_an_option_and_known_later() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(which_john())).unwrap()).await;
    let (sent, interrupt) = asked(&gateway, &mut model).await;
    let payload = json!({"selected_option": "js"});
    let resume = resuming(&sent, &interrupt["id"], "resolved", Some(payload));
    let (events, told) = ran(&gateway, &mut model, &resume, &["Calling Smith."]).await;
    assert!(told.contains("js"), "{told}");
    let result = event(&events, "TOOL_CALL_RESULT");
    assert_eq!(result["toolCallId"], interrupt["toolCallId"], "{events:?}");
    assert!(!events.iter().any(|event| event["type"] == "TOOL_CALL_START"), "{events:?}");
    let mut history = messages(&sent, &events);
    history.push(user("Thanks."));
    let (_, later) = ran(&gateway, &mut model, &body(&history), &["Sure."]).await;
    assert!(later.contains("js") && later.matches("Calling Smith.").count() == 1, "{later}");
    // A client that has lost its messages still knows the question.
    let (_, interrupt) = asked(&gateway, &mut model).await;
    let payload = json!({"selected_option": "jd"});
    let resume = resuming(&[user("Go on.")], &interrupt["id"], "resolved", Some(payload));
    let (_, told) = ran(&gateway, &mut model, &resume, &["Calling Doe."]).await;
    assert!(told.contains("jd") && told.contains("Let me see."), "{told}");
}

#[tokio::test]
async fn a_cancelled_question_is_dropped_for_the_users_words() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(which_john())).unwrap()).await;
    let (mut sent, interrupt) = asked(&gateway, &mut model).await;
    // Even if they name an option.
    sent.push(user("2"));
    let resume = resuming(&sent, &interrupt["id"], "cancelled", None);
    let (events, told) = ran(&gateway, &mut model, &resume, &["Fine."]).await;
    assert!(told.contains("was left unanswered"), "nothing was chosen: {told}");
    assert_eq!(event(&events, "TOOL_CALL_RESULT")["content"], "the user did not answer");
}

/// Front ends without interrupts send no `resume`.
#[tokio::test]
async fn words_alone_answer_a_question_or_drop_it_and_its_call_gets_a_result() {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let wiped = ToolResult::data(json!({"wiped": true}));
    let (wipe, seen) = Watched::new(Always::new("wipe", policy, wiped));
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(wipe)).unwrap()).await;
    for (words, result, runs) in
        [("yes", "{\"wiped\":true}", 1), ("no, do not", "the user did not answer", 1)]
    {
        let (mut sent, _) = asked_to_wipe(&gateway, &mut model).await;
        let call = sent[1]["toolCalls"][0]["id"].clone();
        sent.push(user(words));
        let (events, _) = ran(&gateway, &mut model, &body(&sent), &["So."]).await;
        let returned = event(&events, "TOOL_CALL_RESULT");
        assert_eq!((&returned["toolCallId"], &returned["content"]), (&call, &json!(result)));
        assert!(!events.iter().any(|event| event["type"] == "TOOL_CALL_START"), "{events:?}");
        assert_eq!(seen.lock().len(), runs);
    }
}

/// A client insists on an entry until a run has succeeded.
#[tokio::test]
async fn a_question_may_be_dropped_again_after_a_run_that_failed() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(which_john())).unwrap()).await;
    let (mut sent, interrupt) = asked(&gateway, &mut model).await;
    sent.push(user("Never mind."));
    let dropping = resuming(&sent, &interrupt["id"], "cancelled", None);
    let failing = async {
        let mut round = model.round().await;
        round.begin().await;
        round.say("Well").await;
        round.reset();
    };
    let (reply, ()) = tokio::join!(gateway.post(RUN, &dropping), failing);
    let failed = events(&reply);
    assert_eq!(failed.last().unwrap()["type"], "RUN_ERROR");
    let mut sent = messages(&sent, &failed);
    sent.push(user("Hello?"));
    let again = resuming(&sent, &interrupt["id"], "cancelled", None);
    let (events, _) = ran(&gateway, &mut model, &again, &["Yes?"]).await;
    assert_eq!(event(&events, "RUN_FINISHED")["outcome"]["type"], "success");
    assert!(!events.iter().any(|event| event["type"] == "TOOL_CALL_RESULT"), "it has one");
}

#[tokio::test]
async fn an_answer_that_cannot_be_is_a_run_that_fails() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(which_john())).unwrap()).await;
    let (sent, interrupt) = asked(&gateway, &mut model).await;
    let unknown = json!({"selected_option": "nobody"});
    for resume in [
        resuming(&sent, &json!("t.1"), "resolved", Some(json!({"selected_option": "js"}))),
        resuming(&sent, &interrupt["id"], "resolved", Some(unknown)),
        resuming(&sent, &interrupt["id"], "resolved", Some(json!({}))),
        resuming(&[user("Never mind.")], &json!("t.1"), "cancelled", None),
    ] {
        let events = events(&gateway.post(RUN, &resume).await);
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0]["type"], "RUN_ERROR");
    }
}

#[tokio::test]
async fn an_approved_call_runs_once_however_often_it_is_resumed() {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let wait = Wait::that("wipe", policy);
    let (wipe, seen) = Watched::new(wait.clone());
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(wipe)).unwrap()).await;
    let sent = [user("Wipe it.")];
    let wipe = call("wipe", &json!({}));
    let (begun, _) = ran(&gateway, &mut model, &body(&sent), &[&wipe]).await;
    let interrupt = interrupt(&begun);
    assert_eq!(interrupt["reason"], "tool_call");
    let sent = messages(&sent, &begun);
    let approved = Some(json!({"approved": true}));
    let resume = resuming(&sent, &interrupt["id"], "resolved", approved);
    // The same again while the call runs reads the same run.
    let mut first = gateway.client().await;
    first.send(post(RUN, &[], &resume.to_string())).await;
    wait.started().await;
    let mut again = resume.clone();
    again["runId"] = "r2".into();
    let mut second = gateway.client().await;
    second.send(post(RUN, &[], &again.to_string())).await;
    assert_eq!(second.head().await.status, 200);
    wait.release();
    model.round().await.answer("Wiped.").await;
    let events = events(&first.reply().await);
    let result = event(&events, "TOOL_CALL_RESULT");
    assert_eq!(result["toolCallId"], interrupt["toolCallId"]);
    assert_eq!(result["content"], "{\"waited\":true}");
    assert!(!events.iter().any(|event| event["type"] == "TOOL_CALL_START"), "{events:?}");
    // And afterwards it is stale.
    let stale = self::events(&gateway.post(RUN, &resume).await);
    assert_eq!(
        (&stale[0]["type"], &stale[0]["code"]),
        (&json!("RUN_ERROR"), &json!("clarification_stale"))
    );
    assert_eq!(seen.lock().len(), 1);
}

/// Its result says so, whatever the user has answered.
#[tokio::test]
async fn an_approved_call_whose_tool_is_gone_is_refused() {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let wipe = Always::new("wipe", policy, ToolResult::data(json!({})));
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(wipe)).unwrap()).await;
    let (sent, id) = asked_to_wipe(&gateway, &mut model).await;
    gateway.running.gateway().replace_tools(Registry::default());
    let resume = resuming(&sent, &id, "resolved", Some(json!({"approved": true})));
    let (events, _) = ran(&gateway, &mut model, &resume, &["It cannot be wiped."]).await;
    let result = event(&events, "TOOL_CALL_RESULT")["content"].as_str().unwrap();
    assert!(result.starts_with("There is no tool called \"wipe\"."), "{result}");
}

#[tokio::test]
async fn an_approved_call_runs_though_the_run_has_no_tools() {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let wipe = Always::new("wipe", policy, ToolResult::data(json!({"wiped": 1})));
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(wipe)).unwrap()).await;
    let (sent, id) = asked_to_wipe(&gateway, &mut model).await;
    let mut resume = resuming(&sent, &id, "resolved", Some(json!({"approved": true})));
    resume["forwardedProps"] = json!({"tether": {"tool_choice": "none"}});
    let (events, told) = ran(&gateway, &mut model, &resume, &["Wiped."]).await;
    assert_eq!(event(&events, "TOOL_CALL_RESULT")["content"], "{\"wiped\":1}");
    assert!(!told.contains("- wipe") && !told.contains("- calculate"), "{told}");
}

/// Asks whether to wipe. Returns the messages so far, and the question's id.
pub(super) async fn asked_to_wipe(gateway: &Endpoint, model: &mut Model) -> (Vec<Value>, Value) {
    let sent = [user("Wipe it.")];
    let (begun, _) = ran(gateway, model, &body(&sent), &[&call("wipe", &json!({}))]).await;
    (messages(&sent, &begun), interrupt(&begun)["id"].clone())
}

#[track_caller]
pub(super) fn check_stale(events: &[Value]) {
    let [error] = events else { panic!("{events:?}") };
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("RUN_ERROR"), &json!("clarification_stale"))
    );
}

#[tokio::test]
async fn a_call_that_the_user_has_called_off_never_runs() {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let (wipe, seen) = Watched::new(Always::new("wipe", policy, ToolResult::data(json!({}))));
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(wipe)).unwrap()).await;
    let approved = || Some(json!({"approved": true}));
    for is_cancelled in [true, false] {
        let (mut sent, id) = asked_to_wipe(&gateway, &mut model).await;
        let before = sent.clone();
        sent.push(user("Never mind."));
        let dropping =
            if is_cancelled { resuming(&sent, &id, "cancelled", None) } else { body(&sent) };
        let (events, _) = ran(&gateway, &mut model, &dropping, &["Fine."]).await;
        let after = messages(&sent, &events);
        // From the list as it is now, from the list as it was then, and from no list.
        for list in [&after, &before, &vec![user("Go on.")]] {
            let late = resuming(list, &id, "resolved", approved());
            check_stale(&self::events(&gateway.post(RUN, &late).await));
        }
    }
    // A client that has lost its messages drops the question, too.
    let (before, id) = asked_to_wipe(&gateway, &mut model).await;
    let dropping = resuming(&[user("Never mind.")], &id, "cancelled", None);
    let (_, told) = ran(&gateway, &mut model, &dropping, &["Fine."]).await;
    assert!(told.contains("was left unanswered"), "{told}");
    let late = resuming(&before, &id, "resolved", approved());
    check_stale(&events(&gateway.post(RUN, &late).await));
    assert!(seen.lock().is_empty());
}

#[tokio::test]
async fn an_approval_that_comes_while_its_question_is_dropped_is_stale() {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let (wipe, seen) = Watched::new(Always::new("wipe", policy, ToolResult::data(json!({}))));
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(wipe)).unwrap()).await;
    let (mut sent, id) = asked_to_wipe(&gateway, &mut model).await;
    let late = resuming(&sent, &id, "resolved", Some(json!({"approved": true})));
    sent.push(user("Never mind."));
    let mut dropping = gateway.client().await;
    dropping.send(post(RUN, &[], &resuming(&sent, &id, "cancelled", None).to_string())).await;
    let running = model.round().await;
    for thread in ["t", "other"] {
        let mut late = late.clone();
        late["threadId"] = thread.into();
        check_stale(&events(&gateway.post(RUN, &late).await));
    }
    // Nor has it cancelled the turn that runs.
    running.answer("Fine.").await;
    let dropped = events(&dropping.reply().await);
    assert_eq!(event(&dropped, "RUN_FINISHED")["outcome"]["type"], "success");
    assert!(seen.lock().is_empty());
}

/// Neither its thread, nor what was hidden in it, nor its question.
#[tokio::test]
async fn nothing_of_a_thread_is_another_keys() {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let (wipe, seen) = Watched::new(Always::new("wipe", policy, ToolResult::data(json!({}))));
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.tools.add(Arc::new(wipe)).unwrap();
        setup.config.server.api_keys = ["a", "b"].map(|key| Secret::new(key.to_owned())).into();
    })
    .await;
    let [mine, theirs] = ["a", "b"].map(|key| format!("Authorization: Bearer {key}"));
    let ran = async |key: &str, body: &Value, model: &mut Model, answers: &[&str]| {
        let mut client = gateway.client().await;
        client.send(post(RUN, &[key], &body.to_string())).await;
        let told = model.answers(answers).await;
        (events(&client.reply().await), told)
    };
    let first = body(&[user("What is 6*7?")]);
    let (begun, _) = ran(&mine, &first, &mut model, &[CALCULATE, "It is 42."]).await;
    let mut list = messages(&[user("What is 6*7?")], &begun);
    for message in &mut list {
        if message["role"] == "tool" {
            message["content"] = "43".into();
        }
    }
    list.push(user("Sure?"));
    let texts =
        [user("What is 6*7?"), json!({"role": "assistant", "content": "It is 42."}), user("Sure?")];
    for list in [&list[..], &texts[..]] {
        let (_, told) = ran(&theirs, &body(list), &mut model, &["Yes."]).await;
        assert!(!told.contains("\"result\":\"42\""), "{told}");
    }

    let wipe = call("wipe", &json!({}));
    let (begun, _) = ran(&mine, &body(&[user("Wipe it.")]), &mut model, &[&wipe]).await;
    let sent = messages(&[user("Wipe it.")], &begun);
    let id = &interrupt(&begun)["id"];
    let approving = resuming(&sent, id, "resolved", Some(json!({"approved": true})));
    let mut dropping = sent.clone();
    dropping.push(user("Never mind."));
    for request in [approving.clone(), resuming(&dropping, id, "cancelled", None)] {
        let (refused, _) = ran(&theirs, &request, &mut model, &[]).await;
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(refused[0]["type"], "RUN_ERROR");
    }
    assert!(seen.lock().is_empty());
    // It is still open, and its thread has no turn of theirs.
    let mut client = gateway.client().await;
    client.send(post(RUN, &[&mine], &approving.to_string())).await;
    let round = model.round().await;
    ran(&theirs, &body(&[user("Hi.")]), &mut model, &["Hello."]).await;
    round.answer("Wiped.").await;
    let ended = events(&client.reply().await);
    assert_eq!(event(&ended, "RUN_FINISHED")["outcome"]["type"], "success");
    assert_eq!(seen.lock().len(), 1);
}

#[tokio::test]
async fn a_denied_call_does_not_run() {
    let policy = Policy { mutates: true, destructive: true, ..Policy::NONE };
    let (wipe, seen) = Watched::new(Always::new("wipe", policy, ToolResult::data(json!({}))));
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.tools.add(Arc::new(wipe)).unwrap()).await;
    let sent = [user("Wipe it.")];
    let (begun, _) = ran(&gateway, &mut model, &body(&sent), &[&call("wipe", &json!({}))]).await;
    let denied = Some(json!({"approved": false}));
    let resume = resuming(&messages(&sent, &begun), &interrupt(&begun)["id"], "resolved", denied);
    let (events, _) = ran(&gateway, &mut model, &resume, &["I did not."]).await;
    assert_eq!(event(&events, "TOOL_CALL_RESULT")["content"], "the user chose deny");
    assert!(seen.lock().is_empty());
}

#[tokio::test]
async fn a_model_that_dies_midway_is_an_error_and_never_a_clean_end() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = body(&[user("Hi.")]);
    let dying = async {
        let mut round = model.round().await;
        round.begin().await;
        round.say("Well").await;
        round.reset();
    };
    let (reply, ()) = tokio::join!(gateway.post(RUN, &body), dying);
    let events = events(&reply);
    let [.., end, error] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&end["type"], &error["type"]), (&json!("TEXT_MESSAGE_END"), &json!("RUN_ERROR")));
    assert!(!error.to_string().contains("127."), "{error}");
}

#[tokio::test]
async fn what_is_no_run_is_refused() {
    let (_model, gateway) = Gateway::with_model(|_| {}).await;
    for (more, param) in [("threadId", "threadId"), ("runId", "runId"), ("messages", "messages")] {
        let mut body = body(&[user("Hi.")]);
        body[more] = Value::Null;
        let (status, code, at) = gateway.post(RUN, &body).await.refusal();
        assert_eq!((status, &*code, at.as_deref()), (400, "invalid_request", Some(param)));
    }
    assert_eq!(gateway.get(RUN).await.status(), 405);
}
