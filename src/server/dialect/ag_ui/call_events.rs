//! Calls as events: each with its arguments in one piece, and its result.

use bytes::BytesMut;
use serde_json::{Value, json};

use super::encoder::RunEncoder;
use super::event::RunEvent;
use super::resume::Resumed;
use crate::server::dialect::{call_id, shown, sse};

impl RunEncoder {
    /// The id of a call as the client knows it.
    pub(super) fn outside(&self, call: &Value) -> String {
        let call_id = call["call_id"].as_str().unwrap_or_default();
        match &self.calls.resumed {
            Some(resumed) if self.calls.goes_on_as.as_deref() == Some(call_id) => {
                resumed.id.clone()
            }
            _ => call_id::outside(&self.turn_id, call_id),
        }
    }

    /// Gives the resumed call the answer as its result, unless it goes on.
    pub(super) fn settle(&mut self, out: &mut BytesMut) {
        if self.calls.goes_on_as.is_none()
            && let Some(Resumed { id, answer, .. }) = self.calls.resumed.take()
        {
            self.push_result(out, &id, &answer);
        }
    }

    /// A tool of ours starts. The client knows the call that was resumed.
    pub(super) fn start_call(&mut self, out: &mut BytesMut, call: &Value) {
        let calls = &mut self.calls;
        let goes_on =
            |resumed: &&Resumed| resumed.goes_on && call["tool_name"] == *resumed.tool_name;
        let resumed = calls.resumed.as_ref().filter(|_| calls.goes_on_as.is_none()).filter(goes_on);
        if let Some(resumed) = resumed {
            calls.running.push(resumed.id.clone());
            calls.goes_on_as = call["call_id"].as_str().map(str::to_owned);
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
        let (id, name, arguments) = (self.outside(call), &call["tool_name"], arguments.to_string());
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

    /// A tool of ours has ended.
    pub(super) fn complete_call(&mut self, out: &mut BytesMut, completed: &Value) {
        let id = self.outside(completed);
        let result = &completed["tool_result"];
        let running = &mut self.calls.running;
        let Some(at) = running.iter().position(|running| *running == id) else { return };
        running.swap_remove(at);
        if shown::asks(result) {
            return self.calls.waiting.push(id);
        }
        let content = match shown::output(result) {
            Ok(Value::String(text)) => text,
            Ok(output) => output.to_string(),
            Err(error) => error,
        };
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
        let own = self.outside(asked);
        let known = self.calls.known(&own, asked);
        let waits_on = self.calls.resumed.as_ref().is_some_and(|it| known.as_ref() == Some(&it.id));
        if waits_on && self.calls.goes_on_as.is_none() {
            self.calls.resumed = None;
        }
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
