//! The end of a connection, and why.

use std::sync::Arc;

use tokio::sync::watch;

use crate::tools::keys::Keys;

/// The end of a connection. Copies share it.
#[derive(Debug, Clone)]
pub(super) struct End {
    why: watch::Sender<Option<Arc<str>>>,
    /// Keys that the server is given: its last words may repeat them.
    pub(super) keys: Arc<Keys>,
}

impl End {
    /// The end of a connection to a server that is given these keys.
    pub(super) fn new(keys: &Arc<Keys>) -> Self {
        Self { why: watch::Sender::default(), keys: Arc::clone(keys) }
    }

    /// The connection has ended. The first reason counts: others follow from it.
    pub(super) fn note(&self, why: impl Into<String>) {
        self.why.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                *known = Some(self.keys.hidden(why.into()).into());
            }
            is_first
        });
    }

    /// Waits for it, and returns why it came.
    pub(super) async fn reached(&self) -> Arc<str> {
        let mut why = self.why.subscribe();
        match why.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => unreachable!("this copy keeps the channel open"),
        }
    }

    pub(super) fn is_reached(&self) -> bool {
        self.why.borrow().is_some()
    }
}
