//! Calls that wait for the user's answer between two turns.
//!
//! ```text
//!   a turn that asks                                       the turn that answers
//!   RunningTools ── park ──> [ ParkedCalls, by session ] ── take ──> RunningTools
//!                                  │
//!                                  └─ nobody answers: the tool gets `Given::Cancelled`
//! ```
//! They exist only in this process. A tool that can give up its call meanwhile asks to be called
//! again instead, which needs nothing here.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use super::tool_task::ToolTask;
use crate::limits::tools::{PARK_TIMEOUT, PARKED_CALLS_MAX};
use crate::tools::Given;

/// The parked calls of all sessions. Copies share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ParkedCalls {
    parked: Arc<Mutex<HashMap<Key, Parked>>>,
}

/// A call, by its session and its id in it.
type Key = (String, String);

/// A call that waits for the user's answer. Dropping it stops the call.
#[derive(Debug)]
pub(super) struct ParkedCall {
    pub(super) call_id: String,
    pub(super) tool: ToolTask,
    /// Takes the answer.
    pub(super) answer: oneshot::Sender<Given>,
}

#[derive(Debug)]
struct Parked {
    call: ParkedCall,
    /// Gives the call up when its time is over.
    expiry: AbortOnDropHandle<()>,
}

impl ParkedCalls {
    /// Keeps a call of a session until the user answers, for at most [`PARK_TIMEOUT`]. If there are
    /// [`PARKED_CALLS_MAX`] already, the call is given up.
    pub(super) fn park(&self, session_id: &str, call: ParkedCall) {
        let key = (session_id.to_owned(), call.call_id.clone());
        let mut parked = self.parked.lock();
        if parked.len() >= PARKED_CALLS_MAX {
            drop(parked);
            warn!(tool = call.tool.name, "too many calls wait for answers; this one is given up");
            return give_up(call);
        }
        let (calls, expired) = (self.clone(), key.clone());
        let expiry = tokio::spawn(async move {
            sleep(PARK_TIMEOUT).await;
            calls.expire(&expired);
        });
        parked.insert(key, Parked { call, expiry: AbortOnDropHandle::new(expiry) });
    }

    /// Whether a call still waits for its answer.
    pub(crate) fn holds(&self, session_id: &str, call_id: &str) -> bool {
        self.parked.lock().contains_key(&(session_id.to_owned(), call_id.to_owned()))
    }

    /// Takes a call out, to go on with it.
    pub(super) fn take(&self, session_id: &str, call_id: &str) -> Option<ParkedCall> {
        let key = (session_id.to_owned(), call_id.to_owned());
        Some(self.parked.lock().remove(&key)?.call)
    }

    /// Gives a call up: its tool learns that nobody answers, and may end in peace.
    pub(crate) fn cancel(&self, session_id: &str, call_id: &str) {
        if let Some(call) = self.take(session_id, call_id) {
            give_up(call);
        }
    }

    /// Stops the calls of a session that is forgotten.
    pub(crate) fn forget(&self, session_id: &str) {
        // Dropped outside the lock: that runs the tools' own code.
        let forgotten: Vec<_> =
            self.parked.lock().extract_if(|(session, _), _| session == session_id).collect();
        drop(forgotten);
    }

    /// Stops all calls.
    pub(crate) fn stop_all(&self) {
        let stopped = std::mem::take(&mut *self.parked.lock());
        drop(stopped);
    }

    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.parked.lock().len()
    }

    fn expire(&self, key: &Key) {
        // Its expiry is this very task, which must not abort itself before the end.
        let Some(Parked { call, expiry }) = self.parked.lock().remove(key) else { return };
        debug!(tool = call.tool.name, "nobody answered, so the call is given up");
        give_up(call);
        drop(expiry.detach());
    }
}

/// Tells the tool that nobody answers. It has the usual time to end; its result goes nowhere.
fn give_up(call: ParkedCall) {
    let _ = call.answer.send(Given::Cancelled);
    call.tool.detach();
}
