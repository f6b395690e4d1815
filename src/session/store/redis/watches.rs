//! What is published, from one connection for each server to all watches of this gateway.
//!
//! ```text
//!   watches ── subscribe, unsubscribe ──> a task for each server ──> SSUBSCRIBE
//!      ^                                     |
//!      '──────── wakes by channel ───────────'
//! ```
//!
//! A channel is on the server that has the key of the same name, and moves with it. While a connection is down,
//! what is published is missed. So once the channels are subscribed to again, their watches wake.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ErrorKind, Msg, PushInfo, PushKind, RedisError, ServerErrorKind, Value,
    cmd, from_redis_value,
};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{interval, sleep, timeout};

use super::super::{StoreError, Watch};
use super::address::Wants;
use super::cause::failed;
use super::node::Node;
use super::servers::Servers;
use crate::limits::session as limits;

/// All watches of a gateway. Dropping it closes the connections.
#[derive(Debug)]
pub(super) struct Watches {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    servers: Arc<Servers>,
    channels: Mutex<Channels>,
}

#[derive(Debug, Default)]
struct Channels {
    by_name: HashMap<String, Channel>,
    /// One for each running task. If there is only one server, it has no name.
    feeds: HashMap<Option<Node>, Feed>,
    is_closed: bool,
}

/// What one server is to do.
#[derive(Debug, Default)]
struct Feed {
    /// Channels to subscribe to or to leave.
    changed: Vec<String>,
    /// Wakes its task when there is something to do.
    work: Arc<Notify>,
}

#[derive(Debug)]
struct Channel {
    /// The server on which it is.
    node: Option<Node>,
    changes: watch::Sender<()>,
    watches: usize,
    is_subscribed: bool,
    /// Wait until it is subscribed.
    waiting: Vec<oneshot::Sender<Result<(), StoreError>>>,
}

impl Watches {
    pub(super) fn new(servers: Arc<Servers>) -> Self {
        Self { shared: Arc::new(Shared { servers, channels: Mutex::default() }) }
    }

    /// Watches a channel. Nothing that is published once this is resolved is missed.
    pub(super) async fn watch(&self, name: String) -> Result<Watch, StoreError> {
        let owner = self.shared.servers.owner(&name).await?;
        let (ready, standing) = oneshot::channel();
        let changes = {
            let mut channels = self.shared.channels.lock();
            let channel = channels.by_name.entry(name.clone()).or_insert_with(|| Channel {
                node: owner,
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
                let node = channel.node.clone();
                self.shared.change(&mut channels, node, name.clone());
            }
            changes
        };
        let guard = Guard { shared: Arc::clone(&self.shared), name };
        let stopped = || StoreError::Unavailable("it has stopped".to_owned());
        standing.await.map_err(|_| stopped())??;
        Ok(Watch::new(changes, guard))
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let mut channels = self.shared.channels.lock();
        channels.is_closed = true;
        for feed in channels.feeds.values() {
            feed.work.notify_one();
        }
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
        if channel.watches > 0 {
            return;
        }
        let node = channel.node.clone();
        if let Some(feed) = channels.feeds.get_mut(&node) {
            feed.changed.push(self.name.clone());
            feed.work.notify_one();
        }
    }
}

/// Keeps a connection to a server for as long as there are watches or may be any.
async fn run(shared: Arc<Shared>, node: Option<Node>, work: Arc<Notify>) {
    loop {
        let cut = Arc::new(AtomicBool::new(false));
        let failure = match connect(&shared, node.as_ref(), &work, &cut).await {
            Ok(connection) => {
                let wait = shared.servers.connect_timeout;
                let feed = Served { shared: &shared, node: node.as_ref(), work: &work, wait };
                match feed.serve(connection, &cut).await {
                    Ok(()) => return,
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        // If the server is gone, another one may have its channels by now.
        let _ = shared.servers.ask_slots(None).await;
        match shared.begin_again(node.as_ref(), &failure) {
            Again::Never => return,
            Again::AtOnce => {}
            Again::Later => sleep(limits::STORE_RETRY_INTERVAL).await,
        }
    }
}

/// Why a connection is of no use any more.
struct Failure {
    error: StoreError,
    /// Channels have moved to another server, and there is nothing else.
    is_move: bool,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self { error, is_move: false }
    }
}

/// Makes a connection. What is published wakes the watches; what `cut`s it wakes its task.
async fn connect(
    shared: &Arc<Shared>,
    node: Option<&Node>,
    work: &Arc<Notify>,
    cut: &Arc<AtomicBool>,
) -> Result<MultiplexedConnection, Failure> {
    let limit = shared.servers.connect_timeout;
    let (told, work, cut) = (Arc::clone(shared), Arc::clone(work), Arc::clone(cut));
    let its = node.cloned();
    let hear = move |push: PushInfo| {
        let is_gone = match push.kind {
            PushKind::SMessage => {
                if let Some(message) = Msg::from_push_info(push) {
                    told.wake(message.get_channel_name());
                }
                false
            }
            PushKind::SUnsubscribe => {
                let name = push.data.into_iter().next().and_then(|it| from_redis_value(it).ok());
                name.is_some_and(|name: String| told.is_subscribed(its.as_ref(), &name))
            }
            PushKind::Disconnection => true,
            _ => false,
        };
        if is_gone {
            cut.store(true, Ordering::Release);
            work.notify_one();
        }
        Ok::<(), Infallible>(())
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(None)
        .set_push_sender(hear);
    let client = shared.servers.address.client(node, Wants::Pushes, limit).await?;
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    Ok(connection.await.map_err(|error| shared.servers.address.unreachable(&error, limit))?)
}

/// The channels of one server, while there is a connection.
struct Served<'s> {
    shared: &'s Shared,
    node: Option<&'s Node>,
    work: &'s Notify,
    /// How long an answer may take.
    wait: Duration,
}

impl Served<'_> {
    /// Ends without an error if the connection is not needed any more.
    async fn serve(
        &self,
        mut connection: MultiplexedConnection,
        cut: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut ping = interval(limits::STORE_PING_INTERVAL);
        loop {
            while let Some(change) = self.shared.next_change(self.node) {
                match change {
                    Change::Closed => return Ok(()),
                    Change::Subscribe(name) => {
                        self.ask(&mut connection, "SSUBSCRIBE", Some(&name)).await?;
                        self.shared.note_subscribed(self.node, &name);
                    }
                    Change::Unsubscribe(name) => {
                        self.ask(&mut connection, "SUNSUBSCRIBE", Some(&name)).await?;
                    }
                }
            }
            if cut.load(Ordering::Acquire) {
                let error = StoreError::Unavailable("the connection was closed".to_owned());
                return Err(Failure { error, is_move: true });
            }
            tokio::select! {
                () = self.work.notified() => {}
                // A connection that was cut without a word would never fail by itself.
                _ = ping.tick() => self.ask(&mut connection, "PING", None).await?,
            }
        }
    }

    async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
        name: &str,
        channel: Option<&str>,
    ) -> Result<(), Failure> {
        let mut command = cmd(name);
        command.arg(channel);
        match timeout(self.wait, command.query_async::<Value>(connection)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Failure { is_move: is_move(&error), error: failed(&error) }),
            Err(_) => Err(StoreError::Unavailable(format!("no answer within {:?}", self.wait)))?,
        }
    }
}

