//! Models that see the images that clients send, in each client's own API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tether::config::Secret;
use tether::upstream::History;

use crate::support::client::post;
use crate::support::gateway::Setup;
use crate::support::model::Round;
use crate::support::{Gateway, Model};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
const AI_SDK: &str = "/api/v1/ai-sdk/chat";
const AG_UI: &str = "/api/v1/ag-ui";

/// What the model reads of a picture.
const NOTE: &str = "[image image/gif, 7 bytes, artifact a1]";

async fn gateway(change: impl FnOnce(&mut Setup)) -> (Model, Gateway) {
    Gateway::with_model(|setup| {
        setup.config.model.images = true;
        change(setup);
    })
    .await
}

/// One of ten pictures, in base64.
fn picture(number: u8) -> String {
    STANDARD.encode([b"GIF89a", &[b'0' + number][..]].concat())
}

fn url(number: u8) -> String {
    format!("data:image/gif;base64,{}", picture(number))
}

/// A message of Chat Completions with words and pictures.
fn shows(words: &str, numbers: &[u8]) -> Value {
    let text = json!({"type": "text", "text": words});
    let image = |number: &u8| json!({"type": "image_url", "image_url": {"url": url(*number)}});
    let parts: Vec<_> = std::iter::once(text).chain(numbers.iter().map(image)).collect();
    json!({"role": "user", "content": parts})
}

fn chat(messages: &[Value]) -> Value {
    json!({"model": "fake", "messages": messages})
}

fn said(words: &str) -> Value {
    json!({"role": "assistant", "content": words})
}

/// An input of Responses with words and a picture.
fn input(words: &str, number: u8, more: &Value) -> Value {
    let parts = json!([
        {"type": "input_text", "text": words},
        {"type": "input_image", "detail": "auto", "image_url": url(number)},
    ]);
    responds(json!([{"role": "user", "content": parts}]), more)
}

