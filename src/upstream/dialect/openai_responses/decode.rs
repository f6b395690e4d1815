//! Decodes events into deltas.

use super::calls::{CallEvent, Calls, Place};
use super::event::{Event, Item, Response};
use super::messages::Messages;
use crate::upstream::dialect::Decode;
use crate::upstream::frame_error::FrameError;
use crate::upstream::server_error::ServerError;
use crate::upstream::sse::{Field, Frame};
use crate::upstream::{Delta, RoundFinish};

/// Decodes the events of one stream.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    calls: Calls,
    messages: Messages,
    /// Which of its two kinds of reasoning the server writes: plain text or a summary.
    thinks: Option<Thinks>,
    /// The most tokens that the answer may take, if the request says so.
    tokens_max: Option<u32>,
    /// Whether a complete reasoning item has arrived.
    has_reasoned: bool,
    /// Whether an item was incomplete, whatever the response says about itself.
    has_part: bool,
    model: Option<String>,
    finished: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinks {
    Aloud,
    InSummary,
}

impl Decode for Decoder {
    /// Passes the deltas of one event to `sink`. Unknown events are skipped. A call whose
    /// arguments are not complete JSON is completed after the finish, which says whether it was
    /// cut off.
    ///
    /// # Errors
    /// If the server reports a failure, or the frame is not an event of the API.
    fn decode(
        &mut self,
        frame: &Frame<'_>,
        mut sink: &mut dyn FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let data = frame.data.trim_ascii();
        if frame.field == Field::Error {
            return Err(FrameError::Server(ServerError::from_body(data)));
        }
        if data.is_empty() || data == b"[DONE]" || self.finished {
            return Ok(());
        }
        let json = String::from_utf8_lossy(data);
        if !json.starts_with('{') {
            return Err(FrameError::Malformed);
        }
        let mut event: Event<'_> =
            serde_json::from_str(&json).map_err(|_| FrameError::Malformed)?;
        if event.r#type.is_empty() {
            // Some servers send an error in place of an event.
            if event.error.is_some() {
                return Err(FrameError::Server(ServerError::from_body(data)));
            }
            // The standard repeats the type in `event:`; some servers send it only there.
            event.r#type = String::from_utf8_lossy(frame.event);
        }
        self.take(&event, &json, &mut sink)
    }

    /// Whether the model has given a reason to stop.
    fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether nothing that matters follows: the last event repeats the whole response.
    fn is_done(&self) -> bool {
        self.finished
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

impl Decoder {
    /// Creates a decoder at the start of a stream whose answer may take `tokens_max` tokens.
    #[must_use]
    pub(crate) fn new(tokens_max: Option<u32>) -> Self {
        Self { tokens_max, ..Self::default() }
    }

    fn take(
        &mut self,
        event: &Event<'_>,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        if self.model.is_none() {
            self.model = event.response.as_ref().and_then(Response::model);
        }
        let mut scratch = String::new();
        match &*event.r#type {
            // A refusal is what the model says in place of an answer.
            "response.output_text.delta" | "response.refusal.delta" => {
                let text = event.delta(&mut scratch)?;
                self.messages.say(event.place(), event.part(), text)?;
                sink(Delta::Text(text));
            }
            "response.output_text.done" | "response.refusal.done" => {
                let whole = event.whole_words();
                self.messages.close_part(event.place(), event.part(), &whole, sink)?;
            }
            "response.reasoning_text.delta" => {
                self.think(Thinks::Aloud, event.delta(&mut scratch)?, sink);
            }
            "response.reasoning_summary_text.delta" => {
                self.think(Thinks::InSummary, event.delta(&mut scratch)?, sink);
            }
            "response.reasoning_summary_part.added" if event.summary_index > Some(0) => {
                self.think(Thinks::InSummary, "\n\n", sink);
            }
            "response.output_item.added" => self.begin(event, sink)?,
            "response.function_call_arguments.delta" => {
                self.calls.push_arguments(event.place(), event.delta(&mut scratch)?, sink)?;
            }
            "response.function_call_arguments.done" => {
                let (name, arguments) = event.call();
                let (place, call_id) = (event.place(), "");
                self.calls
                    .repeat(&CallEvent { place, call_id, name, arguments: &arguments }, sink)?;
            }
            "response.output_item.done" => {
                if let (Some(raw), Some(item)) = (event.item, event.item()?) {
                    self.close(event.place_of(&item), &item, raw.get(), sink)?;
                }
            }
            "response.completed" | "response.incomplete" => self.finish(event, json, sink)?,
            "response.failed" | "response.cancelled" | "error" => {
                return Err(FrameError::Server(event.failure(json)));
            }
            _ => {}
        }
        Ok(())
    }

    /// A server that writes both kinds says the same thing twice.
    fn think(&mut self, thinks: Thinks, words: &str, sink: &mut impl FnMut(Delta<'_>)) {
        if *self.thinks.get_or_insert(thinks) == thinks {
            sink(Delta::Reasoning(words));
        }
    }

    fn begin(
        &mut self,
        event: &Event<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let Some(item) = event.item()?.filter(Item::is_call) else { return Ok(()) };
        let (place, arguments) = (event.place_of(&item), item.arguments());
        let (call_id, name) = (item.call_id(), item.name());
        self.calls.begin(&CallEvent { place, call_id, name, arguments: &arguments }, sink)
    }

    /// Takes the end of an item, which repeats the item. Reasoning must be sent back later.
    fn close(
        &mut self,
        place: Place<'_>,
        item: &Item<'_>,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        self.has_part |= item.is_incomplete();
        match &*item.r#type {
            "reasoning" => {
                self.has_reasoned = true;
                if self.thinks.is_none() {
                    self.tell_reasoning(item, sink);
                }
                sink(Delta::ReasoningItem(json));
                Ok(())
            }
            "message" => self.messages.close(place, &item.words(), sink),
            "function_call" => {
                let (arguments, call_id, name) = (item.arguments(), item.call_id(), item.name());
                self.calls.close(&CallEvent { place, call_id, name, arguments: &arguments }, sink)
            }
            _ => Ok(()),
        }
    }

    /// Reports what no delta has reported.
    fn tell_reasoning(&mut self, item: &Item<'_>, sink: &mut impl FnMut(Delta<'_>)) {
        for (thinks, words) in [(Thinks::Aloud, item.words()), (Thinks::InSummary, item.summary())]
        {
            if !words.is_empty() {
                return self.think(thinks, &words, sink);
            }
        }
    }

    fn finish(
        &mut self,
        event: &Event<'_>,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let nothing = Response::default();
        let response = event.response.as_ref().unwrap_or(&nothing);
        if response.has_failed() {
            return Err(FrameError::Server(event.failure(json)));
        }
        self.take_at_once(response, sink)?;
        self.finished = true;
        let is_complete = &*event.r#type == "response.completed" && !response.is_incomplete();
        let finish = if is_complete && !self.is_cut(response) {
            if self.calls.is_empty() { RoundFinish::Stop } else { RoundFinish::ToolCalls }
        } else {
            match response.reason().as_deref() {
                Some("content_filter") => RoundFinish::ContentFilter,
                // Servers that give no reason know only this one. With another one, it is incomplete all the same.
                _ => RoundFinish::Length,
            }
        };
        sink(Delta::Finish(finish));
        self.calls.finish(sink);
        if let Some(usage) = response.usage() {
            sink(Delta::Usage(usage));
        }
        Ok(())
    }

    /// Whether the token limit cut a response that claims to be complete, as llama.cpp always
    /// does: a call breaks off, an item is incomplete, or all requested tokens are used up.
    fn is_cut(&self, response: &Response<'_>) -> bool {
        let spent = response.usage().map(|usage| usage.completion_tokens);
        let is_spent = self.tokens_max.is_some_and(|max| spent >= Some(u64::from(max)));
        is_spent || self.has_part || self.calls.any_breaks_off()
    }

    /// Takes items that only the last event contains: those of a kind that no earlier event
    /// mentioned. The others are repetitions, and their names do not always match.
    fn take_at_once(
        &mut self,
        response: &Response<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let (has_called, has_spoken) = (!self.calls.is_empty(), !self.messages.is_empty());
        let has_reasoned = self.has_reasoned;
        for (index, raw) in (0..).zip(response.output.iter().flatten()) {
            let item = Item::read(raw)?;
            let has_come = match &*item.r#type {
                "function_call" => has_called,
                "message" => has_spoken,
                _ => has_reasoned,
            };
            if !has_come {
                self.close(Place { index: Some(index), id: "" }, &item, raw.get(), sink)?;
            }
        }
        Ok(())
    }
}
