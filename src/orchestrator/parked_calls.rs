//! Calls that wait for the user's answer between two turns.
//!
//! ```text
//!   a turn that asks                                       the turn that answers
//!   RunningTools ── park ──> [ ParkedCalls, by session ] ── take ──> RunningTools
//!                                  │
//!                                  └─ nobody answers: the tool gets `Given::Cancelled`
//! ```
//! They exist only in this process. A tool that need not keep its call open asks to be called
//! again instead, and has nothing here.

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

/// A call, by its session and the id of its question. Calls are numbered anew in a conversation
/// that its client brings.
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
    /// Gives the call up when its time is up.
    expiry: AbortOnDropHandle<()>,
}

impl ParkedCalls {
    /// Keeps a call of a session until the user answers, for at most [`PARK_TIMEOUT`]. If there are
    /// [`PARKED_CALLS_MAX`] already, the call is given up.
    pub(super) fn park(&self, session_id: &str, clarification_id: &str, call: ParkedCall) {
        let key = (session_id.to_owned(), clarification_id.to_owned());
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
    pub(crate) fn holds(&self, session_id: &str, clarification_id: &str) -> bool {
        self.parked.lock().contains_key(&(session_id.to_owned(), clarification_id.to_owned()))
    }

    /// Takes a call out, to continue it.
    pub(super) fn take(&self, session_id: &str, clarification_id: &str) -> Option<ParkedCall> {
        let key = (session_id.to_owned(), clarification_id.to_owned());
        Some(self.parked.lock().remove(&key)?.call)
    }

    /// Gives a call up: its tool learns that nobody answers, and may still end by itself.
    pub(crate) fn cancel(&self, session_id: &str, clarification_id: &str) {
        if let Some(call) = self.take(session_id, clarification_id) {
            give_up(call);
        }
    }

    /// Stops the calls of a session that is forgotten.
    pub(crate) fn forget(&self, session_id: &str) {
        // Dropped outside the lock, because dropping runs the tools' own code.
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

/// Tells the tool that nobody answers. It has the usual time to end; its result is discarded.
fn give_up(call: ParkedCall) {
    let _ = call.answer.send(Given::Cancelled);
    call.tool.detach();
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::sync::mpsc::{self, Receiver, Sender};
    use tokio::time::advance;
    use tracing::Span;

    use super::*;
    use crate::limits::session::TTL;
    use crate::session::store::MemoryStore;
    use crate::session::{Artifacts, Barrier};
    use crate::tools::question::Awaits;
    use crate::tools::report::Report;
    use crate::tools::run::ToolCall;
    use crate::tools::{CallContext, Clarification, Tool, ToolFuture, ToolResult, ToolSpec};

    /// A tool that asks, and reports what it is given.
    #[derive(Debug)]
    struct Asks(Arc<ToolSpec>, Sender<Given>);

    impl Tool for Asks {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }

        fn call(&self, _: Value, context: CallContext) -> ToolFuture {
            let sender = self.1.clone();
            Box::pin(async move {
                let given = context.reporter.ask_and_wait(Clarification::default()).await;
                let _ = sender.send(given).await;
                Ok(ToolResult::data(json!({})))
            })
        }
    }

    /// A call that has asked, and what its tool is given.
    async fn call(call_id: &str) -> (ParkedCall, Receiver<Given>) {
        let (sender, given) = mpsc::channel(1);
        let spec = ToolSpec { name: "asks".to_owned(), ..ToolSpec::default() };
        let call = ToolCall {
            tool: Arc::new(Asks(Arc::new(spec), sender)),
            arguments: json!({}),
            idempotency_key: call_id.into(),
            resumption: None,
            session: "s".into(),
            words_only: false,
            trace: None,
        };
        let artifacts = Artifacts::new(Arc::new(MemoryStore::new(TTL)), "");
        let tool = ToolTask::start(call, artifacts, PARK_TIMEOUT * 2, Barrier::OPEN, Span::none());
        let report = std::future::poll_fn(|cx| tool.reports.poll(cx)).await;
        let Report::Question { question, .. } = report else { panic!("{report:?}") };
        let Awaits::Open(answer) = question.awaits else { panic!("it does not wait") };
        (ParkedCall { call_id: call_id.to_owned(), tool, answer }, given)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_its_time_and_no_longer() {
        let parked = ParkedCalls::default();
        let (call, mut given) = call("call_1").await;
        parked.park("s", "call_1", call);
        let instant = std::time::Duration::from_millis(1);
        tokio::task::yield_now().await;
        advance(PARK_TIMEOUT.saturating_sub(instant)).await;
        assert!(parked.holds("s", "call_1") && given.try_recv().is_err());
        advance(instant * 2).await;
        assert_eq!(given.recv().await, Some(Given::Cancelled));
        assert_eq!(parked.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_too_many_is_given_up_at_once() {
        let parked = ParkedCalls::default();
        let mut waiting = Vec::new();
        for number in 0..PARKED_CALLS_MAX {
            let (call, given) = call(&number.to_string()).await;
            parked.park("s", &number.to_string(), call);
            waiting.push(given);
        }
        assert_eq!(parked.len(), PARKED_CALLS_MAX);
        let (call, mut given) = call("over").await;
        parked.park("s", "over", call);
        assert_eq!(given.recv().await, Some(Given::Cancelled));
        assert!(!parked.holds("s", "over") && parked.len() == PARKED_CALLS_MAX);
        assert!(waiting.iter_mut().all(|given| given.try_recv().is_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_session_takes_its_calls_along_and_no_others() {
        let parked = ParkedCalls::default();
        let ((one, mut one_given), (other, _other_given)) = (call("1").await, call("1").await);
        parked.park("one", "1", one);
        parked.park("other", "1", other);
        parked.forget("one");
        assert_eq!(one_given.recv().await, None, "it is stopped");
        assert!(!parked.holds("one", "1") && parked.holds("other", "1"));
    }
}
