//! The acknowledgement: before tools run, the user learns that work has begun.
//!
//! The model's own words will do. If it wrote none, the hints of all calls in its message make
//! one sentence. It therefore waits for the end of the message, for words of the model, or for
//! [`ACKNOWLEDGEMENT_WAIT`](crate::limits::turn::ACKNOWLEDGEMENT_WAIT), whichever comes first.
//! The tools do not wait for it; their events do.
//!
//! ```text
//!            a tool starts,                   message over, words, or time
//!   Unsaid ── no words yet ──> Waiting{events} ─────────────┬──> Said
//!     │ ^                                                   │
//!     │ '──────────────── no tool has a hint ───────────────'
//!     '───── a tool starts, words before it ───────────────────> Said
//! ```

use super::queue::EventDraft;
use crate::event::AcknowledgementSource;

/// The state of a turn's acknowledgement.
#[derive(Debug, Default)]
pub(super) enum Acknowledgement {
    /// Not sent: no tool has started yet, or none so far had a hint.
    #[default]
    Unsaid,
    /// A tool is running. Events about tools wait here, until this time at the latest, in
    /// milliseconds since the Unix epoch.
    Waiting { events: Vec<EventDraft>, until_ms: u64 },
    /// The user has heard this.
    Said(Heard),
}

/// What the user has heard before tools ran.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) text: String,
    pub(super) source: AcknowledgementSource,
}

impl Acknowledgement {
    /// The events that wait for it.
    pub(super) fn waiting(&self) -> &[EventDraft] {
        match self {
            Self::Waiting { events, .. } => events,
            Self::Unsaid | Self::Said(_) => &[],
        }
    }

    /// When it is due at the latest.
    pub(super) const fn deadline_ms(&self) -> Option<u64> {
        match self {
            Self::Waiting { until_ms, .. } => Some(*until_ms),
            Self::Unsaid | Self::Said(_) => None,
        }
    }

    /// Defers an event while others wait; returns it if nothing waits.
    pub(super) fn defer(&mut self, event: EventDraft) -> Option<EventDraft> {
        match self {
            Self::Waiting { events, .. } => {
                events.push(event);
                None
            }
            Self::Unsaid | Self::Said(_) => Some(event),
        }
    }

    /// The events that have waited, in order.
    pub(super) fn release(&mut self) -> Vec<EventDraft> {
        match self {
            Self::Waiting { events, .. } => {
                let events = std::mem::take(events);
                *self = Self::Unsaid;
                events
            }
            Self::Unsaid | Self::Said(_) => Vec::new(),
        }
    }
}
