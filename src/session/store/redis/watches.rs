//! What is published, from one connection to all watches of this gateway.
//!
//! ```text
//!   watches ── subscribe, unsubscribe ──> one task ──> SUBSCRIBE
//!      ^                                     |
//!      '──────── wakes by channel ───────────'
//! ```
//!
//! While the connection is down, what is published is lost. So once it is back and the channels are
//! subscribed again, all watches wake.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use parking_lot::Mutex;
use redis::aio::PubSub;
use redis::{Client, RedisResult, Value};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{interval, sleep, timeout};

use super::super::{StoreError, Watch};
use super::cause::unavailable;
use crate::limits::session as limits;

/// All watches of a gateway. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Watches {
    shared: Arc<Shared>,
    connect_timeout: Duration,
    client: Client,
}

#[derive(Debug, Default)]
struct Shared {
    channels: Mutex<Channels>,
    /// Wakes the task when there is something to do.
    work: Notify,
}

#[derive(Debug, Default)]
struct Channels {
    by_name: HashMap<String, Channel>,
    /// Those to subscribe to or to leave.
    changed: Vec<String>,
    is_running: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Channel {
    changes: watch::Sender<()>,
    watches: usize,
    is_subscribed: bool,
    /// Wait until it is subscribed.
    waiting: Vec<oneshot::Sender<Result<(), StoreError>>>,
}

impl Watches {
    pub(super) fn new(client: Client, connect_timeout: Duration) -> Self {
        Self { shared: Arc::default(), connect_timeout, client }
    }

    /// Watches a channel. Nothing that is published once this is resolved is missed.
    pub(super) async fn watch(&self, name: String) -> Result<Watch, StoreError> {
        let (ready, standing) = oneshot::channel();
        let changes = {
            let mut channels = self.shared.channels.lock();
            if !channels.is_running {
                channels.is_running = true;
                let shared = Arc::clone(&self.shared);
                tokio::spawn(run(shared, self.client.clone(), self.connect_timeout));
            }
            let channel = channels.by_name.entry(name.clone()).or_insert_with(|| Channel {
                changes: watch::channel(()).0,
                watches: 0,
                is_subscribed: false,
                waiting: Vec::new(),
            });
            channel.watches += 1;
            let changes = channel.changes.subscribe();
            if channel.is_subscribed {
                // Nobody drops it before it is awaited.
                let _ = ready.send(Ok(()));
            } else {
                channel.waiting.push(ready);
                channels.changed.push(name.clone());
            }
            changes
        };
        let guard = Guard { shared: Arc::clone(&self.shared), name };
        self.shared.work.notify_one();
        let stopped = || StoreError::Unavailable("it has stopped".to_owned());
        standing.await.map_err(|_| stopped())??;
        Ok(Watch::new(changes, guard))
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.shared.channels.lock().is_closed = true;
        self.shared.work.notify_one();
    }
}

/// One watch, which it ends when it is dropped.
#[derive(Debug)]
struct Guard {
    shared: Arc<Shared>,
    name: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut channels = self.shared.channels.lock();
        let Some(channel) = channels.by_name.get_mut(&self.name) else { return };
        channel.watches -= 1;
        if channel.watches == 0 {
            let name = self.name.clone();
            channels.changed.push(name);
            drop(channels);
            self.shared.work.notify_one();
        }
    }
}

/// Keeps a connection for as long as there are watches or may be any.
async fn run(shared: Arc<Shared>, client: Client, connect_timeout: Duration) {
    loop {
        let failure = match timeout(connect_timeout, client.get_async_pubsub()).await {
            Ok(Ok(connection)) => match serve(&shared, connection, connect_timeout).await {
                Ok(()) => return,
                Err(error) => error,
            },
            Ok(Err(error)) => unavailable(&error),
            Err(_) => StoreError::Unavailable(format!("no connection within {connect_timeout:?}")),
        };
        if !shared.begin_again(&failure) {
            return;
        }
        sleep(limits::STORE_RETRY_INTERVAL).await;
    }
}

/// Serves the watches over one connection. Ends without an error if it is not needed any more.
async fn serve(
    shared: &Shared,
    connection: PubSub,
    answer_timeout: Duration,
) -> Result<(), StoreError> {
    let (mut sink, mut stream) = connection.split();
    let mut ping = interval(limits::STORE_PING_INTERVAL);
    loop {
        while let Some(change) = shared.next_change() {
            match change {
                Change::Closed => return Ok(()),
                Change::Subscribe(name) => {
                    within(answer_timeout, sink.subscribe(&name)).await?;
                    shared.note_subscribed(&name);
                }
                Change::Unsubscribe(name) => within(answer_timeout, sink.unsubscribe(name)).await?,
            }
        }
        tokio::select! {
            () = shared.work.notified() => {}
            // A connection that was cut without a word would never fail by itself.
            _ = ping.tick() => drop(within(answer_timeout, sink.ping::<Value>()).await?),
            message = stream.next() => match message {
                Some(message) => shared.wake(message.get_channel_name()),
                None => return Err(StoreError::Unavailable("the connection was closed".to_owned())),
            },
        }
    }
}

async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = RedisResult<T>>,
) -> Result<T, StoreError> {
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|error| unavailable(&error)),
        Err(_) => Err(StoreError::Unavailable(format!("no answer within {limit:?}"))),
    }
}

/// What is to be done on the connection.
enum Change {
    Subscribe(String),
    Unsubscribe(String),
    Closed,
}

impl Shared {
    fn next_change(&self) -> Option<Change> {
        let mut channels = self.channels.lock();
        if channels.is_closed {
            return Some(Change::Closed);
        }
        while let Some(name) = channels.changed.pop() {
            match channels.by_name.get(&name) {
                Some(channel) if channel.watches == 0 => {
                    let gone = channels.by_name.remove(&name);
                    if gone.is_some_and(|channel| channel.is_subscribed) {
                        return Some(Change::Unsubscribe(name));
                    }
                }
                Some(channel) if !channel.is_subscribed => return Some(Change::Subscribe(name)),
                Some(_) | None => {}
            }
        }
        None
    }

    fn note_subscribed(&self, name: &str) {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.by_name.get_mut(name) {
            channel.is_subscribed = true;
            for waiting in channel.waiting.drain(..) {
                // It may have been dropped.
                let _ = waiting.send(Ok(()));
            }
            // For those that were there before the connection was made again.
            channel.changes.send_replace(());
        }
    }

    fn wake(&self, name: &str) {
        if let Some(channel) = self.channels.lock().by_name.get(name) {
            channel.changes.send_replace(());
        }
    }

    /// Lets those know who wait, and subscribes to the channels again. False if nobody is left.
    fn begin_again(&self, failure: &StoreError) -> bool {
        let mut channels = self.channels.lock();
        channels.by_name.retain(|_, channel| channel.watches > 0);
        let mut names = Vec::new();
        for (name, channel) in &mut channels.by_name {
            channel.is_subscribed = false;
            names.push(name.clone());
            for waiting in channel.waiting.drain(..) {
                let _ = waiting.send(Err(failure.clone()));
            }
        }
        channels.changed = names;
        channels.is_running = !channels.is_closed && !channels.by_name.is_empty();
        channels.is_running
    }
}
