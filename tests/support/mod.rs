//! Peers of the gateway that know only bytes, and the gateway between them.
//!
//! Nothing here shares code with the gateway: what a peer is sent, it reads by
//! the rules of the standard, so that a mistake on our side is not made twice.

pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod gateway;
pub(crate) mod h2;
pub(crate) mod model;
pub(crate) mod process;
pub(crate) mod responses;
pub(crate) mod tools;

use std::future::Future;
use std::time::Duration;

pub(crate) use client::Client;
pub(crate) use events::{Ending, EventStream, Frame};
pub(crate) use gateway::Gateway;
pub(crate) use model::{Away, Model, Round};

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails a test that would wait for ever.
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

/// Waits until `condition` holds, for what leaves no event behind.
#[track_caller]
pub(crate) fn until(mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    within(async move {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
}

/// That many milliseconds.
pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
