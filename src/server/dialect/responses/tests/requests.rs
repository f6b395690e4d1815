//! What requests mean.

use serde_json::{Value, json};

use super::*;
use crate::conversation::claimed::{ClaimedMessage, PrefixHash, adopt};
use crate::conversation::{ClientInput, Conversation, Ending, Step, Turn};
use crate::gateway::{ClientHistory, NewTurn};
use crate::server::dialect::models::Models;
use crate::server::dialect::responses::history;
use crate::server::dialect::responses::request::{Parent, Referents, Request, RequestContext};
use crate::server::dialect::tests::NoTurns;
use crate::server::dialect::{Form, ImageReader, ParsedRequest};
use crate::server::refusal::Refusal;
use crate::tools::Confirm;
use crate::tools::registry::tests::Named;
use crate::tools::{Policy, SourceKind, ToolSpec};
use crate::upstream::ToolChoice;

/// Two tools of the gateway, and one of a server called `files`.
fn labels() -> Labels {
    let mut registry = Registry::default();
    let server = Source { kind: SourceKind::Mcp, name: "files".into() };
    for (name, source) in
        [("add", Source::builtin()), ("wait", Source::builtin()), ("files_read", server)]
    {
        let parameters = json!({"type": "object"});
        let policy = Policy { mutates: name == "wait", ..Policy::NONE };
        let name = name.to_owned();
        let spec = ToolSpec { name, parameters, policy, source, ..ToolSpec::default() };
        registry.add(Arc::new(Named(Arc::new(spec)))).unwrap();
    }
    Labels(Arc::new(registry))
}

pub(super) fn with(found: Referents, body: &Value) -> Result<(NewTurn, Form), Refusal> {
    let ParsedRequest { turn, form, .. } = parsed(found, body)?;
    Ok((turn, form))
}

pub(super) fn parsed(found: Referents, body: &Value) -> Result<ParsedRequest, Refusal> {
    parsed_with(ServerItems::McpCall, found, body)
}

fn parsed_with(
    shown: ServerItems,
    found: Referents,
    body: &Value,
) -> Result<ParsedRequest, Refusal> {
    let context = RequestContext {
        owner: "o",
        lookup: &NoTurns,
        models: &Models::new(vec!["m".to_owned()], Vec::new(), false),
        labels: labels(),
        empty_sources: vec!["starting".to_owned()],
        shown,
        new_session_id: SESSION.to_owned(),
        clock: || 7,
        images: ImageReader::new(true),
        image_seed: "seed".to_owned(),
        idempotency_key: None,
        conversation: None,
    };
    Request::read(body.to_string().as_bytes())?.parse(found, context)
}

#[track_caller]
pub(super) fn turn(more: &Value) -> NewTurn {
    let mut body = json!({"model": "m", "input": "Hi."});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    with(Referents::default(), &body).unwrap().0
}

pub(super) fn words(turn: &NewTurn) -> &str {
    match &turn.input {
        ClientInput::Words(words) | ClientInput::Prompt(words) => words,
        other => panic!("{other:?}"),
    }
}

pub(super) fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object"}})
}

#[test]
fn input_is_words_or_items() {
    assert_eq!(words(&turn(&json!({}))), "Hi.");
    let parts = json!([{"type": "input_text", "text": "a"}, {"type": "input_image"}]);
    let items = json!([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": [{"type": "output_text", "text": "1."}]},
        {"type": "message", "role": "user", "content": parts},
    ]);
    let turn = turn(&json!({"input": items, "instructions": "Be kind."}));
    assert_eq!(words(&turn), "a\n[an image, which is not shown]");
    let client_history = turn.client_history.unwrap();
    assert_eq!(client_history.instructions.as_deref(), Some("Be kind.\n\nBe brief."));
    assert_eq!(client_history.history.turns().len(), 1);
}

#[test]
fn a_message_of_which_nothing_can_be_read_is_no_empty_one() {
    let parts = json!([{"type": "computer_screenshot", "image_url": "data:"}]);
    let input = json!([{"role": "user", "content": parts}]);
    assert_eq!(words(&turn(&json!({ "input": input }))), "[something that is not shown]");
}

/// Programs send them to see whether a model is there.
#[test]
fn an_empty_input_is_answered() {
    for input in [json!(""), json!([]), json!([{"type": "reasoning"}, {"type": "later"}])] {
        let turn = turn(&json!({"input": input, "max_output_tokens": 1}));
        assert_eq!(words(&turn), "(The user has sent no words.)");
        assert_eq!(turn.sampling.max_tokens, Some(1));
    }
}

