//! The items of an answer: the frames of each, from `added` to `done`, and its final form.
//!
//! ```text
//!   output_index   0 rs_..      added .. done
//!                  1 msg_..           added .. done
//!                  2 mcp_..                   added ...... done      runs while the model writes
//!                  3 msg_..                       added .......... done
//! ```
//! An item's final form is kept as it was sent. The response's `output` repeats it byte for byte,
//! because SDKs compare the two.

use std::collections::BTreeMap;

use bytes::BytesMut;
use serde_json::{Value, json};

use super::calls;
use super::envelope::ResponseHead;
use super::frames::{Frames, Numbers};
use super::history::APPROVAL_REQUEST;
use super::id::ResponseId;
use super::namespaces;
use super::parts::{added, bytes, done};
use super::server_items::{Labels, ServerItems};
use super::text::{OpenText, Status, Words};
use crate::server::dialect::json::{escaped, text_of};
use crate::server::dialect::words::from_first;
use crate::server::dialect::{call_id, shown};

/// The items so far.
#[derive(Debug)]
pub(super) struct Items {
    shown: ServerItems,
    labels: Labels,
    id: ResponseId,
    /// See [`ResponseHead::namespace_of`].
    namespace_of: BTreeMap<String, String>,
    /// See [`ResponseHead::namespaces`].
    namespaces: Vec<String>,
    /// The items that are done, by their output index.
    done: Vec<Option<Vec<u8>>>,
    open: Option<OpenText>,
    running: Vec<RunningCall>,
    /// The request for approval that was granted, until its call starts.
    granted: Option<String>,
}

/// A call to a server tool that is shown and has not ended.
#[derive(Debug)]
struct RunningCall {
    call_id: String,
    /// `None` if its item is yet to be added.
    index: Option<usize>,
    item: Value,
}

impl Items {
    pub(super) fn new(
        shown: ServerItems,
        labels: Labels,
        id: ResponseId,
        head: &ResponseHead,
    ) -> Self {
        Self {
            shown,
            labels,
            id,
            namespace_of: head.namespace_of.clone(),
            namespaces: head.namespaces.clone(),
            done: Vec::new(),
            open: None,
            running: Vec::new(),
            granted: head.approval_request_id.clone(),
        }
    }

    /// Sets the response's id, before its first item.
    pub(super) const fn set_id(&mut self, id: ResponseId) {
        self.id = id;
    }

    /// The items that are done, in order.
    pub(super) fn done(&self) -> impl Iterator<Item = &[u8]> {
        self.done.iter().flatten().map(Vec::as_slice)
    }

    /// A piece of text, escaped.
    pub(super) fn push_text(&mut self, frames: &mut Frames<'_>, words: Words, mut text: &[u8]) {
        if self.open.as_ref().is_none_or(|open| open.words != words) {
            let Some(first) = from_first(text) else { return };
            self.close_text(frames, Status::Completed);
            self.open_text(frames, words);
            text = first;
        }
        if let Some(open) = &mut self.open {
            open.push(frames, text);
        }
    }

    fn open_text(&mut self, frames: &mut Frames<'_>, words: Words) {
        let index = self.reserve();
        let id = self.id.item(words.prefix(), index);
        self.open = Some(OpenText::begin(frames, words, index, id));
    }

    /// Ends the text that is being written, if any.
    pub(super) fn close_text(&mut self, frames: &mut Frames<'_>, status: Status) {
        if let Some(open) = self.open.take() {
            let index = open.index;
            let item = open.end(frames, status);
            self.finish(frames, index, item);
        }
    }

    /// A message of its own, in one piece.
    pub(super) fn push_message(&mut self, frames: &mut Frames<'_>, text: &str) {
        self.close_text(frames, Status::Completed);
        self.open_text(frames, Words::Message);
        self.push_text(frames, Words::Message, &escaped(text));
        self.close_text(frames, Status::Completed);
    }

    /// A call that the client runs.
    pub(super) fn push_client_call(&mut self, frames: &mut Frames<'_>, data: &Value) {
        self.close_text(frames, Status::Completed);
        let mut item = self.function_call(data);
        let name = text_of(data, "tool_name");
        if let Some((namespace, own)) =
            namespaces::split(name, &self.namespace_of, &self.namespaces)
        {
            item["name"] = own.into();
            item["namespace"] = namespace.into();
        }
        self.push_function_call(frames, &item);
    }

    /// A function call, whoever runs it.
    fn function_call(&self, data: &Value) -> Value {
        let call_id = text_of(data, "call_id");
        json!({
            "id": self.id.item("fc", number_of(call_id)), "type": "function_call",
            "status": Status::Completed.name(),
            "call_id": call_id::for_client(&self.id.turn_id(), call_id),
            "name": text_of(data, "tool_name"), "arguments": arguments_of(data, "tool_args"),
        })
    }

