//! Holds the description to the routes, the refusals, the structs that read requests, and the pages
//! for people.

mod answers;
pub(in crate::server) mod strict;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::operation::Operation;
use super::operations::OPERATIONS;
use crate::conversation::AnswerError;
use crate::gateway::{BeginError, OverLimit};
use crate::server::ServerTools;
use crate::server::dialect::chat_completions::ChatCompletions;
use crate::server::dialect::messages::{Messages, MessagesServerTools};
use crate::server::dialect::responses::{Responses, ServerItems};
use crate::server::dialect::{Dialect, Dialects, Refused};
use crate::server::refusal::{Limit, Refusal};
use crate::server::route::Route;
use crate::session::SessionError;

fn document() -> Value {
    super::document(&[])
}

const DIALECTS: Dialects = Dialects {
    chat_completions: ChatCompletions { shown: ServerTools::Off },
    messages: Messages { server_tools: MessagesServerTools::Off },
    responses: Responses { shown: ServerItems::McpCall },
};

/// The addresses, in the order of `Route`.
const PATHS: &[&str] = &[
    "/",
    "/openapi.json",
    "/api/v1/chat/stream",
    "/api/v1/chat/cancel",
    "/api/v1/sessions/{id}",
    "/api/v1/tools",
    "/api/v1/artifacts/{id}",
    "/api/v1/ag-ui",
    "/api/v1/ai-sdk/chat",
    "/api/v1/ai-sdk/chat/{id}/stream",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/{id}",
    "/v1/responses/{id}/cancel",
    "/v1/responses/{id}/input_items",
    "/v1/models",
    "/v1/models/{id}",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/healthz",
    "/readyz",
    "/metrics",
];

/// A new route needs a row in [`PATHS`] and in [`OPERATIONS`].
fn path(route: &Route<'_>) -> Option<&'static str> {
    let at = match route {
        Route::Playground => 0,
        Route::OpenApi => 1,
        Route::ChatStream => 2,
        Route::ChatCancel => 3,
        Route::Session(_) => 4,
        Route::Tools => 5,
        Route::Artifact(_) => 6,
        Route::AgUi => 7,
        Route::AiSdkChat => 8,
        Route::AiSdkStream(_) => 9,
        Route::ChatCompletions => 10,
        Route::Responses => 11,
        Route::Response(_) => 12,
        Route::ResponseCancel(_) => 13,
        Route::ResponseInput(_) => 14,
        Route::Models => 15,
        Route::Model(_) => 16,
        Route::Messages => 17,
        Route::CountTokens => 18,
        Route::Live => 19,
        Route::Ready => 20,
        Route::Metrics => 21,
        Route::None | Route::NoneOfOpenAi | Route::NoneOfAnthropic => return None,
    };
    Some(PATHS[at])
}

#[test]
fn every_route_is_described_with_its_methods() {
    for expected in PATHS {
        let route = Route::of(expected);
        assert_eq!(path(&route), Some(*expected));
        let methods: Vec<String> = OPERATIONS
            .iter()
            .filter(|operation| operation.path == *expected)
            .map(|operation| operation.method.to_uppercase())
            .collect();
        let allowed: Vec<&str> = route.methods().split(", ").collect();
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let allowed = allowed.into_iter().map(str::to_owned).collect();
        assert_eq!(sorted(methods), sorted(allowed), "{expected}");
    }
    let unknown = OPERATIONS.iter().find(|operation| !PATHS.contains(&operation.path));
    assert!(unknown.is_none(), "{unknown:?} has no route");
}

#[test]
fn every_operation_has_an_id_of_its_own() {
    let ids: BTreeSet<_> = OPERATIONS.iter().map(|operation| operation.id).collect();
    assert_eq!(ids.len(), OPERATIONS.len());
}

/// Which operations a refusal can be an answer of.
type Where = fn(&Operation) -> bool;

fn anywhere(_: &Operation) -> bool {
    true
}

fn with_key(operation: &Operation) -> bool {
    !operation.is_open()
}

fn changes(operation: &Operation) -> bool {
    operation.method != "get"
}

fn with_body(operation: &Operation) -> bool {
    operation.body.is_some()
}

fn begins(operation: &Operation) -> bool {
    let ids = [
        "startTurn",
        "startChat",
        "startRun",
        "createChatCompletion",
        "createResponse",
        "createMessage",
    ];
    ids.contains(&operation.id)
}

fn names_a_model(operation: &Operation) -> bool {
    begins(operation) || operation.id == "countTokens"
}

/// A refusal of each kind, with where it occurs.
fn refusals() -> Vec<(Refusal, Where)> {
    let begin = |error| (Refusal::Begin(error), begins as Where);
    let (name, known) = ("m".to_owned(), vec!["n".to_owned()]);
    vec![
        (Refusal::TransferEncoding("gzip".to_owned()), anywhere),
        (Refusal::Host("evil.example".to_owned()), anywhere),
        (Refusal::OverLimit { limit: Limit::Requests, wait: Duration::ZERO }, anywhere),
        (Refusal::OverLimit { limit: Limit::Connections(9), wait: Duration::ZERO }, anywhere),
        (Refusal::Unauthorized, with_key),
        (Refusal::Origin("https://evil.example".to_owned()), changes),
        (Refusal::BadJson { param: Some("a".to_owned()), message: "no".to_owned() }, with_body),
        (Refusal::invalid("prompt", "no"), with_body),
        (Refusal::BodyTooLarge { bytes_max: 1 }, with_body),
        (Refusal::BodyTimeout(Duration::from_secs(1)), with_body),
        (Refusal::BodyBroken("no".to_owned()), with_body),
        (Refusal::ContentEncoding("gzip".to_owned()), with_body),
        (Refusal::MediaType, with_body),
        (Refusal::Begin(BeginError::UnknownModel { name, known }), names_a_model),
        (Refusal::Begin(BeginError::Draining), names_a_model),
        begin(BeginError::TurnInProgress("s".to_owned())),
        begin(BeginError::Answer(AnswerError::Stale("q".to_owned()))),
        begin(BeginError::TurnGone),
        begin(BeginError::NoToolToCall { left_out: Vec::new() }),
        begin(BeginError::NoRoom { needed: 2, budget: 1 }),
        begin(BeginError::ToolsUnavailable("a source".into())),
        begin(BeginError::Full(1)),
        begin(BeginError::OverLimit(OverLimit::Share(1))),
        begin(BeginError::Session(SessionError::Store(
            crate::session::store::StoreError::Unavailable("no".to_owned()),
        ))),
    ]
}

fn dialect(operation: &Operation) -> &'static dyn Dialect {
    static DIALECTS_USED: Dialects = DIALECTS;
    Route::of(operation.path).dialect(&DIALECTS_USED)
}

