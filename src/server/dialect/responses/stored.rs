//! Responses that are stored with their sessions.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use serde::Deserialize;

use super::collector::ResponseCollector;
use super::encoder::ResponseEncoder;
use super::envelope::{AnswerOptions, Envelope, ResponseHead};
use super::history;
use super::id::ResponseId;
use super::parts::bytes;
use super::receipt::Queued;
use super::replay::replay;
use super::server_items::{Labels, ServerItems};
use crate::conversation::claimed::PrefixHash;
use crate::server::dialect::{self, Collector, Encoder, Receipt};
use crate::session::{AnswerSerializer, FinishedAnswer, TurnLog};

/// Makes a turn's response for storage.
#[derive(Debug)]
pub(in crate::server) struct ResponseSerializer {
    pub(super) options: AnswerOptions,
    /// The response's head, if the response is stored.
    pub(super) head: Option<Arc<RawValue>>,
    /// The hash of the whole conversation, if the client sent all of it.
    pub(super) prefix: Option<PrefixHash>,
}

impl ResponseSerializer {
    /// The serializer of a turn that another gateway has begun, with the head of its response.
    pub(in crate::server) fn of_head(head: &RawValue, rendering: Rendering) -> Self {
        let Rendering { shown, labels, clock } = rendering;
        let head = Arc::new(ResponseHead::read(head));
        let envelope = Envelope { head, ended_at: Arc::default(), clock };
        let options = AnswerOptions { envelope, shown, labels };
        Self { options, head: None, prefix: None }
    }
}

impl AnswerSerializer for ResponseSerializer {
    fn head(&self) -> Option<Arc<RawValue>> {
        self.head.clone()
    }

    fn end(&self, log: &TurnLog) -> FinishedAnswer {
        let mut collected = ResponseCollector::new(self.options.clone());
        log.replay_sealed(|record| collected.take(&record));
        let output = collected.answer.items().done().map(dialect::json::event);
        let prefixes = match self.prefix {
            Some(prefix) => history::prefixes(prefix, &output.collect::<Vec<_>>()),
            None => Vec::new(),
        };
        let object = String::from_utf8(collected.answer.object()).unwrap_or_default();
        let answer = RawValue::from_string(object).ok().map(Arc::from);
        FinishedAnswer { answer, prefixes }
    }
}

/// A stored response.
#[derive(Debug)]
pub(in crate::server) struct StoredResponse {
    id: ResponseId,
    head: Arc<ResponseHead>,
    /// When it ended, in seconds since the Unix epoch, once that is known.
    ended_at: Arc<OnceLock<u64>>,
}

/// What it takes to render a stored response.
#[derive(Debug)]
pub(in crate::server) struct Rendering {
    pub(in crate::server) shown: ServerItems,
    pub(in crate::server) labels: Labels,
    pub(in crate::server) clock: fn() -> u64,
}

impl StoredResponse {
    /// Reads a stored response: its head, and its answer once it has ended.
    pub(in crate::server) fn read(
        id: ResponseId,
        head: &RawValue,
        answer: Option<&RawValue>,
    ) -> Self {
        #[derive(Deserialize)]
        struct End {
            completed_at: Option<u64>,
        }
        let end = answer.and_then(|answer| serde_json::from_str(answer.get()).ok());
        let ended_at = end.and_then(|End { completed_at }| completed_at);
        let ended_at = Arc::new(ended_at.map_or_else(OnceLock::new, OnceLock::from));
        Self { id, head: Arc::new(ResponseHead::read(head)), ended_at }
    }

    /// Whether it runs without readers.
    pub(in crate::server) fn is_background(&self) -> bool {
        self.head.background
    }

    fn options(&self, rendering: Rendering) -> AnswerOptions {
        let Rendering { shown, labels, clock } = rendering;
        AnswerOptions { envelope: self.envelope(clock), shown, labels }
    }

