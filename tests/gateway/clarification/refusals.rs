//! Answers that are refused.

use serde_json::{Value, json};

use super::{DOE, Desk, check_refusal, option, text};
use crate::support::client::post;
use crate::support::events::outcome;
use crate::support::gateway::STREAM;
use crate::support::model::call;

#[tokio::test]
async fn an_invalid_answer_is_refused_and_changes_nothing() {
    let mut desk = Desk::open().await;
    let elsewhere = desk.ask_which_john("elsewhere").await;
    let asked = desk.ask_which_john("s").await;
    let before = desk.session("s").await;
    let id = &asked["clarification_id"];
    let with = |fields: Value| {
        let mut body = json!({"session_id": "s"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let responds = |response: Value| with(json!({ "clarification_response": response }));
    let response = |field: &str| format!("clarification_response.{field}");
    let doe = json!({ "id": DOE });
    for (body, param, says) in [
        (option("s", &json!({"clarification_id": "q"}), DOE), response("clarification_id"), id),
        (option("s", &elsewhere, DOE), response("clarification_id"), id),
        (option("elsewhere", &asked, DOE), response("clarification_id"), &Value::Null),
        (
            option("nowhere", &asked, DOE),
            response("clarification_id"),
            &json!("no question is open"),
        ),
        (option("s", &asked, "contact_jane_miller"), response("selected_option.id"), &json!(DOE)),
        (option("s", &asked, "John Doe"), response("selected_option.id"), &json!(DOE)),
        (option("s", &asked, ""), response("selected_option.id"), &json!(DOE)),
        (option("s", &asked, &"x".repeat(9000)), response("selected_option.id"), &json!(DOE)),
        (text("s", &asked, "Doe"), response("text"), &json!(DOE)),
        (
            responds(json!({"clarification_id": id, "selected_option": doe, "text": "Doe"})),
            "clarification_response".to_owned(),
            &json!("selected_option"),
        ),
        (
            responds(json!({ "clarification_id": id })),
            "clarification_response".to_owned(),
            &json!("text"),
        ),
        (
            responds(json!({"clarification_id": id, "selected_option": DOE})),
            response("selected_option"),
            &json!("an object"),
        ),
        (
            responds(json!({"clarification_id": id, "selected_option": {"id": DOE, "title": 1}})),
            response("selected_option.title"),
            &json!("is not a known field"),
        ),
        (
            responds(json!({ "selected_option": doe })),
            "clarification_response".to_owned(),
            &json!("clarification_id"),
        ),
        (
            with(json!({
                "prompt": "Doe",
                "clarification_response": {"clarification_id": id, "selected_option": doe},
            })),
            "prompt".to_owned(),
            &json!("send only one of prompt, clarification_response"),
        ),
        (
            json!({"clarification_response": {"clarification_id": id, "selected_option": doe}}),
            "session_id".to_owned(),
            &json!("session_id is required"),
        ),
    ] {
        let reply = desk.gateway.post(STREAM, &body).await;
        check_refusal(&reply, 400, "invalid_request", Some(&param));
        let says = says.as_str().unwrap_or_default();
        assert!(reply.message().contains(says), "{body}: {}", reply.message());
    }
    assert_eq!(desk.session("s").await, before);
    assert_eq!(desk.gateway.get("/api/v1/sessions/nowhere").await.status(), 404);
    assert!(desk.model.has_no_requests());
    let (mut stream, round) = desk.answer(&option("s", &asked, DOE)).await;
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
}

#[tokio::test]
async fn a_blank_text_is_not_an_answer() {
    let mut desk = Desk::open().await;
    let asked = desk.ask("s", &[call("pick_day", &json!({}))]).await;
    let reply = desk.gateway.post(STREAM, &text("s", &asked, " \n")).await;
    check_refusal(&reply, 400, "invalid_request", Some("clarification_response.text"));
    // A question without options does not accept an option.
    let reply = desk.gateway.post(STREAM, &option("s", &asked, "monday")).await;
    check_refusal(
        &reply,
        400,
        "invalid_request",
        Some("clarification_response.selected_option.id"),
    );
    assert!(reply.message().ends_with("; send text"), "{}", reply.message());
}

#[tokio::test]
async fn a_question_that_was_answered_is_stale() {
    let mut desk = Desk::open().await;
    let asked = desk.ask_which_john("s").await;
    let (mut stream, round) = desk.answer(&option("s", &asked, DOE)).await;
    // A turn is running while the question is being answered.
    let reply = desk.gateway.post(STREAM, &option("s", &asked, DOE)).await;
    check_refusal(&reply, 409, "turn_in_progress", None);
    round.answer("Well.").await;
    stream.rest().await;
    let reply = desk.gateway.post(STREAM, &option("s", &asked, "contact_john_smith")).await;
    let param = Some("clarification_response.clarification_id");
    check_refusal(&reply, 409, "clarification_stale", param);
    assert!(desk.model.has_no_requests());
}

#[tokio::test]
async fn another_prompt_drops_the_question_and_tells_the_model() {
    let mut desk = Desk::open().await;
    let asked = desk.ask_which_john("s").await;
    let prompt = json!({"session_id": "s", "prompt": "Never mind. What is new?"});
    let (mut stream, round) = desk.answer(&prompt).await;
    let told = round.request.contents();
    assert!(told.contains("\"Which John do you mean?\" was left unanswered"), "{told}");
    round.answer("Nothing.").await;
    stream.rest().await;
    let reply = desk.gateway.post(STREAM, &option("s", &asked, DOE)).await;
    let param = Some("clarification_response.clarification_id");
    check_refusal(&reply, 409, "clarification_stale", param);
    let shown = desk.session("s").await;
    assert_eq!(shown["clarification"], Value::Null);
    assert_eq!(shown["turns"][1]["dropped"], "Which John do you mean?");
}

#[tokio::test]
async fn an_answer_is_given_once_even_if_its_turn_does_not_end_well() {
    let mut desk = Desk::open().await;
    let asked = desk.ask_which_john("s").await;
    let (mut stream, mut round) = desk.answer(&option("s", &asked, DOE)).await;
    round.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(outcome(&stream.rest().await), "upstream_error");
    let reply = desk.gateway.post(STREAM, &option("s", &asked, DOE)).await;
    let param = Some("clarification_response.clarification_id");
    check_refusal(&reply, 409, "clarification_stale", param);
    let go_on = json!({"session_id": "s", "prompt": "Go on."});
    let (mut stream, round) = desk.answer(&go_on).await;
    assert!(round.request.contents().contains(DOE));
    round.answer("Well.").await;
    stream.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_concurrent_answers_is_accepted() {
    let mut desk = Desk::open().await;
    for session in 0..20 {
        let session = session.to_string();
        let asked = desk.ask_which_john(&session).await;
        let ids = [DOE, "contact_john_smith", "contact_john_carter"];
        let answers: Vec<_> = ids
            .iter()
            .cycle()
            .take(12)
            .map(|id| {
                let request = post(STREAM, &[], &option(&session, &asked, id).to_string());
                let gateway = *desk.gateway;
                tokio::spawn(async move {
                    let mut client = gateway.client().await;
                    client.send(request).await;
                    let status = client.head().await.status;
                    (status, client)
                })
            })
            .collect();
        let mut taken = Vec::new();
        for answer in answers {
            let (status, client) = answer.await.unwrap();
            match status {
                200 => taken.push(client),
                status => assert_eq!(status, 409),
            }
        }
        assert_eq!(taken.len(), 1);
        desk.model.round().await.answer("Well.").await;
        assert!(desk.model.has_no_requests());
    }
}
