//! Decodes frames into deltas.

use std::fmt;

use serde::Deserialize;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::memo::{Shape, Words};
use super::parts;
use super::tool_calls::{Assembler, Piece};
use crate::event::Usage;
use crate::upstream::dialect::json_string::{Unescaper, unescape};
use crate::upstream::dialect::{Decode, lenient};
use crate::upstream::frame_error::FrameError;
use crate::upstream::server_error::ServerError;
use crate::upstream::sse::{Field, Frame};
use crate::upstream::{Delta, RoundFinish};

/// Decodes the frames of one stream.
///
/// Text without escapes reaches the sink borrowed from the frame, other text from a reused
/// buffer: no token costs an allocation.
#[derive(Debug)]
pub struct Decoder {
    /// The shape of the last frame; `None` if every frame is to be parsed.
    shape: Option<Shape>,
    spoken: Spoken,
    calls: Assembler,
    model: Option<String>,
    finished: bool,
    done: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decode for Decoder {
    /// Passes the deltas of one frame to `sink`: reasoning, text, calls, the finish. Calls that
    /// are still open complete after the finish.
    ///
    /// Invalid UTF-8 and halves of surrogate pairs become U+FFFD, unless the next frame begins with the
    /// other half. Only the first choice is
    /// read; unknown fields are skipped.
    fn decode(
        &mut self,
        frame: &Frame<'_>,
        sink: &mut dyn FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let data = frame.data;
        if frame.field == Field::Error || frame.event == b"error" {
            return Err(FrameError::Server(ServerError::from_body(data)));
        }
        if let Some(shape) = &self.shape
            && let Some((words, body)) = shape.recognise(data)
        {
            if !body.is_empty() {
                self.calls.complete_whole(&mut *sink);
            }
            if self.spoken.say(words, body, &mut *sink).is_some() {
                return Ok(());
            }
        }
        match data.trim_ascii() {
            b"" => Ok(()),
            b"[DONE]" => {
                self.done = true;
                Ok(())
            }
            _ => match std::str::from_utf8(data) {
                Ok(json) => self.parse(json, sink),
                Err(_) => self.parse(&String::from_utf8_lossy(data), sink),
            },
        }
    }

    /// Whether the model has given a reason to stop. A stream that ends earlier was cut off.
    fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether `[DONE]` was read, so that nothing follows.
    fn is_done(&self) -> bool {
        self.done
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

impl Decoder {
    /// Creates a decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self { shape: Some(Shape::default()), ..Self::without_memo() }
    }

    /// Creates a decoder that parses every frame: the baseline for benchmarks and tests.
    #[doc(hidden)]
    #[must_use]
    pub fn without_memo() -> Self {
        Self {
            shape: None,
            spoken: Spoken::default(),
            calls: Assembler::default(),
            model: None,
            finished: false,
            done: false,
        }
    }

    fn parse(&mut self, json: &str, mut sink: impl FnMut(Delta<'_>)) -> Result<(), FrameError> {
        // serde would also accept a list of the struct's fields in order.
        if !json.trim_start().starts_with('{') {
            return Err(FrameError::Malformed);
        }
        let chunk: Chunk<'_> = serde_json::from_str(json).map_err(|_| FrameError::Malformed)?;
        if let Some(error) = chunk.error(json) {
            return Err(FrameError::Server(error));
        }
        if self.model.is_none() {
            self.model = chunk.model.and_then(lenient::model);
        }
        let FirstChoice(choice) = chunk.choices;
        let delta = choice.delta.unwrap_or_default();
        let finish = choice.finish_reason.map(finish).transpose()?.flatten();
        let usage = chunk.usage.and_then(usage);

        // Two names for the same thing; a server that writes both repeats itself.
        let reasoning_content = delta.reasoning_content.filter(|raw| is_said(raw));
        let reasoning_other = delta.reasoning.filter(|raw| is_said(raw));
        let reasoning = reasoning_content.or(reasoning_other);
        // A refusal takes the place of an answer.
        let content = delta.content.filter(|raw| is_said(raw));
        let refusal = delta.refusal.filter(|raw| is_said(raw) && raw.get().starts_with('"'));
        let text = content.or(refusal);
        for (words, raw) in [(Words::Reasoning, reasoning), (Words::Text, text)] {
            let Some(raw) = raw else { continue };
            self.calls.complete_whole(&mut sink);
            self.say(words, raw, &mut sink).ok_or(FrameError::Malformed)?;
        }
        // Some servers send an empty list with every word.
        let calls = delta.tool_calls.filter(|raw| is_said(raw) && !is_empty(raw));
        if let Some(raw) = calls {
            self.spoken.end(&mut sink);
            self.push_calls(raw, &mut sink)?;
        }
        if let Some(finish) = finish {
            self.finished = true;
            self.spoken.end(&mut sink);
            sink(Delta::Finish(finish));
            self.calls.finish(&mut sink);
        }
        if let Some(usage) = usage {
            sink(Delta::Usage(usage));
        }

        // With two fields set for the same words, the second would count once the first is empty.
        let one_effect = finish.is_none()
            && usage.is_none()
            && calls.is_none()
            && (content.is_none() || refusal.is_none())
            && (reasoning_content.is_none() || reasoning_other.is_none());
        if let Some(shape) = &mut self.shape
            && one_effect
            && [reasoning, text].iter().flatten().all(is_string)
        {
            match (reasoning, text) {
                (Some(raw), None) => learn(shape, json, raw, Words::Reasoning),
                (None, Some(raw)) => learn(shape, json, raw, Words::Text),
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes on words: a string or a list of parts. `None` for any other value: skipping it would silently lose words.
    fn say(
        &mut self,
        words: Words,
        raw: &RawValue,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Option<()> {
        if raw.get().starts_with('[') {
            let mut said = parts::in_parts(words, raw)?.into_iter();
            return said.try_for_each(|(words, raw)| self.say_string(words, raw, sink));
        }
        self.say_string(words, raw, sink)
    }

    fn say_string(
        &mut self,
        words: Words,
        raw: &RawValue,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Option<()> {
        let body = raw.get().strip_prefix('"')?.strip_suffix('"')?;
        self.spoken.say(words, body.as_bytes(), sink)
    }

    fn push_calls(
        &mut self,
        raw: &RawValue,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), FrameError> {
        let pieces: Vec<&RawValue> = if raw.get().starts_with('{') {
            vec![raw]
        } else {
            serde_json::from_str(raw.get()).map_err(|_| FrameError::Malformed)?
        };
        pieces.into_iter().try_for_each(|raw| {
            let piece = Piece::read(raw).ok_or(FrameError::Malformed)?;
            self.calls.push(&piece, &mut *sink)
        })
    }
}

/// What the model says, of which a frame may end inside a character.
#[derive(Debug, Default)]
struct Spoken {
    unescaper: Unescaper,
    /// The kind of the last words.
    words: Option<Words>,
    scratch: String,
}

impl Spoken {
    /// Passes on the words of a string with this body; `None` if it is not one.
    fn say(&mut self, words: Words, body: &[u8], mut sink: impl FnMut(Delta<'_>)) -> Option<()> {
        if body.is_empty() {
            return Some(());
        }
        if self.words != Some(words) {
            // Before anything is passed on.
            unescape(body, &mut self.scratch)?;
            self.end(&mut sink);
            self.words = Some(words);
        }
        let text = self.unescaper.unescape(body, &mut self.scratch)?;
        if !text.is_empty() {
            sink(words.delta(text));
        }
        Some(())
    }

    /// The words are over, perhaps inside a character.
    fn end(&mut self, mut sink: impl FnMut(Delta<'_>)) {
        if let Some(words) = self.words
            && self.unescaper.give_up()
        {
            sink(words.delta("\u{FFFD}"));
        }
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: FirstChoice<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
}

impl Chunk<'_> {
    /// The error that the frame reports: `{"error":...}`, or an object that calls itself an
    /// error, as older versions of vLLM write it.
    fn error(&self, json: &str) -> Option<ServerError> {
        let is_error_object = self.object.is_some_and(|object| object.get() == "\"error\"");
        (self.error.is_some_and(is_truthy) || is_error_object)
            .then(|| ServerError::from_body(json.as_bytes()))
    }
}

/// The choice with index 0; the others are skipped as they are read.
#[derive(Default)]
struct FirstChoice<'a>(Choice<'a>);

#[derive(Default, Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<ChoiceDelta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct ChoiceDelta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Counts<'a> {
    #[serde(borrow, default, rename = "prompt_tokens")]
    prompt: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "completion_tokens")]
    completion: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "total_tokens")]
    total: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstChoice<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct First<'a>(std::marker::PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for First<'a> {
            type Value = FirstChoice<'a>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of choices")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(FirstChoice::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut choices: A) -> Result<Self::Value, A::Error> {
                while let Some(choice) = choices.next_element::<Choice<'a>>()? {
                    if choice.index.is_none_or(is_zero) {
                        while choices.next_element::<IgnoredAny>()?.is_some() {}
                        return Ok(FirstChoice(choice));
                    }
                }
                Ok(FirstChoice::default())
            }
        }
        deserializer.deserialize_any(First(std::marker::PhantomData))
    }
}

/// Whether an index is that of the first choice, or none.
fn is_zero(index: &RawValue) -> bool {
    lenient::count(index).is_none_or(|index| index == 0)
}

/// Whether a field has a value: servers send `null` and `""` freely.
fn is_said(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "\"\"")
}

