//! Arguments in tags as JSON, and the outcome of the call.

use std::mem;
use std::ops::Range;

use super::super::arguments::repeated_key;
use super::super::call;
use super::super::deltas::push_escaped;
use super::super::segment::{ErrorCode, ParsedCall, Place, Segment};
use super::super::stream::Stream;
use super::super::text::whole_characters;
use super::super::types::Kinds;
use super::super::{examined, types};
use super::{Part, Tagged};

impl Tagged {
    /// Adds an argument: the last key, with this part of the buffer as its value.
    pub(super) fn add(
        &mut self,
        value: Range<usize>,
        stream: &Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        // Of this value, whatever becomes of it: the next one begins anew.
        let streamed = self.streamed.take();
        let text = |range: Range<usize>| std::str::from_utf8(&stream.buffer[range]).ok();
        let hint = text(self.hint.clone()).map(str::trim);
        let (Some(key), Some(hint), Some(value)) = (text(self.key.clone()), hint, text(value))
        else {
            self.blame(ErrorCode::InvalidJson, "not JSON: not UTF-8");
            return;
        };
        let key = key.trim();
        if !self.keys.insert(key.to_owned()) {
            let message = repeated_key(key);
            self.blame(ErrorCode::InvalidCall, message);
            return;
        }
        let bounds = if self.tags.is_trimmed {
            between_line_breaks(value.as_bytes())
        } else {
            0..value.len()
        };
        let value = &value[bounds];
        let wrapped = self.tags.wrap.and_then(|wrap| within(value, wrap));
        if wrapped.is_none()
            && let Some(swallowed) = self.swallowed(key, value, stream)
        {
            let message = format!("`{key}` is not closed before `{swallowed}`");
            self.blame(ErrorCode::UnbalancedPayload, message);
            return;
        }
        if let Some(streamed) = streamed {
            push_escaped(&mut self.json, &value[streamed..]);
            self.json.push('"');
        } else {
            let value = wrapped.unwrap_or(value);
            let kinds = kinds_of(key, hint, stream);
            let Some(value) = types::read(value, kinds) else { return };
            self.push_key(key);
            self.json.push_str(&value);
        }
        self.tell_arguments(stream, sink);
    }

    /// Reports what has come of a value that is text, and nothing else by the tool's schema. What may be its
    /// last line break waits.
    pub(super) fn tell_text(&mut self, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) {
        let Part::Value(value) = &self.part else { return };
        let is_told = stream.settings().argument_deltas && self.tags.wrap.is_none();
        if !is_told || self.fault.is_some() {
            return;
        }
        // First, because the key takes less time than a long value, which comes in many pieces.
        let key = if self.streamed.is_some() {
            None
        } else {
            let Some(key) = self.key_of_text(stream) else { return };
            Some(key)
        };
        let mut text = &stream.buffer[value.so_far(self.at)];
        if self.tags.is_trimmed {
            text = &text[between_line_breaks(text)];
            text = text.strip_suffix(b"\r").unwrap_or(text);
        }
        let streamed = self.streamed.unwrap_or_default();
        let more = whole_characters(&text[streamed..]);
        examined::note(2 * more.len());
        if more.is_empty() {
            return;
        }
        if let Some(key) = key {
            self.push_key(key);
            self.json.push('"');
        }
        push_escaped(&mut self.json, more);
        self.streamed = Some(streamed + more.len());
        self.tell_arguments(stream, sink);
    }

    /// The key of an argument that is text; `None` if it is something else, or may be.
    fn key_of_text<'s>(&self, stream: &'s Stream) -> Option<&'s str> {
        let text = |range: &Range<usize>| std::str::from_utf8(&stream.buffer[range.clone()]).ok();
        let (key, hint) = (text(&self.key)?.trim(), text(&self.hint)?.trim());
        let is_text = !self.keys.contains(key) && kinds_of(key, hint, stream) == Some(types::TEXT);
        is_text.then_some(key)
    }

    fn push_key(&mut self, key: &str) {
        if self.json.len() > 1 {
            self.json.push(',');
        }
        self.json.push_str(&serde_json::Value::from(key).to_string());
        self.json.push(':');
    }

    /// The next argument, if this value goes on with it because its closing tag was forgotten. A value
    /// may show tags, so the argument must be one of the tool's that has not come yet, and a call in the
    /// value keeps its own.
    fn swallowed<'v>(&self, key: &str, value: &'v str, stream: &Stream) -> Option<&'v str> {
        let [open, close] = self.tags.key;
        examined::note(value.len());
        let (before, rest) = value.split_once(open)?;
        let (name, _) = rest.split_once(close)?;
        let settings = stream.settings();
        let is_next = name != key
            && !self.keys.contains(name)
            && settings.tools.takes(&stream.label, name)
            && !settings.format.openers().any(|opener| before.contains(opener));
        is_next.then_some(name)
    }

    /// Reports the arguments as far as they go.
    fn tell_arguments(&mut self, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) {
        let told = mem::replace(&mut self.told, self.json.len());
        if stream.settings().argument_deltas && self.fault.is_none() && told < self.json.len() {
            sink(Segment::ArgumentsDelta { index: self.index, json: &self.json[told..] });
        }
    }

    /// Reports the outcome.
    pub(super) fn tell(&mut self, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) -> Place {
        self.json.push('}');
        let arguments = match self.fault.take() {
            Some(fault) => Err(fault),
            None => call::converted(&self.json),
        };
        match arguments {
            Ok(arguments) => {
                self.tell_arguments(stream, sink);
                let (index, name) = (self.index, stream.label.clone());
                let call = ParsedCall { index, name, arguments, repaired: Vec::new() };
                sink(Segment::CallCompleted(call));
                Place::Call
            }
            Err(fault) => {
                let place = Place::Error(fault.code);
                fault.say(self.opened, self.index, &stream.buffer, sink);
                place
            }
        }
    }
}

/// What the value of this key may be: as its tag says or, without a word on it, the tool's schema.
fn kinds_of(key: &str, hint: &str, stream: &Stream) -> Option<Kinds> {
    if hint.is_empty() {
        stream.settings().tools.kinds(&stream.label, key)
    } else {
        Some(types::of_hint(hint))
    }
}

/// What stands between these, if they are around the value.
fn within<'v>(value: &'v str, [open, close]: [&str; 2]) -> Option<&'v str> {
    value.trim().strip_prefix(open)?.strip_suffix(close)
}

/// A value without the line break at its start and at its end: not more, because the contents of
/// files depend on it.
const fn between_line_breaks(value: &[u8]) -> Range<usize> {
    let start = match value {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => 0,
    };
    let end = match value.split_at(start).1 {
        [.., b'\r', b'\n'] => value.len() - 2,
        [.., b'\n'] => value.len() - 1,
        _ => value.len(),
    };
    start..end
}
