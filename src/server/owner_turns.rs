//! An owner's recent turns, for a request that may refer to them.

use std::cell::RefCell;
use std::sync::Arc;

use super::App;
use super::dialect::call_id;
use super::refusal::Refusal;
use crate::conversation::Turn;
use crate::conversation::claimed::{FoundCall, PrefixHash, TurnLookup};
use crate::gateway::RecentLookup;
use crate::session::off_worker;

/// Finds what one request refers to.
#[derive(Debug)]
struct OwnerTurns(RefCell<RecentLookup>);

/// Reads a request of this owner, whose reading takes as long as that of a plain body of `effort` bytes, off the worker
/// if that is long: it would hold up other clients. If the request refers to turns that only the store knows, those are
/// fetched, and the request is read again.
pub(super) async fn read<T: Send + 'static>(
    app: &Arc<App>,
    owner: &str,
    effort: usize,
    read: impl Fn(&dyn TurnLookup, &App) -> Result<T, Refusal> + Send + Sync + 'static,
) -> Result<T, Refusal> {
    let mut lookup = app.gateway.recent_turns(owner);
    let read = Arc::new(read);
    loop {
        let (app, reading) = (Arc::clone(app), Arc::clone(&read));
        let (done, used) = off_worker(effort, move || {
            let turns = OwnerTurns(RefCell::new(lookup));
            let done = reading(&turns, &app);
            (done, turns.0.into_inner())
        })
        .await;
        lookup = used;
        if !lookup.recall().await {
            return done;
        }
    }
}

impl TurnLookup for OwnerTurns {
    fn by_call(&self, client_call_id: &str) -> Option<FoundCall> {
        let (turn_id, call_id) = call_id::parse(client_call_id)?;
        let turn = self.0.borrow_mut().by_id(&turn_id)?;
        Some(FoundCall { turn, call_id })
    }

    fn by_prefix(&self, prefix: &PrefixHash) -> Option<Arc<Turn>> {
        self.0.borrow_mut().by_prefix(prefix)
    }

    fn by_question(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.0.borrow_mut().by_question(clarification_id)
    }

    fn by_answer(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.0.borrow_mut().by_answer(clarification_id)
    }

    fn is_closed(&self, clarification_id: &str) -> bool {
        self.0.borrow_mut().is_closed(clarification_id)
    }

    fn by_prompt(&self, conversation: &str, prompt: &str) -> Vec<Arc<Turn>> {
        self.0.borrow_mut().by_prompt(conversation, prompt)
    }
}
