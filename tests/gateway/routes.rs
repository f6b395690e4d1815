//! Several upstreams: the Responses API next to Chat Completions, and which one answers when
//! another is down.

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting};
use tether::config::{EmbeddedConfig, ModelServerConfig, UpstreamConfig, UpstreamKind};
use tether::upstream::History;
use tether::upstream::dialect::Kind;

use crate::support::events::{outcome, said};
use crate::support::gateway::Setup;
use crate::support::model::{DONE, Round, UNTIL_CLOSE, delta, finish};
use crate::support::{Frame, Gateway, Model, ms, responses};

/// The dialect of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Speaks {
    Chat,
    Responses,
}
use Speaks::{Chat, Responses};

fn upstream(name: &str, speaks: Speaks, model: &Model, history: History) -> UpstreamConfig {
    let base_url = format!("http://{}/v1", model.address).parse().unwrap();
    let model = "fake-model".to_owned();
    let dialect = match speaks {
        Chat => Kind::OpenaiChat,
        Responses => Kind::OpenaiResponses,
    };
    let server = ModelServerConfig::new(dialect);
    let server = ModelServerConfig { base_url, model, history, ..server };
    let kind = UpstreamKind::Server(server);
    UpstreamConfig { name: name.to_owned(), call_contract: None, kind }
}

/// A gateway with `first` and `second`, and native calls.
async fn gateway(first: (Speaks, &Model), second: (Speaks, &Model)) -> Gateway {
    let change = |setup: &mut Setup| {
        setup.config.tools.call_contract = ContractSetting::Is(CallContract::Native);
        setup.config.upstreams = vec![
            upstream("first", first.0, first.1, History::Native),
            upstream("second", second.0, second.1, History::Native),
        ];
    };
    Gateway::with(first.1.address, change).await
}

/// Answers with text or with one call.
async fn answer(mut round: Round, speaks: Speaks, words: &str, call: Option<&Value>) {
    round.begin().await;
    let stream = match (speaks, call) {
        (Responses, None) => responses::answer(&[responses::message(words)]),
        (Responses, Some(arguments)) => responses::answer(&[
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}),
            responses::message(words),
            responses::call("calculate", arguments),
        ]),
        (Chat, call) => {
            let mut stream = delta(&json!({ "content": words }));
            if let Some(arguments) = call {
                let function = json!({"name": "calculate", "arguments": arguments.to_string()});
                let piece = json!({"index": 0, "id": "x", "function": function});
                stream.push_str(&delta(&json!({ "tool_calls": [piece] })));
            }
            stream + &finish("stop") + DONE
        }
    };
    round.chunk(stream).await;
    round.write("0\r\n\r\n").await;
    round.keep();
}

/// What a request says about the call and its result, in either dialect: name, arguments,
/// result, and all text.
fn told(round: &Round, speaks: Speaks) -> (Value, Value, String, String) {
    let body = &round.request.body;
    match speaks {
        Chat => {
            let messages = body["messages"].as_array().unwrap();
            let caller = messages.iter().find(|message| message["tool_calls"].is_array()).unwrap();
            let call = &caller["tool_calls"][0];
            let result = messages.iter().find(|message| message["tool_call_id"] == call["id"]);
            let result = result.unwrap()["content"].as_str().unwrap().to_owned();
            let function = &call["function"];
            let words = Value::from(messages.clone()).to_string();
            (function["name"].clone(), function["arguments"].clone(), result, words)
        }
        Responses => {
            let items = body["input"].as_array().unwrap();
            let call = items.iter().find(|item| item["type"] == "function_call").unwrap();
            let result = items.iter().find(|item| {
                item["type"] == "function_call_output" && item["call_id"] == call["call_id"]
            });
            let result = result.unwrap()["output"].as_str().unwrap().to_owned();
            let words = Value::from(items.clone()).to_string();
            (call["name"].clone(), call["arguments"].clone(), result, words)
        }
    }
}

