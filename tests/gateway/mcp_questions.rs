//! Questions of MCP servers, of both eras, through turns: asked, answered, declined, dropped, lost.

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tether::limits::session::TTL;
use tether::limits::tools::QUESTIONS_PER_CALL_MAX;
use tether::session::store::{MemoryStore, Store};
use tether::tools::mcp::{McpOptions, McpServer};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;

use crate::recent_turns::store_at;
use crate::support::events::{names, outcome};
use crate::support::gateway::{STREAM, Setup};
use crate::support::model::call;
use crate::support::redis_server::RedisServer;
use crate::support::{EventStream, Frame, Gateway, Model, mcp, within};

/// A model, and a gateway with a server that asks for a size.
struct Shop {
    model: Model,
    gateway: Gateway,
    /// What happens to the server.
    events: Lines<BufReader<pipe::Receiver>>,
    _folder: TempDir,
}

/// Adds the server, and returns what happens to it.
fn add(
    setup: &mut Setup,
    behaviour: &str,
    change: impl FnOnce(&mut McpOptions),
) -> (TempDir, Lines<BufReader<pipe::Receiver>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let events = BufReader::new(pipe::OpenOptions::new().open_receiver(path).unwrap()).lines();
    let mut options = mcp::options(behaviour, Some(folder.path()));
    options.is_required = true;
    change(&mut options);
    let server = McpServer::new(options);
    setup.tools.push_live(server.starting(), move || server.follow());
    (folder, events)
}

impl Shop {
    async fn open(behaviour: &str) -> Self {
        Self::open_with(behaviour, Model::listen(), None).await
    }

    async fn open_changed(behaviour: &str, change: impl FnOnce(&mut McpOptions)) -> Self {
        Self::open_all(behaviour, Model::listen(), None, change).await
    }

    async fn open_with(behaviour: &str, model: Model, store: Option<Arc<dyn Store>>) -> Self {
        Self::open_all(behaviour, model, store, |_| {}).await
    }

    async fn open_all(
        behaviour: &str,
        model: Model,
        store: Option<Arc<dyn Store>>,
        change: impl FnOnce(&mut McpOptions),
    ) -> Self {
        let mut server = None;
        let gateway = Gateway::with(model.address, |setup| {
            server = Some(add(setup, behaviour, change));
            setup.store = store;
        })
        .await;
        let (folder, events) = server.unwrap();
        Self { model, gateway, events, _folder: folder }
    }

    /// Runs a turn that calls the tool that asks.
    async fn order(&mut self, session: &str, what: &str) -> EventStream {
        let body = json!({"session_id": session, "prompt": "A shirt, please."});
        let stream = self.gateway.turn(&body).await;
        let round = self.model.round().await;
        round.answer(&call("odd", &json!({"text": what}))).await;
        stream
    }

    /// The question that such a turn ends with.
    async fn asked(&mut self, session: &str) -> Value {
        question(&self.order(session, "shirt").await.rest().await)
    }

    /// Runs a turn with this body, in which the model only speaks. Returns what the model was
    /// told, and the events.
    async fn turn(&mut self, body: &Value) -> (String, Vec<Frame>) {
        let mut stream = self.gateway.turn(body).await;
        let round = self.model.round().await;
        let told = round.request.contents();
        round.answer("Well.").await;
        // Not `rest`, because another gateway may have begun the session.
        (told, stream.up_to("turn_completed").await)
    }

    /// Waits until this has happened to the server.
    async fn hears(&mut self, expected: &str) {
        within(async { while self.events.next_line().await.unwrap().unwrap() != expected {} })
            .await;
    }
}

fn answer(session: &str, asked: &Value, response: &Value) -> Value {
    let mut response = response.clone();
    response["clarification_id"] = asked["clarification_id"].clone();
    json!({"session_id": session, "clarification_response": response})
}

/// The question that a turn has ended with.
#[track_caller]
fn question(frames: &[Frame]) -> Value {
    assert_eq!(outcome(frames), "clarification_needed", "{frames:#?}");
    frames[frames.len() - 2].data.clone()
}

