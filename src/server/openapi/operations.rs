//! The operations: a row for each method of each address.

use schemars::{Schema, SchemaGenerator};

use crate::server::dialect::{ag_ui, ai_sdk, chat_completions, messages, native};
use crate::server::route::Route;

/// One method of an address.
#[derive(Debug)]
pub(super) struct Operation {
    /// With its variable parts in braces.
    pub(super) path: &'static str,
    /// In lower case.
    pub(super) method: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// The schema of its body.
    pub(super) body: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(super) answers: &'static [Answer],
    pub(super) errors: Errors,
}

/// What an operation is asked with, beside its body.
#[derive(Debug)]
pub(super) struct Parameter {
    /// `path`, `query` or `header`.
    pub(super) place: &'static str,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) pattern: Option<&'static str>,
}

/// An answer that is no error.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) description: &'static str,
    /// Media types, each with the name of a schema, unless it is text.
    pub(super) content: &'static [(&'static str, Option<&'static str>)],
}

/// Refusals and failures.
#[derive(Debug)]
pub(super) struct Errors {
    pub(super) media_type: &'static str,
    /// The name of their schema, unless they are text.
    pub(super) schema: Option<&'static str>,
    pub(super) statuses: &'static [&'static [u16]],
}

impl Operation {
    /// Whether it needs no key.
    pub(super) fn is_open(&self) -> bool {
        Route::of(self.path).is_open()
    }
}

/// Errors of the gateway's own API.
const fn ours(statuses: &'static [&'static [u16]]) -> Errors {
    Errors { media_type: JSON, schema: Some("Error"), statuses }
}

const fn openai(statuses: &'static [&'static [u16]]) -> Errors {
    Errors { media_type: JSON, schema: Some("OpenAiError"), statuses }
}

const fn anthropic(statuses: &'static [&'static [u16]]) -> Errors {
    Errors { media_type: JSON, schema: Some("AnthropicError"), statuses }
}

/// The AI SDK shows errors as they are.
const fn in_words(statuses: &'static [&'static [u16]]) -> Errors {
    Errors { media_type: "text/plain", schema: None, statuses }
}

/// Of every request.
const ANY: &[u16] = &[421, 501];
/// Of those that need a key.
const KEY: &[u16] = &[401];
/// Of those that change something.
const CHANGES: &[u16] = &[403];
/// Of those with a body.
const BODY: &[u16] = &[400, 408, 413, 415];
/// Of those that begin a turn: too many run, the session cannot be used.
const BEGINS: &[u16] = &[409, 410, 500, 503];
/// Of those that wait for a turn's end.
const ENDS: &[u16] = &[502, 504];
const STORED: &[u16] = &[500, 503];

const JSON: &str = "application/json";
/// Its schema is that of one event.
const EVENTS: &str = "text/event-stream";
const LINES: &str = "application/x-ndjson";

const fn ok(
    description: &'static str,
    content: &'static [(&'static str, Option<&'static str>)],
) -> Answer {
    Answer { status: 200, description, content }
}

const fn query(name: &'static str, description: &'static str) -> Parameter {
    Parameter { place: "query", name, description, pattern: None }
}

const fn header(name: &'static str, description: &'static str) -> Parameter {
    Parameter { place: "header", name, description, pattern: None }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter { place: "path", name, description, pattern: None }
}