    fn envelope(&self, clock: fn() -> u64) -> Envelope {
        Envelope { head: Arc::clone(&self.head), ended_at: Arc::clone(&self.ended_at), clock }
    }

    /// Its events from number `from` on.
    pub(in crate::server) fn encoder(&self, rendering: Rendering, from: u64) -> Box<dyn Encoder> {
        Box::new(ResponseEncoder::new(self.options(rendering), from))
    }

    /// The response in one piece, once its turn has ended.
    pub(in crate::server) fn collector(&self, rendering: Rendering) -> Box<dyn Collector> {
        Box::new(ResponseCollector::new(self.options(rendering)))
    }

    /// What a client gets that fetches the response later.
    pub(in crate::server) fn receipt(&self, rendering: &Rendering) -> Box<dyn Receipt> {
        Box::new(Queued(self.envelope(rendering.clock)))
    }

    /// The response as far as readers of its log can see.
    pub(in crate::server) fn object_of(&self, rendering: Rendering, log: &TurnLog) -> Vec<u8> {
        let mut collected = ResponseCollector::new(self.options(rendering));
        let mut has_begun = false;
        log.replay(|record| {
            has_begun = true;
            collected.take(&record);
        });
        if has_begun { collected.answer.object() } else { self.object("queued", None) }
    }

    /// The response of a turn that ended without an answer: its process died.
    pub(in crate::server) fn lost(&self) -> Vec<u8> {
        self.object("failed", Some("the gateway stopped before this response was complete"))
    }

    /// The same as a stream, after event `seen`.
    pub(in crate::server) fn lost_stream(&self, seen: Option<u64>) -> Bytes {
        let object = String::from_utf8(self.lost()).unwrap_or_default();
        RawValue::from_string(object).map_or_else(|_| Bytes::new(), |object| replay(&object, seen))
    }

    fn object(&self, status: &str, error: Option<&str>) -> Vec<u8> {
        let envelope = self.envelope(|| 0);
        let mut object = dialect::json::event(&envelope.object(self.id, status, None, b""));
        if let Some(message) = error {
            object["error"] = json!({ "code": "internal", "message": message });
        }
        bytes(&object)
    }

    /// What the request said, in pages. `None` if the page is to begin after an item that is not there.
    pub(in crate::server) fn input_items(&self, page: &Page) -> Option<Value> {
        let mut items = history::listed(self.head.input.clone(), self.id);
        if !page.is_ascending {
            items.reverse();
        }
        let id_of = |item: &Value| item["id"].as_str().map(str::to_owned);
        let start = match &page.after {
            None => 0,
            Some(after) => items.iter().position(|item| id_of(item).as_ref() == Some(after))? + 1,
        };
        let mut data: Vec<Value> = items.drain(start..).collect();
        let has_more = data.len() > page.limit;
        data.truncate(page.limit);
        let (first, last) = (data.first().and_then(id_of), data.last().and_then(id_of));
        Some(json!({
            "object": "list", "data": data, "first_id": first, "last_id": last,
            "has_more": has_more,
        }))
    }

    /// The items of this response with these ids, of its request as well as of its answer.
    pub(in crate::server) fn items(
        &self,
        answer: Option<&RawValue>,
        ids: &HashSet<String>,
    ) -> Vec<(String, Value)> {
        let mut items = history::listed(self.head.input.clone(), self.id);
        if let Some(answer) = answer {
            let mut object = dialect::json::event(answer.get().as_bytes());
            if let Value::Array(output) = object["output"].take() {
                items.extend(output);
            }
        }
        let with_id = |item: Value| {
            Some((item["id"].as_str().filter(|id| ids.contains(*id))?.to_owned(), item))
        };
        items.into_iter().filter_map(with_id).collect()
    }
}

/// A page of a list.
#[derive(Debug)]
pub(in crate::server) struct Page {
    pub(in crate::server) after: Option<String>,
    pub(in crate::server) limit: usize,
    pub(in crate::server) is_ascending: bool,
}
