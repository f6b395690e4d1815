//! What stands behind a marker: the gap, the payload, its tail.

use std::mem;

use super::call::{self, Content, Fault};
use super::deltas::Tracker;
use super::gap::{self, Gap, Tail, TailStep};
use super::json_scan::{Found, Scanner};
use super::{Call, ErrorCode, Marker, ParseError, Parser, Payload, Place, Segment, State};
use super::{repair, segment, text};
use crate::limits::parser::{DEPTH_MAX, GAP_BYTES_MAX};

impl Parser {
    pub(super) fn enter_gap(&mut self, marker: Marker) {
        self.buffer.clear();
        self.state = State::Gap { marker, gap: Gap::default() };
    }

    pub(super) fn gap(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> usize {
        let State::Gap { marker, gap } = &mut self.state else { unreachable!("the caller looked") };
        while at < bytes.len() {
            match gap.step(bytes[at], &self.buffer, !self.settings.strict_balancing) {
                gap::Step::Skip => {
                    append(&mut self.buffer, &bytes[at..=at], GAP_BYTES_MAX);
                    at += 1;
                }
                gap::Step::Begin => {
                    let (marker, gap) = (*marker, mem::take(gap));
                    self.enter_payload(marker, gap, sink);
                    return at;
                }
                gap::Step::Refuse => {
                    let marker = *marker;
                    self.refuse_gap(marker, sink);
                    return at;
                }
            }
        }
        at
    }

    /// The marker and what stands behind it are text after all.
    pub(super) fn refuse_gap(&mut self, marker: Marker, sink: &mut impl FnMut(Segment<'_>)) {
        self.state = State::Prose;
        let mut bytes = self.settings.marker.clone().into_bytes();
        bytes.append(&mut self.buffer);
        sink(Segment::Error(ParseError {
            code: ErrorCode::MissingPayload,
            message: "no `{` or `[` stands behind the marker".to_owned(),
            offset: marker.at,
            raw: segment::quote(&bytes),
            index: None,
            at_line_start: marker.at_line_start,
        }));
        self.say_before(&bytes, marker.at, sink);
    }

    fn enter_payload(&mut self, marker: Marker, gap: Gap, sink: &mut impl FnMut(Segment<'_>)) {
        self.buffer.clear();
        let index = self.start_call(marker, sink);
        let (scanner, tracker) = (Scanner::default(), Tracker::default());
        self.state = State::Payload(Payload { marker, index, scanner, tracker, gap });
    }

    fn start_call(&mut self, marker: Marker, sink: &mut impl FnMut(Segment<'_>)) -> u32 {
        let index = self.calls;
        self.calls += 1;
        sink(Segment::CallStarted { index, offset: marker.at });
        index
    }

    pub(super) fn payload(
        &mut self,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> usize {
        let State::Payload(payload) = &mut self.state else { unreachable!("the caller looked") };
        let rest = &bytes[at..];
        let room = self.settings.max_payload_bytes - self.buffer.len();
        let fits = &rest[..rest.len().min(room)];
        let found = payload.scanner.scan(fits, &self.rules);
        let (Found::End(taken)
        | Found::WrongCloser(taken)
        | Found::TooDeep(taken)
        | Found::Marker(taken)
        | Found::Nothing(taken)) = found;
        append(&mut self.buffer, &fits[..taken], self.settings.max_payload_bytes);
        if self.settings.argument_deltas && self.settings.strict_balancing {
            payload.tracker.advance(&self.buffer, payload.index, self.format, sink);
        }
        if matches!(found, Found::Nothing(_)) && rest.len() <= room {
            return bytes.len();
        }
        let State::Payload(payload) = mem::replace(&mut self.state, State::Prose) else {
            unreachable!("it was one above")
        };
        let end = self.position(at + taken);
        match found {
            Found::End(_) => self.complete_payload(payload, sink),
            Found::WrongCloser(_) => {
                let fault = Fault::new(
                    ErrorCode::UnbalancedPayload,
                    "a closing bracket does not fit the one that is open",
                );
                self.refuse_payload(&payload, fault, sink);
                self.end_call(
                    payload.marker,
                    Place::Error(ErrorCode::UnbalancedPayload),
                    end,
                    sink,
                );
            }
            Found::Marker(_) => self.restart(&payload, end, sink),
            Found::TooDeep(_) => {
                let fault = Fault::new(
                    ErrorCode::PayloadTooDeep,
                    format!("the payload is nested deeper than {DEPTH_MAX}"),
                );
                self.refuse_payload(&payload, fault, sink);
                self.enter_discard(payload, ErrorCode::PayloadTooDeep);
            }
            Found::Nothing(_) => {
                let most = self.settings.max_payload_bytes;
                let fault = Fault::new(
                    ErrorCode::PayloadTooLarge,
                    format!("the payload is longer than {most} bytes"),
                );
                self.refuse_payload(&payload, fault, sink);
                self.enter_discard(payload, ErrorCode::PayloadTooLarge);
            }
        }
        at + taken
    }

    /// Refuses a payload in which a marker stands, and goes on behind that marker.
    fn restart(&mut self, payload: &Payload, end: u64, sink: &mut impl FnMut(Segment<'_>)) {
        let length = self.settings.marker.len();
        self.buffer.truncate(self.buffer.len() - length);
        let fault =
            Fault::new(ErrorCode::UnbalancedPayload, "another marker stands inside the payload");
        self.refuse_payload(payload, fault, sink);
        let marker =
            Marker { at: end - length as u64, at_line_start: self.buffer.last() == Some(&b'\n') };
        self.span(Place::Error(ErrorCode::UnbalancedPayload), payload.marker.at..marker.at, sink);
        self.enter_gap(marker);
    }

    fn refuse_payload(&self, payload: &Payload, fault: Fault, sink: &mut impl FnMut(Segment<'_>)) {
        refuse(payload.marker, payload.index, fault, &self.buffer, sink);
    }

    fn enter_discard(&mut self, payload: Payload, code: ErrorCode) {
        let Payload { marker, scanner, .. } = payload;
        self.buffer.clear();
        self.state = State::Discard { marker, code, scanner };
    }

    pub(super) fn discard(
        &mut self,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> usize {
        let State::Discard { marker, code, scanner } = &mut self.state else {
            unreachable!("the caller looked")
        };
        let (marker, place) = (*marker, Place::Error(*code));
        match scanner.scan(&bytes[at..], &self.rules) {
            Found::Nothing(_) => bytes.len(),
            // It was said already.
            Found::TooDeep(taken) => at + taken,
            Found::End(taken) | Found::WrongCloser(taken) => {
                self.state = State::Prose;
                self.end_call(marker, place, self.position(at + taken), sink);
                at + taken
            }
            Found::Marker(taken) => {
                let start = self.position(at + taken) - self.settings.marker.len() as u64;
                self.span(place, marker.at..start, sink);
                self.enter_gap(Marker { at: start, at_line_start: false });
                at + taken
            }
        }
    }

    /// A bracket balances the first one.
    fn complete_payload(&mut self, payload: Payload, sink: &mut impl FnMut(Segment<'_>)) {
        let buffer = mem::take(&mut self.buffer);
        let fence = payload.gap.fence;
        let marker = payload.marker;
        let place = self.read_payload(payload, &buffer, sink);
        self.buffer = buffer;
        self.state = State::Tail { marker, place, tail: Tail::new(fence) };
    }

    /// Reads a balanced payload, mending it if that is allowed and needed.
    fn read_payload(
        &mut self,
        mut payload: Payload,
        bytes: &[u8],
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Place {
        let Ok(text) = text::valid(bytes) else {
            let fault = Fault::new(ErrorCode::InvalidJson, "not JSON: not UTF-8");
            refuse(payload.marker, payload.index, fault, bytes, sink);
            return Place::Error(ErrorCode::InvalidJson);
        };
        let mut content = call::read(text, self.format);
        let mended;
        if let Err(Fault { code: ErrorCode::InvalidJson, .. }) = content
            && !self.settings.strict_balancing
        {
            let mut repaired = payload.gap.repaired.clone();
            mended = repair::mend(text, &mut repaired);
            let again = call::read(&mended, self.format);
            if !matches!(again, Err(Fault { code: ErrorCode::InvalidJson, .. })) {
                payload.gap.repaired = repaired;
                content = again;
            }
        }
        match content {
            Ok(content) => self.hand_over(payload, content, sink),
            Err(fault) => {
                let code = fault.code;
                refuse(payload.marker, payload.index, fault, bytes, sink);
                Place::Error(code)
            }
        }
    }

    /// The stream ended inside a payload.
    pub(super) fn cut_payload(&mut self, mut payload: Payload, sink: &mut impl FnMut(Segment<'_>)) {
        let bytes = mem::take(&mut self.buffer);
        let marker = payload.marker;
        let text = unfinished(&bytes).filter(|_| !self.settings.strict_balancing);
        let mended = text.map(|text| repair::mend(text, &mut payload.gap.repaired));
        let content = mended.as_deref().and_then(|text| call::read(text, self.format).ok());
        let place = if let Some(content) = content {
            self.hand_over(payload, content, sink)
        } else {
            let code = ErrorCode::IncompletePayload;
            let fault = Fault::new(code, "the text ended inside the payload");
            refuse(marker, payload.index, fault, &bytes, sink);
            Place::Error(code)
        };
        self.buffer = bytes;
        self.end_call(marker, place, self.offset, sink);
    }

    /// Hands out the calls of a payload; elements that are no call are errors.
    fn hand_over(
        &mut self,
        payload: Payload,
        content: Content<'_>,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Place {
        let Payload { marker, index, tracker, gap, .. } = payload;
        let elements = match content {
            Content::Call(name, arguments) => {
                let call = Call { index, name, arguments, repaired: gap.repaired };
                self.hand_out(call, &tracker, sink);
                return Place::Call;
            }
            Content::Elements(elements) => elements,
        };
        let mut place = None;
        for (nth, (text, element)) in elements.into_iter().enumerate() {
            // The first was said to start at the bracket.
            let index = if nth == 0 { index } else { self.start_call(marker, sink) };
            match element {
                Ok((name, arguments)) => {
                    let call = Call { index, name, arguments, repaired: gap.repaired.clone() };
                    self.hand_out(call, &Tracker::default(), sink);
                    place = Some(Place::Call);
                }
                Err(fault) => {
                    place.get_or_insert(Place::Error(fault.code));
                    refuse(marker, index, fault, text.as_bytes(), sink);
                }
            }
        }
        place.unwrap_or(Place::Call)
    }

    fn hand_out(&self, call: Call, tracker: &Tracker, sink: &mut impl FnMut(Segment<'_>)) {
        if self.settings.argument_deltas {
            tracker.complete(call.index, &call.name, call.arguments.as_str(), sink);
        }
        sink(Segment::CallCompleted(call));
    }

    pub(super) fn tail(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> usize {
        let State::Tail { marker, place, tail } = &mut self.state else {
            unreachable!("the caller looked")
        };
        while at < bytes.len() {
            match tail.step(bytes[at]) {
                TailStep::Skip => at += 1,
                TailStep::Last => {
                    let (marker, place) = (*marker, *place);
                    self.end_call(marker, place, self.position(at + 1), sink);
                    return at + 1;
                }
                TailStep::Ended => {
                    let (marker, place, tail) = (*marker, *place, *tail);
                    return at - self.end_tail(marker, place, tail, at, sink);
                }
            }
        }
        at
    }

    /// Ends a tail in front of `at`, and returns how many bytes of this chunk, just
    /// in front of `at`, do not belong to it and are yet to be read.
    pub(super) fn end_tail(
        &mut self,
        marker: Marker,
        place: Place,
        tail: Tail,
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> usize {
        let given_back = tail.given_back();
        self.end_call(marker, place, self.position(at) - given_back.len() as u64, sink);
        let here = given_back.len().min(at);
        self.replay(&given_back[..given_back.len() - here], sink);
        here
    }

    /// Ends a marker and its payload at `end`.
    fn end_call(
        &mut self,
        marker: Marker,
        place: Place,
        end: u64,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        self.state = State::Prose;
        self.last = b'\n';
        self.span(place, marker.at..end, sink);
    }
}

fn refuse(
    marker: Marker,
    index: u32,
    fault: Fault,
    raw: &[u8],
    sink: &mut impl FnMut(Segment<'_>),
) {
    sink(Segment::Error(ParseError {
        code: fault.code,
        message: fault.message,
        offset: marker.at,
        raw: segment::quote(raw),
        index: Some(index),
        at_line_start: marker.at_line_start,
    }));
}

/// Bytes as text, less a character that their end cut.
fn unfinished(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// Appends to a buffer that never takes more than `most` bytes of memory, or some
/// more to begin with.
fn append(buffer: &mut Vec<u8>, bytes: &[u8], most: usize) {
    const FIRST: usize = 256;
    let need = buffer.len() + bytes.len();
    if need > buffer.capacity() {
        let room = need.max((2 * buffer.capacity()).min(most)).max(FIRST);
        buffer.reserve_exact(room - buffer.len());
    }
    buffer.extend_from_slice(bytes);
}
