//! How one state leads to another.
//!
//! A state names the next one and what it begins with; the parser creates it. So no state depends
//! on another.

use super::json_scan::Scanner;
use super::marks::{Held, Mark};
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

impl Flow {
    /// To another state, which first reads these bytes again. They end before `at`.
    pub(super) fn again(next: Next, mut bytes: Vec<u8>, at: usize) -> Self {
        if let Some(at) = at.checked_sub(bytes.len()) {
            return Self::Enter(next, at);
        }
        bytes.truncate(bytes.len() - at);
        Self::Reread(next, bytes)
    }
}

/// A state to enter.
#[derive(Debug)]
pub(super) enum Next {
    /// The start of an answer.
    Start,
    /// Text or reasoning, with this much of an opener held already.
    Prose(Held),
    /// What comes after the opener of a message's header.
    Header(Opened),
    /// What comes after the header of a message to a tool, in formats that write a frame there.
    Message(Opened),
    /// What comes after the opener of a frame.
    Frame(Opened),
    /// What comes after an opener.
    Call(Opened),
    /// What comes after an opener and its label.
    Body(Opened),
    /// Arguments in tags or elements; the first tag, or what closes the call, comes next.
    Arguments(Opened),
    /// Code that is a tool's one argument; its first byte is the next one.
    Code(Opened),
    /// A payload; its first byte is the next one.
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
        /// Whether a code fence has opened before it.
        fence: bool,
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
    /// What this mark opens, if it opens anything.
    pub(super) const fn opened(mark: Mark, opened: Opened) -> Option<Self> {
        match mark {
            Mark::Header => Some(Self::Header(opened)),
            Mark::FrameOpen => Some(Self::Frame(opened)),
            Mark::Opener => Some(Self::Call(opened)),
            _ => None,
        }
    }

    /// Text or reasoning, from its beginning.
    pub(super) fn prose() -> Self {
        Self::Prose(Held::default())
    }

    /// What comes after the closer of a call.
    pub(super) const fn closed(opened: Opened, place: Place) -> Self {
        Self::Tail { opened, place, after: After::Closer }
    }
}

/// A call, or a frame around calls, whose opener was read. The stream has its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    /// Where it begins.
    pub(super) at: u64,
    pub(super) at_line_start: bool,
    /// Whether a frame, or a call before it, shows that a call begins here.
    pub(super) is_framed: bool,
}

impl Opened {
    /// Here, within a line and outside a frame.
    pub(super) const fn at(at: u64) -> Self {
        Self { at, at_line_start: false, is_framed: false }
    }
}