/// The data of the only result of a turn.
#[track_caller]
fn result(frames: &[Frame]) -> &Value {
    let mut results = frames.iter().filter(|frame| frame.event == "tool_completed");
    let result = &results.next().unwrap().data["tool_result"];
    assert!(results.next().is_none(), "{frames:#?}");
    result
}

const FILLED_IN: &str = r#"{"size":"m"}"#;

#[tokio::test]
async fn an_answer_goes_on_with_the_call_before_the_model_speaks() {
    for behaviour in ["asks", "modern_asks"] {
        let mut shop = Shop::open(behaviour).await;
        let asked = shop.asked("s").await;
        assert_eq!(asked["type"], "form");
        assert_eq!(asked["question"], "Which size?");
        assert_eq!(asked["source"], json!({"kind": "mcp", "name": "bad"}));
        assert_eq!(asked["schema"]["properties"]["size"]["enum"], json!(["s", "m"]));
        let content: Value = serde_json::from_str(FILLED_IN).unwrap();
        let response = answer("s", &asked, &json!({"content": content}));
        let (told, frames) = shop.turn(&response).await;
        let begins: Vec<_> =
            names(&frames).into_iter().filter(|name| name.starts_with("tool_")).collect();
        assert_eq!(begins[..2], ["tool_started", "tool_completed"], "{behaviour}");
        let text = result(&frames)["data"].to_string();
        for part in ["accept", "size", "\"note", "none"] {
            assert!(text.replace('\\', "").contains(part), "{behaviour}: {part}: {text}");
        }
        assert!(told.contains("accept"), "{behaviour}: {told}");
        assert_eq!(outcome(&frames), "stop");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_form_is_refused_and_may_be_repeated() {
    let mut shop = Shop::open("asks").await;
    let asked = shop.asked("s").await;
    let wrong = answer("s", &asked, &json!({"content": {"size": "xl"}}));
    let reply = shop.gateway.post(STREAM, &wrong).await;
    assert_eq!(reply.refusal().0, 400, "{}", reply.message());
    let right = answer("s", &asked, &json!({"selected_option": {"id": "s"}}));
    let (_, frames) = shop.turn(&right).await;
    assert!(result(&frames)["data"].to_string().contains("accept"));
}

#[tokio::test]
async fn a_refusal_reaches_the_server() {
    for behaviour in ["asks", "asks_oddly", "modern_asks"] {
        for action in ["decline", "cancel"] {
            let mut shop = Shop::open(behaviour).await;
            let asked = shop.asked("s").await;
            let (_, frames) = shop.turn(&answer("s", &asked, &json!({"action": action}))).await;
            let text = result(&frames)["data"].to_string();
            assert!(text.contains(action), "{behaviour}: {text}");
        }
    }
}

#[tokio::test]
async fn another_prompt_cancels_the_question() {
    let mut shop = Shop::open("asks").await;
    let asked = shop.asked("s").await;
    let (told, frames) = shop.turn(&json!({"session_id": "s", "prompt": "Never mind."})).await;
    assert!(told.contains("\"Which size?\" was left unanswered"), "{told}");
    assert!(!names(&frames).contains(&"tool_started"));
    shop.hears("answered cancel").await;
    let late = answer("s", &asked, &json!({"content": {"size": "s"}}));
    let reply = shop.gateway.post(STREAM, &late).await;
    assert_eq!((reply.refusal().0, &*reply.refusal().1), (409, "clarification_stale"));
}

#[tokio::test]
async fn a_session_that_is_deleted_takes_its_question_along() {
    let mut shop = Shop::open("asks").await;
    shop.asked("s").await;
    let request = crate::support::client::request("DELETE", "/api/v1/sessions/s", &[], "");
    assert_eq!(shop.gateway.exchange(request).await.head.status, 204);
    // The call does not stay open in the server either.
    shop.hears("cancelled").await;
}

#[tokio::test]
async fn of_two_sessions_that_share_a_connection_only_one_is_asked() {
    let mut shop = Shop::open("asks").await;
    let asked = shop.asked("a").await;
    // Either of the two open calls may be asking, so nobody is asked for the second one.
    let mut stream = shop.order("b", "shirt").await;
    shop.model.round().await.answer("Well.").await;
    let frames = stream.rest().await;
    assert_eq!(outcome(&frames), "stop", "{frames:#?}");
    assert!(result(&frames)["data"].to_string().contains("cancel"));
    let response = answer("a", &asked, &json!({"content": {"size": "s"}}));
    let (_, frames) = shop.turn(&response).await;
    assert!(result(&frames)["data"].to_string().contains("accept"));
}

#[tokio::test]
async fn a_call_that_was_given_up_keeps_others_from_being_asked_until_it_is_answered() {
    let mut shop = Shop::open("asks_later").await;
    let mut stream = shop.order("a", "first").await;
    shop.hears("called").await;
    assert_eq!(shop.gateway.cancel("a").await, 202);
    stream.rest().await;
    shop.hears("cancelled").await;
    // The session itself may be asked: whichever of its calls it is about.
    question(&shop.order("a", "second").await.rest().await);
    let dropped = shop.turn(&json!({"session_id": "a", "prompt": "Never mind."})).await;
    assert_eq!(outcome(&dropped.1), "stop");
    let mut stream = shop.order("b", "third").await;
    shop.model.round().await.answer("Well.").await;
    assert!(result(&stream.rest().await)["data"].to_string().contains("cancel"));
    question(&shop.order("c", "answers all").await.rest().await);
}

#[tokio::test]
async fn a_call_asks_ten_times_at_most() {
    let mut shop = Shop::open("asks_again").await;
    let mut asked = shop.asked("s").await;
    let content = json!({"content": {"size": "s"}});
    for _ in 1..QUESTIONS_PER_CALL_MAX {
        let mut stream = shop.gateway.turn(&answer("s", &asked, &content)).await;
        asked = question(&stream.rest().await);
    }
    let (told, frames) = shop.turn(&answer("s", &asked, &content)).await;
    assert!(result(&frames)["data"].to_string().contains("cancel"), "{told}");
}

#[tokio::test]
async fn a_question_of_the_old_protocol_is_lost_with_its_gateway_and_the_model_is_told() {
    let recorder = PrometheusBuilder::new().build_recorder();
    // The gateways run on this thread.
    let _counting = metrics::set_default_local_recorder(&recorder);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(TTL));
    let mut one = Shop::open_with("asks", Model::listen(), Some(Arc::clone(&store))).await;
    let asked = one.asked("s").await;
    drop(one);
    let mut two = Shop::open_with("asks", Model::listen(), Some(store)).await;
    let response = answer("s", &asked, &json!({"content": {"size": "s"}}));
    let reply = two.gateway.post(STREAM, &response).await;
    assert_eq!((reply.refusal().0, &*reply.refusal().1), (409, "clarification_expired"));
    let counted = recorder.handle().render();
    let expired = "tether_clarifications_total{outcome=\"expired\"} 1\n";
    assert!(counted.contains(expired), "{counted}");
    let (told, frames) = two.turn(&json!({"session_id": "s", "prompt": "Go on."})).await;
    assert!(told.contains("\"Which size?\" was left unanswered"), "{told}");
    assert_eq!(outcome(&frames), "stop");
}

#[tokio::test]
async fn an_answer_for_a_server_that_has_ended_says_so() {
    let mut shop = Shop::open("asks_and_ends").await;
    let asked = shop.asked("s").await;
    shop.hears("ended").await;
    let response = answer("s", &asked, &json!({"content": {"size": "s"}}));
    let (told, frames) = shop.turn(&response).await;
    let result = result(&frames);
    assert_eq!(result["success"], false, "{result}");
    assert!(told.contains("the server ended"), "{result} {told}");
}

#[tokio::test]
async fn a_modern_question_outlives_its_gateway() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(TTL));
    let mut one = Shop::open_with("modern_asks", Model::listen(), Some(Arc::clone(&store))).await;
    let asked = one.asked("s").await;
    drop(one);
    let mut two = Shop::open_with("modern_asks", Model::listen(), Some(store)).await;
    let response = answer("s", &asked, &json!({"content": {"size": "s"}}));
    let (_, frames) = two.turn(&response).await;
    let text = result(&frames)["data"].to_string();
    assert!(text.contains("accept"), "{text}");
    assert_eq!(result(&frames)["data"]["state"], "stäte");
}

