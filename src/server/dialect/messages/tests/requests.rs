//! What requests say.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::conversation::claimed::{FoundCall, PrefixHash, TurnLookup};
use crate::conversation::{ClientInput, Turn};
use crate::gateway::{BeginError, NewTurn};
use crate::server::dialect::ImageReader;
use crate::server::dialect::messages::request::{read, read_to_count};
use crate::server::dialect::messages::server_tools::MessagesServerTools;
use crate::server::dialect::models::Models;
use crate::server::dialect::{ClientRequest, Form, ParsedRequest};
use crate::server::refusal::Refusal;
use crate::upstream::ToolChoice;

/// Remembers one turn, or none.
struct Remembered(bool);

impl TurnLookup for Remembered {
    fn by_call(&self, client_call_id: &str) -> Option<FoundCall> {
        let (turn, call_id) = (Arc::new(Turn::default()), client_call_id.to_owned());
        self.0.then(|| FoundCall { turn, call_id })
    }

    fn by_prefix(&self, _: &PrefixHash) -> Option<Arc<Turn>> {
        None
    }
}

fn with<T>(body: &Value, remembers: bool, read: impl FnOnce(&ClientRequest<'_>) -> T) -> T {
    let body = body.to_string();
    read(&ClientRequest {
        accept: "",
        body: body.as_bytes(),
        idempotency_key: None,
        owner: "",
        models: &Models::new(vec!["local".to_owned(), "claude-mine".to_owned()], Vec::new(), false),
        conversation: None,
        lookup: &Remembered(remembers),
        images: ImageReader::new(true),
        now_sec: 0,
    })
}

fn try_read(body: &Value) -> Result<ParsedRequest, Refusal> {
    with(body, false, |asked| read(asked, MessagesServerTools::Off))
}

/// A request with these fields beside those that are required.
fn request(fields: &Value) -> Value {
    let mut body = json!({"model": "local", "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi."}]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

#[track_caller]
fn turn(fields: &Value) -> NewTurn {
    try_read(&request(fields)).unwrap().turn
}

fn instructions(system: &Value) -> Option<String> {
    turn(&json!({ "system": system })).client_history.unwrap().instructions
}

fn prompt(turn: &NewTurn) -> &str {
    let ClientInput::Words(prompt) = &turn.input else { panic!("{:?}", turn.input) };
    prompt
}

#[test]
fn instructions_are_a_text_or_blocks() {
    let block = |text: &str| json!({"type": "text", "text": text, "cache_control": {}});
    assert_eq!(instructions(&json!("Be brief.")).unwrap(), "Be brief.");
    assert_eq!(
        instructions(&json!([block("Be brief."), block("Be kind.")])).unwrap(),
        "Be brief.\n\nBe kind."
    );
    for none in [json!(null), json!(""), json!([]), json!([block(" ")]), json!(7)] {
        assert_eq!(instructions(&none), None, "{none}");
    }
}

#[test]
fn a_billing_header_is_no_instruction() {
    let header = "x-anthropic-billing-header: cc_version=2.1; cch=a1b2c;";
    let blocks = json!([{"type": "text", "text": header}, {"type": "text", "text": "Be brief."}]);
    assert_eq!(instructions(&blocks).unwrap(), "Be brief.");
    assert_eq!(instructions(&json!(format!("{header}\nBe brief."))).unwrap(), "Be brief.");
    assert_eq!(instructions(&json!(header)), None);
}

#[test]
fn names_of_anthropics_models_mean_the_default() {
    for (name, model, has_ours) in [
        ("local", Some("local"), true),
        ("local:no-tools", Some("local"), false),
        ("claude-opus-9", None, true),
        ("claude-opus-9:no-tools", None, false),
        ("claude-mine", Some("claude-mine"), true),
    ] {
        let body = request(&json!({ "model": name }));
        let hidden = MessagesServerTools::Hidden;
        let turn = with(&body, false, |asked| read(asked, hidden)).unwrap().turn;
        assert_eq!(turn.model.as_deref(), model, "{name}");
        assert_eq!(turn.tools.is_none(), has_ours, "{name}");
    }
    let refused = try_read(&request(&json!({"model": "other"}))).unwrap_err();
    assert!(matches!(refused, Refusal::Begin(BeginError::UnknownModel { .. })), "{refused:?}");
}

#[test]
fn our_tools_are_not_offered_if_they_are_off() {
    assert_eq!(turn(&json!({})).tools, Some(Vec::new()));
}

#[test]
fn the_choice_of_tools_is_read() {
    let tools = json!([{"name": "open", "input_schema": {"type": "object"}}]);
    for (choice, expected, is_single) in [
        (json!(null), ToolChoice::Auto, false),
        (json!({"type": "auto"}), ToolChoice::Auto, false),
        (json!({"type": "auto", "disable_parallel_tool_use": true}), ToolChoice::Auto, true),
        (json!({"type": "any"}), ToolChoice::Required, false),
        (json!({"type": "tool", "name": "open"}), ToolChoice::Named("open".to_owned()), false),
    ] {
        let turn = turn(&json!({"tools": tools, "tool_choice": choice}));
        assert_eq!((turn.tool_choice, turn.single_client_call), (expected, is_single), "{choice}");
        assert!(!turn.client_tools.is_empty());
    }
    let none = json!({"tools": tools, "tool_choice": {"type": "none"}});
    let body = request(&none);
    let hidden = MessagesServerTools::Hidden;
    let turn = with(&body, false, |asked| read(asked, hidden)).unwrap().turn;
    assert!(turn.client_tools.is_empty());
    assert_eq!(turn.tools, Some(Vec::new()), "ours are not offered either");
}

#[test]
fn tools_without_a_schema_of_the_client_are_skipped() {
    let tools = json!([
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "custom", "name": "open", "input_schema": {"type": "object"}, "cache_control": {}},
    ]);
    let tools = turn(&json!({ "tools": tools })).client_tools;
    assert_eq!(tools.beside(&crate::tools::Catalog::default()).names(), ["open"]);
    assert!(tools.runs("bash"), "the client runs it, so no tool of ours does in its place");
    assert!(!tools.runs("web_search"), "Anthropic would");
}

#[test]
fn what_cannot_be_answered_is_refused() {
    let big: Vec<String> = (0..17).map(|number| number.to_string()).collect();
    for (fields, field) in [
        (json!({"model": null}), "model"),
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": null}), "messages"),
        (json!({"temperature": 2.1}), "temperature"),
        (json!({"top_p": -1}), "top_p"),
        (json!({"stop_sequences": big}), "stop_sequences"),
        (json!({"tool_choice": {"type": "tool"}}), "tool_choice"),
        (json!({"tool_choice": "auto"}), "tool_choice"),
        (json!({"tools": [{"description": "no name"}]}), "tools"),
    ] {
        let refusal = try_read(&request(&fields)).unwrap_err();
        let Refusal::Invalid { param, message } = &refusal else { panic!("{refusal:?}") };
        assert!(*param == field && message.len() > 10, "{fields}: {param}: {message}");
    }
    let most = request(&json!({"stop_sequences": big[..16], "temperature": 2, "max_tokens": 1}));
    assert!(try_read(&most).is_ok());
}

#[test]
fn unknown_fields_are_skipped() {
    let fields = json!({"metadata": {"user_id": "u"}, "context_management": {"edits": []},
        "top_k": 5, "service_tier": "auto", "betas": ["x"], "mcp_servers": [], "container": "c",
        "output_config": {"effort": "high"}, "thinking": {"type": "disabled"}});
    assert_eq!(prompt(&turn(&fields)), "Hi.");
}

#[test]
fn the_form_of_the_answer_is_read_where_clients_have_it() {
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    for fields in [
        json!({"output_config": {"format": format, "effort": "low"}}),
        json!({"output_format": format}),
        json!({"output_format": format, "output_config": {"format": null}}),
    ] {
        assert!(turn(&fields).response_format.is_some(), "{fields}");
    }
    for none in [json!(null), json!({}), json!({"effort": "low"}), json!("high")] {
        assert!(turn(&json!({ "output_config": none })).response_format.is_none(), "{none}");
    }
    let odd = request(&json!({"output_config": {"format": {"type": "xml"}}}));
    assert!(try_read(&odd).is_err());
}

#[test]
fn an_answer_is_streamed_if_it_is_asked_for() {
    let form = |stream| try_read(&request(&json!({ "stream": stream }))).unwrap().form;
    assert!(matches!(form(json!(true)), Form::Stream(_)));
    assert!(matches!(form(json!(false)), Form::Whole(_)));
    assert!(matches!(form(json!(null)), Form::Whole(_)));
}

#[test]
fn reasoning_is_shown_if_it_is_asked_for() {
    for (thinking, is_shown) in [
        (json!(null), false),
        (json!({"type": "disabled"}), false),
        (json!({"type": "enabled", "budget_tokens": 1024}), true),
        (json!({"type": "adaptive"}), true),
        (json!({"type": "adaptive", "display": "omitted"}), false),
    ] {
        let ParsedRequest { form, .. } =
            try_read(&request(&json!({ "thinking": thinking }))).unwrap();
        let Form::Whole(whole) = form else { panic!("it is not streamed") };
        let expected = format!("reasoning: {is_shown}");
        assert!(format!("{whole:?}").contains(&expected), "{thinking}");
    }
}

fn messages(messages: &Value) -> NewTurn {
    turn(&json!({ "messages": messages }))
}

#[test]
fn results_continue_the_turn_of_their_calls() {
    let used = json!({"type": "tool_use", "id": "toolu_x", "name": "open", "input": {"path": "a"}});
    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let returned = |more: Value| {
        let mut block = json!({"type": "tool_result", "tool_use_id": "toolu_x"});
        block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        block
    };
    let image = json!({"type": "image", "source": {"type": "base64", "data": "AA=="}});
    for (result, expected) in [
        (json!({"content": "Buy milk."}), "Buy milk."),
        (
            json!({"content": [{"type": "text", "text": "Buy milk."}, image]}),
            "Buy milk.\n[an image, which is not shown: not a PNG, JPEG, GIF or WebP file]",
        ),
        (json!({"content": "no such file", "is_error": true}), "no such file"),
        (json!({"content": [{"type": "tool_reference", "tool_name": "grep"}]}), "[the tool grep]"),
        (
            json!({"content": [{"type": "document", "source": {
                "type": "content", "content": [{"type": "text", "text": "Buy milk."}],
            }}]}),
            "Buy milk.",
        ),
        (json!({"content": [{"type": "new", "a": 1}]}), r#"[{"type":"new","a":1}]"#),
    ] {
        let turn = messages(&json!([
            {"role": "user", "content": "Open it."},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "I will."}, used]},
            {"role": "user", "content": [returned(result)]},
        ]));
        let ClientInput::Results(results) = &turn.input else { panic!("{:?}", turn.input) };
        let told = serde_json::to_string(&results[0].result).unwrap();
        assert!(told.contains(&expected.replace('\n', "\\n")), "{told}");
        let history = format!("{:?}", turn.client_history.unwrap().history);
        assert!(history.contains("I will.") && !history.contains("Hm."), "{history}");
    }
}

