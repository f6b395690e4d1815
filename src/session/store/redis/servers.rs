//! The servers of a store: one, or those of a cluster, each of which has some of the keys.
//!
//! A cluster says by itself who has what (`CLUSTER SLOTS`), and corrects whoever asks the wrong server. A
//! request that fails because keys are on the move, or because their server is gone, is repeated for as long
//! as a request to one server may take.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::select_ok;
use parking_lot::Mutex;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value, cmd};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, sleep};
use tracing::{error, info};

use super::super::StoreError;
use super::super::recovery::Recovery;
use super::address::RedisAddress;
use super::link::{Failure, Link};
use super::node::Node;
use super::reply::plain;
use super::request::{Command, Commands, Request};
use super::scripts::Call;
use super::slots::{Slots, slot_of};
use crate::limits::session as limits;
use crate::telemetry::metrics;
use crate::telemetry::seldom::Seldom;

/// All servers of a store.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) address: Arc<RedisAddress>,
    pub(super) connect_timeout: Duration,
    /// How long a request may take, once there is a connection.
    wait: Duration,
    /// By server. If there is only one, it has no name.
    links: Mutex<HashMap<Option<Node>, Arc<Link>>>,
    /// Who has which keys of a cluster, as far as that is known.
    slots: Mutex<Arc<Slots>>,
    /// When that was last asked.
    asked_at: AsyncMutex<Option<Instant>>,
    /// Which failures are logged.
    failures: Mutex<Seldom>,
    /// Whether nothing was written since.
    is_failing: AtomicBool,
    pub(super) recovery: Recovery,
}

impl Servers {
    pub(super) fn new(address: RedisAddress, connect_timeout: Duration, wait: Duration) -> Self {
        Self {
            address: Arc::new(address),
            connect_timeout,
            wait,
            links: Mutex::default(),
            slots: Mutex::default(),
            asked_at: AsyncMutex::default(),
            failures: Mutex::default(),
            is_failing: AtomicBool::new(false),
            // A request takes half of what a turn waits.
            recovery: Recovery::new(2 * wait),
        }
    }

    /// Runs a script.
    pub(super) async fn call<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, StoreError> {
        let begun_at = Instant::now();
        let answer = self.routed(call.key(), Request::Call(call)).await;
        self.noted(begun_at, answer).and_then(plain)
    }

    pub(super) async fn command<T: FromRedisValue>(
        &self,
        command: &Command,
    ) -> Result<T, StoreError> {
        let begun_at = Instant::now();
        let answer = self.routed(&command.key, Request::Command(command)).await;
        self.noted(begun_at, answer).and_then(plain)
    }

    /// Sends commands: at once to one server, and in a cluster at once for each slot.
    pub(super) async fn commands(&self, commands: &Commands) -> Result<(), StoreError> {
        let is_cluster = self.address.cluster().is_some();
        for part in commands.by(|key| is_cluster.then(|| slot_of(key))) {
            let begun_at = Instant::now();
            let answer = self.routed(&part[0].key, Request::Commands(&part)).await;
            self.noted(begun_at, answer)?;
        }
        Ok(())
    }

    /// Asks this very server.
    pub(super) async fn at<T: FromRedisValue>(
        &self,
        node: Option<&Node>,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        let begun_at = Instant::now();
        let answer = self.link(node).answer(Request::Plain(command), false).await;
        self.noted(begun_at, answer.map_err(StoreError::from)).and_then(plain)
    }

    /// The same for something that the server may refuse.
    pub(super) async fn quietly_at<T: FromRedisValue>(
        &self,
        node: Option<&Node>,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        let answer = self.link(node).answer(Request::Plain(command), false).await;
        answer.map_err(StoreError::from).and_then(plain)
    }

    /// Whether a server that is needed has just started and is loading its data.
    pub(super) async fn is_loading(&self) -> bool {
        let nodes = match self.primaries().await {
            Ok(nodes) => nodes,
            // While it is loading, a server of a cluster does not say who has which keys.
            Err(_) => self.address.cluster().into_iter().flatten().cloned().map(Some).collect(),
        };
        let (ping, loading) = (cmd("PING"), ErrorKind::Server(ServerErrorKind::BusyLoading));
        for node in nodes {
            let answer = self.link(node.as_ref()).answer(Request::Plain(&ping), false).await;
            if matches!(answer, Err(Failure::Error(error)) if error.kind() == loading) {
                return true;
            }
        }
        false
    }

