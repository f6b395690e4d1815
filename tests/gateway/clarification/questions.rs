//! What is asked, what does not run in the meantime, and where both can be seen.

use serde_json::{Value, json};

use super::{DOE, Desk, FOUND, asked, check_refusal, look_up, option, send_to};
use crate::support::events::{names, outcome};
use crate::support::gateway::STREAM;
use crate::support::model::call;
use crate::support::process::Process;
use crate::support::within;

#[tokio::test]
async fn a_tool_that_cannot_decide_asks_and_nothing_after_it_runs() {
    let mut desk = Desk::open().await;
    let (mut stream, round) = desk.gateway.begin(&mut desk.model, "s").await;
    let words = ["Let me see.", &look_up("John"), &send_to(&json!({"$result": FOUND}))];
    round.answer_at_once(&words.join("\n")).await;
    let frames = stream.rest().await;
    assert_eq!(
        names(&frames),
        [
            "turn_started",
            "text_delta",
            "tool_marker_detected",
            "acknowledgement",
            "tool_started",
            "tool_marker_detected",
            "tool_completed",
            "status",
            "clarification_needed",
            "turn_completed"
        ]
    );
    let status = frames.iter().find(|frame| frame.event == "status").unwrap();
    let skipped =
        "send_message was not run: lookup_contacts (call_1) needs the user's answer first";
    assert_eq!(status.data["message"], skipped);
    let asked = asked(&frames);
    assert_eq!(
        (&asked["tool_name"], &asked["type"], &asked["question"]),
        (&json!("lookup_contacts"), &json!("choice"), &json!("Which John do you mean?"))
    );
    let ids: Vec<_> = asked["options"].as_array().unwrap().iter().map(|o| &o["id"]).collect();
    assert_eq!(ids, [DOE, "contact_john_smith", "contact_john_carter"]);
    assert_eq!(desk.sent_to(), [""; 0]);
    // It is the user's turn to answer, not the model's.
    assert!(desk.model.has_no_requests());
}

#[tokio::test]
async fn the_call_after_a_lookup_that_asks_is_not_run() {
    let mut desk = Desk::open().await;
    let asked = desk.ask("s", &[look_up("John"), look_up("J")]).await;
    assert_eq!(asked["question"], "Which John do you mean?");
    let turn = &desk.session("s").await["turns"][0];
    assert_eq!(turn["questions"].as_array().unwrap().len(), 1);
    let calls = turn["steps"][0]["parts"].as_array().unwrap().iter().filter_map(|p| p.get("call"));
    let outcomes: Vec<_> = calls.map(|call| &call["outcome"]).collect();
    assert_eq!(outcomes[0]["ended"]["next_action"], "clarification_needed");
    let reason = outcomes[1]["skipped"].as_str().unwrap();
    assert!(reason.contains("needs the user's answer first"), "{reason}");
}

#[tokio::test]
async fn two_questions_of_one_message_are_asked_one_after_the_other() {
    let mut desk = Desk::open().await;
    let calls = [call("pick_size", &json!({})), call("pick_hue", &json!({}))];
    let (mut stream, round) = desk.gateway.begin(&mut desk.model, "s").await;
    // In one piece, so both run before either ends.
    round.answer_at_once(&calls.join("\n")).await;
    let size = asked(&stream.rest().await);
    assert_eq!(size["question"], "Which size?");
    let waiting = desk.session("s").await["turns"][0]["questions"][1]["clarification_id"].clone();
    assert!(waiting.is_string(), "both were run: {}", desk.session("s").await);
    // It has not been asked yet, so it cannot be answered.
    let early = option("s", &json!({ "clarification_id": waiting }), "red");
    let reply = desk.gateway.post(STREAM, &early).await;
    let param = Some("clarification_response.clarification_id");
    check_refusal(&reply, 400, "invalid_request", param);

    let mut stream = desk.gateway.turn(&option("s", &size, "m")).await;
    let frames = stream.rest().await;
    assert_eq!(names(&frames), ["turn_started", "clarification_needed", "turn_completed"]);
    let hue = asked(&frames);
    assert_eq!((&hue["question"], &hue["clarification_id"]), (&json!("Which hue?"), &waiting));
    assert!(desk.model.has_no_requests());

    let (mut stream, round) = desk.answer(&option("s", &hue, "tan")).await;
    let told = round.request.contents();
    assert!(told.contains("{\"id\":\"m\"") && told.contains("{\"id\":\"tan\""), "{told}");
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
}

