//! A thread that is awaited when its owner is dropped.

use std::thread::JoinHandle;

/// Dropping this waits for the thread.
#[derive(Debug)]
pub(super) struct AwaitedThread(Option<JoinHandle<()>>);

impl AwaitedThread {
    pub(super) const fn new(thread: JoinHandle<()>) -> Self {
        Self(Some(thread))
    }
}

impl Drop for AwaitedThread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // If it has panicked, its panic was logged.
            let _ = thread.join();
        }
    }
}