    fn push_function_call(&mut self, frames: &mut Frames<'_>, item: &Value) {
        let index = self.reserve();
        calls::function_call(frames, index, item);
        self.finish(frames, index, bytes(item));
    }

    /// A server tool starts to run.
    pub(super) fn start_call(&mut self, frames: &mut Frames<'_>, data: &Value) {
        let call_id = text_of(data, "call_id").to_owned();
        let number = number_of(&call_id);
        let (index, item) = match self.shown {
            ServerItems::Hidden => return,
            ServerItems::FunctionCall => {
                let call = self.function_call(data);
                self.push_function_call(frames, &call);
                let item = json!({
                    "id": self.id.item("fco", number), "type": "function_call_output",
                    "status": Status::Completed.name(), "call_id": call["call_id"], "output": null,
                });
                (None, item)
            }
            ServerItems::McpCall => {
                let name = text_of(data, "tool_name");
                let item = json!({
                    "id": self.id.item("mcp", number), "type": "mcp_call", "status": "in_progress",
                    "server_label": self.labels.of(name), "name": name,
                    "arguments": arguments_of(data, "tool_args"),
                    "output": null, "error": null, "approval_request_id": self.granted.take(),
                });
                let index = self.reserve();
                calls::mcp_call(frames, index, &item);
                (Some(index), item)
            }
        };
        self.running.push(RunningCall { call_id, index, item });
    }

    /// A server tool has ended.
    pub(super) fn end_call(&mut self, frames: &mut Frames<'_>, data: &Value) {
        let call_id = text_of(data, "call_id");
        let Some(at) = self.running.iter().position(|call| call.call_id == call_id) else { return };
        let call = self.running.remove(at);
        self.finish_call(frames, call, shown::output_text(&data["tool_result"]));
    }

    fn finish_call(
        &mut self,
        frames: &mut Frames<'_>,
        call: RunningCall,
        outcome: Result<String, String>,
    ) {
        let RunningCall { index, mut item, .. } = call;
        let index = if let Some(index) = index {
            item["status"] = if outcome.is_ok() { "completed" } else { "failed" }.into();
            match outcome {
                Ok(output) => item["output"] = output.into(),
                Err(error) => item["error"] = calls::tool_error(&error),
            }
            calls::mcp_call_ended(frames, index, &item);
            index
        } else {
            let index = self.reserve();
            // As a list: Open WebUI cannot read a text in histories.
            let output = outcome.unwrap_or_else(|error| error);
            item["output"] = json!([{ "type": "input_text", "text": output }]);
            calls::function_call_output(frames, index, &item);
            index
        };
        self.finish(frames, index, bytes(&item));
    }

    /// A call that waits for the user's approval.
    pub(super) fn push_approval_request(&mut self, frames: &mut Frames<'_>, data: &Value) {
        self.close_text(frames, Status::Completed);
        let index = self.reserve();
        let name = text_of(data, "tool_name");
        // A question that waited behind another one belongs to the earlier turn.
        let (turn, number) = text_of(data, "clarification_id").rsplit_once('.').unwrap_or_default();
        let item = json!({
            "id": self.id.in_turn(turn).item(APPROVAL_REQUEST, number), "type": "mcp_approval_request",
            "server_label": self.labels.of(name), "name": name,
            "arguments": arguments_of(data, "arguments"),
        });
        added(frames, index, &item);
        self.finish(frames, index, bytes(&item));
    }

    /// Ends everything that is open in an answer that fails. The response keeps the message that broke off, but no
    /// event says that it is done: Codex would take it as whole, and ask again.
    pub(super) fn break_off(&mut self, frames: &mut Frames<'_>) {
        if self.open.as_ref().is_some_and(OpenText::is_message) {
            let (numbers, out) = (&mut Numbers::none(), &mut BytesMut::new());
            self.close_text(&mut Frames { numbers, out }, Status::Incomplete);
        }
        self.close_all(frames, Status::Incomplete);
    }

    /// Ends everything that is open. Calls that have not ended never will.
    pub(super) fn close_all(&mut self, frames: &mut Frames<'_>, status: Status) {
        self.close_text(frames, status);
        for call in std::mem::take(&mut self.running) {
            self.finish_call(frames, call, Err(shown::INTERRUPTED.to_owned()));
        }
    }

    /// The next output index.
    fn reserve(&mut self) -> usize {
        self.done.push(None);
        self.done.len() - 1
    }

    fn finish(&mut self, frames: &mut Frames<'_>, index: usize, item: Vec<u8>) {
        done(frames, index, &item);
        self.done[index] = Some(item);
    }
}

/// A call's arguments as text.
fn arguments_of(data: &Value, key: &str) -> String {
    match &data[key] {
        Value::Null => "{}".to_owned(),
        arguments => arguments.to_string(),
    }
}

/// The number in a call's id: it is unique in its session.
fn number_of(call_id: &str) -> &str {
    call_id.strip_prefix("call_").unwrap_or(call_id)
}
