//! What is said of an operation, and what many of them share.

use schemars::{Schema, SchemaGenerator};

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
    pub(super) parameters: &'static [Parameter<'static>],
    /// The schema of its body.
    pub(super) body: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(super) answers: &'static [Answer],
    pub(super) errors: Errors,
}

/// What an operation is asked with, beside its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter<'a> {
    /// `path`, `query` or `header`.
    pub(super) place: &'static str,
    pub(super) name: &'a str,
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
pub(super) const fn ours(statuses: &'static [&'static [u16]]) -> Errors {
    Errors { media_type: JSON, schema: Some("Error"), statuses }
}

pub(super) const fn openai(statuses: &'static [&'static [u16]]) -> Errors {
    Errors { media_type: JSON, schema: Some("OpenAiError"), statuses }
}

pub(super) const fn anthropic(statuses: &'static [&'static [u16]]) -> Errors {
    Errors { media_type: JSON, schema: Some("AnthropicError"), statuses }
}

/// The AI SDK shows errors as they are.
pub(super) const fn in_words(statuses: &'static [&'static [u16]]) -> Errors {
    Errors { media_type: "text/plain", schema: None, statuses }
}

/// Of every request.
pub(super) const ANY: &[u16] = &[421, 429, 501];
/// Of those that need a key.
pub(super) const KEY: &[u16] = &[401];
/// Of those that change something.
pub(super) const CHANGES: &[u16] = &[403];
/// Of those with a body.
pub(super) const BODY: &[u16] = &[400, 408, 413, 415];
/// Of those that begin a turn: too many run, the session cannot be used.
pub(super) const BEGINS: &[u16] = &[409, 410, 500, 503];
/// Of those that wait for a turn's end.
pub(super) const ENDS: &[u16] = &[502, 504];
pub(super) const STORED: &[u16] = &[500, 503];

pub(super) const JSON: &str = "application/json";
/// Its schema is that of one frame.
pub(super) const EVENTS: &str = "text/event-stream";
pub(super) const LINES: &str = "application/x-ndjson";

pub(super) const fn ok(
    description: &'static str,
    content: &'static [(&'static str, Option<&'static str>)],
) -> Answer {
    Answer { status: 200, description, content }
}

pub(super) const fn query(name: &'static str, description: &'static str) -> Parameter<'static> {
    Parameter { place: "query", name, description, pattern: None }
}

pub(super) const fn header(name: &'static str, description: &'static str) -> Parameter<'static> {
    Parameter { place: "header", name, description, pattern: None }
}

pub(super) const fn path(name: &'static str, description: &'static str) -> Parameter<'static> {
    Parameter { place: "path", name, description, pattern: None }
}
