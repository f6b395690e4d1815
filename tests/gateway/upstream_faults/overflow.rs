//! Models whose context holds less than they are told.

use serde_json::{Value, json};

use super::{failed, nothing, turn};
use crate::support::{Gateway, Model};

/// As llama.cpp words it.
const FULL: &str = r#"{"error":{"code":400,"message":"request (5031 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}"#;

fn full() -> String {
    format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{FULL}", FULL.len())
}

/// Refuses requests until one has at most this much text, and answers that. Returns what each of them told.
async fn holds(model: &mut Model, bytes_max: usize) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let mut round = model.round().await;
        let contents = round.request.contents();
        let fits = contents.len() <= bytes_max;
        told.push(contents);
        if fits {
            round.answer("Fine.").await;
            return told;
        }
        round.write(full()).await;
        round.keep();
    }
}

/// Eight questions of a kibibyte, each with an answer but the last.
fn conversation() -> Value {
    let question =
        |number| json!({"role": "user", "content": format!("{number}: {}", "why ".repeat(256))});
    let mut messages = vec![question(1)];
    for number in 2..=8 {
        messages.push(json!({"role": "assistant", "content": "Because."}));
        messages.push(question(number));
    }
    json!({"model": "fake", "messages": messages})
}

#[tokio::test]
async fn it_is_told_less_of_the_conversation_from_then_on() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let body = conversation();
    let (reply, told) =
        tokio::join!(gateway.post("/v1/chat/completions", &body), holds(&mut model, 6000));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Fine.");
    let lengths: Vec<usize> = told.iter().map(String::len).collect();
    assert!(lengths.len() > 1 && lengths.is_sorted_by(|a, b| b < a), "{lengths:?}");
    assert!(told[0].contains("1: why"), "at first, it was told everything");
    let last = told.last().unwrap();
    assert!(!last.contains("1: why") && last.contains("8: why"), "{last}");
    // It is not told too much again.
    let (_, told) =
        tokio::join!(gateway.post("/v1/chat/completions", &body), holds(&mut model, 6000));
    assert_eq!(told.len(), 1);
}

/// As LM Studio does, which has sent the head of an answer by then.
#[tokio::test]
async fn a_server_that_says_so_in_its_stream_is_told_less() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let mut told = Vec::new();
    let answers = async {
        let mut round = model.round().await;
        told.push(round.request.contents().len());
        round.begin().await;
        let message = "Trying to keep the first 4566 tokens when context the overflows. However, the model is \
                       loaded with context length of only 4096 tokens, which is not enough.";
        let data = json!({"error": {"message": message}});
        round.chunk(format!("event: error\ndata: {data}\n\n")).await;
        round.keep();
        let round = model.round().await;
        told.push(round.request.contents().len());
        round.answer("Fine.").await;
    };
    let body = conversation();
    let (reply, ()) = tokio::join!(gateway.post("/v1/chat/completions", &body), answers);
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Fine.");
    assert!(told[1] < told[0], "{told:?}");
}

/// What the model has said by then stays, and nothing is asked again.
#[tokio::test]
async fn a_context_that_the_answer_fills_is_full_too() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        round.say("One, two").await;
        let data = json!({"error": {"message": "the context window is full"}});
        round.chunk(format!("data: {data}\n\n")).await;
        round.keep();
    })
    .await;
    let message = failed(&frames, "context_length_exceeded", false);
    assert!(message.contains("the context window is full"), "{message}");
}

#[tokio::test]
async fn a_long_result_is_cut_to_fit() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let body = json!({"model": "fake", "messages": [
        {"role": "user", "content": "What does it say?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "much ".repeat(1600)},
    ]});
    let (reply, told) =
        tokio::join!(gateway.post("/v1/chat/completions", &body), holds(&mut model, 5000));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Fine.");
    assert!(told.last().unwrap().contains("much much"), "{told:?}");
}

#[tokio::test]
async fn a_prompt_alone_is_too_long() {
    let frames = turn(nothing, async |mut round, _| {
        round.write(full()).await;
        round.keep();
    })
    .await;
    let message = failed(&frames, "context_length_exceeded", false);
    assert!(message.starts_with("prompt is too long: the model server answered 400"), "{message}");
    assert!(message.contains("lower model.context_budget_tokens"), "{message}");
}

/// Four cuts to three quarters leave a third; the last one leaves the least.
#[tokio::test]
async fn much_less_is_told_in_the_end() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let mut body = conversation();
    let last = body["messages"].as_array_mut().unwrap().last_mut().unwrap();
    last["content"] = json!("8: why?");
    let asked = gateway.post("/v1/chat/completions", &body);
    let (reply, told) = tokio::join!(asked, holds(&mut model, 2000));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Fine.");
    assert!(told.len() <= 5, "{}", told.len());
}

/// What stays in any case needs more room than history: that says nothing about other conversations.
#[tokio::test]
async fn a_long_message_leaves_others_their_room() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let long = json!({"model": "fake", "messages": [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "long ".repeat(2000)},
    ]});
    let mut most = 0;
    let first = async {
        let mut round = model.round().await;
        most = round.request.contents().len() - 1;
        round.write(full()).await;
        round.keep();
        holds(&mut model, most).await
    };
    let (reply, _) = tokio::join!(gateway.post("/v1/chat/completions", &long), first);
    assert_eq!(reply.status(), 200);
    let body = conversation();
    let asked = gateway.post("/v1/chat/completions", &body);
    let (_, told) = tokio::join!(asked, holds(&mut model, most));
    assert_eq!(told.len(), 1, "it fits at once");
    assert!(told[0].contains("3: why"), "{}", told[0].len());
}