fn statuses(frames: &[Frame]) -> Vec<&str> {
    let statuses = frames.iter().filter(|frame| frame.event == "status");
    statuses.map(|frame| frame.data["message"].as_str().unwrap()).collect()
}

/// Users would take the words of the rehearsal model for those of the server.
#[tokio::test]
async fn the_embedded_model_stands_in_for_no_server() {
    let gone = Model::listen();
    let gateway = Gateway::with(gone.address, |setup| {
        let kind = UpstreamKind::Embedded(EmbeddedConfig::default());
        let embedded = UpstreamConfig { name: "embedded".to_owned(), call_contract: None, kind };
        let first = upstream("first", Chat, &gone, History::Native);
        setup.config.upstreams = vec![first, embedded];
    })
    .await;
    let _gone = gone.stop().await;
    let frames = gateway.turn(&json!({"prompt": "Hello?"})).await.rest().await;
    assert_eq!((outcome(&frames), said(&frames)), ("upstream_unavailable", String::new()));
    let asked = json!({"prompt": "Hello?", "model": "embedded"});
    assert_eq!(outcome(&gateway.turn(&asked).await.rest().await), "stop");
}

/// A conversation begins in one dialect and ends in the other, complete.
async fn goes_over(from: Speaks, to: Speaks) {
    let (mut first, mut second) = (Model::listen(), Model::listen());
    let gateway = gateway((from, &first), (to, &second)).await;
    let sum = json!({"expression": "6*7"});

    let (mut stream, round) = gateway.begin(&mut first, "s").await;
    assert!(round.request.head.contains(if from == Chat {
        "/v1/chat/completions "
    } else {
        "/v1/responses "
    }));
    answer(round, from, "Let me see.", Some(&sum)).await;
    let round = first.round().await;
    let (name, arguments, result, words) = told(&round, from);
    assert_eq!((name, arguments), (json!("calculate"), json!(sum.to_string())));
    assert!(result.contains("42"), "{result}");
    assert_eq!(words.contains("sealed"), from == Responses, "what was thought goes back: {words}");
    answer(round, from, "It is 42.", None).await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames), "Let me see.It is 42.");
    assert_eq!(statuses(&frames), Vec::<&str>::new());

    let _first = first.stop().await;
    let (mut stream, round) = gateway.begin(&mut second, "s").await;
    let (name, arguments, result, words) = told(&round, to);
    assert_eq!((name, arguments), (json!("calculate"), json!(sum.to_string())));
    assert!(result.contains("42"), "{result}");
    assert!(words.contains("Let me see.") && words.contains("It is 42."), "{words}");
    assert!(!words.contains("sealed"), "no other server can read it");
    answer(round, to, "Still 42. ", Some(&sum)).await;
    // The second server keeps the turn: the first is not tried again.
    answer(second.round().await, to, "Really.", None).await;
    let frames = stream.rest().await;
    assert_eq!(frames[0].data["model"], "first", "the one that was asked for");
    assert_eq!(statuses(&frames), ["first cannot be reached; using second instead"]);
    assert_eq!(said(&frames), "Still 42. Really.");
}

#[tokio::test]
async fn a_conversation_moves_from_responses_to_chat_completions() {
    goes_over(Responses, Chat).await;
}

#[tokio::test]
async fn a_conversation_moves_from_chat_completions_to_responses() {
    goes_over(Chat, Responses).await;
}

/// With markers, calls are text in this dialect, too.
#[tokio::test]
async fn calls_in_text_work_on_responses() {
    let mut model = Model::listen();
    let server = upstream("fake", Responses, &model, History::Text);
    let gateway = Gateway::with(model.address, |setup| setup.config.upstreams = vec![server]).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let body = &round.request.body;
    assert!(body["instructions"].as_str().unwrap().contains("<<function_call>>"));
    assert_eq!((&body["tools"], &body["store"]), (&Value::Null, &json!(false)));
    let call = crate::support::model::call("calculate", &json!({"expression": "6*7"}));
    answer(round, Responses, &format!("So. {call}"), None).await;
    let round = model.round().await;
    let input = &round.request.body["input"];
    let results = &input.as_array().unwrap().last().unwrap()["content"][0]["text"];
    assert!(results.as_str().unwrap().contains("42"), "{input}");
    answer(round, Responses, "It is 42.", None).await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames), "So. It is 42.");
    let end = &frames.last().unwrap().data;
    assert_eq!(
        (&end["finish_reason"], &end["usage"]["total_tokens"]),
        (&json!("stop"), &json!(14))
    );
}

