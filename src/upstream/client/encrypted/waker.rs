//! A waker that stays quiet while its own task is running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// Wakes the task that drives a connection, except while that task is driving it.
///
/// hyper passes each chunk of a body through a channel whose two ends wake each other. Here
/// both ends belong to one task: it would wake itself, be queued again for every batch of
/// tokens, and find nothing to do.
#[derive(Debug)]
pub(super) struct InnerWaker {
    task: Mutex<Waker>,
    /// Whether the task is driving the connection now.
    driving: AtomicBool,
    /// Whether a wake-up came while it was driving.
    woken: AtomicBool,
}

impl InnerWaker {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            task: Mutex::new(Waker::noop().clone()),
            driving: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        })
    }

    /// Starts driving: from now on, wake-ups are only noted.
    pub(super) fn enter(&self, task: &Waker) {
        self.driving.store(true, Ordering::SeqCst);
        let mut known = self.task.lock();
        if !known.will_wake(task) {
            known.clone_from(task);
        }
    }

    /// Stops driving: from now on, wake-ups reach the task. Returns whether one came in the
    /// meantime. Each side writes its own flag before it reads the other's, so no wake-up is
    /// lost.
    pub(super) fn leave(&self) -> bool {
        self.driving.store(false, Ordering::SeqCst);
        self.woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for InnerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.driving.load(Ordering::SeqCst) && self.woken.swap(false, Ordering::SeqCst) {
            self.task.lock().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A task that counts how often it is woken.
    #[derive(Debug, Default)]
    struct Task {
        woken: AtomicUsize,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Task {
        fn new() -> (Arc<Self>, Waker) {
            let task = Arc::new(Self::default());
            (Arc::clone(&task), Waker::from(task))
        }

        fn woken(&self) -> usize {
            self.woken.swap(0, Ordering::SeqCst)
        }
    }

    fn inner() -> (Arc<InnerWaker>, Waker) {
        let inner = InnerWaker::new();
        (Arc::clone(&inner), Waker::from(inner))
    }

    #[test]
    fn a_wake_after_leave_reaches_the_task_each_time() {
        let ((inner, waker), (task, outer)) = (inner(), Task::new());
        inner.enter(&outer);
        assert!(!inner.leave());
        waker.wake_by_ref();
        assert_eq!(task.woken(), 1);
        waker.wake();
        assert_eq!(task.woken(), 1);
    }

    #[test]
    fn a_wake_between_enter_and_leave_is_reported_once_and_wakes_no_task() {
        let ((inner, waker), (task, outer)) = (inner(), Task::new());
        inner.enter(&outer);
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert!(inner.leave());
        assert_eq!(task.woken(), 0);
        inner.enter(&outer);
        assert!(!inner.leave());
        assert_eq!(task.woken(), 0);
    }

    #[test]
    fn a_wake_that_reached_the_task_is_not_reported_again() {
        let ((inner, waker), (task, outer)) = (inner(), Task::new());
        inner.enter(&outer);
        inner.leave();
        waker.wake_by_ref();
        assert_eq!(task.woken(), 1);
        inner.enter(&outer);
        assert!(!inner.leave());
    }

    #[test]
    fn the_task_that_entered_last_is_woken() {
        let ((inner, waker), (first, outer)) = (inner(), Task::new());
        inner.enter(&outer);
        inner.leave();
        let (second, outer) = Task::new();
        inner.enter(&outer);
        inner.leave();
        waker.wake();
        assert_eq!((first.woken(), second.woken()), (0, 1));
    }

    /// Every wake-up from another thread is either reported by `leave` or wakes the task.
    #[test]
    fn no_wake_is_lost() {
        const RACES: usize = 5000;
        let ((inner, waker), (task, outer)) = (inner(), Task::new());
        let (begin, end) = (Barrier::new(2), Barrier::new(2));
        inner.enter(&outer);
        inner.leave();
        let mut lost = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..RACES {
                    begin.wait();
                    waker.wake_by_ref();
                    end.wait();
                }
            });
            for race in 0..RACES {
                begin.wait();
                inner.enter(&outer);
                let told = inner.leave();
                end.wait();
                // Collected rather than asserted here, or the other thread would wait forever.
                if !told && task.woken() != 1 {
                    lost.push(race);
                }
                task.woken();
            }
        });
        assert!(lost.is_empty(), "{lost:?}");
    }
}
