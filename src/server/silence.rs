//! What a stream does while it has nothing to send: when a keep-alive is due, and whether the client is
//! still there.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::departure::Departure;
use super::socket::Socket;

/// Watches the silences of one stream. Keep-alives are its probes of a client that has stopped sending.
#[derive(Debug)]
pub(super) struct Silence {
    keep_alive: Duration,
    /// Made when there is nothing to send for the first time.
    timer: Option<Pin<Box<Sleep>>>,
    /// `None`: the client is not watched. HTTP/2 itself reports one that is gone.
    departure: Option<Departure>,
}

impl Silence {
    /// For a stream that sends a keep-alive after every `keep_alive` of silence.
    pub(super) fn new(keep_alive: Duration) -> Self {
        Self { keep_alive, timer: None, departure: None }
    }

    /// Watches `socket` to find out whether the client has left.
    pub(super) fn watch(&mut self, socket: Socket) {
        self.departure = Some(Departure::new(socket));
    }

    /// Completes when a keep-alive is due, and counts it as sent. `sent_at` is when something was last
    /// sent; it is set to now then. The timer is not reset for everything that is sent: when it fires, it
    /// looks at `sent_at` and sleeps again if need be.
    pub(super) fn poll_due(&mut self, cx: &mut Context<'_>, sent_at: &mut Instant) -> Poll<()> {
        if let Some(departure) = &mut self.departure {
            // If the client has not stopped sending, the task is woken when it does.
            let _ = departure.poll_ended(cx);
        }
        let due = self.due(*sent_at);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // A probe may be due before the timer fires.
        if due < timer.deadline() {
            timer.as_mut().reset(due);
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if due <= now {
                *sent_at = now;
                if let Some(departure) = &mut self.departure {
                    departure.note_probe(now);
                }
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }

    /// When the next keep-alive or probe is due.
    fn due(&self, sent_at: Instant) -> Instant {
        let keep_alive = sent_at + self.keep_alive;
        let probe = self.departure.as_ref().and_then(Departure::probe_at);
        probe.map_or(keep_alive, |probe| keep_alive.min(probe))
    }
}