/// The nodes have a store in common, and each has a server of its own.
#[tokio::test]
async fn a_modern_question_is_answered_on_another_node() {
    let server = RedisServer::start();
    let open = || Shop::open_with("modern_asks_one", Model::listen(), Some(store_at(&server)));
    let (mut one, mut two) = (open().await, open().await);
    let asked = one.asked("s").await;
    let response = answer("s", &asked, &json!({"content": {"size": "s"}}));
    let (_, frames) = two.turn(&response).await;
    let got = &result(&frames)["data"];
    assert!(got.to_string().contains("accept") && got["state"] == "stäte", "{got}");
    let late = one.gateway.post(STREAM, &response).await;
    assert_eq!((late.refusal().0, &*late.refusal().1), (409, "clarification_stale"));

    // In a conversation that its client brings.
    let first = json!({"role": "user", "content": "A shirt, please."});
    let order = call("odd", &json!({"text": "shirt"}));
    let (question, _) = ordered(&mut one, &json!([first]), &[&order]).await;
    let asked = json!({"role": "assistant", "content": question});
    let messages = json!([first, asked, {"role": "user", "content": "1"}]);
    let (_, told) = ordered(&mut two, &messages, &["Well."]).await;
    assert!(told.contains("accept") && told.contains("stäte"), "{told}");
    // The call has got its answer, so the same words on the other node are only words.
    let (_, told) = ordered(&mut one, &messages, &["Well."]).await;
    assert!(told.contains("was left unanswered") && !told.contains("accept"), "{told}");
}

