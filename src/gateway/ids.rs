//! What a new turn and its session are called.

use std::sync::Arc;

use crate::{random, session};

/// Where the calls of turns without a lasting session wait for their client. No session has this
/// name.
const PARKED_IN: &str = "@";

/// What a turn and its session are called.
pub(super) struct Ids {
    /// The session, as its owner calls it.
    pub(super) session_id: String,
    pub(super) turn_id: String,
    /// The session, as it is stored.
    pub(super) stored_as: Arc<str>,
    /// Where calls wait for their client.
    pub(super) parked_in: Arc<str>,
    /// Whether the session's name was made up for this turn.
    pub(super) is_new: bool,
    /// Whether the session ends with its turn.
    pub(super) is_passing: bool,
}

impl Ids {
    /// Names the session, if the request does not. A session without a name ends with its turn if the
    /// client keeps the history itself.
    pub(super) fn new(owner: &str, session_id: Option<String>, client_keeps_history: bool) -> Self {
        let is_new = session_id.is_none();
        let is_passing = client_keeps_history && is_new;
        let session_id = session_id.unwrap_or_else(random::uuid_text);
        let stored_as: Arc<str> = session::id_of(owner, &session_id).into();
        // The client's next request does not know a session that ends with its turn.
        let parked_in = if is_passing {
            session::id_of(owner, PARKED_IN).into()
        } else {
            Arc::clone(&stored_as)
        };
        let turn_id = random::uuid_text();
        Self { session_id, turn_id, stored_as, parked_in, is_new, is_passing }
    }
}
