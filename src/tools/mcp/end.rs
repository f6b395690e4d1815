//! The end of a connection, and why.

use std::sync::Arc;

use tokio::sync::watch;

/// The end of a connection. Copies share it.
#[derive(Debug, Clone, Default)]
pub(super) struct End {
    why: watch::Sender<Option<Arc<str>>>,
}

impl End {
    /// The connection has ended. The first reason counts: others follow from it.
    pub(super) fn note(&self, why: impl Into<Arc<str>>) {
        self.why.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                *known = Some(why.into());
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