#[test]
fn every_refusal_has_a_status_and_a_body_that_are_described() {
    let document = document();
    for operation in OPERATIONS {
        let described = &document["paths"][operation.path][operation.method]["responses"];
        for (refusal, occurs) in refusals() {
            if !occurs(operation) {
                continue;
            }
            let Refused { status, media_type, body } = dialect(operation).refused(&refusal);
            let answer = &described[status.to_string()];
            assert!(answer.is_object(), "{}: {status}, {refusal:?}", operation.id);
            let media_type = media_type.split(';').next().unwrap();
            let schema = &answer["content"][media_type]["schema"];
            if media_type == "text/event-stream" {
                let frame = std::str::from_utf8(&body).unwrap();
                let data = frame.strip_prefix("data: ").expect("a frame of data alone");
                strict::check("AgUiFrame", &json!({ "data": data.trim_end() }));
                strict::check("AgUiEvent", &serde_json::from_str(data).unwrap());
                continue;
            }
            let Some(reference) = schema["$ref"].as_str() else {
                assert_eq!(schema["type"], "string", "{}: {media_type}", operation.id);
                continue;
            };
            let body: Value = serde_json::from_slice(&body).unwrap();
            strict::check(reference.rsplit('/').next().unwrap(), &body);
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn visit(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let target = document.pointer(reference.trim_start_matches('#'));
                    assert!(target.is_some_and(Value::is_object), "{reference}");
                }
                members.values().for_each(|member| visit(member, document));
            }
            Value::Array(items) => items.iter().for_each(|item| visit(item, document)),
            _ => {}
        }
    }
    let document = document();
    visit(&document, &document);
}

/// The fields of a request, as its schema names them.
fn fields(name: &str) -> BTreeSet<String> {
    let schema = &document()["components"]["schemas"][name];
    schema["properties"].as_object().unwrap_or_else(|| panic!("{name}")).keys().cloned().collect()
}

/// The words in backticks in a page's table rows, from one heading to the next.
fn told(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split_once(heading).expect(heading).1;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows = section.lines().filter(|line| line.starts_with('|'));
    let words = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    words.map(str::to_owned).collect()
}

#[test]
fn every_field_of_a_request_is_told_to_people() {
    let (api, clients) =
        (include_str!("../../../../docs/http-api.md"), include_str!("../../../../docs/clients.md"));
    for (name, page, heading) in [
        ("TurnRequest", api, "\n## Starting a turn"),
        ("ChatCompletionRequest", clients, "\n## Chat Completions"),
        ("ResponseRequest", clients, "\n## Responses"),
        ("MessagesRequest", clients, "\n## Anthropic Messages"),
        ("AiSdkChatRequest", clients, "\n## AI SDK"),
        ("AgUiRunRequest", clients, "\n## AG-UI"),
    ] {
        let told = told(page, heading);
        for field in fields(name) {
            // `stream_options.include_usage` tells of both.
            let is_told = told.iter().any(|it| it.split('.').next() == Some(&field));
            let is_plain = field == "stream";
            assert!(is_told || is_plain, "{name}: {field} is not told in {heading:?}");
        }
    }
}

#[test]
fn schemas_are_those_of_the_structs_that_read() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["TurnRequest"]["additionalProperties"], false, "unknown fields are refused");
    assert_eq!(schemas["ChatCompletionRequest"].get("additionalProperties"), None, "or skipped");
    for (name, good, bad) in [
        ("TurnRequest", json!({"prompt": "Hi.", "tools": []}), json!({"prompt": 1})),
        ("CancelRequest", json!({"session_id": "s"}), json!({"session": "s"})),
        (
            "ChatCompletionRequest",
            json!({"model": "m", "messages": [{"role": "user", "content": "Hi."}], "user": "u"}),
            json!({"messages": {}}),
        ),
        (
            "ResponseRequest",
            json!({"model": "m", "input": "Hi.", "store": false, "user": "u"}),
            json!({"tools": "none"}),
        ),
        (
            "MessagesRequest",
            json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": []}]}),
            json!({"max_tokens": "1"}),
        ),
    ] {
        let mut schema = schemas[name].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&good), "{good}");
        assert!(!validator.is_valid(&bad), "{bad}");
    }
}
