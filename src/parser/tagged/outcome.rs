//! Arguments in tags as JSON, and the outcome of the call.

use std::mem;
use std::ops::Range;

use super::super::arguments::repeated_key;
use super::super::call;
use super::super::segment::{ErrorCode, ParsedCall, Place, Segment};
use super::super::stream::Stream;
use super::super::{examined, types};
use super::Tagged;

impl Tagged {
    /// Adds an argument: the last key, with this part of the buffer as its value.
    pub(super) fn add(
        &mut self,
        value: Range<usize>,
        stream: &Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
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
        let value = if self.tags.is_trimmed { without_line_breaks(value) } else { value };
        let wrapped = self.tags.wrap.and_then(|wrap| within(value, wrap));
        if wrapped.is_none()
            && let Some(swallowed) = self.swallowed(key, value, stream)
        {
            let message = format!("`{key}` is not closed before `{swallowed}`");
            self.blame(ErrorCode::UnbalancedPayload, message);
            return;
        }
        let value = wrapped.unwrap_or(value);
        let types = if hint.is_empty() {
            stream.settings().tools.kinds(&stream.label, key)
        } else {
            Some(types::of_hint(hint))
        };
        let Some(value) = types::read(value, types) else { return };
        if self.json.len() > 1 {
            self.json.push(',');
        }
        self.json.push_str(&serde_json::Value::from(key).to_string());
        self.json.push(':');
        self.json.push_str(&value);
        self.tell_arguments(stream, sink);
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

/// What stands between these, if they are around the value.
fn within<'v>(value: &'v str, [open, close]: [&str; 2]) -> Option<&'v str> {
    value.trim().strip_prefix(open)?.strip_suffix(close)
}

/// A value without the line break at its start and at its end: not more, because the contents of
/// files depend on it.
fn without_line_breaks(value: &str) -> &str {
    let value = value.strip_prefix("\r\n").or_else(|| value.strip_prefix('\n')).unwrap_or(value);
    value.strip_suffix("\r\n").or_else(|| value.strip_suffix('\n')).unwrap_or(value)
}
