//! An event as it arrives, limited to the fields that matter.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::Place;
use crate::event::Usage;
use crate::upstream::dialect::json_string::unescape;
use crate::upstream::dialect::lenient;
use crate::upstream::frame_error::FrameError;
use crate::upstream::server_error::ServerError;

/// An event of the stream. Members whose shape differs between servers stay raw.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    output_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item_id: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) summary_index: Option<u64>,
    #[serde(borrow, default)]
    content_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<Response<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    /// The text of a delta; halves of surrogate pairs become U+FFFD.
    pub(super) fn delta<'s>(&'s self, scratch: &'s mut String) -> Result<&'s str, FrameError> {
        let body = self.delta.and_then(|raw| raw.get().strip_prefix('"')?.strip_suffix('"'));
        body.and_then(|body| unescape(body.as_bytes(), scratch)).ok_or(FrameError::Malformed)
    }

    /// The text of an event that repeats the words of a part.
    pub(super) fn whole_words(&self) -> String {
        self.text.or(self.refusal).map(lenient::text).unwrap_or_default()
    }

    /// The part of its message that the event refers to, if the server numbers parts.
    pub(super) fn part(&self) -> Option<u64> {
        self.content_index.and_then(lenient::count)
    }

    /// The item that the event refers to.
    pub(super) fn place(&self) -> Place<'_> {
        Place { index: self.index(), id: self.item_id.as_deref().unwrap_or_default() }
    }

    /// The place of an item that is contained in the event.
    pub(super) fn place_of<'i>(&self, item: &'i Item<'_>) -> Place<'i> {
        Place { index: self.index(), id: item.id.as_deref().unwrap_or_default() }
    }

    fn index(&self) -> Option<u64> {
        self.output_index.and_then(lenient::count)
    }

    pub(super) fn item(&self) -> Result<Option<Item<'a>>, FrameError> {
        self.item.map(Item::read).transpose()
    }

    /// The name and arguments in an event that repeats a call's arguments.
    pub(super) fn call(&self) -> (&str, String) {
        let arguments = self.arguments.map(lenient::arguments).unwrap_or_default();
        (self.name.as_deref().unwrap_or_default(), arguments)
    }

    /// The error: in the event itself or inside the response.
    pub(super) fn failure(&self, json: &str) -> ServerError {
        match &self.response {
            None => ServerError::from_body(json.as_bytes()),
            Some(response) => {
                let error = response.error.map(RawValue::get).filter(|error| *error != "null");
                ServerError::from_body(error.unwrap_or_default().as_bytes())
            }
        }
    }
}

/// What an event says about the whole response.
#[derive(Default, Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
}

impl Response<'_> {
    pub(super) fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| matches!(status.get(), "\"failed\"" | "\"cancelled\""))
    }

    pub(super) fn is_incomplete(&self) -> bool {
        self.status.is_some_and(|status| status.get() == "\"incomplete\"")
    }

    /// The model, by the name that the server has for it.
    pub(super) fn model(&self) -> Option<String> {
        self.model.and_then(lenient::model)
    }

    /// Why it is incomplete, if the server says so.
    pub(super) fn reason(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Details {
            reason: String,
        }
        let details: Details = serde_json::from_str(self.incomplete_details?.get()).ok()?;
        Some(details.reason)
    }

    /// Token counts, if they can be read. A bad count does not end the turn.
    pub(super) fn usage(&self) -> Option<Usage> {
        #[derive(Deserialize)]
        struct Tokens {
            #[serde(default, rename = "input_tokens")]
            input: u64,
            #[serde(default, rename = "output_tokens")]
            output: u64,
            #[serde(default, rename = "total_tokens")]
            total: u64,
        }
        let Tokens { input, output, total } = serde_json::from_str(self.usage?.get()).ok()?;
        Some(Usage {
            prompt_tokens: input,
            completion_tokens: output,
            total_tokens: total.max(input.saturating_add(output)),
        })
    }
}

/// An item of the response.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
}

impl<'a> Item<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Result<Self, FrameError> {
        serde_json::from_str(raw.get()).map_err(|_| FrameError::Malformed)
    }

    /// Whether the server marks it as incomplete.
    pub(super) fn is_incomplete(&self) -> bool {
        self.status.is_some_and(|status| status.get() == "\"incomplete\"")
    }

    pub(super) fn is_call(&self) -> bool {
        self.r#type == "function_call"
    }

    pub(super) fn call_id(&self) -> &str {
        self.call_id.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(super) fn arguments(&self) -> String {
        self.arguments.map(lenient::arguments).unwrap_or_default()
    }

    /// The text of a message, including refusals, or of reasoning.
    pub(super) fn words(&self) -> String {
        words(self.content)
    }

    /// The text of a reasoning summary.
    pub(super) fn summary(&self) -> String {
        words(self.summary)
    }
}

/// The text of an item's parts; empty if they are not a list of parts.
fn words(parts: Option<&RawValue>) -> String {
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        refusal: Option<String>,
    }
    let parts = parts.and_then(|raw| serde_json::from_str::<Vec<Part>>(raw.get()).ok());
    let parts = parts.unwrap_or_default();
    parts.into_iter().filter_map(|Part { text, refusal }| text.or(refusal)).collect()
}
