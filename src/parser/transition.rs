//! How one state leads to another.
//!
//! A state names the next one and what it begins with; the parser creates it. So no state depends
//! on another.

use super::json_scan::Scanner;
use super::marks::Held;
use super::repair::Repair;
use super::segment::{ErrorCode, Place};

/// Where a state leads.
#[derive(Debug)]
pub(super) enum Flow {
    /// All bytes were read, and the state stays.
    Stay,
    /// To another state, which reads on at this byte of the chunk.
    Enter(Next, usize),
    /// To another state, which first reads these bytes of earlier chunks again, and
    /// then the chunk from its beginning.
    Reread(Next, Vec<u8>),
}

/// A state to enter.
#[derive(Debug)]
pub(super) enum Next {
    /// Text or reasoning, with this much of an opener held already.
    Prose(Held),
    /// What comes after an opener.
    Gap(Opened),
    /// A payload; its first bracket is the next byte.
    Payload {
        opened: Opened,
        /// Whether a code fence has opened before it.
        fence: bool,
        /// The repairs made before it.
        repaired: Vec<Repair>,
    },
    /// The rest of a payload that was refused before its end.
    Discard {
        opened: Opened,
        /// Why it was refused.
        code: ErrorCode,
        /// Where in its brackets it is.
        scanner: Scanner,
    },
    /// What comes after a payload.
    Tail {
        opened: Opened,
        /// Where the payload went.
        place: Place,
        after: After,
    },
}

/// What was read last before a tail.
#[derive(Debug, Clone, Copy)]
pub(super) enum After {
    /// The payload. Holds whether a code fence has opened before it.
    Payload { fence: bool },
    /// The closer.
    Closer,
}

impl Next {
    /// Text or reasoning, from its beginning.
    pub(super) fn prose() -> Self {
        Self::Prose(Held::default())
    }

    /// What comes after the closer of a call.
    pub(super) const fn closed(opened: Opened, place: Place) -> Self {
        Self::Tail { opened, place, after: After::Closer }
    }
}

/// An opener that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    /// Its index among the format's openers.
    pub(super) which: u8,
    /// Where it begins.
    pub(super) at: u64,
    pub(super) at_line_start: bool,
}