fn responds(input: impl Into<Value>, more: &Value) -> Value {
    let mut body = json!({"model": "fake", "input": input.into()});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn after(previous: &Value) -> Value {
    json!({"previous_response_id": previous["id"]})
}

/// A request with a picture in each API.
fn in_each_api() -> [(&'static str, Value); 7] {
    let (url, data) = (url(1), picture(1));
    let text = json!({"type": "text", "text": "What is it?"});
    let user = |content: Value| json!({"id": "u", "role": "user", "content": content});
    let run = |image: Value| {
        json!({"threadId": "t", "runId": "r", "tools": [], "context": [],
            "messages": [user(json!([text, image]))]})
    };
    let base64 = json!({"type": "base64", "media_type": "image/gif", "data": data});
    let message = user(json!([text, {"type": "image", "source": base64}]));
    let file = json!({"type": "file", "mediaType": "image/gif", "url": url});
    let source = json!({"type": "data", "value": data, "mimeType": "image/gif"});
    [
        (CHAT, chat(&[shows("What is it?", &[1])])),
        (RESPONSES, input("What is it?", 1, &json!({}))),
        (RESPONSES, input("What is it?", 1, &json!({"store": false}))),
        (MESSAGES, json!({"model": "fake", "max_tokens": 99, "messages": [message]})),
        (AI_SDK, json!({"id": "c", "messages": [{"role": "user", "parts": [text, file]}]})),
        (AG_UI, run(json!({"type": "image", "source": source}))),
        (AG_UI, run(json!({"type": "binary", "mimeType": "image/gif", "data": data}))),
    ]
}

/// The pictures that a request shows, with the words before each.
fn shown(round: &Round) -> Vec<(String, String)> {
    let messages = round.request.body["messages"].as_array().unwrap();
    let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let (mut shown, mut words) = (Vec::new(), String::new());
    for part in parts {
        match part["image_url"]["url"].as_str() {
            Some(url) => shown.push((std::mem::take(&mut words), url.to_owned())),
            None => words.push_str(part["text"].as_str().unwrap()),
        }
    }
    shown
}

/// The numbers of the pictures that a request shows.
fn numbers(round: &Round) -> Vec<u8> {
    let of = |shown: String| (0..10).find(|number| url(*number) == shown).unwrap();
    shown(round).into_iter().map(|(_, url)| of(url)).collect()
}

/// Posts a request that the model answers in one round. Returns the answer, and the round's request
/// by what `look` finds in it.
async fn asked<T>(
    gateway: &Gateway,
    model: &mut Model,
    (path, body): (&str, &Value),
    look: impl FnOnce(&Round) -> T,
) -> (Value, T) {
    let round = async {
        let round = model.round().await;
        let found = look(&round);
        round.answer("A cat.").await;
        found
    };
    let (reply, found) = tokio::join!(gateway.post(path, body), round);
    assert_eq!(reply.status(), 200, "{}", String::from_utf8_lossy(&reply.body));
    (serde_json::from_slice(&reply.body).unwrap_or_default(), found)
}

async fn refuse(mut round: Round, reason: &str) {
    let body = json!({"error": {"message": reason}}).to_string();
    let length = body.len();
    round.write(format!("HTTP/1.1 400 Bad\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    round.keep();
}

#[tokio::test]
async fn each_api_shows_its_images_to_the_model() {
    let (mut model, gateway) = gateway(|_| {}).await;
    for (path, body) in in_each_api() {
        let (_, found) = asked(&gateway, &mut model, (path, &body), shown).await;
        let [(words, shown)] = &found[..] else { panic!("{path}: {found:?}") };
        assert_eq!(words, &format!("What is it?\n{NOTE}"), "{path}");
        assert_eq!(*shown, url(1), "{path}");
    }
}

#[tokio::test]
async fn images_are_only_named_unless_they_are_asked_for() {
    let (mut model, gateway) = gateway(|setup| setup.config.model.images = false).await;
    for (path, body) in in_each_api() {
        let told = |round: &Round| (shown(round), round.request.contents());
        let (_, (found, told)) = asked(&gateway, &mut model, (path, &body), told).await;
        assert!(found.is_empty(), "{path}: {found:?}");
        let asked_for = "What is it?\n[";
        assert!(told.contains(asked_for) && told.contains("which is not shown]"), "{path}: {told}");
    }
}

#[tokio::test]
async fn what_is_no_image_is_named_with_the_reason() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let page = format!("data:image/png;base64,{}", STANDARD.encode("<html>"));
    for (url, reason) in [
        ("https://example.org/a.png", "URLs are not fetched"),
        ("http://169.254.169.254/latest/meta-data", "URLs are not fetched"),
        ("data:image/png;base64,???", "not valid base64"),
        (&*page, "not a PNG, JPEG, GIF or WebP file"),
    ] {
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        let body = chat(&[json!({"role": "user", "content": [image]})]);
        let told = |round: &Round| (shown(round), round.request.contents());
        let (_, (found, told)) = asked(&gateway, &mut model, (CHAT, &body), told).await;
        assert!(found.is_empty(), "{url}");
        let note = format!("[an image, which is not shown: {reason}]");
        assert!(told.contains(&note) && !told.contains("169.254"), "{told}");
    }
}

#[tokio::test]
async fn a_history_shows_its_images_again_also_the_same_twice() {
    let (mut model, gateway) = gateway(|setup| {
        setup.config.model.context_budget_tokens = 1 << 16;
    })
    .await;
    let body = chat(&[
        shows("What is it?", &[1]),
        said("A cat."),
        shows("And these?", &[2, 1]),
        said("A dog, and the cat."),
        json!({"role": "user", "content": "Which is older?"}),
    ]);
    let (_, found) = asked(&gateway, &mut model, (CHAT, &body), numbers).await;
    assert_eq!(found, [1, 2, 1]);
}

#[tokio::test]
async fn the_newest_images_are_shown_and_the_others_named() {
    let (mut model, gateway) = gateway(|setup| {
        setup.config.model.context_budget_tokens = 1 << 16;
    })
    .await;
    for (number, expected) in [(8_u8, 0..8_u8), (9, 1..9)] {
        let numbers_sent: Vec<u8> = (0..number).collect();
        let body = chat(&[shows("Look.", &numbers_sent)]);
        let look = |round: &Round| (numbers(round), round.request.body.to_string());
        let (_, (found, told)) = asked(&gateway, &mut model, (CHAT, &body), look).await;
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert!((1..=number).all(|at| told.contains(&format!("artifact a{at}]"))), "{told}");
    }
    // In a small context there is room for fewer.
    let (mut model, gateway) = self::gateway(|_| {}).await;
    let body = chat(&[shows("Look.", &[1, 2, 3])]);
    let (_, found) = asked(&gateway, &mut model, (CHAT, &body), numbers).await;
    assert_eq!(found, [2, 3]);
}

#[tokio::test]
async fn a_server_that_refuses_images_answers_without_them() {
    let (mut model, gateway) = gateway(|_| {}).await;
    for (path, body) in in_each_api() {
        // An upstream that has never taken an image gets no more after the first refusal.
        let is_first = path == CHAT;
        let rounds = async {
            let mut round = model.round().await;
            assert_eq!(numbers(&round).len(), usize::from(is_first), "{path}");
            if is_first {
                refuse(round, "image input is not supported").await;
                round = model.round().await;
                assert_eq!(numbers(&round), [0_u8; 0]);
            }
            let told = round.request.contents();
            round.answer("I cannot see it.").await;
            told
        };
        let (reply, told) = tokio::join!(gateway.post(path, &body), rounds);
        assert_eq!(reply.status(), 200, "{path}");
        assert!(told.contains(NOTE), "{path}: {told}");
    }
}

/// Its client sends an image that was refused with every request. The server is not asked in vain
/// each time.
#[tokio::test]
async fn a_refused_image_is_not_sent_again() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let first = chat(&[shows("What is it?", &[1])]);
    let (_, found) = asked(&gateway, &mut model, (CHAT, &first), numbers).await;
    assert_eq!(found, [1]);
    let mut list = vec![shows("And this?", &[2])];
    let rounds = async {
        let round = model.round().await;
        assert_eq!(numbers(&round), [2]);
        refuse(round, "broken image").await;
        let round = model.round().await;
        assert_eq!(numbers(&round), [0_u8; 0]);
        round.answer("Nothing.").await;
    };
    let body = chat(&list);
    let (reply, ()) = tokio::join!(gateway.post(CHAT, &body), rounds);
    assert_eq!(reply.status(), 200);
    list.extend([said("Nothing."), shows("And now?", &[3])]);
    let (_, found) = asked(&gateway, &mut model, (CHAT, &chat(&list)), numbers).await;
    assert_eq!(found, [3]);
}

#[tokio::test]
async fn a_chain_of_responses_keeps_its_images_and_so_do_its_branches() {
    let (mut model, gateway) = gateway(|setup| {
        setup.config.model.context_budget_tokens = 1 << 16;
    })
    .await;
    let body = input("What is it?", 1, &json!({}));
    let (first, _) = asked(&gateway, &mut model, (RESPONSES, &body), numbers).await;
    let body = input("And this?", 2, &after(&first));
    let (second, found) = asked(&gateway, &mut model, (RESPONSES, &body), numbers).await;
    assert_eq!(found, [1, 2]);
    let body = responds("Sure?", &after(&second));
    let (_, found) = asked(&gateway, &mut model, (RESPONSES, &body), numbers).await;
    assert_eq!(found, [1, 2]);
    let branch = input("Or this?", 3, &after(&first));
    let (_, found) = asked(&gateway, &mut model, (RESPONSES, &branch), numbers).await;
    assert_eq!(found, [1, 3]);
    // The images are not in the list of what was said.
    let path = format!("{RESPONSES}/{}/input_items", first["id"].as_str().unwrap());
    let items = gateway.get(&path).await.json();
    let content = &items["data"][0]["content"];
    assert_eq!(
        (&content[0]["text"], &content[1]["image_url"]),
        (&json!("What is it?"), &Value::Null)
    );
}

#[tokio::test]
async fn an_image_that_a_clients_tool_returned_is_shown() {
    for history in [History::Text, History::Native] {
        let (mut model, gateway) = gateway(|setup| setup.upstream().history = history).await;
        let block = |id: &str, number| {
            let source =
                json!({"type": "base64", "media_type": "image/gif", "data": picture(number)});
            json!({"type": "tool_result", "tool_use_id": id, "content": [
                {"type": "image", "source": source}]})
        };
        let used =
            |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {"f": id}});
        let source = json!({"type": "base64", "media_type": "image/gif", "data": picture(3)});
        let beside = json!({"type": "image", "source": source});
        let body = json!({"model": "fake", "max_tokens": 99, "messages": [
            {"role": "user", "content": "Read both."},
            {"role": "assistant", "content": [used("x"), used("y")]},
            {"role": "user", "content": [block("x", 1), block("y", 2), beside]},
        ]});
        let look = |round: &Round| (numbers(round), round.request.body.to_string());
        let (_, (found, told)) = asked(&gateway, &mut model, (MESSAGES, &body), look).await;
        assert_eq!(found, [2, 3], "the newest that have room");
        assert_eq!(gateway.running.gateway().memory_usage().sessions, 0, "the client has them");
        assert_eq!(told.matches("artifact a1]").count(), 3, "{told}");
    }
}

