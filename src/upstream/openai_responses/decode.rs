//! An event as deltas.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::Usage;
use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX};
use crate::upstream::openai_chat::{FrameError, unescape};
use crate::upstream::server_error::ServerError;
use crate::upstream::sse::{Field, Frame};
use crate::upstream::{Delta, RoundFinish};

/// Decodes the events of one stream.
#[derive(Debug, Default)]
pub struct Decoder {
    calls: Vec<Call>,
    /// The calls before this one were handed out as whole.
    whole: usize,
    /// Arguments and names of all calls, in bytes.
    bytes: usize,
    /// Which of its two kinds of reasoning the server writes: the plain text, or a summary.
    thinks: Option<Thinks>,
    finished: bool,
}

/// A call that has begun.
#[derive(Debug, Default)]
struct Call {
    /// The place of its item in the response, where the server counts.
    output_index: Option<u64>,
    /// Its item's own id.
    item_id: String,
    name: String,
    arguments: String,
    /// Whether the server has said that it is whole.
    closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinks {
    Aloud,
    InSummary,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the deltas of one event to `sink`. What is unknown is skipped; a call whose
    /// arguments are no whole JSON becomes whole behind the finish, which says whether it
    /// was cut.
    ///
    /// # Errors
    /// The server reports a failure, or the frame is no event of the API.
    pub fn decode(
        &mut self,
        frame: &Frame<'_>,
        mut sink: impl FnMut(Delta<'_>),
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
        let event: Event<'_> = serde_json::from_str(&json).map_err(|_| FrameError::Malformed)?;
        self.take(&event, &json, &mut sink)
    }

    /// Whether the model has given a reason to stop.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether nothing that matters follows: the last event names the whole response.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.finished
    }

    fn take(
        &mut self,
        event: &Event<'_>,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let mut scratch = String::new();
        match &*event.r#type {
            // A refusal is what the model says instead.
            "response.output_text.delta" | "response.refusal.delta" => {
                sink(Delta::Text(event.delta(&mut scratch)?));
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
                let at = self.find(event).ok_or(FrameError::Malformed)?;
                self.argue(at, event.delta(&mut scratch)?, sink)?;
            }
            "response.output_item.done" => self.close(event, sink)?,
            "response.completed" | "response.incomplete" => self.finish(event, sink),
            "response.failed" | "response.cancelled" | "error" => {
                return Err(FrameError::Server(event.error(json)));
            }
            // Some servers put an error where others put an event.
            "" if event.error.is_some() => {
                return Err(FrameError::Server(ServerError::from_body(json.as_bytes())));
            }
            _ => {}
        }
        Ok(())
    }