#[test]
fn tools_that_we_do_not_have_are_skipped() {
    let tools = json!([
        {"type": "web_search"}, {"type": "local_shell"}, {"type": "namespace", "name": "n"},
        {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "patch"}]},
        {"type": "custom", "name": "apply_patch"},
        {"type": "mcp", "server_label": "evil", "server_url": "http://10.0.0.1"},
        {"type": "mcp", "server_label": "files", "server_url": "http://10.0.0.1"},
    ]);
    let turn = turn(&json!({"tools": tools}));
    assert!(turn.client_tools.is_empty());
    assert_eq!(turn.tools, None, "ours are all there");
}

/// As Codex sends those of its MCP servers.
#[test]
fn tools_in_namespaces_are_known_by_their_whole_names() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tool = |name: &str| json!({"type": "function", "name": name, "parameters": schema});
    let long = "x".repeat(60);
    let tools = json!([
        {"type": "namespace", "name": "mcp__weather", "tools": [tool("get"), tool(&long)]},
        tool("get"),
    ]);
    let call = json!({
        "type": "function_call", "call_id": "c", "namespace": "mcp__weather", "name": "get",
        "arguments": "{\"city\":\"Rome\"}",
    });
    let input = json!([
        {"role": "user", "content": "Sunny?"}, call,
        {"type": "function_call_output", "call_id": "c", "output": "Yes."},
    ]);
    let turn = turn(&json!({"tools": tools, "input": input}));
    for (name, is_there) in
        [("get", true), ("mcp__weather__get", true), (&*format!("mcp__weather__{long}"), false)]
    {
        assert_eq!(turn.client_tools.has(name), is_there, "{name}");
    }
    let ClientInput::Results(_) = &turn.input else { panic!("{:?}", turn.input) };
    let history = &turn.client_history.as_ref().unwrap().history;
    let calls = history.turns().flat_map(|turn| &turn.steps);
    let names: Vec<_> = calls.flat_map(Step::calls).map(|call| &*call.name).collect();
    assert_eq!(names, ["mcp__weather__get"]);
}

#[test]
fn servers_that_the_operator_has_configured_can_be_chosen() {
    let tools = json!([{"type": "mcp", "server_label": "files", "require_approval": "always"}]);
    let chosen = turn(&json!({"tools": tools}));
    assert_eq!(chosen.tools, Some(vec!["files_read".to_owned()]));
    assert_eq!(chosen.confirm, Some(Confirm::Always));
    let some = json!({"always": {"tool_names": ["write"]}});
    for (asks, confirm) in [
        (some, Some(Confirm::Always)),
        (json!({}), Some(Confirm::Always)),
        (json!("never"), None),
        (json!(null), None),
    ] {
        let tools = json!([{"type": "mcp", "server_label": "files", "require_approval": asks}]);
        assert_eq!(turn(&json!({"tools": tools})).confirm, confirm, "{tools}");
    }
    let allowed = json!([{"type": "mcp", "server_label": "builtin", "allowed_tools": ["add"]}]);
    assert_eq!(turn(&json!({"tools": allowed})).tools, Some(vec!["add".to_owned()]));
}

