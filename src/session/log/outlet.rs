//! Readers that are served at once, by whoever publishes.
//!
//! A task that reads a log is woken for what is new, queued and polled: for each token of each
//! reader, as much work as everything else about it. A reader that has an [`Outlet`] is handed what
//! is new within the poll that published it, without looking it up in the log:
//!
//! ```text
//!   driver: push, push, publish --> the log
//!                          |---> outlet.pass_on() --> its client's socket
//!                          '---> task.wake()          (a reader without one)
//! ```
//! Its task is woken only if the outlet cannot go on by itself.

use std::fmt;
use std::sync::Weak;
use std::task::Waker;

use tokio::time::Instant;

use super::records::Published;

/// Where a reader passes on what it reads.
pub(crate) trait Outlet: fmt::Debug + Send + Sync {
    /// Passes on what is new, at this time. False if the outlet does not wait at the log's end any more: its
    /// task has to go on.
    fn pass_on(&self, new: &Published<'_>, now: Instant) -> bool;
}

/// An outlet that waits at the end of a log. Its task owns it; once that is gone, nothing happens.
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
    /// Whether waking this wakes the other one, too.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(one), Self::Task(other)) => one.will_wake(other),
            (Self::Outlet(one), Self::Outlet(other)) => {
                one.outlet.ptr_eq(&other.outlet) && one.task.will_wake(&other.task)
            }
            _ => false,
        }
    }

    /// Wakes the task. May be called under a log's lock, since it only queues a task.
    pub(super) fn wake(self) {
        match self {
            Self::Task(task) | Self::Outlet(Parked { task, .. }) => task.wake(),
        }
    }

    /// Passes on what is new. Returns itself if it goes on waiting. **Not to be called under a log's lock**,
    /// which outlets may take.
    pub(super) fn pass_on(self, new: &Published<'_>, now: Instant) -> Option<Self> {
        match self {
            Self::Task(task) => task.wake(),
            Self::Outlet(parked) => {
                let outlet = parked.outlet.upgrade()?;
                if outlet.pass_on(new, now) {
                    return Some(Self::Outlet(parked));
                }
                parked.task.wake();
            }
        }
        None
    }
}
