//! Event streams that whoever publishes the events writes to the socket.
//!
//! hyper reads every request. Once a stream begins on an HTTP/1.1 connection without TLS, the connection
//! takes its socket back from hyper and hands it to the [`stream`]. What a driver publishes then goes to
//! the socket within the same poll, without a second task and without hyper's buffers. After the stream,
//! hyper reads the next request.
//!
//! ```text
//!   hyper: request --> handler --> Reply with events        hyper: next request
//!                                    |                        ^
//!                                    '--> head, chunk, chunk, last chunk
//!                                         '- stream, in the driver's task -'
//! ```
//! Streams over HTTP/2, TLS and HTTP/1.0 stay with hyper (`server/body.rs`) and send the same bytes.
//! docs/ARCHITECTURE.md says what this saves.

mod head;
mod stream;

pub(super) use head::{write_head, write_last};

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};

use self::stream::{Pumped, Stream};
use super::body::Events;
use super::silence::Silence;
use super::socket::Socket;
use super::stall;
use crate::session::log::{Outlet, Parked};

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Properly: another request may follow.
    Properly,
    /// In the middle: the connection has to break, so that the client notices.
    Cut,
    /// The client has left.
    Left,
    /// The client took nothing for too long.
    Stalled,
}

/// The task of a stream: it does what whoever publishes cannot do, such as waiting for the socket.
struct Task {
    stream: Arc<Stream>,
    outlet: Weak<dyn Outlet>,
    silence: Silence,
    /// How long the client may take nothing.
    patience: Duration,
    stall: Option<Pin<Box<Sleep>>>,
}

/// Writes a whole response to `socket`: its head, then events up to the end of their log. This is no `async fn`, which
/// would keep its arguments twice.
///
/// Dropping the future leaves the response unfinished; close the socket then.
pub(super) fn serve(
    socket: Socket,
    head: Bytes,
    events: Events,
    patience: Duration,
) -> impl Future<Output = Ended> {
    let mut silence = Silence::new(events.keep_alive);
    silence.watch(socket.clone());
    let stream = Arc::new(Stream::new(socket, head, events));
    let weak = Arc::downgrade(&stream);
    let outlet: Weak<dyn Outlet> = weak;
    let mut task = Task { stream, outlet, silence, patience, stall: None };
    poll_fn(move |cx| task.poll(cx))
}

impl Task {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let mut stream = self.stream.lock();
        loop {
            let parked = Parked { outlet: Weak::clone(&self.outlet), task: cx.waker().clone() };
            match stream.pump(Instant::now(), &mut Some(parked)) {
                Pumped::Idle if stream.greet() => {}
                Pumped::Idle => {
                    std::task::ready!(self.silence.poll_due(cx, &mut stream.sent_at));
                    stream.keep_alive();
                }
                Pumped::Blocked { since } => match stream.poll_writable(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Ended::Left),
                    Poll::Pending => {
                        return poll_stalled(&mut self.stall, self.patience, since, cx);
                    }
                },
                // Let other tasks run before the rest.
                Pumped::Busy => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Pumped::Ended(ended) => return Poll::Ready(ended),
            }
        }
    }
}

/// Waits for the stall of a client that has taken nothing since then.
fn poll_stalled(
    timer: &mut Option<Pin<Box<Sleep>>>,
    longest: Duration,
    since: Instant,
    cx: &mut Context<'_>,
) -> Poll<Ended> {
    let first_due = || Box::pin(sleep_until(stall::stall_due(longest, Some(since))));
    let timer = timer.get_or_insert_with(first_due).as_mut();
    stall::poll_stalled(timer, longest, || Some(since), cx).map(|()| Ended::Stalled)
}

#[cfg(test)]
mod tests;