fn is_move(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::Moved)
}

/// What is to be done on a connection.
enum Change {
    Subscribe(String),
    Unsubscribe(String),
    Closed,
}

/// When a connection is made again.
enum Again {
    AtOnce,
    Later,
    Never,
}

impl Shared {
    /// Lets the server do something about this channel.
    fn change(self: &Arc<Self>, channels: &mut Channels, node: Option<Node>, name: String) {
        let feed = channels.feeds.entry(node).or_insert_with_key(|node| {
            let feed = Feed::default();
            tokio::spawn(run(Arc::clone(self), node.clone(), Arc::clone(&feed.work)));
            feed
        });
        feed.changed.push(name);
        feed.work.notify_one();
    }

    fn next_change(&self, node: Option<&Node>) -> Option<Change> {
        let mut channels = self.channels.lock();
        let Channels { by_name, feeds, is_closed } = &mut *channels;
        if *is_closed {
            return Some(Change::Closed);
        }
        let changed = &mut feeds.get_mut(&node.cloned())?.changed;
        while let Some(name) = changed.pop() {
            match by_name.get(&name).filter(|channel| channel.node.as_ref() == node) {
                Some(channel) if channel.watches == 0 => {
                    let gone = by_name.remove(&name);
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

    fn note_subscribed(&self, node: Option<&Node>, name: &str) {
        let mut channels = self.channels.lock();
        let channel = channels.by_name.get_mut(name);
        if let Some(channel) = channel.filter(|channel| channel.node.as_ref() == node) {
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

    /// Whether a channel is subscribed to on this server, as far as this gateway knows.
    fn is_subscribed(&self, node: Option<&Node>, name: &str) -> bool {
        let channels = self.channels.lock();
        let channel = channels.by_name.get(name);
        channel.is_some_and(|channel| channel.is_subscribed && channel.node.as_ref() == node)
    }

    /// Lets those know who wait, and subscribes to the channels again: here, or where they are now.
    fn begin_again(self: &Arc<Self>, node: Option<&Node>, failure: &Failure) -> Again {
        let mut channels = self.channels.lock();
        channels.by_name.retain(|_, channel| channel.watches > 0);
        let (mut stay, mut moved) = (Vec::new(), Vec::new());
        for (name, channel) in &mut channels.by_name {
            if channel.node.as_ref() != node {
                continue;
            }
            channel.is_subscribed = false;
            if !failure.is_move {
                for waiting in channel.waiting.drain(..) {
                    let _ = waiting.send(Err(failure.error.clone()));
                }
            }
            let owner = self.servers.known_owner(name, node);
            if owner.as_ref() == node {
                stay.push(name.clone());
            } else {
                channel.node.clone_from(&owner);
                moved.push((owner, name.clone()));
            }
        }
        let again = match (stay.is_empty() || channels.is_closed, moved.is_empty()) {
            (true, _) => Again::Never,
            (false, false) => Again::AtOnce,
            (false, true) => Again::Later,
        };
        let its = node.cloned();
        if matches!(again, Again::Never) {
            channels.feeds.remove(&its);
        } else if let Some(feed) = channels.feeds.get_mut(&its) {
            feed.changed = stay;
        }
        if !channels.is_closed {
            for (owner, name) in moved {
                self.change(&mut channels, owner, name);
            }
        }
        again
    }
}
