//! Calls as events: each with its arguments in one piece, and its result.

use bytes::BytesMut;
use serde_json::{Value, json};

use super::calls::ResumedCall;
use super::encoder::RunEncoder;
use super::event::RunEvent;
use super::resume::Resumed;
use crate::server::dialect::json::text_of;
use crate::server::dialect::{call_id, shown, sse};

impl RunEncoder {
    /// The id of a call as the client knows it.
    pub(super) fn client_id(&self, call: &Value) -> String {
        let call_id = call["call_id"].as_str().unwrap_or_default();
        match &self.calls.resumed {
            ResumedCall::GoesOn { id, call_id: own } if own == call_id => id.clone(),
            _ => call_id::for_client(&self.turn_id, call_id),
        }
    }

    /// Gives the resumed call the answer as its result, unless it goes on.
    pub(super) fn settle(&mut self, out: &mut BytesMut) {
        if let Some(Resumed { id, answer, .. }) = self.calls.resumed.take_waiting(|_| true) {
            self.push_result(out, &id, &answer);
        }
    }

    /// If the resumed call was refused, the reason is its result.
    pub(super) fn refuse_resumed(&mut self, out: &mut BytesMut, feedback: &Value) {
        let is_it = |it: &Resumed| {
            it.goes_on_as.as_deref().is_some_and(|call_id| feedback["call_id"] == *call_id)
        };
        if let Some(Resumed { id, .. }) = self.calls.resumed.take_waiting(is_it) {
            self.close_span(out);
            self.push_result(out, &id, text_of(feedback, "message"));
        }
    }

    /// A server tool starts. The client knows the call that was resumed.
    pub(super) fn start_call(&mut self, out: &mut BytesMut, call: &Value) {
        let resumed = self.calls.resumed.take_waiting(|resumed| resumed.is(call));
        if let Some(Resumed { id, .. }) = resumed {
            self.calls.running.push(id.clone());
            let call_id = call["call_id"].as_str().unwrap_or_default().to_owned();
            self.calls.resumed = ResumedCall::GoesOn { id, call_id };
            return self.close_span(out);
        }
        let id = self.push_call(out, call, &call["tool_args"]);
        self.calls.running.push(id);
    }

    /// A call with its arguments. Returns its id.
    pub(super) fn push_call(
        &mut self,
        out: &mut BytesMut,
        call: &Value,
        arguments: &Value,
    ) -> String {
        self.close_span(out);
        self.settle(out);
        let round = call["loop"].as_u64();
        if self.calls.round.is_some() && self.calls.round != round {
            self.calls.parent = None;
        }
        self.calls.round = round;
        let (id, name, arguments) =
            (self.client_id(call), &call["tool_name"], arguments.to_string());
        let parent = self.calls.parent.as_deref();
        let (tool_call_id, tool_call_name) = (&*id, name.as_str().unwrap_or_default());
        let start =
            RunEvent::ToolCallStart { tool_call_id, tool_call_name, parent_message_id: parent };
        sse::push(out, &start);
        sse::push(out, &RunEvent::ToolCallArgs { tool_call_id, delta: &arguments });
        sse::push(out, &RunEvent::ToolCallEnd { tool_call_id });
        let function = json!({ "name": name, "arguments": arguments });
        let told = json!({ "id": id, "type": "function", "function": function });
        self.snapshot.push_call(&id, told, parent);
        id
    }

    /// A server tool has ended.
    pub(super) fn complete_call(&mut self, out: &mut BytesMut, completed: &Value) {
        let id = self.client_id(completed);
        let result = &completed["tool_result"];
        let running = &mut self.calls.running;
        let Some(at) = running.iter().position(|running| *running == id) else { return };
        running.swap_remove(at);
        if shown::asks(result) {
            return self.calls.waiting.push(id);
        }
        let content = shown::output_text(result).unwrap_or_else(|error| error);
        self.push_result(out, &id, &content);
    }

    fn push_result(&mut self, out: &mut BytesMut, id: &str, content: &str) {
        let message_id = self.next_id();
        let (message, tool_call_id, role) = (&*message_id, id, "tool");
        let result = RunEvent::ToolCallResult { message_id: message, tool_call_id, content, role };
        sse::push(out, &result);
        self.snapshot.push_result(json!({
            "id": message_id, "role": "tool", "toolCallId": id, "content": content,
        }));
    }

    /// The id of the call that asks. A call that waits for approval has not begun yet.
    pub(super) fn asking_call(&mut self, out: &mut BytesMut, asked: &Value) -> String {
        let own = self.client_id(asked);
        let known = self.calls.known(&own, asked);
        // The resumed call itself asks again, so it gets no result.
        self.calls.resumed.take_waiting(|resumed| known.as_ref() == Some(&resumed.id));
        self.settle(out);
        match known {
            Some(id) => id,
            None => self.push_call(out, asked, asked.get("arguments").unwrap_or(&json!({}))),
        }
    }

    /// Ends the calls that the turn did not wait for.
    pub(super) fn end_calls(&mut self, out: &mut BytesMut) {
        for id in std::mem::take(&mut self.calls.running) {
            self.push_result(out, &id, shown::INTERRUPTED);
        }
    }
}