#[tokio::test]
async fn a_chain_shows_what_its_clients_tool_returned() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let tool = json!({"type": "function", "name": "snap", "parameters": {"type": "object"}});
    let tools = json!({ "tools": [tool] });
    let body = responds("Take a picture.", &tools);
    let calling = async {
        let round = model.round().await;
        round.answer(r#"<<function_call>> {"name":"snap","arguments":{}}"#).await;
    };
    let (reply, ()) = tokio::join!(gateway.post(RESPONSES, &body), calling);
    let first = reply.json();
    let output = first["output"].as_array().unwrap();
    let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
    let image = json!({"type": "input_image", "image_url": url(4)});
    let returned = json!([
        {"type": "function_call_output", "call_id": call["call_id"], "output": [image]}]);
    let mut more = after(&first);
    more["tools"] = tools["tools"].clone();
    let body = responds(returned, &more);
    let (second, found) = asked(&gateway, &mut model, (RESPONSES, &body), numbers).await;
    assert_eq!(found, [4]);
    let body = responds("Sure?", &after(&second));
    let (_, found) = asked(&gateway, &mut model, (RESPONSES, &body), numbers).await;
    assert_eq!(found, [4]);
}

/// Words that name a kept image are only words, in whatever session, and whoever sends them.
#[tokio::test]
async fn naming_an_image_shows_nothing_to_others() {
    let keys = ["one", "two"].map(|key| Secret::new(key.to_owned()));
    let (mut model, gateway) = gateway(|setup| setup.config.server.api_keys = keys.to_vec()).await;
    let send = |key: &str, body: &Value| {
        let header = format!("Authorization: Bearer {key}");
        gateway.exchange(post(RESPONSES, &[&header], &body.to_string()))
    };
    let first = input("What is it?", 1, &json!({}));
    let (reply, ()) = tokio::join!(send("one", &first), async {
        model.round().await.answer("A cat.").await;
    });
    let first = reply.json();
    let others = responds(NOTE, &json!({}));
    for key in ["one", "two"] {
        let (reply, found) = tokio::join!(send(key, &others), async {
            let round = model.round().await;
            let found = numbers(&round);
            round.answer("A note.").await;
            found
        });
        assert_eq!((reply.status(), found), (200, Vec::new()), "{key}");
    }
    let reply = send("two", &responds("Sure?", &after(&first))).await;
    assert_eq!(reply.status(), 404, "another key's chain");
}