fn is_string(raw: &&RawValue) -> bool {
    raw.get().starts_with('"')
}

fn is_empty(raw: &RawValue) -> bool {
    matches!(raw.get(), "[]" | "{}")
}

fn is_truthy(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "\"\"" | "false" | "{}")
}

/// Why the model stopped; `None` if it has not.
///
/// # Errors
/// If the server gave the answer up. What there is of it may end anywhere, even in a call that looks whole.
fn finish(raw: &RawValue) -> Result<Option<RoundFinish>, FrameError> {
    let reason = raw.get().trim_matches('"');
    Ok(match reason {
        "null" | "" => None,
        "stop" => Some(RoundFinish::Stop),
        "length" | "model_length" => Some(RoundFinish::Length),
        "tool_calls" | "function_call" => Some(RoundFinish::ToolCalls),
        "content_filter" => Some(RoundFinish::ContentFilter),
        // MLC, vLLM, SGLang, and services in front of several servers.
        "error"
        | "abort"
        | "aborted"
        | "preempt"
        | "cancelled"
        | "canceled"
        | "network_error"
        | "insufficient_system_resource" => {
            let message = format!("it gave the answer up (finish_reason {reason})");
            return Err(FrameError::Server(ServerError::of_message(&message)));
        }
        _ => Some(RoundFinish::Other),
    })
}

/// Token counts. One that cannot be read costs neither the others nor the turn.
fn usage(raw: &RawValue) -> Option<Usage> {
    let counts: Option<Counts<'_>> = serde_json::from_str(raw.get()).ok()?;
    let Counts { prompt, completion, total } = counts?;
    let counts = [prompt, completion, total].map(|raw| raw.and_then(lenient::count));
    let [prompt_tokens, completion_tokens, total_tokens] = counts.map(Option::unwrap_or_default);
    let usage = Usage { prompt_tokens, completion_tokens, total_tokens };
    (counts != [None; 3]).then_some(usage)
}

/// Remembers a frame whose only effect was the string `raw`, a part of `json`.
fn learn(shape: &mut Shape, json: &str, raw: &RawValue, words: Words) {
    let start = raw.get().as_ptr().addr() - json.as_ptr().addr();
    shape.learn(json.as_bytes(), start + 1, start + raw.get().len() - 1, words);
}
