//! A waker for one part of a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// Wakes its task, and notes for whom: the part need not be polled when the task is woken for another one.
#[derive(Debug)]
pub(super) struct PartWaker {
    task: Mutex<Waker>,
    is_woken: AtomicBool,
}

impl PartWaker {
    /// Of a part that was never polled, and so has to be.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { task: Mutex::new(Waker::noop().clone()), is_woken: AtomicBool::new(true) })
    }

    /// Whether the part was woken since this was last called, by the task that has this waker. From now on,
    /// that task is woken.
    pub(super) fn take(&self, task: &Waker) -> bool {
        let mut known = self.task.lock();
        if !known.will_wake(task) {
            known.clone_from(task);
        }
        self.is_woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for PartWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.task.lock().wake_by_ref();
    }
}
