//! The runtime of commands that wait for something. The gateway's own is in `app`.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Two threads, so that one may block.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