#[tokio::test]
async fn the_user_learns_of_a_question_that_nobody_was_asked_though_the_call_succeeds() {
    let mut shop = Shop::open("asks_secret").await;
    let mut stream = shop.order("s", "shirt").await;
    let round = shop.model.round().await;
    let told = round.request.contents();
    round.answer("Well.").await;
    let frames = stream.rest().await;
    let result = result(&frames);
    assert_eq!(result["data"]["action"], "decline");
    let notice = "The tool had a question that nobody was asked: it asked the user for a password, \
                  which nobody should give to a model's tool.";
    assert_eq!(result["data"]["for_user"], json!([notice]));
    assert!(told.contains(&format!("Tell the user: {notice}")), "{told}");
}

/// A shop whose server may, or may not, send the user to pages.
async fn with_pages(may: bool) -> Shop {
    let change = |options: &mut McpOptions| options.may_send_to_pages = may;
    Shop::open_changed("needs_page", change).await
}

#[tokio::test]
async fn a_call_that_needs_a_page_is_made_again_once_the_user_has_agreed() {
    let mut shop = with_pages(true).await;
    let asked = shop.asked("s").await;
    assert_eq!((&asked["type"], &asked["url"]), (&json!("url"), &json!(LOGIN)));
    let accept = json!({"selected_option": {"id": "accept"}});
    let (_, frames) = shop.turn(&answer("s", &asked, &accept)).await;
    assert_eq!(result(&frames)["data"], json!({"text": "signed in"}));
}