/// The last event of a turn whose response says `Half` and then ends with `last`.
async fn half_a_response(last: &Value) -> Frame {
    let mut model = Model::listen();
    let server = upstream("fake", Responses, &model, History::Text);
    let gateway = Gateway::with(model.address, |setup| setup.config.upstreams = vec![server]).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    let words = json!({"type": "response.output_text.delta", "delta": "Half"});
    round.chunk(responses::event(&words) + &responses::event(last)).await;
    stream.rest().await.pop().unwrap()
}

#[tokio::test]
async fn a_response_that_fails_fails_the_turn_with_what_was_said() {
    let error = json!({"code": "server_error", "message": "out of memory"});
    let failed = json!({"type": "response.failed", "response": {"error": error}});
    let end = half_a_response(&failed).await;
    assert_eq!((&*end.event, &end.data["text"]), ("turn_failed", &json!("Half")));
    assert!(end.data["message"].as_str().unwrap().contains("out of memory"), "{end:?}");
}

#[tokio::test]
async fn a_response_that_runs_into_the_limit_says_so() {
    let details = json!({"reason": "max_output_tokens"});
    let end = json!({"type": "response.incomplete", "response": {"incomplete_details": details}});
    let end = half_a_response(&end).await;
    assert_eq!(end.data["finish_reason"], "length");
}

const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";

