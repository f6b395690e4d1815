//! Peers of the gateway that only know bytes, and the gateway between them.
//!
//! Nothing here shares code with the gateway. Peers read what they are sent by the rules of the
//! standard, so that a mistake in the gateway is not repeated here.

pub(crate) mod client;
pub(crate) mod collector;
pub(crate) mod events;
pub(crate) mod gateway;
pub(crate) mod h2;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod process;
pub(crate) mod redis_cluster;
pub(crate) mod redis_sentinel;
pub(crate) mod redis_server;
pub(crate) mod responses;
pub(crate) mod tls;
pub(crate) mod tools;

use std::future::Future;
use std::time::Duration;

pub(crate) use client::Client;
pub(crate) use events::{Ending, EventStream, Frame};
pub(crate) use gateway::Gateway;
pub(crate) use model::{Away, Model, Round};

/// Longer than anything a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails a test that would otherwise wait forever.
#[track_caller]
pub(crate) fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let Ok(output) = tokio::time::timeout(PATIENCE, future).await else {
            panic!("{caller}: nothing has happened for {PATIENCE:?}");
        };
        output
    }
}

/// Waits until `condition` holds, if there is no event to wait for.
#[track_caller]
pub(crate) fn until(mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    within(async move {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
}

/// Lets time pass in which nothing happens, for tests that are about that.
pub(crate) async fn pass(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

/// This many milliseconds.
pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