#[tokio::test]
async fn a_turn_that_asked_can_be_read_again() {
    let mut desk = Desk::open().await;
    let (mut stream, round) = desk.gateway.begin(&mut desk.model, "s").await;
    round.answer_at_once(&look_up("John")).await;
    let frames = stream.rest().await;
    let mut again = desk.gateway.rejoin("session_id=s", &[]).await;
    assert_eq!(again.rest().await, frames);
    let seen = format!("{STREAM}?session_id=s&last_event_id={}", frames.last().unwrap().id);
    assert_eq!(desk.gateway.get(&seen).await.status(), 204);
}

#[tokio::test]
async fn a_returning_client_finds_the_open_question_in_the_session() {
    let mut desk = Desk::open().await;
    let asked = desk.ask_which_john("s").await;
    let shown = desk.session("s").await;
    assert_eq!(shown["state"], "awaiting_clarification");
    assert_eq!(shown["clarification"], asked);

    let (mut stream, round) = desk.answer(&option("s", &shown["clarification"], DOE)).await;
    let shown = desk.session("s").await;
    assert_eq!((&shown["state"], &shown["clarification"]), (&json!("planning"), &Value::Null));
    round.answer("Well.").await;
    stream.rest().await;
    let shown = desk.session("s").await;
    assert_eq!((&shown["state"], &shown["clarification"]), (&json!("completed"), &Value::Null));
}

#[tokio::test]
async fn the_session_shows_where_its_turn_is() {
    let mut desk = Desk::open().await;
    let body = json!({"session_id": "s", "prompt": "Hello?", "max_tool_loops": 1});
    let (mut stream, round) = desk.answer(&body).await;
    assert_eq!(desk.session("s").await["state"], "planning");
    round.answer(&call("wait", &json!({}))).await;
    desk.wait.started().await;
    // The call may run before the model's message ends.
    within(async { while desk.session("s").await["state"] != "executing" {} }).await;
    desk.wait.release();
    let round = desk.model.round().await;
    assert_eq!(desk.session("s").await["state"], "synthesizing");
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "loop_limit");
    assert_eq!(desk.session("s").await["state"], "completed");
}

#[tokio::test]
async fn the_metrics_count_the_outcomes_of_questions() {
    let gateway = Process::start(
        "upstreams: [{name: model, kind: embedded, tokens_per_sec: 100000}]\ntools: {demo: true}",
    )
    .await;
    let tell_john = json!({"session_id": "s", "prompt": "Tell John I'm late"});
    for _ in 0..2 {
        let first = asked(&gateway.turn(&tell_john).await.rest().await);
        // The first is answered; the second is dropped when the same wish is repeated.
        let second = asked(&gateway.turn(&tell_john).await.rest().await);
        let stale = gateway.post(STREAM, &option("s", &first, DOE)).await;
        assert_eq!(stale.status(), 409);
        gateway.turn(&option("s", &second, DOE)).await.rest().await;
    }
    let asked = asked(&gateway.turn(&tell_john).await.rest().await);
    let declined = json!({"clarification_id": asked["clarification_id"], "action": "decline"});
    let body = json!({"session_id": "s", "clarification_response": declined});
    gateway.turn(&body).await.rest().await;
    let metrics = String::from_utf8(gateway.get("/metrics").await.body).unwrap();
    for (outcome, count) in [("asked", 5), ("answered", 2), ("declined", 1), ("dropped", 2)] {
        let line = format!("tether_clarifications_total{{outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}
