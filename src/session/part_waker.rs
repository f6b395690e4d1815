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
    ///
    /// The waker is noted before the flag is read, and [`wake`](Wake::wake) sets the flag before it reads the
    /// waker. So whoever wakes the part meanwhile is seen here, or wakes the new task. In any other order, a wake
    /// could go to the old task alone.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A task that counts how often it is woken.
    #[derive(Debug, Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn task() -> (Arc<Task>, Waker) {
        let task = Arc::new(Task::default());
        (Arc::clone(&task), Waker::from(task))
    }

    fn woken(task: &Task) -> usize {
        task.0.load(Ordering::SeqCst)
    }

    #[test]
    fn a_part_is_polled_at_first_and_then_when_it_was_woken() {
        let part = PartWaker::new();
        let (task, waker) = task();
        assert!(part.take(&waker) && !part.take(&waker));
        Waker::from(Arc::clone(&part)).wake();
        assert_eq!(woken(&task), 1);
        assert!(part.take(&waker) && !part.take(&waker));
    }

    #[test]
    fn a_part_wakes_the_task_that_polled_it_last() {
        let part = PartWaker::new();
        let ((old, old_waker), (new, new_waker)) = (task(), task());
        part.take(&old_waker);
        part.take(&new_waker);
        Waker::from(Arc::clone(&part)).wake_by_ref();
        assert_eq!((woken(&old), woken(&new)), (0, 1));
    }

    #[test]
    fn a_task_that_is_woken_for_something_else_leaves_the_part_alone() {
        let part = PartWaker::new();
        let (_, waker) = task();
        part.take(&waker);
        waker.wake_by_ref();
        assert!(!part.take(&waker));
    }

    /// However a wake and a change of tasks meet, one of both tasks knows.
    #[test]
    fn no_wake_is_lost_between_two_tasks() {
        for _ in 0..1000 {
            let part = PartWaker::new();
            let ((_, old_waker), (new, new_waker)) = (task(), task());
            part.take(&old_waker);
            let is_seen = std::thread::scope(|scope| {
                scope.spawn(|| Waker::from(Arc::clone(&part)).wake());
                part.take(&new_waker)
            });
            assert!(is_seen || woken(&new) == 1);
        }
    }
}