/// As if it were empty, the model would go on with its last answer.
#[test]
fn a_message_of_which_nothing_can_be_read_is_no_empty_one() {
    let said = json!([
        {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2."},
        {"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]},
    ]);
    assert_eq!(prompt(&messages(&said)), "[something that is not shown]");
}

#[test]
fn images_are_read_from_their_source() {
    for (source, note) in [
        (json!({"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"}), None),
        (json!({"type": "url", "url": "https://a"}), Some(": URLs are not fetched")),
        (json!({"type": "file", "file_id": "f"}), Some("")),
    ] {
        let block = json!({"type": "image", "source": source});
        let turn = messages(&json!([{"role": "user", "content": [block]}]));
        let images = &turn.client_history.as_ref().unwrap().images;
        let expected = match note {
            None => "[image image/gif, 6 bytes, artifact a1]".to_owned(),
            Some(reason) => format!("[an image, which is not shown{reason}]"),
        };
        assert_eq!((prompt(&turn), images.files.len()), (&*expected, usize::from(note.is_none())));
        assert_eq!(images.opening.len(), images.files.len());
    }
}

#[test]
fn images_count_as_tokens_but_no_more_of_them_than_a_model_sees() {
    use crate::limits::turn::{IMAGE_TOKENS, IMAGES_MAX};

    let source = json!({"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"});
    let count = |images: usize| {
        let content = vec![json!({"type": "image", "source": source}); images];
        let body = request(&json!({"messages": [{"role": "user", "content": content}]}));
        let counting = with(&body, false, |asked| read_to_count(asked, MessagesServerTools::Off));
        counting.unwrap().message_tokens
    };
    let (one, most, more) = (count(1), count(IMAGES_MAX), count(IMAGES_MAX + 1));
    assert!(one > IMAGE_TOKENS && one < IMAGE_TOKENS + 9, "{one}");
    assert!(most > IMAGES_MAX * IMAGE_TOKENS && more - most < IMAGE_TOKENS, "{most} {more}");
}

/// Some clients remind the model of something beside every result.
#[test]
fn words_beside_results_continue_the_turn() {
    let used = json!({"type": "tool_use", "id": "x", "name": "open", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "x", "content": "Buy milk."});
    let words = json!({"type": "text", "text": "<system-reminder>Be quick.</system-reminder>"});
    for content in [json!([result, words]), json!([words, result])] {
        let ParsedRequest { turn, repairs, .. } = try_read(&request(&json!({"messages": [
            {"role": "user", "content": "Open it."},
            {"role": "assistant", "content": [used]},
            {"role": "user", "content": content},
        ]})))
        .unwrap();
        assert!(matches!(&turn.input, ClientInput::Results(results) if results.len() == 1));
        let history = turn.client_history.unwrap().history;
        let step = &history.turns().last().unwrap().steps[0];
        assert_eq!(step.aside, "<system-reminder>Be quick.</system-reminder>");
        assert_eq!(repairs.iter().count(), 0);
    }
}

/// An assistant's message that shows a call of ours, with words after it.
fn with_our_call() -> Value {
    json!([
        {"role": "user", "content": "What is 6*7?"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Let me see. "},
            {"type": "mcp_tool_use", "id": "mcptoolu_x", "name": "calculate",
                "server_name": "tether", "input": {"expression": "6*7"}},
            {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_x", "is_error": false,
                "content": [{"type": "text", "text": "42"}]},
            {"type": "text", "text": "It is 42."},
        ]},
        {"role": "user", "content": "Sure?"},
    ])
}

#[test]
fn a_call_of_ours_that_nobody_remembers_is_told_in_its_place() {
    let turn = messages(&with_our_call());
    let history = format!("{:?}", turn.client_history.unwrap().history);
    let places = ["Let me see.", "calculate", "42", "It is 42."];
    let at =
        places.map(|words| history.find(words).unwrap_or_else(|| panic!("{words}: {history}")));
    assert!(at.is_sorted(), "{history}");
}

/// The user has edited the answer, so that our turn does not fit.
#[test]
fn a_call_of_ours_in_an_edited_message_is_told_in_its_place() {
    let body = request(&json!({ "messages": with_our_call() }));
    let turn =
        with(&body, true, |asked| read(asked, MessagesServerTools::McpToolUse)).unwrap().turn;
    let history = format!("{:?}", turn.client_history.unwrap().history);
    let places = ["Let me see.", "calculate", "42", "It is 42."];
    let at =
        places.map(|words| history.find(words).unwrap_or_else(|| panic!("{words}: {history}")));
    assert!(at.is_sorted(), "{history}");
}

/// Many blocks of one message take time in proportion: each call is looked up once.
#[test]
fn a_message_of_many_blocks_is_read_in_one_pass() {
    let mut blocks: Vec<Value> = (0..10_000)
        .map(|at| json!({"type": "mcp_tool_use", "id": format!("c{at}"), "name": "n"}))
        .collect();
    blocks.push(json!({"type": "mcp_tool_result", "tool_use_id": "c1", "content": "x"}));
    blocks.extend((0..10_000).map(|_| json!({"type": "text", "text": "x"})));
    let body = request(&json!({"messages": [{"role": "assistant", "content": blocks}]}));
    let lookups = Lookups::default();
    let body = body.to_string();
    let asked = ClientRequest {
        accept: "",
        body: body.as_bytes(),
        idempotency_key: None,
        owner: "",
        models: &Models::new(vec!["local".to_owned()], Vec::new(), false),
        conversation: None,
        lookup: &lookups,
        images: ImageReader::new(true),
        now_sec: 0,
    };
    read(&asked, MessagesServerTools::McpToolUse).unwrap();
    // Once when it is read, and once when its turn is looked for.
    assert!(lookups.0.get() <= 3 * 10_000, "{:?}", lookups.0);
}

/// Counts how often it is asked, and remembers the last call only.
#[derive(Default)]
struct Lookups(std::cell::Cell<usize>);

impl TurnLookup for Lookups {
    fn by_call(&self, client_call_id: &str) -> Option<FoundCall> {
        self.0.set(self.0.get() + 1);
        let (turn, call_id) = (Arc::new(Turn::default()), client_call_id.to_owned());
        (client_call_id == "c9999").then(|| FoundCall { turn, call_id })
    }

    fn by_prefix(&self, _: &PrefixHash) -> Option<Arc<Turn>> {
        None
    }
}

#[test]
fn broken_messages_are_repaired() {
    for broken in [
        json!([{"role": "user", "content": [{"type": "tool_result"}]}, {"role": "user", "content": "Hi."}]),
        json!([{"role": "assistant", "content": [{"type": "tool_use"}]}, {"role": "user", "content": "Hi."}]),
        json!([{"role": "assistant", "content": null}, {"content": "Hi."}]),
        json!([{"role": 7, "content": "Hi."}]),
        json!([{"role": "assistant", "content": [7, "x", {}]}, {"role": "user", "content": "Hi."}]),
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]),
    ] {
        let turn = messages(&broken);
        assert!(prompt(&turn).contains("Hi."), "{broken}");
    }
}

#[test]
fn tokens_are_counted_without_a_limit_on_the_answer() {
    let count = |messages: Value| {
        let body = json!({"model": "local", "messages": messages});
        with(&body, false, |asked| read_to_count(asked, MessagesServerTools::Off))
            .unwrap()
            .message_tokens
    };
    let user = |words: &str| json!({"role": "user", "content": words});
    assert_eq!(count(json!([user("123456")])), 6, "three bytes each, and four for the message");
    assert_eq!(
        count(json!([user("123456"), {"role": "assistant", "content": "123"}, user("1")])),
        6 + 5 + 5
    );
}
