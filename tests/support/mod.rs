//! Peers of the gateway that know only bytes, and the gateway between them.
//!
//! Nothing here shares code with the gateway: what a peer is sent, it reads by
//! the rules of the standard, so that a mistake on our side is not made twice.

pub mod client;
pub mod events;
pub mod gateway;
pub mod h2;
pub mod model;
pub mod process;
pub mod tools;

use std::future::Future;
use std::time::Duration;

pub use client::Client;
pub use events::{Ending, EventStream, Frame};
pub use gateway::Gateway;
pub use model::{Model, Round};

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails a test that would wait for ever.
#[track_caller]
pub fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
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
pub fn until(mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    within(async move {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
}

/// That many milliseconds.
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