#[tokio::test]
async fn a_server_that_stays_busy_is_passed_over() {
    let (mut first, mut second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    for _ in 0..tether::limits::upstream::ATTEMPTS_MAX {
        let mut round = first.round().await;
        assert!(second.has_no_requests(), "the first is asked again before");
        round.write(BUSY).await;
        round.keep();
    }
    answer(second.round().await, Chat, "Here.", None).await;
    assert_eq!(said(&stream.rest().await), "Here.");
}

#[tokio::test]
async fn a_refused_request_is_not_sent_to_other_upstreams() {
    let (mut first, second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let (mut stream, mut round) = gateway.begin(&mut first, "s").await;
    round.write("HTTP/1.1 400 No\r\nContent-Length: 3\r\n\r\nbad").await;
    let end = stream.rest().await.pop().unwrap();
    assert_eq!(end.event, "turn_failed");
    assert!(second.has_no_requests());
}

/// What is wrong with the second need not be wrong with the others.
#[tokio::test]
async fn a_refusal_of_another_upstream_is_one_reason_of_several() {
    let (first, mut second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let _first = first.stop().await;
    let (mut stream, mut round) = gateway.begin(&mut second, "s").await;
    round.write("HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nbad").await;
    round.keep();
    let end = stream.rest().await.pop().unwrap();
    let outcome = (&*end.event, &end.data["code"], &end.data["retryable"]);
    assert_eq!(outcome, ("turn_failed", &json!("upstream_unavailable"), &json!(true)));
    let message = end.data["message"].as_str().unwrap();
    assert!(message.contains("first") && message.contains("second"), "{message}");
}

#[tokio::test]
async fn turns_that_fail_together_are_one_failure() {
    let recorder = PrometheusBuilder::new().build_recorder();
    // The gateway runs on this thread.
    let _counting = metrics::set_default_local_recorder(&recorder);
    let (mut first, mut second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let (mut one, one_round) = gateway.begin(&mut first, "a").await;
    let (mut other, other_round) = gateway.begin(&mut first, "b").await;
    // Both have asked before either fails.
    for mut round in [one_round, other_round] {
        let head = "HTTP/1.1 503 Busy\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n";
        round.write(head).await;
        round.keep();
    }
    let (round, second_round) = (second.round().await, second.round().await);
    answer(round, Chat, "Hello.", None).await;
    answer(second_round, Chat, "Hello.", None).await;
    assert_eq!(said(&one.rest().await) + &said(&other.rest().await), "Hello.Hello.");
    let counted = recorder.handle().render();
    assert!(
        counted.contains("tether_upstream_cool_downs_total{upstream=\"first\"} 1\n"),
        "{counted}"
    );
}

/// How a server abandons an answer that it has begun.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    Closing,
    Resetting,
    /// It stops sending.
    Staying,
}

/// Sends `sent` after the head of the answer, then leaves.
async fn break_off(mut round: Round, sent: &str, leaves: Leaves) {
    round.begin().await;
    if !sent.is_empty() {
        round.chunk(sent).await;
    }
    match leaves {
        Leaves::Closing => drop(round),
        Leaves::Resetting => round.reset(),
        Leaves::Staying => round.closed().await,
    }
}

/// A gateway with both servers, with a short timeout if the first is to stop sending.
async fn impatient(speaks: Speaks, first: &Model, second: &Model, leaves: Leaves) -> Gateway {
    let idle = if matches!(leaves, Leaves::Staying) { ms(200) } else { ms(10_000) };
    Gateway::with(first.address, |setup| {
        setup.config.tools.call_contract = ContractSetting::Is(CallContract::Native);
        let mut servers = vec![
            upstream("first", speaks, first, History::Native),
            upstream("second", Chat, second, History::Native),
        ];
        match &mut servers[0].kind {
            UpstreamKind::Server(config) => config.idle_timeout = idle,
            UpstreamKind::Embedded(_) => unreachable!("it answers as a server"),
        }
        setup.config.upstreams = servers;
    })
    .await
}

/// A head and keep-alives do not count as an answer.
#[tokio::test]
async fn an_upstream_that_fails_before_the_first_word_is_passed_over() {
    use Leaves::{Closing, Resetting, Staying};
    let created = responses::event(&json!({"type": "response.created", "response": {}}));
    let failed = json!({"type": "response.failed", "response": {"error": {"message": "No."}}});
    let role = delta(&json!({"role": "assistant", "content": ""}));
    let error = "data: {\"error\": {\"message\": \"out of memory\"}}\n\n";
    for (speaks, sent, leaves) in [
        (Chat, String::new(), Closing),
        (Chat, String::new(), Resetting),
        (Chat, String::new(), Staying),
        (Chat, ": ping\n\n".to_owned(), Closing),
        (Chat, role.clone(), Closing),
        (Chat, role + error, Staying),
        (Responses, created.clone(), Closing),
        (Responses, created.clone(), Staying),
        (Responses, created.clone() + "event: error\n" + error, Staying),
        (Responses, created + &responses::event(&failed), Staying),
    ] {
        let (mut first, mut second) = (Model::listen(), Model::listen());
        let gateway = impatient(speaks, &first, &second, leaves).await;
        let (mut stream, round) = gateway.begin(&mut first, "s").await;
        let ((), second_round) = tokio::join!(break_off(round, &sent, leaves), second.round());
        answer(second_round, Chat, "Second.", None).await;
        let frames = stream.rest().await;
        assert_eq!(said(&frames), "Second.", "{sent:?}");
        assert_eq!(statuses(&frames), ["first did not answer; using second instead"]);
        assert_eq!(frames.last().unwrap().event, "turn_completed");
    }
}

/// Another one may answer sooner.
#[tokio::test]
async fn an_upstream_that_answers_others_is_passed_over() {
    let (mut first, mut second) = (Model::listen(), Model::listen());
    let gateway = impatient(Chat, &first, &second, Leaves::Staying).await;
    let (_stream, mut other) = gateway.begin(&mut first, "other").await;
    other.write(UNTIL_CLOSE).await;
    let (mut stream, _waits) = gateway.begin(&mut first, "s").await;
    let passed_over = async {
        answer(second.round().await, Chat, "Second.", None).await;
        stream.rest().await
    };
    let frames = tokio::select! {
        () = other.drip(delta(&json!({"content": "more "})), ms(5)) => unreachable!("it is read"),
        frames = passed_over => frames,
    };
    assert_eq!(said(&frames), "Second.");
    assert_eq!(statuses(&frames), ["first did not answer; using second instead"]);
}

/// That says nothing about the request.
#[tokio::test]
async fn an_upstream_that_does_not_answer_with_a_stream_is_passed_over() {
    let (mut first, mut second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    for head in
        ["Content-Type: text/html", "Content-Type: text/event-stream\r\nContent-Encoding: br"]
    {
        let mut stream = gateway.turn(&json!({"prompt": "Hi."})).await;
        let mut round = first.round().await;
        round.write(format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: 3\r\n\r\nHi!")).await;
        answer(second.round().await, Chat, "Hello.", None).await;
        assert_eq!(said(&stream.rest().await), "Hello.", "{head}");
    }
}

#[tokio::test]
async fn once_an_answer_has_begun_no_other_upstream_is_asked() {
    use Leaves::{Closing, Resetting, Staying};
    let words = delta(&json!({"content": "Half"}));
    let error = "data: {\"error\": {\"message\": \"out of memory\"}}\n\n";
    let call = json!({"index": 0, "id": "x", "function": {"name": "calculate", "arguments": ""}});
    let summary = json!({"type": "response.reasoning_summary_text.delta", "delta": "Hm."});
    for (speaks, sent, leaves, text) in [
        (Chat, words.clone(), Closing, "Half"),
        (Chat, words.clone(), Resetting, "Half"),
        (Chat, words.clone(), Staying, "Half"),
        (Chat, words + error, Staying, "Half"),
        (Chat, delta(&json!({"reasoning": "Hm."})), Closing, ""),
        (Chat, delta(&json!({"tool_calls": [call]})), Closing, ""),
        (Responses, responses::event(&summary), Closing, ""),
    ] {
        let (mut first, second) = (Model::listen(), Model::listen());
        let gateway = impatient(speaks, &first, &second, leaves).await;
        let (mut stream, round) = gateway.begin(&mut first, "s").await;
        break_off(round, &sent, leaves).await;
        let end = stream.rest().await.pop().unwrap();
        assert_eq!((&*end.event, &end.data["text"]), ("turn_failed", &json!(text)), "{sent}");
        assert!(second.has_no_requests());
    }
}

/// Wherever its stream is cut, an answer arrives once and complete: what was buffered at its
/// start is neither lost nor doubled.
#[tokio::test]
async fn an_answer_in_pieces_comes_out_whole() {
    let (mut first, second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let role = delta(&json!({"role": "assistant", "content": ""}));
    let mut stream = role + &delta(&json!({"content": "Half "}));
    stream += &(delta(&json!({"content": "and half."})) + &finish("stop") + DONE);
    for cut in (0..=stream.len()).step_by(5) {
        let (mut events, mut round) = gateway.begin(&mut first, &format!("s{cut}")).await;
        round.begin().await;
        for piece in [&stream[..cut], &stream[cut..]] {
            if !piece.is_empty() {
                round.chunk(piece).await;
            }
            tokio::task::yield_now().await;
        }
        round.write("0\r\n\r\n").await;
        round.keep();
        let frames = events.rest().await;
        assert_eq!(said(&frames), "Half and half.", "cut at {cut}");
        assert_eq!(statuses(&frames), Vec::<&str>::new());
    }
    assert!(second.has_no_requests());
}

/// An empty answer is an answer.
#[tokio::test]
async fn an_empty_answer_is_no_failure() {
    let (mut first, second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let (mut stream, round) = gateway.begin(&mut first, "s").await;
    answer(round, Chat, "", None).await;
    answer(first.round().await, Chat, "Well.", None).await;
    assert_eq!(said(&stream.rest().await), "Well.");
    assert!(second.has_no_requests());
}

#[tokio::test]
async fn if_all_are_down_every_reason_is_given() {
    let (first, second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Responses, &second)).await;
    let _first = first.stop().await;
    let _second = second.stop().await;
    let end = gateway.turn(&json!({"prompt": "Hello?"})).await.rest().await.pop().unwrap();
    assert_eq!((&*end.event, &end.data["code"]), ("turn_failed", &json!("upstream_unavailable")));
    assert_eq!(end.data["retryable"], true);
    let message = end.data["message"].as_str().unwrap();
    assert!(message.starts_with("first: ") && message.contains("; second: "), "{message}");
}

#[tokio::test]
async fn a_request_that_names_a_model_asks_it_first() {
    let (mut first, mut second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let body = json!({"prompt": "Hello?", "model": "second"});
    let mut stream = gateway.turn(&body).await;
    answer(second.round().await, Chat, "Second.", None).await;
    assert_eq!(said(&stream.rest().await), "Second.");
    assert!(first.has_no_requests());

    let _second = second.stop().await;
    let mut stream = gateway.turn(&body).await;
    answer(first.round().await, Chat, "First.", None).await;
    let frames = stream.rest().await;
    assert_eq!((said(&frames), &frames[0].data["model"]), ("First.".to_owned(), &json!("second")));
}

/// A gateway with two servers, the first of which was down and is back.
async fn passed_over() -> (Gateway, Model, Model) {
    let (first, mut second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let first = first.stop().await;
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    answer(second.round().await, Chat, "Second.", None).await;
    assert_eq!(said(&stream.rest().await), "Second.");
    (gateway, first.back(), second)
}

#[tokio::test]
async fn an_unreachable_upstream_is_asked_last_for_a_while_unless_it_is_named() {
    let (gateway, mut first, mut second) = passed_over().await;
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    answer(second.round().await, Chat, "Second.", None).await;
    let frames = stream.rest().await;
    assert_eq!(statuses(&frames), ["first failed recently; using second instead"]);
    assert!(first.has_no_requests());

    let mut stream = gateway.turn(&json!({"prompt": "Hello?", "model": "first"})).await;
    answer(first.round().await, Chat, "First.", None).await;
    assert_eq!(said(&stream.rest().await), "First.");
    // Its answer ends the cool-down for all turns.
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    answer(first.round().await, Chat, "First.", None).await;
    assert_eq!(said(&stream.rest().await), "First.");
    assert!(second.has_no_requests());
}

#[tokio::test]
async fn an_upstream_in_cool_down_is_asked_if_the_others_are_down() {
    let (gateway, mut first, second) = passed_over().await;
    let _second = second.stop().await;
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    answer(first.round().await, Chat, "First.", None).await;
    assert_eq!(said(&stream.rest().await), "First.");
}

#[tokio::test]
async fn an_upstream_that_readyz_reaches_is_asked_before_those_in_cool_down() {
    let (first, second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let (first, second) = (first.stop().await, second.stop().await);
    gateway.turn(&json!({"prompt": "Hello?"})).await.rest().await;

    let mut second = second.back();
    assert_eq!(gateway.get("/readyz").await.status(), 200);
    let first = first.back();
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    answer(second.round().await, Chat, "Second.", None).await;
    assert_eq!(said(&stream.rest().await), "Second.");
    assert!(first.has_no_requests());
}

#[tokio::test]
async fn servers_that_say_nothing_do_not_hide_one_that_is_there() {
    let (first, second) = (Model::listen(), Model::listen());
    first.stall_listing();
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    assert_eq!(gateway.get("/readyz").await.status(), 200);
}

/// An error about one request says nothing about the next.
#[tokio::test]
async fn a_reachable_server_does_not_cool_down() {
    let (mut first, mut second) = (Model::listen(), Model::listen());
    let gateway = gateway((Chat, &first), (Chat, &second)).await;
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    let mut round = first.round().await;
    round.write("HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nbad").await;
    answer(second.round().await, Chat, "Second.", None).await;
    assert_eq!(said(&stream.rest().await), "Second.");
    let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
    answer(first.round().await, Chat, "First.", None).await;
    assert_eq!(said(&stream.rest().await), "First.");
}

/// A gateway with one server of the Responses API.
async fn thinking(model: &Model) -> Gateway {
    let server = upstream("fake", Responses, model, History::Native);
    Gateway::with(model.address, |setup| {
        setup.config.tools.call_contract = ContractSetting::Is(CallContract::Native);
        setup.config.upstreams = vec![server];
    })
    .await
}

async fn answer_items(mut round: Round, items: &[Value]) {
    round.begin().await;
    round.chunk(responses::answer(items)).await;
    round.write("0\r\n\r\n").await;
    round.keep();
}

/// Two calls, each with the reasoning before it.
fn thought_and_called(encrypted: &Value) -> [Value; 4] {
    let thought = |id: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": encrypted});
    let call = |sum: &str| responses::call("calculate", &json!({ "expression": sum }));
    [thought("rs_1"), call("6*7"), thought("rs_2"), call("6*8")]
}

fn kinds(round: &Round) -> Vec<String> {
    let items = round.request.body["input"].as_array().unwrap().iter();
    items
        .map(|item| {
            let (kind, id) = (item["type"].as_str().unwrap(), item["id"].as_str());
            id.map_or_else(|| kind.to_owned(), |id| format!("{kind} {id}"))
        })
        .collect()
}

/// Nothing is stored. If a reasoning item is only an id, reasoning is requested encrypted from
/// then on, and goes back before the item that it came with.
#[tokio::test]
async fn reasoning_goes_back_in_its_place() {
    let mut model = Model::listen();
    let gateway = thinking(&model).await;
    let asked = json!(["reasoning.encrypted_content"]);
    let outputs = ["function_call_output", "function_call_output"];

    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(round.request.body["include"], Value::Null, "models that do not think refuse it");
    answer_items(round, &thought_and_called(&Value::Null)).await;
    let round = model.round().await;
    assert_eq!(round.request.body["include"], asked);
    let said = ["message", "function_call", "function_call"];
    assert_eq!(kinds(&round), [&said[..], &outputs].concat(), "an id names nothing");
    answer(round, Responses, "So.", None).await;
    stream.rest().await;

    let (mut stream, round) = gateway.begin(&mut model, "t").await;
    assert_eq!(round.request.body["include"], asked);
    answer_items(round, &thought_and_called(&json!("sealed"))).await;
    let round = model.round().await;
    let said = ["message", "reasoning rs_1", "function_call", "reasoning rs_2", "function_call"];
    assert_eq!(kinds(&round), [&said[..], &outputs].concat());
    answer(round, Responses, "So.", None).await;
    stream.rest().await;
}

#[tokio::test]
async fn a_server_that_refuses_to_encrypt_is_asked_without() {
    let mut model = Model::listen();
    let gateway = thinking(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    answer_items(round, &thought_and_called(&Value::Null)).await;
    let mut round = model.round().await;
    let error = r#"{"error":{"message":"Encrypted content is not supported with this model."}}"#;
    let length = error.len();
    round.write(format!("HTTP/1.1 400 No\r\nContent-Length: {length}\r\n\r\n{error}")).await;
    round.keep();
    let round = model.round().await;
    assert_eq!(round.request.body["include"], Value::Null);
    answer_items(round, &thought_and_called(&Value::Null)[..2]).await;
    let round = model.round().await;
    assert_eq!(round.request.body["include"], Value::Null, "it is not asked for again");
    answer(round, Responses, "So.", None).await;
    assert_eq!(stream.rest().await.last().unwrap().event, "turn_completed");
}