    /// Whether all servers of a cluster that have keys answer: then the store is back, if it was away. Of a single server,
    /// a write says that.
    pub(super) async fn check_cluster(&self) -> Result<(), StoreError> {
        if self.address.cluster().is_none() {
            return Ok(());
        }
        // Others may have taken keys over since, from a server that will not answer any more.
        self.ask_slots(None).await?;
        for node in self.primaries().await? {
            self.at::<Value>(node.as_ref(), &cmd("PING")).await?;
        }
        self.recovery.note_write();
        Ok(())
    }

    /// The servers that have keys. If there is only one, it has no name.
    pub(super) async fn primaries(&self) -> Result<Vec<Option<Node>>, StoreError> {
        if self.address.cluster().is_none() {
            return Ok(vec![None]);
        }
        let slots = self.slots().await?;
        Ok(slots.primaries().into_iter().cloned().map(Some).collect())
    }

    /// Who has this key.
    pub(super) async fn owner(&self, key: &str) -> Result<Option<Node>, StoreError> {
        if self.address.cluster().is_none() {
            return Ok(None);
        }
        let slots = self.slots().await?;
        let uncovered = || StoreError::Unavailable(UNCOVERED.to_owned());
        slots.owner(key).cloned().map(Some).ok_or_else(uncovered)
    }

    /// Who had this key when that was last asked, or else `before`.
    pub(super) fn known_owner(&self, key: &str, before: Option<&Node>) -> Option<Node> {
        self.slots.lock().owner(key).or(before).cloned()
    }

    /// Who has which keys of a cluster. Asks if that is not known yet.
    pub(super) async fn slots(&self) -> Result<Arc<Slots>, StoreError> {
        let known = Arc::clone(&self.slots.lock());
        if known.covered() > 0 {
            return Ok(known);
        }
        self.ask_slots(None).await?;
        Ok(Arc::clone(&self.slots.lock()))
    }

    /// Asks who has which keys, `first` of all the server that should know. All who find out at the same time
    /// that they do not know ask once.
    pub(super) async fn ask_slots(&self, first: Option<&Node>) -> Result<(), StoreError> {
        let Some(named) = self.address.cluster() else { return Ok(()) };
        let mut asked_at = self.asked_at.lock().await;
        if asked_at.is_some_and(|at| at.elapsed() < limits::STORE_AGAIN_INTERVAL)
            && self.slots.lock().covered() > 0
        {
            return Ok(());
        }
        let mut told = match first {
            Some(node) => self.told_by(node).await.ok(),
            None => None,
        };
        if told.is_none() {
            let known = Arc::clone(&self.slots.lock());
            let mut nodes = known.primaries();
            nodes.extend(named);
            let asked = nodes.into_iter().map(|node| Box::pin(self.told_by(node)));
            told = Some(select_ok(asked).await?.0);
        }
        let slots = told.unwrap_or_default();
        let is_known = |node: &Option<Node>| {
            node.as_ref()
                .is_some_and(|node| slots.primaries().contains(node) || named.contains(node))
        };
        self.links.lock().retain(|node, _| is_known(node));
        *self.slots.lock() = Arc::new(slots);
        *asked_at = Some(Instant::now());
        Ok(())
    }

    async fn told_by(&self, node: &Node) -> Result<Slots, StoreError> {
        let mut command = cmd("CLUSTER");
        command.arg("SLOTS");
        let slots = Slots::read(self.quietly_at(Some(node), &command).await?, node)?;
        if slots.covered() == 0 {
            return Err(StoreError::Unavailable(UNCOVERED.to_owned()));
        }
        Ok(slots)
    }

    fn link(&self, node: Option<&Node>) -> Arc<Link> {
        let mut links = self.links.lock();
        let link = links.entry(node.cloned()).or_insert_with(|| {
            let address = Arc::clone(&self.address);
            Arc::new(Link::new(address, node.cloned(), self.connect_timeout, self.wait))
        });
        Arc::clone(link)
    }

