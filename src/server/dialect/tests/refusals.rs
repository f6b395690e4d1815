//! What the same refusal is in each API.

use std::time::Duration;

use serde_json::Value;

use crate::conversation::AnswerError;
use crate::gateway::{BeginError, OverLimit};
use crate::server::dialect::Dialects;
use crate::server::dialect::chat_completions::ChatCompletions;
use crate::server::dialect::messages::{Messages, MessagesServerTools};
use crate::server::dialect::responses::{Responses, ServerItems};
use crate::server::dialect::server_tools::ServerTools;
use crate::server::refusal::{Limit, Refusal};
use crate::server::route::Route;
use crate::session::SessionError;
use crate::session::store::StoreError;

const DIALECTS: Dialects = Dialects {
    chat_completions: ChatCompletions { shown: ServerTools::Off },
    messages: Messages { server_tools: MessagesServerTools::Off },
    responses: Responses { shown: ServerItems::McpCall },
};

/// Where turns begin in each API.
const PATHS: [&str; 6] = [
    "/api/v1/chat/stream",
    "/api/v1/ag-ui",
    "/api/v1/ai-sdk/chat",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
];

/// The status of a refusal in each API, in the order of [`PATHS`].
#[track_caller]
fn check(refusal: &Refusal, statuses: [u16; 6]) {
    let answered = PATHS.map(|path| Route::of(path).dialect(&DIALECTS).refused(refusal).status);
    assert_eq!(answered, statuses, "{refusal:?}");
}

/// Two differ: in the gateway's own API an unknown model is a wrong field like any other, and in
/// AG-UI a refused answer is a run that fails. A full gateway says 503, not 429: 429 is for a
/// client that is itself over a limit.
#[test]
fn a_refusal_has_the_same_status_in_all_apis() {
    let one = || "s".to_owned();
    for (refusal, status) in [
        (Refusal::Unauthorized, 401),
        (Refusal::Origin(one()), 403),
        (Refusal::NoSuchPath, 404),
        (Refusal::NoParent(one()), 404),
        (Refusal::ForeignParent(one()), 404),
        (Refusal::BadJson { param: None, message: one() }, 400),
        (Refusal::invalid("model", "no"), 400),
        (Refusal::BodyBroken(one()), 400),
        (Refusal::BadHead, 400),
        (Refusal::Method("POST"), 405),
        (Refusal::BodyTimeout(Duration::from_secs(1)), 408),
        (Refusal::ParentRuns(one()), 409),
        (Refusal::Begin(BeginError::TurnInProgress(one())), 409),
        (Refusal::Begin(BeginError::TurnGone), 410),
        (Refusal::BodyTooLarge { bytes_max: 1 }, 413),
        (Refusal::ContentEncoding(one()), 415),
        (Refusal::MediaType, 415),
        (Refusal::Host(one()), 421),
        (Refusal::HeadTooLarge, 431),
        (Refusal::Begin(BeginError::NoToolToCall { left_out: Vec::new() }), 400),
        (Refusal::Begin(BeginError::NoRoom { needed: 2, budget: 1 }), 400),
        (Refusal::Begin(BeginError::Full(1)), 503),
        (Refusal::Begin(BeginError::Draining), 503),
        (Refusal::Begin(BeginError::ToolsUnavailable(one())), 503),
        (Refusal::LongAnswers, 503),
        (Refusal::Session(SessionError::Store(StoreError::Unavailable(one()))), 503),
        (Refusal::Begin(BeginError::OverLimit(OverLimit::Share(1))), 429),
        (Refusal::OverLimit { limit: Limit::KeyRequests, wait: Duration::ZERO }, 429),
        (Refusal::TransferEncoding(one()), 501),
    ] {
        check(&refusal, [status; 6]);
    }
    let unknown = BeginError::UnknownModel { name: one(), known: Vec::new() };
    check(&Refusal::Begin(unknown), [400, 400, 404, 404, 404, 404]);
    let stale = AnswerError::Stale(one());
    check(&Refusal::Begin(BeginError::Answer(stale)), [409, 200, 409, 409, 409, 409]);
}

#[test]
fn a_refusal_names_the_field_at_fault() {
    let one = || "s".to_owned();
    for (error, params) in [
        (BeginError::NoToolToCall { left_out: Vec::new() }, ["tool_choice"; 3]),
        (
            BeginError::UnknownChoice { name: one(), known: Vec::new(), left_out: None },
            ["tool_choice"; 3],
        ),
        (BeginError::UnknownModel { name: one(), known: Vec::new() }, ["model"; 3]),
    ] {
        let refusal = Refusal::Begin(error);
        let named = [PATHS[0], PATHS[3], PATHS[4]].map(|path| {
            let body = Route::of(path).dialect(&DIALECTS).refused(&refusal).body;
            let error: Value = serde_json::from_slice(&body).unwrap();
            error["error"]["param"].clone()
        });
        assert_eq!(named, params, "{refusal:?}");
    }
}
