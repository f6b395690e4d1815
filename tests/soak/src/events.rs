//! The events of a turn as they arrive, and what of them a client of the soak looks at.

use memchr::{memchr, memmem};

use crate::pieces::Pieces;
use crate::token::decimal;

/// An event that has arrived as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// `text_delta`, with its text as JSON has it.
    Text(&'a [u8]),
    /// `tool_completed`, and whether it succeeded.
    Tool(bool),
    /// `turn_completed`, the last event.
    Completed,
    /// The same of a turn that the gateway has cancelled.
    Cancelled,
    /// `turn_failed`, the last event.
    Failed,
    Other,
}

/// Splits a stream into events. A new one goes on where another was cut, after its last whole event.
#[derive(Debug, Default)]
pub(crate) struct Events {
    lines: Pieces,
    sequence: u64,
    name: Vec<u8>,
}

impl Events {
    /// Reads more; `on_event` gets the sequence number and the event. An event counts once its data has
    /// arrived, which is one line.
    pub(crate) fn push(&mut self, bytes: &[u8], mut on_event: impl FnMut(u64, Event<'_>)) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(b'\n', bytes, |line| self.line(line, &mut on_event));
        self.lines = lines;
    }

    fn line(&mut self, line: &[u8], on_event: &mut impl FnMut(u64, Event<'_>)) {
        if let Some(id) = line.strip_prefix(b"id: ") {
            // Epochs change only when another node takes over.
            let sequence = memchr(b'-', id).map_or(id, |dash| &id[dash + 1..]);
            self.sequence = decimal(sequence);
        } else if let Some(name) = line.strip_prefix(b"event: ") {
            self.name.clear();
            self.name.extend_from_slice(name);
        } else if let Some(data) = line.strip_prefix(b"data: ") {
            on_event(self.sequence, event(&self.name, data));
        }
    }
}

fn event<'a>(name: &[u8], data: &'a [u8]) -> Event<'a> {
    match name {
        b"text_delta" => {
            let key = b"\"text\":\"";
            let start = memmem::find(data, key).map_or(data.len(), |at| at + key.len());
            // `"}}` ends it.
            Event::Text(&data[start..data.len().saturating_sub(3).max(start)])
        }
        b"tool_completed" => Event::Tool(memmem::find(data, b"\"success\":true").is_some()),
        b"turn_completed" => {
            let reason = b"\"finish_reason\":\"cancelled\"";
            if memmem::find(data, reason).is_some() { Event::Cancelled } else { Event::Completed }
        }
        b"turn_failed" => Event::Failed,
        _ => Event::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_wherever_they_are_cut() {
        let stream = b"retry: 2000\nid: 1-1\nevent: turn_started\ndata: {}\n\n: keep-alive\n\
            id: 1-2\nevent: text_delta\ndata: {\"type\":\"text_delta\",\"data\":{\"text\":\"0@1;\"}}\n\n\
            id: 1-3\nevent: turn_completed\ndata: {}\n\n";
        for at in 0..=stream.len() {
            let (mut events, mut seen) = (Events::default(), Vec::new());
            let (start, end) = stream.split_at(at);
            for part in [start, end] {
                events.push(part, |sequence, event| seen.push((sequence, format!("{event:?}"))));
            }
            let text = format!("{:?}", Event::Text(b"0@1;"));
            let expected = [(1, "Other".to_owned()), (2, text), (3, "Completed".to_owned())];
            assert_eq!(seen, expected);
        }
    }
}
