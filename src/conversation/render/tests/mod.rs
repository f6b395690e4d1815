//! Every history renders to a sequence that a strict server accepts.

mod images;
mod stand_ins;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::sequence::check_sequence;
use super::*;
use crate::call_format::{CallContract, CallFormat, Row};
use crate::conversation::{Answer, Call, Ending, Found, Given, Note, Outcome, Part, Question};
use crate::conversation::{PlacedImage, Retry, Utterance, UtteranceKind};
use crate::event::{AcknowledgementSource, FeedbackReason, TurnFinish};
use crate::parser::Arguments;
use crate::tools::{
    Clarification, ClarificationOption, Continuation, ListedFile, Source, ToolFile, ToolResult,
};
use crate::upstream::Image;

/// The messages as in a Chat Completions request.
fn as_chat(messages: &[Message]) -> serde_json::Value {
    use crate::upstream::ChatRequest;
    use crate::upstream::dialect::{Kind, Options, Server};

    let request = ChatRequest { messages: messages.to_vec(), ..ChatRequest::default() };
    let body = Kind::OpenaiChat.dialect(Options::default()).body(&request, &Server::default());
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    body["messages"].clone()
}

fn any_result() -> impl Strategy<Value = ToolResult> {
    prop_oneof![
        any::<i32>()
            .prop_map(|n| ToolResult::data(json!({ "n": n, "text": "<<function_call>> {" }))),
        ".{0,12}".prop_map(ToolResult::error),
        "[ab]{1,2}".prop_map(|ids| with_images(&ids, 1)),
    ]
}

/// A result with an image for each letter, which is its id.
fn with_images(ids: &str, bytes: usize) -> ToolResult {
    let mut result = ToolResult::data(json!({}));
    let file = ToolFile { name: None, mime_type: "image/png".into(), bytes: Bytes::new() };
    let list = |id: char| ListedFile { id: Some(id.to_string()), bytes, ..file.listed() };
    result.list_files(ids.chars().map(list).collect());
    result
}

/// The images with these ids.
fn images(ids: &str) -> Images {
    let image = |id: char| {
        let id = id.to_string();
        let image = Image { id: id.clone(), mime_type: "image/png", bytes: id.clone().into() };
        (id, image)
    };
    ids.chars().map(image).collect()
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any_result().prop_map(Outcome::Ended),
        ".{0,12}".prop_map(Outcome::Skipped),
        ".{0,600}".prop_map(|error| Outcome::NotRun(ToolResult::error(error))),
        Just(Outcome::Cancelled),
    ]
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        "[ \\na-z<|>]{0,16}".prop_map(Part::Text),
        (any_kind(), "[a-z<é]{0,9}").prop_map(|(kind, text)| {
            Part::Said(Utterance { kind, text, tools: Vec::new(), at_ms: 0 })
        }),
        (any_name(), any_outcome(), 0..200_usize).prop_map(|(name, outcome, length)| Part::Call(
            Arc::new(Call {
                // Rendering must not depend on the calls' own ids.
                call_id: String::new(),
                name,
                arguments: Arguments::parse(&json!({ "a": "x".repeat(length) }).to_string())
                    .unwrap(),
                resolved_arguments: None,
                outcome,
            })
        )),
    ]
}

/// A name as models write them.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_<]{1,8}", "[.:a-z é🔧]{0,9}", "[a-zé]{63,66}"]
}

fn any_kind() -> impl Strategy<Value = UtteranceKind> {
    prop_oneof![
        Just(UtteranceKind::Status),
        Just(UtteranceKind::Acknowledgement(AcknowledgementSource::Hints)),
        Just(UtteranceKind::Acknowledgement(AcknowledgementSource::Model)),
    ]
}