const SESSION_ID: Option<&str> = Some("^[A-Za-z0-9._:-]{1,128}$");
const EVENT_ID: Option<&str> = Some("^[0-9]+-[0-9]+$");
const IDEMPOTENCY_KEY: Parameter =
    header("Idempotency-Key", "In one session, the same key begins only one turn.");

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/api/v1/chat/stream",
        method: "post",
        id: "startTurn",
        summary: "Starts a turn and streams its events.",
        parameters: &[IDEMPOTENCY_KEY],
        body: Some(native::request::turn_schema),
        answers: &[
            ok("The events.", &[(EVENTS, Some("Event")), (LINES, None)]),
            Answer { status: 204, description: "The turn is over, and was read.", content: &[] },
        ],
        errors: ours(&[ANY, KEY, CHANGES, BODY, BEGINS]),
    },
    Operation {
        path: "/api/v1/chat/stream",
        method: "get",
        id: "rejoinTurn",
        summary: "Re-joins a turn: replays missed events, then continues live.",
        parameters: &[
            Parameter { pattern: SESSION_ID, ..query("session_id", "Required.") },
            query("turn_id", "The session's latest turn if absent."),
            Parameter {
                pattern: EVENT_ID,
                ..query("last_event_id", "Only what follows this event.")
            },
            Parameter {
                pattern: EVENT_ID,
                ..header("Last-Event-ID", "The same, and wins over the query.")
            },
        ],
        body: None,
        answers: &[
            ok("The events.", &[(EVENTS, Some("Event")), (LINES, None)]),
            Answer { status: 204, description: "The turn is over, and was read.", content: &[] },
        ],
        errors: ours(&[ANY, KEY, &[400, 404, 410], STORED]),
    },
    Operation {
        path: "/api/v1/chat/cancel",
        method: "post",
        id: "cancelTurn",
        summary: "Ends the running turn of a session.",
        parameters: &[],
        body: Some(native::request::cancel_schema),
        answers: &[Answer {
            status: 202,
            description: "It is being cancelled.",
            content: &[(JSON, Some("Status"))],
        }],
        errors: ours(&[ANY, KEY, CHANGES, BODY, &[404], STORED]),
    },
    Operation {
        path: "/api/v1/sessions/{id}",
        method: "get",
        id: "readSession",
        summary: "The transcript of a session.",
        parameters: &[path("id", "The session.")],
        body: None,
        answers: &[ok("The transcript.", &[(JSON, Some("Transcript"))])],
        errors: ours(&[ANY, KEY, &[404], STORED]),
    },
    Operation {
        path: "/api/v1/sessions/{id}",
        method: "delete",
        id: "deleteSession",
        summary: "Deletes a session.",
        parameters: &[path("id", "The session.")],
        body: None,
        answers: &[Answer { status: 204, description: "It is deleted.", content: &[] }],
        errors: ours(&[ANY, KEY, CHANGES, &[404], STORED]),
    },
    Operation {
        path: "/api/v1/tools",
        method: "get",
        id: "listTools",
        summary: "The tools, with schemas and policies, and where they come from.",
        parameters: &[],
        body: None,
        answers: &[ok("The tools.", &[(JSON, Some("Tools"))])],
        errors: ours(&[ANY, KEY]),
    },
    Operation {
        path: "/api/v1/artifacts/{id}",
        method: "get",
        id: "readArtifact",
        summary: "A file that a tool returned.",
        parameters: &[path("id", "The file.")],
        body: None,
        answers: &[ok("The file, of any type.", &[("*/*", None)])],
        errors: ours(&[ANY, KEY, &[404], STORED]),
    },
    Operation {
        path: "/api/v1/ag-ui",
        method: "post",
        id: "startRun",
        summary: "A turn for front ends that speak AG-UI.",
        parameters: &[],
        body: Some(ag_ui::request_schema),
        answers: &[
            ok("The run's events.", &[(EVENTS, Some("DataEvent"))]),
            Answer { status: 204, description: "The turn is over, and was read.", content: &[] },
        ],
        errors: ours(&[ANY, KEY, CHANGES, BODY, BEGINS]),
    },
    Operation {
        path: "/api/v1/ai-sdk/chat",
        method: "post",
        id: "startChat",
        summary: "A turn for pages that use the AI SDK's chat.",
        parameters: &[],
        body: Some(ai_sdk::request_schema),
        answers: &[
            ok("The UI message stream.", &[(EVENTS, Some("DataEvent"))]),
            Answer { status: 204, description: "The turn is over, and was read.", content: &[] },
        ],
        errors: in_words(&[ANY, KEY, CHANGES, BODY, BEGINS]),
    },
    Operation {
        path: "/api/v1/ai-sdk/chat/{id}/stream",
        method: "get",
        id: "joinChat",
        summary: "Joins the running turn of a chat, from its start.",
        parameters: &[path("id", "The chat.")],
        body: None,
        answers: &[
            ok("The UI message stream.", &[(EVENTS, Some("DataEvent"))]),
            Answer { status: 204, description: "No turn is running.", content: &[] },
        ],
        errors: in_words(&[ANY, KEY, STORED]),
    },
    Operation {
        path: "/api/v1/ai-sdk/chat/{id}/stream",
        method: "delete",
        id: "stopChat",
        summary: "Ends the running turn of a chat.",
        parameters: &[path("id", "The chat.")],
        body: None,
        answers: &[Answer {
            status: 202,
            description: "It is being cancelled.",
            content: &[(JSON, Some("Status"))],
        }],
        errors: in_words(&[ANY, KEY, CHANGES, &[404], STORED]),
    },
    Operation {
        path: "/v1/chat/completions",
        method: "post",
        id: "createChatCompletion",
        summary: "A turn for programs that speak OpenAI's Chat Completions.",
        parameters: &[],
        body: Some(chat_completions::request_schema),
        answers: &[ok(
            "The answer, whole or as a stream of chunks.",
            &[(JSON, Some("ChatCompletion")), (EVENTS, Some("DataEvent"))],
        )],
        errors: openai(&[ANY, KEY, CHANGES, BODY, BEGINS, ENDS, &[404]]),
    },
    Operation {
        path: "/v1/models",
        method: "get",
        id: "listModels",
        summary: "The models that clients can ask for.",
        parameters: &[],
        body: None,
        answers: &[ok("The models.", &[(JSON, Some("Models"))])],
        errors: openai(&[ANY, KEY]),
    },
    Operation {
        path: "/v1/models/{id}",
        method: "get",
        id: "readModel",
        summary: "A model, if there is one with this name.",
        parameters: &[path("id", "Its name, which may have slashes.")],
        body: None,
        answers: &[ok("The model.", &[(JSON, Some("Model"))])],
        errors: openai(&[ANY, KEY, &[404]]),
    },
    Operation {
        path: "/v1/messages",
        method: "post",
        id: "createMessage",
        summary: "A turn for programs that speak Anthropic's Messages.",
        parameters: &[],
        body: Some(messages::request_schema),
        answers: &[ok(
            "The answer, whole or as a stream of events.",
            &[(JSON, Some("Message")), (EVENTS, Some("MessagesEvent"))],
        )],
        errors: anthropic(&[ANY, KEY, CHANGES, BODY, BEGINS, ENDS, &[404]]),
    },
    Operation {
        path: "/v1/messages/count_tokens",
        method: "post",
        id: "countTokens",
        summary: "About how many tokens a request of Messages takes.",
        parameters: &[],
        body: Some(messages::request_schema),
        answers: &[ok("An estimate.", &[(JSON, Some("TokenCount"))])],
        errors: anthropic(&[ANY, KEY, CHANGES, BODY, &[404, 503]]),
    },
    Operation {
        path: "/healthz",
        method: "get",
        id: "isLive",
        summary: "Whether the process runs.",
        parameters: &[],
        body: None,
        answers: &[ok("It runs.", &[(JSON, Some("Status"))])],
        errors: ours(&[ANY]),
    },
    Operation {
        path: "/readyz",
        method: "get",
        id: "isReady",
        summary: "Whether turns can begin.",
        parameters: &[],
        body: None,
        answers: &[
            ok("They can.", &[(JSON, Some("Status"))]),
            Answer {
                status: 503,
                description: "Not now; the status says why.",
                content: &[(JSON, Some("Status"))],
            },
        ],
        errors: ours(&[ANY]),
    },
    Operation {
        path: "/metrics",
        method: "get",
        id: "readMetrics",
        summary: "The metrics, for Prometheus.",
        parameters: &[],
        body: None,
        answers: &[ok("The metrics.", &[("text/plain", None)])],
        errors: ours(&[ANY, KEY]),
    },
    Operation {
        path: "/openapi.json",
        method: "get",
        id: "readDescription",
        summary: "This description.",
        parameters: &[],
        body: None,
        answers: &[ok("An OpenAPI document.", &[(JSON, Some("Description"))])],
        errors: ours(&[ANY]),
    },
    Operation {
        path: "/",
        method: "get",
        id: "readPlayground",
        summary: "A chat page.",
        parameters: &[],
        body: None,
        answers: &[ok("The page.", &[("text/html", None)])],
        errors: ours(&[ANY]),
    },
];