    /// Asks the server that has this key.
    async fn routed(&self, key: &str, request: Request<'_>) -> Result<Value, StoreError> {
        if self.address.cluster().is_none() {
            return Ok(self.link(None).answer(request, false).await?);
        }
        let until = Instant::now() + self.wait;
        let (mut sent_on, mut times) = (None, 0);
        loop {
            let (node, asks) = match sent_on.take() {
                Some(to) => to,
                None => (self.owner(key).await?, false),
            };
            let failure = match self.link(node.as_ref()).answer(request, asks).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if matches!(failure, Failure::Unreachable(_) | Failure::Silent(_)) {
                self.recovery.note_failure();
            }
            let Some(next) = next(&failure, node.as_ref()) else { return Err(failure.into()) };
            let pause = match next {
                Next::Ask(to) => {
                    sent_on = Some((Some(to), true));
                    Duration::ZERO
                }
                Next::Moved(to) => {
                    // If this fails, the next one who is sent on tries.
                    let _ = self.ask_slots(Some(&to)).await;
                    sent_on = Some((Some(to), false));
                    Duration::ZERO
                }
                Next::Again => limits::STORE_AGAIN_INTERVAL,
                Next::Elsewhere => {
                    let _ = self.ask_slots(None).await;
                    limits::STORE_RETRY_INTERVAL
                }
            };
            times += 1;
            // Servers that send each other's clients back and forth need time to agree.
            let pause = if times % limits::STORE_SENT_ON_MAX == 0 {
                pause.max(limits::STORE_AGAIN_INTERVAL)
            } else {
                pause
            };
            if Instant::now() + pause >= until {
                return Err(failure.into());
            }
            sleep(pause).await;
        }
    }

    /// Counts and logs what has become of a request.
    fn noted(
        &self,
        begun_at: Instant,
        answer: Result<Value, StoreError>,
    ) -> Result<Value, StoreError> {
        match &answer {
            Ok(_) | Err(StoreError::Damaged(_)) => {
                let elapsed = begun_at.elapsed();
                if elapsed > self.wait / 2 {
                    self.recovery.note_delay();
                }
                metrics::store_request(elapsed);
            }
            Err(error) => self.note_failure(error),
        }
        answer
    }

    /// Notes that something was written: a server that is full can still be read.
    pub(super) fn note_written(&self) {
        // In a cluster, it says nothing of the other servers.
        if self.address.cluster().is_none() {
            self.recovery.note_write();
        }
        if self.is_failing.swap(false, Ordering::Relaxed) {
            info!(store = %self.address, "the session store can be used again");
        }
    }

    /// Logs why the store cannot be used, but not for each of the turns that suffer from it.
    fn note_failure(&self, failure: &StoreError) {
        metrics::store_request_failed();
        self.recovery.note_failure();
        if !self.failures.lock().is_due(limits::STORE_LOG_INTERVAL) {
            return;
        }
        self.is_failing.store(true, Ordering::Relaxed);
        let cause = match failure {
            StoreError::Unavailable(cause) => cause.clone(),
            other => other.to_string(),
        };
        error!(store = %self.address, cause, "the session store cannot be used");
    }
}

const UNCOVERED: &str = "its cluster has no server for some of the keys";

/// What helps after a failure in a cluster.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The keys are being moved to this server, which has these already.
    Ask(Node),
    /// The keys are there now.
    Moved(Node),
    /// Some keys are still here, others there.
    Again,
    /// Another server may have taken them over.
    Elsewhere,
}

fn next(failure: &Failure, asked: Option<&Node>) -> Option<Next> {
    let error = match failure {
        Failure::Unreachable(_) | Failure::Silent(_) => return Some(Next::Elsewhere),
        Failure::Error(error) if error.is_connection_dropped() => return Some(Next::Elsewhere),
        Failure::Error(error) => error,
    };
    let ErrorKind::Server(kind) = error.kind() else { return None };
    match kind {
        ServerErrorKind::Ask => sent_to(error, asked).map(Next::Ask),
        ServerErrorKind::Moved => sent_to(error, asked).map(Next::Moved),
        ServerErrorKind::TryAgain => Some(Next::Again),
        ServerErrorKind::ClusterDown
        | ServerErrorKind::MasterDown
        | ServerErrorKind::ReadOnly
        | ServerErrorKind::BusyLoading => Some(Next::Elsewhere),
        _ => None,
    }
}

/// Where an error sends its client: `slot host:port`.
fn sent_to(error: &RedisError, asked: Option<&Node>) -> Option<Node> {
    let errors = error.clone().into_server_errors()?;
    let place = errors.first()?.1.details()?.split(' ').nth(1)?;
    // Without a host, it is the one that was asked.
    match place.strip_prefix(':') {
        Some(port) => Some(Node { host: asked?.host.clone(), port: port.parse().ok()? }),
        None => Node::read(place, 0),
    }
}