#[test]
fn tool_choice_row_by_row() {
    let chosen = |choice: Value| {
        let tools = json!([function("open"), function("shut")]);
        let turn = turn(&json!({"tools": tools, "tool_choice": choice}));
        let clients = turn.client_tools.beside(&crate::tools::Catalog::default()).names();
        (clients, turn.tools, turn.tool_choice)
    };
    let both = || vec!["open".to_owned(), "shut".to_owned()];
    assert_eq!(chosen(json!(null)), (both(), None, ToolChoice::Auto));
    assert_eq!(chosen(json!("auto")), (both(), None, ToolChoice::Auto));
    assert_eq!(chosen(json!("required")), (both(), None, ToolChoice::Required));
    assert_eq!(chosen(json!("none")), (vec![], Some(vec![]), ToolChoice::Auto), "ours included");
    let named = json!({"type": "function", "name": "open"});
    let open = ToolChoice::Named("open".to_owned());
    assert_eq!(chosen(named.clone()), (both(), None, open), "the gateway offers only that one");
    let allowed = json!({"type": "allowed_tools", "mode": "required", "tools": [
        named, {"type": "mcp", "name": "add"}, {"type": "web_search"},
    ]});
    let (clients, ours, choice) = chosen(allowed);
    assert_eq!((clients, ours), (vec!["open".to_owned()], Some(vec!["add".to_owned()])));
    assert_eq!(choice, ToolChoice::Required);
    let of_label = |label: &str| json!({"type": "mcp", "server_label": label});
    let allowed = json!({"type": "allowed_tools", "mode": "auto", "tools": [
        of_label("files"), {"type": "custom", "name": "shut"},
    ]});
    let files = || Some(vec!["files_read".to_owned()]);
    assert_eq!(chosen(allowed), (vec![], files(), ToolChoice::Auto));
    let ours = Some(vec!["add".to_owned(), "wait".to_owned()]);
    assert_eq!(chosen(of_label("builtin")), (vec![], ours, ToolChoice::Required));
    let files_read = ToolChoice::Named("files_read".to_owned());
    assert_eq!(chosen(of_label("files")), (both(), None, files_read));
    let wait = json!({"type": "mcp", "server_label": "builtin", "name": "wait"});
    assert_eq!(chosen(wait), (both(), None, ToolChoice::Named("wait".to_owned())));
    for nothing in
        [of_label("none"), json!({"type": "mcp", "server_label": "files", "name": "wait"})]
    {
        let refused = with(
            Referents::default(),
            &json!({"model": "m", "input": "Hi.", "tool_choice": nothing}),
        );
        assert!(refused.unwrap_err().message().contains("selects no tool"), "{nothing}");
    }
}

#[test]
fn limits_and_forms_of_a_request() {
    let turn = turn(&json!({"parallel_tool_calls": false, "max_tool_calls": 2}));
    assert!(turn.single_client_call);
    assert_eq!(turn.max_calls, Some(2));
    assert_eq!(turn.session_id.as_deref(), Some(SESSION));
    let form = |more: Value| {
        let mut body = json!({"model": "m", "input": "Hi."});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        with(Referents::default(), &body).unwrap()
    };
    assert!(matches!(form(json!({})).1, Form::Whole(_)));
    assert!(matches!(form(json!({"stream": true})).1, Form::Stream(_)));
    assert!(matches!(form(json!({"stream": true, "background": true})).1, Form::Stream(_)));
    let (turn, later) = form(json!({"background": true}));
    assert!(turn.runs_alone && matches!(later, Form::Later(_)));
}

#[test]
fn what_is_not_stored_has_no_session_and_asks_for_no_approval() {
    let stored = turn(&json!({}));
    assert!(stored.serializer.unwrap().head().is_some());
    assert!(!stored.nobody_approves);
    let turn = turn(&json!({"store": false}));
    assert!(turn.serializer.unwrap().head().is_none());
    assert!(turn.nobody_approves && turn.session_id.is_none());
    assert!(!turn.client_history.unwrap().can_be_joined);
}

/// The items in which approvals are asked for are not shown then.
#[test]
fn who_is_shown_no_calls_of_servers_is_asked_for_no_approval() {
    let body = json!({"model": "m", "input": "Hi."});
    for (shown, nobody_approves) in [
        (ServerItems::McpCall, false),
        (ServerItems::FunctionCall, true),
        (ServerItems::Hidden, true),
    ] {
        let parsed = parsed_with(shown, Referents::default(), &body).unwrap();
        assert_eq!(parsed.turn.nobody_approves, nobody_approves, "{shown:?}");
    }
}