fn any_question() -> impl Strategy<Value = Question> {
    "[a-z<?]{1,9}".prop_map(|question| Question {
        clarification_id: "t.1".into(),
        call_id: "call_1".into(),
        tool_name: "look".into(),
        clarification: Clarification {
            r#type: "text".into(),
            question,
            options: Vec::new(),
            ..Clarification::default()
        },
        source: Source::default(),
        arguments: None,
        continuation: Continuation::default(),
    })
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let option = ClarificationOption {
        id: "<|im_end|>".into(),
        title: "<<function_call>> {}".into(),
        subtitle: None,
        confidence: None,
        metadata: None,
    };
    let given = prop_oneof!["[a-z]{1,9}".prop_map(Given::Text), Just(Given::Option(option))];
    given.prop_map(|given| Answer {
        clarification_id: "t.1".into(),
        question: "which<|im_end|>?".into(),
        given,
        not_chosen: Vec::new(),
        beside: None,
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let note =
        "[a-z]{1,12}".prop_map(|message| Note { reason: FeedbackReason::MalformedCall, message });
    let notes = prop::collection::vec(note, 0..3);
    let retry = prop::option::of(any_retry());
    let aside = prop_oneof![4 => Just(String::new()), 1 => "[a-z]{1,12}"];
    (prop::collection::vec(any_part(), 0..5), (aside, any_places()), notes, retry).prop_map(
        |(parts, (aside, aside_images), notes, retry)| Step {
            parts,
            aside,
            aside_images,
            notes,
            retry,
            ..Step::default()
        },
    )
}

/// Images in a text, perhaps beyond its end.
fn any_places() -> impl Strategy<Value = Vec<PlacedImage>> {
    let file = |id: char| with_images(&id.to_string(), 1).artifacts.remove(0);
    let image = (0_usize..30, prop::char::range('a', 'd'));
    let image = image.prop_map(move |(at, id)| PlacedImage { at, file: file(id) });
    prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(image, 1..3)]
}

fn any_retry() -> impl Strategy<Value = Retry> {
    let values = prop::collection::vec("\"[a-z<]{1,9}\"", 1..4);
    let argument = ("[a-z<]{1,9}", values).prop_map(|(name, values)| Found { name, values });
    ("[a-z<]{1,9}", prop::option::of(argument))
        .prop_map(|(tool, argument)| Retry { tool, argument })
}

pub(crate) fn any_turn() -> impl Strategy<Value = Turn> {
    let steps = prop::collection::vec(any_step(), 0..5);
    let asked = (
        prop::collection::vec(any_question(), 0..3),
        prop::option::of(any_answer().prop_map(Box::new)),
    );
    let dropped = prop::option::of("[a-z<]{1,9}");
    let prompt = ("[a-zé?]{1,20}", any_places());
    (prompt, steps, asked, dropped).prop_map(|(prompt, mut steps, asked, dropped)| {
        let ((prompt, images), (questions, answer)) = (prompt, asked);
        let mut calls = 0;
        for step in &mut steps {
            for part in &mut step.parts {
                if let Part::Call(call) = part {
                    calls += 1;
                    Arc::make_mut(call).call_id = format!("call_{calls}");
                }
            }
        }
        let ending = Some(Ending::Completed(TurnFinish::Stop));
        let turn_id = "t".into();
        Turn {
            turn_id,
            prompt,
            images,
            answer,
            dropped,
            steps,
            questions,
            ending,
            ..Turn::default()
        }
    })
}

/// The form to render in, and the closing request, if any.
fn any_form() -> impl Strategy<Value = (History, Option<&'static str>)> {
    let histories = prop_oneof![Just(History::Text), Just(History::Native)];
    (histories, prop::option::of(Just("now answer")))
}

fn context(current: Turn, closing: Option<&'static str>, budget: usize) -> Context {
    let (system, format) = ("s".to_owned(), CallFormat::default());
    let (examples, history) = (Arc::default(), Conversation::default());
    let (current, closing) = (Arc::new(current), closing.map(Cow::from));
    Context { system, examples, history, current, closing, format, budget, ..Context::default() }
}

proptest! {
    #[test]
    fn every_history_renders_to_a_valid_sequence(
        turns in prop::collection::vec(any_turn(), 0..6),
        mut current in any_turn(),
        (form, closing) in any_form(),
        budget in 0_usize..400,
    ) {
        // A request is made at the start of a turn, or after a step that needs an answer.
        current.questions.clear();
        current.ending = None;
        if let Some(last) = current.steps.last_mut() && !last.asks_for_more() {
            last.notes.push(Note { reason: FeedbackReason::EmptyResponse, message: "go on".into() });
        }
        let mut history = Conversation::default();
        for turn in turns {
            history.push(turn);
        }
        let context = Context { history, ..context(current, closing, budget) };
        let messages = context.messages(form, &images("a"));
        if let Err(wrong) = check_sequence(&messages) {
            let shown = as_chat(&messages).to_string();
            prop_assert!(false, "{wrong}\n{shown}");
        }
    }

    #[test]
    fn no_marker_survives_in_a_result(
        text in ".{0,20}(<<function_call>>|<\\|im_start\\|>|</s>|<think>).{0,20}",
        (form, closing) in any_form(),
    ) {
        let result = ToolResult::data(json!({ &text: { "deep": [&text] } }));
        let current = turn_with(Outcome::Ended(result));
        let messages = context(current, closing, 4000).messages(form, &Images::new());
        let told = messages.last().unwrap().text_content().unwrap();
        prop_assert!(!told.contains('<'), "{told}");
    }
}

fn turn_with(outcome: Outcome) -> Turn {
    let call = Call {
        call_id: "call_1".into(),
        name: "look".into(),
        arguments: Arguments::parse(r#"{"x":1e400000, "a": 0.10}"#)
            .or_else(|_| Arguments::parse(r#"{"a": 0.10}"#))
            .unwrap(),
        resolved_arguments: None,
        outcome,
    };
    let parts = vec![Part::Text("One moment.\n".into()), Part::Call(Arc::new(call))];
    let steps = vec![Step { parts, ..Step::default() }];
    let prompt = "Where?".into();
    Turn { turn_id: "t".into(), prompt, steps, ..Turn::default() }
}

#[track_caller]
fn check(form: Form, expected: &serde_json::Value) {
    let current = turn_with(Outcome::Ended(ToolResult::data(json!({ "n": 1 }))));
    let messages = messages(&context(current, None, 1000), form, &Images::new());
    assert_eq!(&as_chat(&messages), expected);
}

#[test]
fn as_text_a_call_is_its_line_and_results_are_one_user_message() {
    check(
        Form::Text,
        &json!([
            { "role": "system", "content": "s" },
            { "role": "user", "content": "Where?" },
            { "role": "assistant", "content":
                "One moment.\n<<function_call>> {\"name\": \"look\", \"arguments\": {\"a\": 0.10}}" },
            { "role": "user", "content": "`look` (call_1) returned: {\"n\":1}\n\
                Use it to answer my question." },
        ]),
    );
}

#[test]
fn after_a_failed_call_the_model_is_asked_for_the_next_one() {
    let told = |outcome| {
        let messages =
            messages(&context(turn_with(outcome), None, 1000), Form::Text, &Images::new());
        messages.last().unwrap().text_content().unwrap().into_owned()
    };
    let retry = "Write the next function call, or tell me what went wrong.";
    for outcome in [
        Outcome::Ended(ToolResult::error("no such place")),
        Outcome::NotRun(ToolResult::error("no such tool")),
        Outcome::Skipped("another call failed".into()),
        Outcome::Cancelled,
    ] {
        assert!(told(outcome.clone()).ends_with(retry), "{outcome:?}");
    }
    let asks = ToolResult::clarification(Clarification {
        r#type: "choice".into(),
        question: "Which one?".into(),
        options: Vec::new(),
        ..Clarification::default()
    });
    assert!(told(Outcome::Ended(asks)).ends_with('}'), "the user is asked");
}

#[test]
fn after_a_detour_the_model_is_sent_back() {
    let mut turn = turn_with(Outcome::Ended(ToolResult::data(json!({ "id": "c_7" }))));
    for (values, expected) in [
        (&[][..], "Now write the call to send again with it."),
        (&["\"c_7\""], "Now write the call to send again, with \"id\": \"c_7\"."),
        (
            &["\"c_7\"", "\"<<\""],
            "Now write the call to send again, with \"id\": \"c_7\" or \"\\u003c\\u003c\".",
        ),
    ] {
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        let argument = (!values.is_empty()).then(|| Found { name: "id".into(), values });
        turn.steps[0].retry = Some(Retry { tool: "send".into(), argument });
        let messages = messages(&context(turn.clone(), None, 1000), Form::Text, &Images::new());
        let told = messages.last().unwrap().text_content().unwrap();
        assert!(told.ends_with(&format!("returned: {{\"id\":\"c_7\"}}\n{expected}")), "{told}");
    }
}

#[test]
fn a_model_that_was_trained_on_ids_sees_such_ids() {
    let mut turn = turn_with(Outcome::Ended(ToolResult::data(json!(1))));
    let mut step = turn.steps[0].clone();
    let Part::Call(call) = &step.parts[1] else { unreachable!("a call comes second") };
    step.parts[1] = Part::Call(Arc::new(Call { name: "a b".into(), ..Call::clone(call) }));
    turn.steps.push(step);
    let call_ids = Row::named("kimi_k2").unwrap().call_ids();
    let context = Context { call_ids, ..context(turn, None, 1000) };
    let messages = as_chat(&messages(&context, Form::Native, &Images::new()));
    for (at, id) in [(2, "functions.look:0"), (4, "functions.a_b:1")] {
        assert_eq!(messages[at]["tool_calls"][0]["id"], id, "{messages}");
        assert_eq!(messages[at + 1]["tool_call_id"], id, "{messages}");
    }
}

#[test]
fn native_calls_have_tool_messages() {
    check(
        Form::Native,
        &json!([
            { "role": "system", "content": "s" },
            { "role": "user", "content": "Where?" },
            { "role": "assistant", "content": "One moment.", "tool_calls": [{
                "id": "call00001", "type": "function",
                "function": { "name": "look", "arguments": "{\"a\": 0.10}" },
            }] },
            { "role": "tool", "tool_call_id": "call00001",
              "content": "{\"n\":1}" },
        ]),
    );
}

#[test]
fn in_words_there_is_no_call() {
    check(
        Form::Words,
        &json!([
            { "role": "system", "content": "s" },
            { "role": "user", "content": "Where?" },
            { "role": "assistant", "content": "One moment." },
            { "role": "user", "content": "Here is what look found:\nn: 1" },
        ]),
    );
}

#[test]
fn a_turn_that_came_to_nothing_is_answered_with_nothing() {
    use crate::event::FailureCode;

    for (ending, answered) in [
        (Ending::Failed(FailureCode::UpstreamUnavailable), true),
        (Ending::Completed(TurnFinish::Cancelled), true),
        (Ending::Completed(TurnFinish::Length), true),
        (Ending::Completed(TurnFinish::ContentFilter), true),
        (Ending::Completed(TurnFinish::Stop), false),
    ] {
        let mut history = Conversation::default();
        history.push(Turn { prompt: "first".into(), ending: Some(ending), ..Turn::default() });
        let current = Turn { prompt: "second".into(), ..Turn::default() };
        let context = Context { history, ..context(current, None, 1000) };
        let messages = context.messages(History::Text, &Images::new());
        let last = messages.last().unwrap().text_content();
        assert_eq!(last.as_deref() == Some("second"), answered, "{ending:?}: {messages:#?}");
    }
}

#[test]
fn the_oldest_steps_are_left_out_first() {
    let words = |text: &str| Step { parts: vec![Part::Text(text.into())], ..Step::default() };
    let turn = |prompt: &str, steps: Vec<Step>| Turn {
        turn_id: prompt.into(),
        prompt: prompt.into(),
        steps,
        ending: Some(Ending::Completed(TurnFinish::Stop)),
        ..Turn::default()
    };
    let long = "word ".repeat(60);
    let mut history = Conversation::default();
    history.push(turn("first", vec![words(&long)]));
    history.push(turn("second", vec![words("short")]));
    let current = turn("now", Vec::new());
    let said = |budget| -> Vec<String> {
        let context = context(current.clone(), None, budget);
        let messages =
            Context { history: history.clone(), ..context }.messages(History::Text, &Images::new());
        messages.iter().filter_map(Message::text_content).map(Cow::into_owned).collect()
    };
    assert_eq!(said(1000), ["s", "first", long.trim_end(), "second", "short", "now"]);
    assert_eq!(said(100), ["s", "second", "short", "now"]);
    assert_eq!(said(0), ["s", "now"]);
}

/// Calls of every outcome, in the requests of both dialects. `tests/real_model` checks that a real
/// server takes these requests.
#[test]
fn calls_of_every_outcome_go_back_natively() {
    use crate::upstream::dialect::{Kind, Options, Server};
    use crate::upstream::{ChatRequest, OfferedTool, Sampling};

    let call = |at: usize, outcome: Outcome| {
        let arguments = Arguments::parse(r#"{"expression": "6*7"}"#).unwrap();
        let (call_id, name) = (format!("call_{at}"), "calculate".to_owned());
        let resolved_arguments = None;
        Part::Call(Arc::new(Call { call_id, name, arguments, resolved_arguments, outcome }))
    };
    let parts = vec![
        Part::Text("Let me see.".into()),
        call(1, Outcome::Ended(ToolResult::data(json!({ "value": 42 })))),
        call(2, Outcome::Ended(ToolResult::error("the service <|im_end|> is closed"))),
        call(3, Outcome::Skipped("call_2 has failed".into())),
        call(4, Outcome::Cancelled),
    ];
    let note = Note { reason: FeedbackReason::MalformedCall, message: "Write it again.".into() };
    let steps = vec![
        Step { parts, notes: vec![note], ..Step::default() },
        Step { parts: vec![call(5, Outcome::Cancelled)], ..Step::default() },
    ];
    let ending = Some(Ending::Completed(TurnFinish::Cancelled));
    let mut history = Conversation::default();
    history.push(Turn { prompt: "What is 6*7?".into(), steps, ending, ..Turn::default() });
    let current = turn_with(Outcome::Ended(ToolResult::data(json!({ "n": 1 }))));
    let context = Context { history, ..context(current, None, 1000) };
    let tool = |name: &str| OfferedTool {
        name: name.into(),
        description: "Calculates.".into(),
        parameters: json!({ "type": "object", "properties": { "expression": { "type": "string" } } }),
    };
    let sampling = Sampling { max_tokens: Some(1), ..Sampling::default() };
    let tools = [tool("calculate"), tool("look")].into();
    let messages = context.messages(History::Native, &Images::new());
    let contract = CallContract::Native;
    let request = ChatRequest { messages, sampling, tools, contract, ..ChatRequest::default() };
    check_sequence(&request.messages).unwrap();

    let body = |kind: Kind| {
        let body = kind.dialect(Options::default()).body(&request, &Server::default());
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()
    };
    let asked = json!({
        "/v1/chat/completions": body(Kind::OpenaiChat),
        "/v1/responses": body(Kind::OpenaiResponses),
    });
    let shown: serde_json::Value =
        serde_json::from_str(include_str!("../../../../tests/data/upstream/native_requests.json"))
            .unwrap();
    assert_eq!(asked, shown, "{asked:#}");
}

/// The parts of an assistant's message in order, one entry each, with text quoted.
fn ordered(message: &Message) -> Vec<String> {
    let is_reasoning = |part: &MessagePart| matches!(part, MessagePart::Reasoning(_));
    if !message.parts.iter().any(is_reasoning) {
        return Vec::new();
    }
    let part = |part: &MessagePart| match part {
        MessagePart::Reasoning(item) => item.json.clone(),
        MessagePart::Text(text) => format!("{:?}", text.trim()),
        MessagePart::Call(call) => call.id.clone(),
        MessagePart::Result { call_id, .. } => call_id.clone(),
        MessagePart::Image(image) => image.id.clone(),
    };
    message.parts.iter().map(part).collect()
}

#[test]
fn reasoning_stays_before_the_part_it_came_with() {
    let call = || {
        let Turn { mut steps, .. } = turn_with(Outcome::Ended(ToolResult::data(json!(1))));
        steps.remove(0).parts.remove(1)
    };
    let thought = |json: &str| {
        let (upstream, json) = ("u".into(), json.into());
        Part::Reasoning(Arc::new(crate::upstream::ReasoningItem { upstream, json }))
    };
    let text = |text: &str| Part::Text(text.into());
    let kind = UtteranceKind::Acknowledgement(AcknowledgementSource::Hints);
    let hint = || Part::Said(Utterance { kind, text: "Hint.".into(), tools: Vec::new(), at_ms: 0 });
    let line = "<<function_call>> {\"name\": \"look\", \"arguments\": {\"a\": 0.10}}";
    let line = |end: &str| format!("{:?}", format!("{line}{end}"));
    for (parts, native, written) in [
        (
            vec![thought("a"), hint(), call(), thought("b"), call(), thought("c")],
            vec!["a", "call00001", "b", "call00002"],
            vec!["a".to_owned(), line(""), "b".into(), line("")],
        ),
        (
            vec![thought("a"), text("So."), thought("b"), text(" \n"), call(), text("And. ")],
            vec!["a", "\"So.\"", "b", "call00001", "\"And.\""],
            vec!["a".into(), "\"So.\"".into(), "b".into(), line("\nAnd.")],
        ),
        (vec![text("So."), call()], vec![], vec![]),
        (vec![text("So."), thought("a")], vec![], vec![]),
    ] {
        for (form, expected) in [
            (Form::Native, native.iter().map(|part| (*part).to_owned()).collect()),
            (Form::Text, written),
            (Form::Words, Vec::new()),
        ] {
            let step = Step { parts: parts.clone(), ..Step::default() };
            let turn = Turn { prompt: "Where?".into(), steps: vec![step], ..Turn::default() };
            let messages = messages(&context(turn, None, 1000), form, &Images::new());
            assert_eq!(ordered(&messages[2]), expected, "{parts:?} as {form:?}");
        }
    }
}

#[test]
fn steps_that_share_a_message_keep_their_order() {
    let thought = crate::upstream::ReasoningItem { upstream: "u".into(), json: "a".into() };
    let mut turn = turn_with(Outcome::Cancelled);
    turn.steps[0].parts.insert(1, Part::Reasoning(Arc::new(thought)));
    let before = Step { parts: vec![Part::Text("Well.".into())], ..Step::default() };
    turn.steps.insert(0, before);
    let messages = messages(&context(turn, None, 1000), Form::Native, &Images::new());
    assert_eq!(messages[2].text_content().as_deref(), Some("Well.\n\nOne moment."));
    assert_eq!(ordered(&messages[2]), ["\"Well.\"", "\"One moment.\"", "a", "call00001"]);
}

/// A turn of an agent: each step has a call and 5 kB of results.
fn long_turn(steps: usize) -> Turn {
    let mut turn = turn_with(Outcome::Claimed(ToolResult::data(json!({}))));
    turn.steps = (0..steps)
        .map(|at| {
            let found = json!({ "text": format!("found {at}. {}", "x".repeat(5000)) });
            turn_with(Outcome::Claimed(ToolResult::data(found))).steps.remove(0)
        })
        .collect();
    turn
}

fn told_tokens(messages: &[Message]) -> usize {
    let calls = messages.iter().flat_map(Message::calls).map(|call| call.arguments.len() / 3);
    let words = messages.iter().filter_map(Message::text_content);
    words.map(|words| trim::tokens(&words)).sum::<usize>() + calls.sum::<usize>()
}

#[test]
fn the_budget_holds_for_a_turn_that_goes_on() {
    let turn = |continues| Turn { continues, ..long_turn(100) };
    for form in [Form::Text, Form::Native, Form::Words] {
        let told = messages(&context(turn(true), None, 8192), form, &Images::new());
        check_sequence(&told).unwrap();
        assert!(told_tokens(&told) <= 8192, "{}", told_tokens(&told));
        let read = as_chat(&told).to_string();
        assert!(
            read.contains("Where?") && read.contains("found 99.") && read.contains("found 98.")
        );
        assert!(!read.contains("found 0."));
        // The newest step stays in any case.
        let told = messages(&context(turn(true), None, 100), form, &Images::new());
        let read = as_chat(&told).to_string();
        assert!(
            read.contains("Where?") && read.contains("found 99.") && !read.contains("found 98.")
        );
        // The model has made these calls in one go.
        let told = messages(&context(turn(false), None, 8192), form, &Images::new());
        assert!(as_chat(&told).to_string().contains("found 0."));
    }
}
