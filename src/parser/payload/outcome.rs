//! The outcome of a payload that has ended: calls, or an error.

use std::borrow::Cow;
use std::mem;

use super::super::call::{Content, Fault};
use super::super::deltas::Tracker;
use super::super::format_marks::closers;
use super::super::segment::{ErrorCode, ParsedCall, Place, Segment};
use super::super::stream::Stream;
use super::super::transition::{After, Next};
use super::super::{repair, text};
use super::Payload;

impl Payload {
    /// Ends the payload at the bracket that balances the first one.
    pub(super) fn complete(
        &mut self,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        let place = self.decide_whole(stream, sink);
        Next::Tail { opened: self.opened, place, after: After::Payload { fence: self.fence } }
    }

    /// Ends the payload at a closer of this length. If brackets end payloads, it came before they balanced.
    pub(super) fn close(
        &mut self,
        length: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        stream.buffer.truncate(stream.buffer.len() - length);
        if stream.row().body.ends_at_closer() {
            let place = self.decide_whole(stream, sink);
            return Next::closed(self.opened, place);
        }
        let place = self.decide_unclosed(stream, sink);
        Next::closed(self.opened, place)
    }

    /// Ends the payload before a boundary of this length, which is read again.
    pub(super) fn break_off(
        &mut self,
        length: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        stream.buffer.truncate(stream.buffer.len() - length);
        let place = self.decide_unclosed(stream, sink);
        Next::Tail { opened: self.opened, place, after: After::Payload { fence: false } }
    }

    /// Decides about a payload whose call ends before its brackets do.
    fn decide_unclosed(
        &mut self,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Place {
        let code = ErrorCode::UnbalancedPayload;
        let fault = Fault::new(code, "the call ends before its brackets are closed");
        self.decide_unfinished(fault, stream, sink)
    }

    /// Ends the payload with the stream.
    pub(super) fn cut(&mut self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) {
        let code = ErrorCode::IncompletePayload;
        let fault = Fault::new(code, "the text ended inside the payload");
        let place = self.decide_unfinished(fault, stream, sink);
        stream.end_call(self.opened, place, stream.offset, sink);
    }

    /// Decides about a payload that lacks its end, or reports this fault. One that ends at its closer may be
    /// whole all the same; another is repaired, if that is allowed and possible.
    fn decide_unfinished(
        &mut self,
        fault: Fault,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Place {
        let bytes = mem::take(&mut stream.buffer);
        let text = unfinished(&bytes);
        let mended = if stream.row().body.ends_at_closer() {
            text.filter(|_| !stream.is_cut_off).map(Cow::Borrowed)
        } else {
            text.and_then(|text| self.mended(text, stream)).map(Cow::Owned)
        };
        let content = mended.as_deref().and_then(|text| stream.read_call(text).ok());
        let place = self.tell(content.ok_or(fault), &bytes, stream, sink);
        stream.buffer = bytes;
        place
    }

    /// A payload with the end that it lacks, if repairs are allowed. If it contains a closer, the string
    /// around that was probably meant to end long before, and a repair would make the rest of the message an
    /// argument.
    fn mended(&mut self, text: &str, stream: &Stream) -> Option<String> {
        // The model has begun its answer instead of ending the call.
        let is_given_up = stream.is_apart && stream.is_cut_off;
        let may_mend = !stream.settings().strict_balancing && !is_given_up;
        (may_mend && !holds_closer(text, stream)).then(|| repair::mend(text, &mut self.repaired))
    }

    /// Decides about the payload in the buffer, which has its end.
    fn decide_whole(&mut self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Place {
        let bytes = mem::take(&mut stream.buffer);
        let place = self.decide(&bytes, stream, sink);
        stream.buffer = bytes;
        place
    }

    /// Reads a balanced payload, and repairs it if that is allowed and needed.
    fn decide(
        &mut self,
        bytes: &[u8],
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Place {
        let Ok(text) = text::valid(bytes) else {
            let fault = Fault::new(ErrorCode::InvalidJson, "not JSON: not UTF-8");
            return self.tell(Err(fault), bytes, stream, sink);
        };
        let content = stream.read_call(text);
        if is_json(&content) || stream.settings().strict_balancing {
            return self.tell(content, bytes, stream, sink);
        }
        let mut repaired = self.repaired.clone();
        let mended = repair::mend(text, &mut repaired);
        let again = stream.read_call(&mended);
        if is_json(&again) {
            self.repaired = repaired;
            self.tell(again, bytes, stream, sink)
        } else {
            self.tell(content, bytes, stream, sink)
        }
    }

    /// Reports the outcome of a payload: its calls, or why it has none. Elements of an array that
    /// are not calls become errors in their place.
    fn tell(
        &mut self,
        content: Result<Content<'_>, Fault>,
        bytes: &[u8],
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Place {
        let index = self.index;
        let elements = match content {
            Ok(Content::Elements(elements)) => elements,
            Ok(Content::Call(name, arguments)) => {
                let call =
                    ParsedCall { index, name, arguments, repaired: mem::take(&mut self.repaired) };
                self.tracker.complete(call, stream, sink);
                return Place::Call;
            }
            Err(fault) => {
                let place = Place::Error(fault.code);
                fault.say(self.opened, index, bytes, sink);
                return place;
            }
        };
        let mut place = None;
        for (nth, (text, element)) in elements.into_iter().enumerate() {
            // The first one's start was reported at the opening bracket.
            let index = if nth == 0 { index } else { stream.start_call(self.opened.at, sink) };
            match element {
                Ok((name, arguments)) => {
                    let call =
                        ParsedCall { index, name, arguments, repaired: self.repaired.clone() };
                    let others = Tracker::silent(index);
                    let tracker = if nth == 0 { &self.tracker } else { &others };
                    tracker.complete(call, stream, sink);
                    place = Some(Place::Call);
                }
                Err(fault) => {
                    place.get_or_insert(Place::Error(fault.code));
                    fault.say(self.opened, index, text.as_bytes(), sink);
                }
            }
        }
        place.unwrap_or(Place::Call)
    }
}

fn is_json(content: &Result<Content<'_>, Fault>) -> bool {
    !matches!(content, Err(Fault { code: ErrorCode::InvalidJson, .. }))
}

/// Whether a payload contains what closes a call or a frame.
fn holds_closer(payload: &str, stream: &Stream) -> bool {
    closers(stream.row())
        .any(|(_, closer)| memchr::memmem::find(payload.as_bytes(), closer.as_bytes()).is_some())
}

/// Bytes as text, without a character that is cut off at their end.
fn unfinished(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}