#[test]
fn requests_that_cannot_be_answered_name_the_field() {
    for (body, field) in [
        (json!({"input": "Hi."}), "model"),
        (json!({"model": "m"}), "input"),
        (json!({"model": "m", "input": 3}), "input"),
        (json!({"model": "m", "input": "", "background": true, "store": false}), "background"),
        (json!({"model": "m", "input": "", "conversation": "c"}), "conversation"),
        (json!({"model": "m", "input": "", "prompt": {"id": "p"}}), "prompt"),
        (json!({"model": "m", "input": "", "top_logprobs": 1}), "top_logprobs"),
        (json!({"model": "m", "input": "", "max_tool_calls": 0}), "max_tool_calls"),
        (json!({"model": "m", "input": "", "temperature": 3}), "temperature"),
        (json!({"model": "m", "input": "", "top_p": -1}), "top_p"),
        (json!({"model": "m", "input": "", "max_output_tokens": 0}), "max_output_tokens"),
        (json!({"model": "m", "input": "", "tool_choice": {"type": "file_search"}}), "tool_choice"),
        (json!({"model": "m", "input": "", "tools": [{"type": "function"}]}), "tools"),
    ] {
        match with(Referents::default(), &body) {
            Err(Refusal::Invalid { param, .. }) => assert_eq!(param, field, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
    let unknown = json!({"model": "m", "input": "", "previous_response_id": "resp_1"});
    assert!(
        matches!(with(Referents::default(), &unknown), Err(Refusal::ForeignParent(id)) if id == "resp_1")
    );
}

/// The members that a response repeats, each with what it is if the request says nothing.
#[test]
fn the_response_has_every_member() {
    let turn = turn(&json!({"tools": [function("open"), {"type": "web_search"}]}));
    let begun = turn.serializer.unwrap().head().unwrap();
    let begun: Value = serde_json::from_str(begun.get()).unwrap();
    assert_eq!(
        begun["echo"],
        json!({
            "model": "m", "previous_response_id": null, "instructions": null,
            "tools": [{"type": "function", "name": "open", "description": null,
                "parameters": {"type": "object"}, "strict": null}],
            "tool_choice": "auto", "truncation": "disabled", "parallel_tool_calls": true,
            "text": {"format": {"type": "text"}}, "top_p": 1.0, "presence_penalty": 0.0,
            "frequency_penalty": 0.0, "temperature": 1.0, "top_logprobs": 0,
            "reasoning": {"effort": null, "summary": null}, "max_output_tokens": null,
            "max_tool_calls": null, "store": true, "background": false, "service_tier": "default",
            "metadata": {}, "safety_identifier": null, "prompt_cache_key": null,
        })
    );
}

/// A conversation whose last turn has handed out two calls, or has asked.
fn parent(ending: TurnFinish) -> Referents {
    let mut history = Conversation::default();
    let calls = [("call_1", "open"), ("call_2", "shut")].map(|(id, name)| {
        let arguments = crate::parser::Arguments::parse("{}").unwrap();
        crate::conversation::Part::Call(Arc::new(crate::conversation::Call {
            call_id: id.to_owned(),
            name: name.to_owned(),
            arguments,
            resolved_arguments: None,
            outcome: crate::conversation::Outcome::HandedOut,
        }))
    });
    let step = Step { parts: calls.into(), ..Default::default() };
    history.push(Turn {
        turn_id: TURN.to_owned(),
        prompt: "Open it.".to_owned(),
        steps: vec![step],
        call_ids: 2,
        ending: Some(Ending::Completed(ending)),
        ..Turn::default()
    });
    let session_id = Some(SESSION.to_owned());
    let parent = Some(Parent { history, session_id, system: None });
    Referents { parent, ..Referents::default() }
}

fn after(ending: TurnFinish, items: &Value) -> NewTurn {
    let id = format!("resp_{IDS}");
    let body = json!({"model": "m", "input": items, "previous_response_id": id});
    with(parent(ending), &body).unwrap().0
}

fn output(call: u32, text: &str) -> Value {
    let id = format!("call_5eef151ef35146209769441c3a4f562f_{call}");
    json!({"type": "function_call_output", "call_id": id, "output": text})
}

#[test]
fn outputs_alone_continue_the_turn() {
    let items = json!([output(2, "b"), output(1, "a"), output(1, "again")]);
    let turn = after(TurnFinish::ClientToolCalls, &items);
    let ClientInput::Results(results) = &turn.input else { panic!("{:?}", turn.input) };
    let told: Vec<_> = results.iter().map(|it| (&*it.call_id, it.result.data.clone())).collect();
    let text = |text: &str| Some(json!({ "text": text }));
    assert_eq!(told, [("call_1", text("a")), ("call_2", text("b"))]);
    assert_eq!(turn.session_id.as_deref(), Some(SESSION));
}

#[test]
fn an_output_that_is_missing_counts_as_not_run() {
    let turn = after(TurnFinish::ClientToolCalls, &json!([output(2, "b")]));
    let ClientInput::Results(results) = &turn.input else { panic!("{:?}", turn.input) };
    assert!(!results[0].result.success && results[1].result.success);
}

#[test]
fn words_after_outputs_open_the_next_turn() {
    let items = json!([output(1, "a"), output(2, "b"), {"role": "user", "content": "And?"}]);
    let turn = after(TurnFinish::ClientToolCalls, &items);
    assert_eq!(words(&turn), "And?");
    let ClientHistory { history, follows, .. } = turn.client_history.unwrap();
    let last = history.turns().next_back().unwrap();
    assert_eq!((history.turns().len(), last.handed_out().count()), (1, 0));
    assert_eq!(follows.as_deref(), parent(TurnFinish::Stop).parent.unwrap().history.last_turn_id());
}

#[test]
fn outputs_of_other_calls_are_the_users_words() {
    let stray = json!({"type": "function_call_output", "call_id": "x", "output": "Milk."});
    let turn = after(TurnFinish::Stop, &json!([stray]));
    assert!(words(&turn).contains("Milk."), "{:?}", turn.input);
}

#[test]
fn an_approval_answers_its_question() {
    let approve = |more: Value| {
        let mut item = json!({
            "type": "mcp_approval_response", "approval_request_id": format!("mcpr_{IDS}_1"),
        });
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        match after(TurnFinish::ClarificationNeeded, &json!([item])).input {
            ClientInput::Answer { clarification_id, choice, .. } => {
                assert_eq!(clarification_id, format!("{TURN}.1"));
                format!("{choice:?}")
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(approve(json!({"approve": true, "reason": "ok"})), "Option(\"approve\")");
    assert_eq!(approve(json!({"approve": false})), "Decline");
    assert_eq!(approve(json!({"approve": false, "reason": "No!"})), "Text(\"No!\")");
}

#[test]
fn our_own_items_come_back_as_one_message_for_each_round() {
    let call = json!({
        "type": "mcp_call", "id": format!("mcp_{IDS}_7"), "name": "add", "arguments": "{}",
        "output": "2", "error": null,
    });
    let said = |text: &str| json!({"type": "message", "role": "assistant", "content": text});
    let hint = json!({"role": "assistant", "phase": "commentary", "content": "One moment."});
    let theirs =
        json!({"type": "function_call", "call_id": "c", "name": "open", "arguments": "{}"});
    let items = [
        json!({"role": "user", "content": "Hi."}),
        json!({"type": "reasoning", "summary": []}),
        said("Let me see. "),
        hint,
        call,
        said("It is 2."),
        said("Sure."),
        theirs,
    ];
    let messages = history::claimed(&items, ImageReader::NAMING);
    let text: Vec<String> = messages.iter().map(|message| format!("{message:?}")).collect();
    assert_eq!(text.len(), 4, "{text:#?}");
    assert!(text[1].contains("Let me see.\"") && text[1].contains("call_5eef"), "{}", text[1]);
    assert!(text[2].starts_with("Result") && text[2].contains("_7\""), "{}", text[2]);
    assert!(text[3].contains("It is 2.\\n\\nSure.") && text[3].contains("\"open\""), "{}", text[3]);
}

#[test]
fn images_are_read_but_their_data_is_not_stored() {
    let image = |url: &str| json!({"type": "input_image", "detail": "low", "image_url": url});
    let (data, page) = ("data:image/gif;base64,R0lGODlh", "https://example.org/a.gif");
    let items = json!([
        {"role": "user", "content": [image(data), image(page), {"type": "input_text", "text": data}]},
        {"type": "function_call_output", "call_id": "c", "output": [image(data)]},
        "odd",
    ]);
    let stored = history::without_images(items.as_array().unwrap());
    let mut without = items.clone();
    without[0]["content"][0]["image_url"] = Value::Null;
    without[1]["output"][0]["image_url"] = Value::Null;
    assert_eq!(Value::from(stored), without);
    let turn = turn(&json!({ "input": [items[0]] }));
    assert_eq!(turn.client_history.unwrap().images.files.len(), 1);
}

/// A turn is found again whether or not its client sends our calls back.
#[test]
fn an_answer_is_recognised_in_both_forms() {
    let user = json!({"role": "user", "content": "Hi."});
    let output = [
        json!({"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "Let me see. "}]}),
        json!({"type": "mcp_call", "id": "mcp_x", "name": "add", "arguments": "{}", "output": "2"}),
        json!({"type": "message", "role": "assistant", "content": "It is 2."}),
    ];
    let before = PrefixHash::begin("o").then("user", "Hi.");
    let prefixes = history::prefixes(before, &output);
    let prefix_of = |items: Vec<Value>| {
        let mut all = vec![user.clone()];
        all.extend(items);
        adopt(history::claimed(&all, ImageReader::NAMING), "o", &NoTurns).unwrap().prefix
    };
    assert_eq!(prefix_of(output.to_vec()), prefixes[0]);
    assert_eq!(prefix_of(vec![output[0].clone(), output[2].clone()]), prefixes[1]);
}

#[test]
fn the_error_of_a_call_comes_back_in_each_of_its_forms() {
    for error in [
        json!("overflow"),
        json!({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "overflow"}]}),
    ] {
        let items = [json!({
            "type": "mcp_call", "id": "x", "name": "add", "arguments": "{}", "output": null, "error": error,
        })];
        let claimed = format!("{:?}", history::claimed(&items, ImageReader::NAMING));
        assert!(claimed.contains("\"overflow\"") && !claimed.contains("mcp_tool"), "{claimed}");
    }
}

/// The words beside an approval belong to the turn that asked.
#[test]
fn images_beside_an_approval_are_named() {
    let image = json!({"type": "input_image", "image_url": "data:image/gif;base64,R0lGODlh"});
    let approval = json!({"type": "mcp_approval_response", "approve": true,
        "approval_request_id": format!("mcpr_{IDS}_1")});
    for (content, said) in [
        (json!([image]), "[an image, which is not shown]"),
        (
            json!([{"type": "input_text", "text": "This one:"}, image]),
            "This one:\n[an image, which is not shown]",
        ),
    ] {
        let message = json!({"role": "user", "content": content});
        let turn = after(TurnFinish::ClarificationNeeded, &json!([approval, message]));
        let ClientInput::Answer { beside, .. } = &turn.input else { panic!("{:?}", turn.input) };
        assert_eq!(beside.as_deref(), Some(said));
        let images = turn.client_history.unwrap().images;
        assert!(images.opening.is_empty() && images.files.is_empty(), "{images:?}");
    }
}

/// Whatever the input, a turn comes of it, or a refusal.
#[test]
fn hostile_items_are_harmless() {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let kinds = [
        "message",
        "function_call",
        "function_call_output",
        "mcp_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "item_reference",
        "custom_tool_call",
        "reasoning",
        "x",
    ];
    let values =
        [json!(null), json!(7), json!("a\u{0}b"), json!([1, null]), json!({"text": 1}), deep];
    for kind in kinds {
        for value in &values {
            let item = json!({
                "type": kind, "id": value, "role": value, "content": value, "call_id": value,
                "name": value, "arguments": value, "output": value, "error": value,
                "approval_request_id": value, "phase": value,
            });
            let items = json!([item, item, value]);
            for stored in [true, false] {
                let body = json!({"model": "m", "input": items, "store": stored});
                with(Referents::default(), &body).unwrap();
            }
        }
    }
}

#[test]
fn results_and_arguments_that_are_not_texts_are_told_as_json() {
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}});
    let told = |output: Value| {
        let output = json!({"type": "function_call_output", "call_id": "c", "output": output});
        let items = [json!({"role": "user", "content": "Hi."}), call.clone(), output];
        let messages = history::claimed(&items, ImageReader::NAMING);
        let ClaimedMessage::Assistant { calls, .. } = &messages[1] else { panic!("{messages:?}") };
        assert_eq!(calls[0].arguments, "{\"a\":1}");
        let ClaimedMessage::Result { output, .. } = &messages[2] else { panic!("{messages:?}") };
        output.text().to_owned()
    };
    assert_eq!(told(json!("x")), "x");
    assert_eq!(told(json!([{"type": "input_text", "text": "x"}])), "x");
    assert_eq!(told(json!({"ok": 1})), "{\"ok\":1}");
    assert_eq!(told(json!([1, 2])), "[1,2]");
    assert_eq!(told(Value::Null), "");
}

#[test]
fn input_is_a_text_or_a_list_also_in_a_chain() {
    let id = format!("resp_{IDS}");
    for (input, is_taken) in [
        (json!("Hi."), true),
        (json!(["Hi."]), true),
        (json!({"role": "user"}), false),
        (json!(5), false),
    ] {
        let refused = with(Referents::default(), &json!({"model": "m", "input": input}));
        assert_eq!(refused.is_ok(), is_taken, "{input}");
        let body = json!({"model": "m", "input": input, "previous_response_id": id});
        let asked = with(parent(TurnFinish::Stop), &body);
        match asked {
            Ok((turn, _)) => assert_eq!((is_taken, words(&turn)), (true, "Hi.")),
            Err(refusal) => {
                assert!(!is_taken && matches!(refusal, Refusal::Invalid { param: "input", .. }));
            }
        }
    }
}
