//! Runs a turn.

use std::future::{Future as _, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::task::Poll;

use tokio::sync::OwnedSemaphorePermit;

use crate::conversation;
use crate::orchestrator::Driver;
use crate::session::{TurnGuard, Writer};

/// Runs a turn to its end. The turn is stored and its session freed before a client sees the last
/// event, because the client may ask for the next turn at once. Only a panic ends the log first.
///
/// The driver is boxed: a future keeps a copy of what it passes on to another.
pub(super) async fn run(driver: Box<Driver>, permit: OwnedSemaphorePermit, guard: TurnGuard) {
    let (record, mut writer) = drive(driver).await.unzip();
    if let Some(writer) = &mut writer {
        writer.seal();
    }
    guard.finish(record).await;
    drop(permit);
    drop(writer);
}

/// Drives a turn to its end. `None` if the driver panics, which ends the log.
async fn drive(driver: Box<Driver>) -> Option<(conversation::Turn, Writer)> {
    let mut run = pin!(driver.run());
    poll_fn(|cx| match panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}