#[tokio::test]
async fn an_answer_that_may_become_too_long_is_not_the_conversations_fault() {
    let frames = turn(nothing, async |mut round, _| {
        let told = r#"{"error":{"message":"max_tokens is too large: 9. This model's maximum context length is 8."}}"#;
        let length = told.len();
        round.write(format!("HTTP/1.1 400 Bad\r\nContent-Length: {length}\r\n\r\n{told}")).await;
        round.keep();
    })
    .await;
    assert!(!failed(&frames, "upstream_error", false).contains("prompt is too long"));
}

/// As `SGLang` words it. The longest answer counts as if it were written.
fn full_with_answer(input: usize, answer: u64, context: u64) -> String {
    let message = format!(
        "Requested token count exceeds the model's maximum context length of {context} tokens. You requested a \
         total of {} tokens: {input} tokens from the input messages and {answer} tokens for the completion.",
        input as u64 + answer
    );
    let body = json!({"object": "error", "message": message, "code": 400}).to_string();
    format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Refuses requests until prompt and answer fit into a context of so many tokens of four bytes. Returns what it was
/// told at last, the longest answer then, and how often it was asked.
async fn holds_with_answer(model: &mut Model, context: u64) -> (String, Option<u64>, usize) {
    for asked in 1.. {
        let mut round = model.round().await;
        let contents = round.request.contents();
        let answer = round.request.body["max_tokens"].as_u64();
        let input = contents.len() / 4;
        if input as u64 + answer.unwrap_or(1) <= context {
            round.answer("Fine.").await;
            return (contents, answer, asked);
        }
        round.write(full_with_answer(input, answer.unwrap_or(1), context)).await;
        round.keep();
    }
    unreachable!()
}

#[tokio::test]
async fn the_longest_answer_gives_way_to_the_conversation() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let mut body = conversation();
    body["max_tokens"] = json!(4000);
    let asked = gateway.post("/v1/chat/completions", &body);
    let (reply, (told, answer, times)) = tokio::join!(asked, holds_with_answer(&mut model, 4000));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Fine.");
    assert!(told.contains("1: why"), "the conversation is whole");
    assert_eq!(times, 2);
    assert_eq!(answer.unwrap(), 4000 - told.len() as u64 / 4);
}

/// A quarter of the context stays for the answer, and others keep the rest.
#[tokio::test]
async fn a_long_conversation_leaves_room_for_an_answer_and_others_their_room() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let mut body = conversation();
    body["max_tokens"] = json!(100_000);
    let asked = gateway.post("/v1/chat/completions", &body);
    let (reply, (told, answer, _)) = tokio::join!(asked, holds_with_answer(&mut model, 2800));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Fine.");
    assert!(!told.contains("1: why") && told.contains("8: why"), "{}", told.len());
    assert_eq!(answer, Some(700));
    let body = conversation();
    let asked = gateway.post("/v1/chat/completions", &body);
    let (_, (told, _, times)) = tokio::join!(asked, holds_with_answer(&mut model, 2800));
    assert_eq!(times, 1);
    assert!(told.len() / 4 > 2800 / 2, "{}", told.len());
}

/// vLLM counts no more of the prompt than the answer leaves, and one token.
#[tokio::test]
async fn a_server_that_stops_counting_is_not_followed_step_by_step() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let mut body = conversation();
    body["max_tokens"] = json!(3900);
    let refusing = async {
        let mut asked = Vec::new();
        loop {
            let mut round = model.round().await;
            let (input, answer) = (
                round.request.contents().len() / 4,
                round.request.body["max_tokens"].as_u64().unwrap(),
            );
            asked.push(answer);
            if input as u64 + answer <= 4000 {
                round.answer("Fine.").await;
                return asked;
            }
            let message = format!(
                "This model's maximum context length is 4000 tokens. However, you requested {answer} output tokens \
                 and your prompt contains at least {} input tokens.",
                4000 - answer + 1
            );
            let body = json!({"error": {"message": message, "code": 400}}).to_string();
            let length = body.len();
            round
                .write(format!("HTTP/1.1 400 Bad\r\nContent-Length: {length}\r\n\r\n{body}"))
                .await;
            round.keep();
        }
    };
    let (reply, asked) = tokio::join!(gateway.post("/v1/chat/completions", &body), refusing);
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Fine.");
    assert_eq!(asked, [3900, 1000]);
}

/// In words that programs know, and with a code after which they do not try again: what could be left out was.
#[tokio::test]
async fn each_api_says_so_in_its_own_way() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let messages = json!([{"role": "user", "content": "Hi."}]);
    for (path, body, expected) in [
        (
            "/v1/chat/completions",
            json!({"model": "fake", "messages": messages}),
            json!({"type": "invalid_request_error", "code": "invalid_prompt"}),
        ),
        (
            "/v1/responses",
            json!({"model": "fake", "input": messages}),
            json!({"type": "invalid_request_error", "code": "invalid_prompt"}),
        ),
        (
            "/v1/messages",
            json!({"model": "fake", "max_tokens": 9, "messages": messages}),
            json!({"type": "invalid_request_error"}),
        ),
    ] {
        let refusing = async {
            let mut round = model.round().await;
            round.write(full()).await;
            round.keep();
        };
        let (reply, ()) = tokio::join!(gateway.post(path, &body), refusing);
        assert_eq!(reply.status(), 400, "{path}");
        assert_eq!(reply.head.header("x-should-retry"), Some("false"), "{path}");
        let error = &reply.json()["error"];
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&error[key], value, "{path}: {error}");
        }
        assert!(error["message"].as_str().unwrap().starts_with("prompt is too long: "), "{error}");
    }
}
