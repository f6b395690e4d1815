//! Native calls: calls that a server itself separates from the model's text, as they arrive.
//!
//! ```text
//!   begin ──> tell, tell, ... ──> complete       call 0
//!        begin ──> tell, ...  ──────────> ...    call 1: complete once call 0 is
//! ```
//! Finding out which call a frame means is up to each dialect: servers identify calls by index,
//! by id, by both or by neither. What dialects share is here: the order of calls, what has been
//! reported of them, and their bounds.

use serde_json::value::RawValue;

use super::Delta;
use super::frame_error::FrameError;
use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX};

/// The calls of one round. `N` is how a dialect identifies a call.
#[derive(Debug)]
pub(super) struct NativeCalls<N> {
    calls: Vec<NativeCall<N>>,
    /// How many calls, from the first on, are complete.
    completed: usize,
    /// Total bytes of the names and arguments of all calls.
    bytes: usize,
}

/// A call, as far as it has arrived.
#[derive(Debug)]
pub(super) struct NativeCall<N> {
    pub(super) named: N,
    pub(super) name: String,
    pub(super) arguments: String,
    /// How many bytes of the arguments have been reported.
    told: usize,
}

impl<N> Default for NativeCalls<N> {
    fn default() -> Self {
        Self { calls: Vec::new(), completed: 0, bytes: 0 }
    }
}

impl<N> NativeCalls<N> {
    /// The calls so far, in order.
    pub(super) fn as_slice(&self) -> &[NativeCall<N>] {
        &self.calls
    }

    pub(super) fn get_mut(&mut self, at: usize) -> &mut NativeCall<N> {
        &mut self.calls[at]
    }

    /// Whether a call is complete, so that nothing more is added to it.
    pub(super) const fn is_completed(&self, at: usize) -> bool {
        at < self.completed
    }

    /// Begins a call and returns its index.
    ///
    /// # Errors
    /// If there are [`NATIVE_CALLS_MAX`] calls already.
    pub(super) fn begin(
        &mut self,
        named: N,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<usize, FrameError> {
        let at = self.calls.len();
        if at == NATIVE_CALLS_MAX {
            return Err(FrameError::TooManyCalls);
        }
        self.calls.push(NativeCall {
            named,
            name: String::new(),
            arguments: String::new(),
            told: 0,
        });
        sink(Delta::CallStarted { index: index(at) });
        Ok(at)
    }

    /// Counts the bytes that a frame added.
    ///
    /// # Errors
    /// If all calls together exceed [`NATIVE_CALL_BYTES_MAX`].
    pub(super) const fn count(&mut self, bytes: usize) -> Result<(), FrameError> {
        self.bytes += bytes;
        if self.bytes > NATIVE_CALL_BYTES_MAX { Err(FrameError::CallsTooLong) } else { Ok(()) }
    }

    /// Reports the arguments that have not been reported yet.
    pub(super) fn tell(&mut self, at: usize, sink: &mut impl FnMut(Delta<'_>)) {
        let call = &mut self.calls[at];
        if let Some(json) = call.arguments.get(call.told..).filter(|json| !json.is_empty()) {
            sink(Delta::CallArguments { index: index(at), json });
        }
        call.told = call.arguments.len();
    }

    /// Completes calls in order, up to the first that is not whole.
    pub(super) fn complete(
        &mut self,
        sink: &mut impl FnMut(Delta<'_>),
        is_whole: impl Fn(&NativeCall<N>) -> bool,
    ) {
        while self.calls.get(self.completed).is_some_and(&is_whole) {
            let at = self.completed;
            self.tell(at, sink);
            let NativeCall { name, arguments, .. } = &self.calls[at];
            sink(Delta::CallCompleted { index: index(at), name, arguments });
            self.completed += 1;
        }
    }
}

impl<N> NativeCall<N> {
    /// Whether none of its arguments have been reported.
    pub(super) const fn is_untold(&self) -> bool {
        self.told == 0
    }

    /// Replaces the arguments that came. What was reported stays reported.
    pub(super) fn replace_arguments(&mut self, arguments: &str) {
        arguments.clone_into(&mut self.arguments);
        self.told = self.arguments.len();
    }
}

/// Whether the arguments are complete JSON, so that only white space can follow.
pub(super) fn is_json(arguments: &str) -> bool {
    serde_json::from_str::<&RawValue>(arguments).is_ok()
}

#[expect(clippy::cast_possible_truncation, reason = "at most NATIVE_CALLS_MAX")]
const fn index(at: usize) -> u32 {
    at as u32
}