/// The client has its images: nothing of them stays here.
#[tokio::test]
async fn a_client_that_keeps_its_conversation_leaves_no_image_behind() {
    let (mut model, gateway) = gateway(|_| {}).await;
    for (path, body) in in_each_api() {
        if body["store"].is_null() && path == RESPONSES {
            continue;
        }
        asked(&gateway, &mut model, (path, &body), numbers).await;
    }
    let usage = gateway.running.gateway().memory_usage();
    assert_eq!((usage.sessions, usage.artifact_bytes), (0, 0));
}

/// The newest picture is what the user asks about; the history is what can be left out.
#[tokio::test]
async fn a_full_context_costs_history_before_images() {
    let (mut model, gateway) = gateway(|_| {}).await;
    let long = json!({"role": "user", "content": "why ".repeat(1000)});
    let body = chat(&[long, said("Because."), shows("What is it?", &[1])]);
    let rounds = async {
        let round = model.round().await;
        assert_eq!((numbers(&round), round.request.contents().contains("why")), (vec![1], true));
        refuse(round, "the request exceeds the available context size").await;
        let round = model.round().await;
        let told = (numbers(&round), round.request.contents().contains("why"));
        round.answer("A cat.").await;
        told
    };
    let (reply, told) = tokio::join!(gateway.post(CHAT, &body), rounds);
    assert_eq!((reply.status(), told), (200, (vec![1], false)));
}