    /// A server that writes both kinds says the same twice.
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
        let Some(item) = event.item()?.filter(|item| item.r#type == "function_call") else {
            return Ok(());
        };
        if self.calls.len() == NATIVE_CALLS_MAX {
            return Err(FrameError::Malformed);
        }
        let name = item.name.unwrap_or_default().into_owned();
        self.count(name.len())?;
        let item_id = item.id.unwrap_or_default().into_owned();
        let output_index = event.output_index;
        self.calls.push(Call { output_index, item_id, name, ..Call::default() });
        let at = self.calls.len() - 1;
        sink(Delta::CallStarted { index: index(at) });
        self.argue(at, &item.arguments.unwrap_or_default(), sink)
    }

    fn argue(
        &mut self,
        at: usize,
        json: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        if !json.is_empty() {
            self.count(json.len())?;
            self.calls[at].arguments.push_str(json);
            sink(Delta::CallArguments { index: index(at), json });
        }
        Ok(())
    }

    /// An item is done: a call says once more what it is, reasoning wants to come back.
    fn close(
        &mut self,
        event: &Event<'_>,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let (Some(raw), Some(item)) = (event.item, event.item()?) else { return Ok(()) };
        if item.r#type == "reasoning" {
            sink(Delta::ReasoningItem(raw.get()));
        }
        if item.r#type != "function_call" {
            return Ok(());
        }
        if self.find(event).is_none() {
            self.begin(event, sink)?;
        }
        let at = self.find(event).ok_or(FrameError::Malformed)?;
        let whole = item.arguments.unwrap_or_default();
        // What no delta has brought. Where they differ otherwise, the end counts.
        if let Some(rest) = whole.strip_prefix(self.calls[at].arguments.as_str()) {
            self.argue(at, rest, sink)?;
        } else if !whole.is_empty() {
            self.count(whole.len())?;
            self.calls[at].arguments = whole.into_owned();
        }
        let call = &mut self.calls[at];
        if let Some(name) = item.name.filter(|name| !name.is_empty()) {
            call.name = name.into_owned();
        }
        call.closed = is_json(&call.arguments);
        self.hand_out(sink, |call| call.closed);
        Ok(())
    }

    fn finish(&mut self, event: &Event<'_>, sink: &mut impl FnMut(Delta<'_>)) {
        self.finished = true;
        let response = event.response.as_ref();
        let reason = response.and_then(|response| response.incomplete_details.as_ref());
        let finish = match (&*event.r#type, reason.and_then(|details| details.reason.as_deref())) {
            ("response.completed", _) if self.calls.is_empty() => RoundFinish::Stop,
            ("response.completed", _) => RoundFinish::ToolCalls,
            // Servers that give no reason have met the only one they know.
            (_, Some("max_output_tokens") | None) => RoundFinish::Length,
            (_, Some("content_filter")) => RoundFinish::ContentFilter,
            (_, Some(_)) => RoundFinish::Other,
        };
        sink(Delta::Finish(finish));
        self.hand_out(sink, |_| true);
        if let Some(usage) = response.and_then(|response| usage(response.usage?)) {
            sink(Delta::Usage(usage));
        }
    }

    /// Hands out the calls that are whole, in their order.
    fn hand_out(&mut self, sink: &mut impl FnMut(Delta<'_>), is_whole: impl Fn(&Call) -> bool) {
        while let Some(call) = self.calls.get(self.whole).filter(|call| is_whole(call)) {
            let (name, arguments) = (&call.name, &call.arguments);
            sink(Delta::CallCompleted { index: index(self.whole), name, arguments });
            self.whole += 1;
        }
    }

    /// The open call that an event speaks of.
    fn find(&self, event: &Event<'_>) -> Option<usize> {
        let is_meant = |call: &Call| match (&event.item_id, event.output_index) {
            (_, Some(place)) => call.output_index == Some(place),
            (Some(id), None) => call.item_id == **id,
            (None, None) => true,
        };
        self.calls.iter().rposition(|call| !call.closed && is_meant(call))
    }

    fn count(&mut self, bytes: usize) -> Result<(), FrameError> {
        self.bytes += bytes;
        if self.bytes > NATIVE_CALL_BYTES_MAX { Err(FrameError::Malformed) } else { Ok(()) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most NATIVE_CALLS_MAX")]
const fn index(at: usize) -> u32 {
    at as u32
}

fn is_json(arguments: &str) -> bool {
    serde_json::from_str::<&RawValue>(arguments).is_ok()
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(borrow, default)]
    item_id: Option<Cow<'a, str>>,
    #[serde(default)]
    summary_index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<Response<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// What the last event says of the whole.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<Details<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default, rename = "input_tokens")]
    input: u64,
    #[serde(default, rename = "output_tokens")]
    output: u64,
    #[serde(default, rename = "total_tokens")]
    total: u64,
}

/// Tokens, where they can be read; a server that miscounts ends no turn.
fn usage(raw: &RawValue) -> Option<Usage> {
    let Tokens { input, output, total } = serde_json::from_str(raw.get()).ok()?;
    Some(Usage {
        prompt_tokens: input,
        completion_tokens: output,
        total_tokens: total.max(input.saturating_add(output)),
    })
}

/// An item, as far as it matters.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<Cow<'a, str>>,
}

impl<'a> Event<'a> {
    /// What a delta's string says; halves of surrogate pairs become U+FFFD.
    fn delta<'s>(&'s self, scratch: &'s mut String) -> Result<&'s str, FrameError> {
        let body = self.delta.and_then(|raw| raw.get().strip_prefix('"')?.strip_suffix('"'));
        body.and_then(|body| unescape(body.as_bytes(), scratch)).ok_or(FrameError::Malformed)
    }

    fn item(&self) -> Result<Option<Item<'a>>, FrameError> {
        let read = |raw: &'a RawValue| serde_json::from_str(raw.get());
        self.item.map(read).transpose().map_err(|_| FrameError::Malformed)
    }

    /// What went wrong: said flat, beside the type, or inside the response.
    fn error(&self, json: &str) -> ServerError {
        let inside = self.response.as_ref().and_then(|response| response.error);
        let inside = inside.filter(|error| error.get() != "null");
        ServerError::from_body(inside.map_or(json, RawValue::get).as_bytes())
    }
}
