//! What AG-UI's clients send.

use super::*;
use crate::server::dialect::ImageReader;
use crate::server::dialect::RequestReader as _;
use crate::server::dialect::models::Models;

/// A turn that ended with a question.
#[derive(Debug)]
struct Asking1(Arc<Turn>);

impl Asking1 {
    fn new(continuation: Continuation) -> Self {
        let question = Question {
            clarification_id: "t.1".to_owned(),
            call_id: "call_1".to_owned(),
            tool_name: "look".to_owned(),
            source: Source::builtin(),
            clarification: which_john(),
            arguments: None,
            continuation,
        };
        Self(Arc::new(Turn {
            turn_id: TURN.to_owned(),
            prompt: "Call John.".to_owned(),
            questions: vec![question],
            ending: Some(Ending::Completed(TurnFinish::ClarificationNeeded)),
            ..Turn::default()
        }))
    }
}

impl TurnLookup for Asking1 {
    fn by_call(&self, _: &str) -> Option<FoundCall> {
        None
    }

    fn by_prefix(&self, _: &PrefixHash) -> Option<Arc<Turn>> {
        None
    }

    fn by_question(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        (clarification_id == "t.1").then(|| Arc::clone(&self.0))
    }
}

fn read_with(lookup: &dyn TurnLookup, more: &Value) -> Result<ParsedRequest, Refusal> {
    let mut body = json!({
        "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [],
        "messages": [{"id": "u", "role": "user", "content": "Hi."}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = body.to_string();
    AgUi.read(&ClientRequest {
        accept: "*/*",
        body: body.as_bytes(),
        idempotency_key: None,
        owner: "key",
        models: &Models::new(vec!["local".to_owned(), "other".to_owned()], Vec::new(), true),
        conversation: None,
        lookup,
        images: ImageReader::new(true),
        now_sec: 0,
    })
}

fn read(more: &Value) -> Result<NewTurn, Refusal> {
    read_with(&Asking1::new(Continuation::Model), more).map(|parsed| parsed.turn)
}

#[test]
fn a_run_brings_its_tools_context_and_model() {
    let parameters = json!({"type": "object"});
    let turn = read(&json!({
        "tools": [{"name": "open", "description": "Opens.", "parameters": parameters}],
        "context": [{"description": "The page", "value": "42"}, {"odd": 1}],
        "forwardedProps": {"model": "other", "more": 1},
    }))
    .unwrap();
    assert!(!turn.client_tools.is_empty());
    assert_eq!(turn.input, ClientInput::Words("Hi.".to_owned()));
    assert_eq!(turn.aside, "\n\nThe page:\n42", "the user has not said it");
    assert_eq!(turn.model.as_deref(), Some("other"));
    assert!(turn.supersedes && turn.session_id.is_some());
    let unknown = read(&json!({"forwardedProps": {"model": "gpt-9"}})).unwrap();
    assert_eq!(unknown.model, None, "applications use the field for other things");
}

#[test]
fn thread_and_run_need_their_ids() {
    for (field, param) in [("threadId", "threadId"), ("runId", "runId"), ("messages", "messages")] {
        let refusal = read(&json!({ field: null })).unwrap_err();
        assert!(
            matches!(refusal, Refusal::Invalid { param: it, .. } if it == param),
            "{refusal:?}"
        );
        assert_eq!(AgUi.refused(&refusal).status, 400);
    }
    for field in ["threadId", "runId"] {
        assert!(read(&json!({ field: "" })).is_err(), "an empty {field} is everyone's");
    }
}

fn resumed(payload: &Value) -> ClientInput {
    let entry = json!({"interruptId": "t.1", "status": "resolved", "payload": payload});
    read(&json!({"resume": [entry]})).unwrap().input
}

#[test]
fn payloads_that_answer_a_question() {
    let option = |id: &str| Choice::Option(id.to_owned());
    let text = |text: &str| Choice::Text(text.to_owned());
    for (payload, choice) in [
        (json!({"selected_option": "b"}), option("b")),
        (json!({"selected_option": {"id": "b"}}), option("b")),
        (json!({"text": "The other."}), text("The other.")),
        (json!({"selected_option": "b", "text": ""}), option("b")),
        (json!({"approved": false, "text": " "}), option("deny")),
        (json!({"content": {"a": 1}}), Choice::Content(json!({"a": 1}))),
        (json!({"approved": true}), option("approve")),
        (json!({"approved": false}), option("deny")),
        (json!(true), option("approve")),
        (json!({"action": "decline"}), Choice::Decline),
        (json!("b"), option("b")),
        (json!("The other."), text("The other.")),
    ] {
        let expected =
            ClientInput::Answer { clarification_id: "t.1".to_owned(), choice, beside: None };
        assert_eq!(resumed(&payload), expected, "{payload}");
    }
}

#[test]
fn a_bad_answer_is_a_run_that_fails() {
    let entry =
        |payload: &Value| json!({"interruptId": "t.1", "status": "resolved", "payload": payload});
    let one = entry(&json!("b"));
    for resume in [
        json!([entry(&json!({}))]),
        json!([entry(&json!(7))]),
        json!([entry(&json!({"text": "a", "approved": true}))]),
        json!([entry(&json!({"action": "run"}))]),
        json!([one, one]),
        json!([{"interruptId": "t.1", "status": "open"}]),
        json!([{"interruptId": 7, "status": "resolved"}]),
        json!([{"status": "cancelled"}]),
        json!([null]),
        json!([["t.1", "cancelled"]]),
        json!({}),
        json!("t.1"),
        // Nobody has asked this key that.
        json!([{"interruptId": "t.2", "status": "cancelled"}]),
    ] {
        let refusal = read(&json!({ "resume": resume })).unwrap_err();
        let Refused { status, media_type, body } = AgUi.refused(&refusal);
        assert_eq!((status, media_type), (200, "text/event-stream; charset=utf-8"), "{resume}");
        let frame = String::from_utf8(body).unwrap();
        let event: Value = serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(
            (&event["type"], &event["code"]),
            (&json!("RUN_ERROR"), &json!("invalid_request"))
        );
        let message = event["message"].as_str().unwrap();
        assert!(!message.contains("struct") && !message.contains("Entry"), "{message}");
    }
}

#[test]
fn a_cancelled_question_is_dropped_for_what_the_user_says_or_put_aside() {
    let resume = json!([{"interruptId": "t.1", "status": "cancelled"}]);
    let asked = Asking1::new(Continuation::Model);
    let said = read_with(&asked, &json!({ "resume": resume })).unwrap().turn;
    assert_eq!(said.input, ClientInput::Prompt("Hi.".to_owned()), "it answers nothing");
    assert_eq!(said.idempotency_key, None);
    let messages =
        json!([{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "So?"}]);
    let silent = read(&json!({ "resume": resume, "messages": messages })).unwrap();
    let aside = ClientInput::Answer {
        clarification_id: "t.1".to_owned(),
        choice: Choice::Cancel,
        beside: None,
    };
    assert_eq!(silent.input, aside);
    assert!(silent.idempotency_key.is_some(), "the same again joins its turn");
    let resume = json!([{"interruptId": "t.1", "status": "resolved", "payload": "Yes."}]);
    let answered = read(&json!({ "resume": resume, "messages": messages })).unwrap();
    assert_ne!(answered.idempotency_key, silent.idempotency_key, "another answer does not");
}

#[test]
fn what_each_message_claims() {
    let said = |message: Value| claimed(&message, ImageReader::new(true)).unwrap();
    let user = |text: &str| ClaimedMessage::User(text.into());
    let parts = json!([{"type": "text", "text": "a"}, {"type": "image", "source": {}}, 7]);
    assert_eq!(
        said(json!({"role": "user", "content": parts})),
        user("a\n[an image, which is not shown]")
    );
    assert_eq!(said(json!({"role": 7})), user(""));
    let unknown = json!({"role": "user", "content": [{"type": "new"}]});
    assert_eq!(said(unknown), user("[something that is not shown]"));
    let system = ClaimedMessage::System("s".to_owned());
    assert_eq!(said(json!({"role": "developer", "content": "s"})), system);
    for role in ["reasoning", "activity"] {
        let message = json!({"role": role, "content": "x"});
        assert_eq!(claimed(&message, ImageReader::NAMING), None);
    }
    let result = |output: &str, is_error| ClaimedMessage::Result {
        call_id: "1".to_owned(),
        output: output.into(),
        is_error,
    };
    let tool = json!({"role": "tool", "toolCallId": "1", "content": "7"});
    assert_eq!(said(tool), result("7", false));
    let failed = json!({"role": "tool", "toolCallId": "1", "content": "", "error": "no"});
    assert_eq!(said(failed), result("no", true));
    let halfway = json!({"role": "tool", "toolCallId": "1", "content": "3 of 7", "error": "no"});
    assert_eq!(said(halfway), result("3 of 7\nno", true));
    let same = json!({"role": "tool", "toolCallId": "1", "content": "no", "error": "no"});
    assert_eq!(said(same), result("no", true));
    let call = json!({"id": "1", "function": {"name": "look", "arguments": "{}"}});
    let ClaimedMessage::Assistant { text, calls } =
        said(json!({"role": "assistant", "toolCalls": [call, 7]}))
    else {
        panic!("it is the assistant's")
    };
    assert_eq!((&*text, &*calls[0].name, &*calls[0].arguments), ("", "look", "{}"));
}

#[test]
fn images_are_read_from_their_source() {
    let said = |part: Value, images| {
        let message = json!({"role": "user", "content": [{"type": "text", "text": "a"}, part]});
        let Some(ClaimedMessage::User(content)) = claimed(&message, images) else {
            panic!("it is the user's")
        };
        (content.text().to_owned(), content.images())
    };
    let data = "R0lGODlh";
    for part in [
        json!({"type": "image", "source": {"type": "data", "value": data, "mimeType": "image/gif"}}),
        json!({"type": "binary", "mimeType": "image/gif", "data": data}),
        json!({"type": "binary", "mimeType": "image/gif", "url": format!("data:;base64,{data}")}),
    ] {
        assert_eq!(said(part.clone(), ImageReader::new(true)), ("a\n".to_owned(), 1), "{part}");
        let named = ("a\n[an image, which is not shown]".to_owned(), 0);
        assert_eq!(said(part, ImageReader::NAMING), named);
    }
    for (part, note) in [
        (
            json!({"type": "image", "source": {"type": "url", "value": "https://a"}}),
            "[an image, which is not shown: URLs are not fetched]",
        ),
        (
            json!({"type": "image", "source": {"type": "file", "value": "f"}}),
            "[an image, which is not shown]",
        ),
        (
            json!({"type": "binary", "mimeType": "image/gif", "id": "x"}),
            "[an image, which is not shown]",
        ),
        (
            json!({"type": "binary", "mimeType": "text/csv", "data": "YQ=="}),
            "[a file, which is not shown]",
        ),
    ] {
        assert_eq!(said(part, ImageReader::new(true)), (format!("a\n{note}"), 0));
    }
}

#[test]
fn open_calls_are_those_since_the_user_last_spoke() {
    let call = |id: &str| json!({"role": "assistant", "toolCalls": [{"id": id, "function": {"name": "look"}}]});
    let user = json!({"role": "user", "content": "?"});
    let result = json!({"role": "tool", "toolCallId": "b", "content": "7"});
    let messages =
        [user.clone(), call("z"), user.clone(), call("a"), call("b"), result, call("c"), user];
    let open = open_calls(&messages);
    let ids: Vec<&str> = open.iter().map(|call| &*call.id).collect();
    assert_eq!(ids, ["a", "c"]);
    assert!(open_calls(&[]).is_empty());
}

#[test]
fn an_approval_goes_on_with_its_call_and_a_refusal_does_not() {
    let approval = || Continuation::Approval { definition: "d".to_owned() };
    for (continuation, payload, goes_on) in [
        (approval(), json!(true), true),
        (approval(), json!(false), false),
        (Continuation::Again { state: json!(1) }, json!("b"), true),
        (Continuation::Model, json!("b"), false),
    ] {
        let entry = json!({"interruptId": "t.1", "status": "resolved", "payload": payload});
        let parsed = read_with(&Asking1::new(continuation), &json!({"resume": [entry]})).unwrap();
        let Form::Stream(mut encoder) = parsed.form else { panic!("it is a stream") };
        let (arguments, mut out) = (raw(&json!({})), BytesMut::new());
        records(&[started(), start("call_2", &arguments, 0)], |record| {
            encoder.encode(&record, &mut out);
        });
        let stream = String::from_utf8(out.to_vec()).unwrap();
        assert_eq!(!stream.contains("TOOL_CALL_START"), goes_on, "{stream}");
    }
}