#[tokio::test]
async fn a_call_that_needs_a_page_fails_if_the_user_declines_or_cannot_be_asked() {
    for no in [json!({"action": "decline"}), json!({"selected_option": {"id": "deny"}})] {
        let mut shop = with_pages(true).await;
        let asked = shop.asked("s").await;
        let (_, frames) = shop.turn(&answer("s", &asked, &no)).await;
        let error = "the tool needs the user to visit a page first, which the user declined";
        assert_eq!(result(&frames)["error"], error, "{no}");
    }

    let mut shop = with_pages(false).await;
    let mut stream = shop.order("s", "shirt").await;
    shop.model.round().await.answer("Well.").await;
    let frames = stream.rest().await;
    let error = result(&frames)["error"].as_str().unwrap();
    assert!(
        error.contains("visit a page first; ") && error.contains("`elicit_urls: true`"),
        "{error}"
    );
}

const LOGIN: &str = "https://login.example.org/start?id=1";

/// Asks for a shirt through another API. Returns the answer's text.
async fn ordered(shop: &mut Shop, messages: &Value, answers: &[&str]) -> (String, String) {
    let body = json!({"model": "fake", "messages": messages});
    let answering = async {
        let mut told = String::new();
        for answer in answers {
            let round = shop.model.round().await;
            told = round.request.contents();
            round.answer(answer).await;
        }
        told
    };
    let (reply, told) = tokio::join!(shop.gateway.post("/v1/chat/completions", &body), answering);
    assert_eq!(reply.status(), 200, "{}", reply.json());
    let text = reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    (text, told)
}

/// A client that brings its conversation has no session that lasts, but its next request finds the
/// call that waits.
#[tokio::test]
async fn a_question_in_a_conversation_that_is_brought_is_answered_or_dropped() {
    let mut shop = Shop::open("asks_one").await;
    let first = json!({"role": "user", "content": "A shirt, please."});
    let order = call("odd", &json!({"text": "shirt"}));
    for (words, heard) in [("1", "answered accept"), ("Never mind.", "answered cancel")] {
        let (question, _) = ordered(&mut shop, &json!([first]), &[&order]).await;
        assert!(question.contains("The server bad asks: Which size?"), "{question}");
        let asked = json!({"role": "assistant", "content": question});
        let messages = json!([first, asked, {"role": "user", "content": words}]);
        let (text, told) = ordered(&mut shop, &messages, &["Well."]).await;
        assert_eq!(text, "Well.");
        assert_eq!(told.contains("accept"), words == "1", "{told}");
        shop.hears(heard).await;
    }
    // Nothing keeps others from being asked.
    shop.asked("s").await;
}

/// A client that shows questions as words cannot show a form.
#[tokio::test]
async fn a_form_that_words_cannot_fill_in_is_declined() {
    for behaviour in ["asks_two", "modern_asks_two"] {
        let mut shop = Shop::open(behaviour).await;
        let first = json!({"role": "user", "content": "A shirt, please."});
        let order = call("odd", &json!({"text": "shirt"}));
        let (text, told) = ordered(&mut shop, &json!([first]), &[&order, "Well."]).await;
        assert_eq!(text, "Well.", "{behaviour}");
        let notice = "it asks for a form to be filled in, and the user's program shows none";
        assert!(told.contains("decline") && told.contains(notice), "{behaviour}: {told}");
        assert_eq!(shop.asked("s").await["type"], "form", "other clients show it");
    }
}

#[tokio::test]
async fn a_form_without_fields_asks_for_yes_or_no() {
    for behaviour in ["asks_yes", "modern_asks_yes"] {
        for (words, action) in [("yes", "accept"), ("2", "decline")] {
            let mut shop = Shop::open(behaviour).await;
            let first = json!({"role": "user", "content": "A shirt, please."});
            let order = call("odd", &json!({"text": "shirt"}));
            let (question, _) = ordered(&mut shop, &json!([first]), &[&order]).await;
            assert!(question.ends_with("Which size?\n1. Yes\n2. No"), "{question}");
            let asked = json!({"role": "assistant", "content": question});
            let messages = json!([first, asked, {"role": "user", "content": words}]);
            let (_, told) = ordered(&mut shop, &messages, &["Well."]).await;
            assert!(told.contains(action), "{behaviour}, {words}: {told}");
        }
    }
}
