//! What happens after an answer.

use serde_json::json;

use super::{DOE, Desk, FOUND, asked, check_refusal, look_up, option, send_to, text};
use crate::support::client::post;
use crate::support::events::{outcome, said};
use crate::support::gateway::STREAM;
use crate::support::model::call;

#[tokio::test]
async fn the_chosen_option_reaches_the_model_with_its_id_and_the_chain_continues() {
    let mut desk = Desk::open().await;
    let asked = desk.ask_which_john("s").await;
    let (mut stream, round) = desk.answer(&option("s", &asked, DOE)).await;
    assert!(round.request.contents().contains(&format!("{{\"id\":\"{DOE}\"")));
    round.answer(&send_to(&json!(DOE))).await;
    desk.model.round().await.answer("It is sent.").await;
    let frames = stream.rest().await;
    assert_eq!(outcome(&frames), "stop");
    assert!(said(&frames).ends_with("It is sent."));
    assert_eq!(desk.sent_to(), [DOE]);
    let turn = &desk.session("s").await["turns"][1];
    assert_eq!(turn["prompt"], "John Doe");
    assert_eq!(turn["answer"]["option"]["id"], DOE);
    assert_eq!(turn["answer"]["clarification_id"], asked["clarification_id"]);
}

#[tokio::test]
async fn text_answers_where_the_tool_takes_it() {
    let mut desk = Desk::open().await;
    for (tool, words) in [("pick_day", "the day after"), ("pick_room", "the \"big\" one")] {
        let asked = desk.ask(tool, &[call(tool, &json!({}))]).await;
        let (mut stream, round) = desk.answer(&text(tool, &asked, words)).await;
        assert!(round.request.contents().contains(words), "{}", round.request.body);
        round.answer("Well.").await;
        assert_eq!(outcome(&stream.rest().await), "stop");
        let turn = &desk.session(tool).await["turns"][1];
        assert_eq!((&turn["prompt"], &turn["answer"]["text"]), (&json!(words), &json!(words)));
    }
}

#[tokio::test]
async fn an_idempotency_key_repeats_an_answer() {
    let mut desk = Desk::open().await;
    let asked = desk.ask_which_john("s").await;
    let key = ["Idempotency-Key: k"];
    // A refused answer begins nothing, so the key is still free.
    let wrong = option("s", &asked, "nobody").to_string();
    let reply = desk.gateway.exchange(post(STREAM, &key, &wrong)).await;
    assert_eq!(reply.status(), 400);
    let body = option("s", &asked, DOE);
    let mut stream = desk.gateway.turn_with(&key, &body).await;
    let mut again = desk.gateway.turn_with(&key, &body).await;
    desk.model.round().await.answer("Well.").await;
    let frames = stream.rest().await;
    assert_eq!(again.rest().await, frames);
    // The turn is over, and under any other key the question is stale.
    let mut later = desk.gateway.turn_with(&key, &body).await;
    assert_eq!(later.rest().await, frames);
    assert!(desk.model.has_no_requests());
}

#[tokio::test]
async fn a_turn_that_answers_may_ask_again() {
    let mut desk = Desk::open().await;
    let first = desk.ask_which_john("s").await;
    let (mut stream, round) = desk.answer(&option("s", &first, DOE)).await;
    round.answer_at_once(&[look_up("J"), send_to(&json!({"$result": FOUND}))].join("\n")).await;
    let second = asked(&stream.rest().await);
    assert_ne!(second["clarification_id"], first["clarification_id"]);
    let reply = desk.gateway.post(STREAM, &option("s", &first, DOE)).await;
    let param = Some("clarification_response.clarification_id");
    check_refusal(&reply, 409, "clarification_stale", param);
    let (mut stream, round) = desk.answer(&option("s", &second, "contact_jane_miller")).await;
    let told = round.request.contents();
    assert!(told.contains(DOE) && told.contains("contact_jane_miller"), "{told}");
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
    assert_eq!(desk.sent_to(), [""; 0]);
}
