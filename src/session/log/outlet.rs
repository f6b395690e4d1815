//! Readers that whoever publishes serves at once.
//!
//! A task that reads a log is woken, queued and polled for every token, which costs as much as everything
//! else that the token takes. A reader with an [`Outlet`] is handed what is new within the poll that
//! publishes it, or learns that it is stored, and does not look it up in the log:
//!
//! ```text
//!   driver: push, push, publish --> the log
//!                          |---> outlet.pass_on() --> its client's socket
//!                          '---> task.wake()          (a reader without one)
//! ```
//! Its task is woken only if the outlet cannot go on alone.

use std::fmt;
use std::sync::Weak;
use std::task::Waker;

use tokio::time::Instant;

use super::records::Published;

/// Where a reader passes on what it reads.
pub(crate) trait Outlet: fmt::Debug + Send + Sync {
    /// Passes on what is new; `now` is the time of publishing. False if the outlet no longer waits at the end of
    /// the log: its task has to go on.
    fn pass_on(&self, new: &Published<'_>, now: Instant) -> bool;
}

/// An outlet that waits at the end of a log. Its task owns it: once the task is gone, this does nothing.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) outlet: Weak<dyn Outlet>,
    /// The task that goes on if the outlet cannot.
    pub(crate) task: Waker,
}

/// What waits for more of a log.
#[derive(Debug)]
pub(super) enum Waiting {
    Task(Waker),
    Outlet(Parked),
}

impl Waiting {
    /// Whether waking either wakes the other, too.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(one), Self::Task(other)) => one.will_wake(other),
            (Self::Outlet(one), Self::Outlet(other)) => {
                one.outlet.ptr_eq(&other.outlet) && one.task.will_wake(&other.task)
            }
            _ => false,
        }
    }

    /// Wakes the task. May be called under the log's lock: it only queues the task.
    pub(super) fn wake(self) {
        match self {
            Self::Task(task) | Self::Outlet(Parked { task, .. }) => task.wake(),
        }
    }

    /// Passes on what is new. False if it no longer waits. **Do not call this under the log's lock**: outlets may
    /// take it.
    pub(super) fn pass_on(&self, new: &Published<'_>, now: Instant) -> bool {
        match self {
            Self::Task(task) => task.wake_by_ref(),
            Self::Outlet(Parked { outlet, task }) => {
                let Some(outlet) = outlet.upgrade() else { return false };
                if outlet.pass_on(new, now) {
                    return true;
                }
                task.wake_by_ref();
            }
        }
        false
    }
}
