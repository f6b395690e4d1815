//! The task that owns a server's connection.
//!
//! ```text
//!               ┌─ no ──> failed ─┐
//!   starting ── connected?        ├── pause: none, 1 s, 2 s .. 60 s, or, over HTTP,
//!               │                 │   until a call waits for it ──> connected? ..
//!               └─ yes ─> ready ──┘
//!                          │ ^
//!             its list     │ │ its connection ends: reconnecting, its tools stay on offer, and
//!             changes ─────┘ │ calls wait for a while
//! ```

use std::collections::HashMap;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

use super::auth::{Authorized, Authorizer};
use super::connection::Restarts;
use super::connection::{Connection, Era, connect};
use super::link::OwnConnections;
use super::link::{Current, Link};
use super::list::{self, Listing, NotListed};
use super::options::{Connections, McpOptions, Protocol, Reach};
use super::tool::entries;
use crate::limits::mcp as limits;
use crate::telemetry::metrics;
use crate::tools::process::missing_directory;
use crate::tools::source::{Offering, SourceReport, SourceState};

/// An MCP server as a source of tools.
#[derive(Debug)]
pub struct McpServer {
    options: Arc<McpOptions>,
    auth: Option<Arc<Authorized>>,
    sandbox: Option<Vec<&'static str>>,
}

impl McpServer {
    /// A server that is not connected.
    #[must_use]
    pub fn new(options: McpOptions) -> Self {
        let auth = match &options.reach {
            Reach::Http(reach) => reach.auth.clone().map(|auth| {
                let issuer = Authorizer::new(auth, reach.url.clone(), reach.client.clone());
                Arc::new(Authorized::new(issuer))
            }),
            Reach::Program(_) | Reach::Missing(_) => None,
        };
        Self { options: Arc::new(options), auth, sandbox: None }
    }

    /// The same, whose process is restricted by these layers.
    #[must_use]
    pub fn restricted_by(self, layers: Vec<&'static str>) -> Self {
        Self { sandbox: Some(layers), ..self }
    }

    /// What is known of it before it is connected.
    #[must_use]
    pub fn starting(&self) -> SourceReport {
        match &self.options.reach {
            // No attempt is needed to know that.
            Reach::Missing(reason) => {
                let error = Some(reason.clone());
                SourceReport { error, ..self.report(SourceState::Failed) }
            }
            Reach::Program(program) => {
                let error = missing_directory(program.directory.as_deref());
                SourceReport { error, ..self.report(SourceState::Starting) }
            }
            Reach::Http(_) => self.report(SourceState::Starting),
        }
    }

    fn report(&self, state: SourceState) -> SourceReport {
        let source = self.options.rules.source.clone();
        SourceReport {
            is_required: self.options.is_required,
            is_lost: matches!(self.options.reach, Reach::Missing(_)),
            prefix: self.options.rules.prefix.clone(),
            sandbox: self.sandbox.clone(),
            program: match &self.options.reach {
                Reach::Program(program) => Some(program.program.clone()),
                _ => None,
            },
            ..SourceReport::new(source, state)
        }
    }

    /// Connects to it, and keeps it connected as long as anyone follows what it offers. **Has to be
    /// called inside a runtime.**
    #[must_use]
    pub fn follow(self) -> watch::Receiver<Offering> {
        let first = Offering { report: self.starting(), tools: Vec::new() };
        let (offers, receiver) = watch::channel(first);
        let (shared, _) = watch::channel(Current::Connecting(None));
        let has_own = self.options.connections == Connections::PerSession;
        let own = || OwnConnections::new(Arc::clone(&self.options), self.auth.clone());
        let own = has_own.then(|| Arc::new(own()));
        let owner = Owner {
            server: self,
            offers,
            shared,
            own,
            wanted: Arc::default(),
            restarts: Restarts::default(),
            era: None,
            names: HashMap::new(),
        };
        tokio::spawn(owner.run());
        receiver
    }

    /// The hash of its list of tools, and how many there are, for `pin`.
    ///
    /// # Errors
    /// Why they cannot be found out.
    pub async fn pin(&self) -> Result<(String, usize), String> {
        let within = self.options.connect_timeout;
        let connected = connect(&self.options, self.auth.as_ref(), None, within).await;
        let connection = connected.map_err(|error| error.message)?;
        let listing = list::list(&connection).await?;
        let count = listing.tools.len() + listing.left_out.len();
        Ok((listing.pin, count))
    }
}

impl McpServer {
    /// Waits for its program to end, once nobody uses the server any more, as
    /// [`Sources::stop`](crate::tools::Sources::stop) does.
    pub async fn ended(&self) {
        if let Reach::Program(program) = &self.options.reach
            && let Some(launcher) = &program.launcher
        {
            launcher.all_ended().await;
        }
    }
}

/// The owner of a server's connection.
struct Owner {
    server: McpServer,
    offers: watch::Sender<Offering>,
    shared: watch::Sender<Current>,
    /// The connections of single sessions. They outlive lists and the owner's own connection.
    own: Option<Arc<OwnConnections>>,
    /// Notified when a call waits for the shared connection.
    wanted: Arc<Notify>,
    restarts: Restarts,
    /// The era that was found; it belongs to the server, not to one connection.
    era: Option<Era>,
    /// The tools of the last list, by name, with the digests of their definitions.
    names: HashMap<String, String>,
}

impl Owner {
    /// Ends as soon as nobody follows the server any more.
    async fn run(mut self) {
        let (offers, own) = (self.offers.clone(), self.own.clone());
        let close_idle = async {
            match own {
                Some(own) => own.close_idle().await,
                None => pending().await,
            }
        };
        let lives = async {
            loop {
                self.live().await;
                self.rest().await;
            }
        };
        tokio::select! {
            () = lives => {}
            never = close_idle => match never {},
            () = offers.closed() => {}
        }
        self.close();
    }

    /// Waits until the server may be connected again. One over HTTP may be back before that, and an attempt costs
    /// little: a call that waits for it causes one.
    async fn rest(&mut self) {
        let is_http = matches!(self.server.options.reach, Reach::Http(_));
        let mut until = Instant::now() + self.restarts.pause(Instant::now());
        loop {
            let wanted = Arc::clone(&self.wanted);
            let is_wanted = async {
                wanted.notified().await;
                sleep(limits::WANTED_PAUSE).await;
            };
            tokio::select! {
                () = sleep_until(until) => return,
                () = is_wanted, if is_http => {}
            }
            if self.live().await {
                until = Instant::now() + self.restarts.pause(Instant::now());
            }
        }
    }

    /// How long an attempt to connect may take. A server over HTTP that was there before has nothing to set up. While it
    /// is being replaced, its proxy may accept connections that nobody answers, and calls wait for the next attempt.
    fn patience(&self) -> Duration {
        let most = self.server.options.connect_timeout;
        match self.server.options.reach {
            Reach::Http(_) => self.restarts.patience().map_or(most, |patience| patience.min(most)),
            Reach::Program(_) | Reach::Missing(_) => most,
        }
    }

    /// Connects, and serves until the connection ends. Returns whether there was one.
    async fn live(&mut self) -> bool {
        let options = Arc::clone(&self.server.options);
        let within = self.patience();
        let connected = connect(&options, self.server.auth.as_ref(), self.era, within).await;
        let connection = match connected {
            Ok(connection) => Arc::new(connection),
            Err(error) => {
                // The server may have been replaced by one of the other era.
                if options.protocol == Protocol::Auto {
                    self.era = None;
                }
                self.fail(error.message);
                return false;
            }
        };
        self.era = Some(connection.era);
        if let Some(own) = &self.own {
            own.note_era(connection.era);
        }
        let mut changes = connection.traffic.changes();
        changes.mark_unchanged();
        match self.offer(&connection).await {
            Ok(()) => {}
            Err(NotListed::Failed(reason)) => {
                self.fail(connection.why_failed(reason).await);
                return false;
            }
            Err(error @ NotListed::NotPinned(_)) => {
                self.withdraw(&error);
                return false;
            }
        }
        let server = &*options.rules.source.name;
        if self.restarts.began(Instant::now()) {
            metrics::mcp_restarted(server);
        }
        let is_modern = connection.era == Era::Modern;
        let why = tokio::select! {
            why = connection.ended() => why,
            error = self.keep_current(&connection, changes) => {
                self.withdraw(&error);
                return true;
            }
            never = connection.follow_changes(), if is_modern => match never {},
        };
        self.lose(&why);
        true
    }

    /// Asks for the list again whenever it has changed. Ends if the list is no longer the pinned
    /// one, with the reason.
    async fn keep_current(
        &mut self,
        connection: &Arc<Connection>,
        mut changes: watch::Receiver<u64>,
    ) -> NotListed {
        let (mut pause, mut last) = (limits::CHANGE_PAUSE, Instant::now());
        let mut has_failed = false;
        let own = self.own.clone();
        let own_changed = async || match &own {
            Some(own) => own.changed().await,
            None => pending().await,
        };
        loop {
            tokio::select! {
                noted = changes.changed() => if noted.is_err() {
                    return pending().await;
                },
                () = own_changed() => {}
                // The last attempt to read the changed list failed: try again.
                () = ready(()), if has_failed => {}
            }
            // Changes come in bursts, and some servers never stop.
            let is_burst = last.elapsed() < limits::CHANGE_PAUSE_MAX;
            pause = if is_burst {
                limits::CHANGE_PAUSE_MAX.min(2 * pause)
            } else {
                limits::CHANGE_PAUSE
            };
            sleep(pause).await;
            changes.mark_unchanged();
            let offered = self.offer(connection).await;
            last = Instant::now();
            match offered {
                Ok(()) => has_failed = false,
                Err(error @ NotListed::NotPinned(_)) => return error,
                Err(NotListed::Failed(reason)) => {
                    let server = &*self.server.options.rules.source.name;
                    if !has_failed {
                        warn!(
                            server,
                            reason, "its tools stay as they were until it lists them again"
                        );
                    }
                    has_failed = true;
                }
            }
        }
    }

    /// Publishes what the server offers now.
    async fn offer(&mut self, connection: &Arc<Connection>) -> Result<(), NotListed> {
        let pin = self.server.options.pin.as_deref();
        let listing = list::checked(connection, pin).await?;
        let offering = self.offering(connection, listing).await;
        self.shared.send_replace(Current::Open(Arc::clone(connection)));
        self.note_changes(&offering);
        self.offers.send_replace(offering);
        Ok(())
    }

    async fn offering(&self, connection: &Arc<Connection>, listing: Listing) -> Offering {
        let mut report = self.server.report(SourceState::Ready);
        report.era = Some(connection.era.name());
        report.version = Some(connection.version.clone());
        // A list that was cut may have had more of them.
        let names = listing.cut.is_none().then(|| listing.names());
        report.left_out = listing.left_out;
        report.error = listing.cut;
        report.pin = Some(listing.pin);
        let link = Link {
            shared: self.shared.subscribe(),
            own: self.own.clone(),
            wanted: Arc::clone(&self.wanted),
        };
        let (options, connection) = (Arc::clone(&self.server.options), Arc::clone(connection));
        // Preparing schemas can take seconds, and comparing names takes a while.
        let prepared = spawn_blocking(move || {
            let unmatched = names.map(|names| options.rules.unmatched(&names)).unwrap_or_default();
            (unmatched, entries(listing.tools, &options, &link, &connection))
        });
        let (unmatched, (tools, left_out)) = prepared.await.unwrap_or_default();
        report.unmatched = unmatched;
        report.left_out.extend(left_out);
        Offering { report, tools }
    }

    /// Logs by name what has changed since the last list.
    fn note_changes(&mut self, offering: &Offering) {
        let now: HashMap<String, String> = offering
            .tools
            .iter()
            .map(|tool| (tool.spec().name.clone(), tool.spec().digest()))
            .collect();
        let before = std::mem::replace(&mut self.names, now);
        if before.is_empty() || before == self.names {
            return;
        }
        let server = &*self.server.options.rules.source.name;
        metrics::mcp_list_changed(server);
        for (name, digest) in &self.names {
            match before.get(name) {
                None => info!(server, tool = name, "a new tool"),
                Some(before) if before != digest => {
                    info!(server, tool = name, "a tool has changed");
                }
                Some(_) => {}
            }
        }
        for name in before.keys().filter(|name| !self.names.contains_key(*name)) {
            info!(server, tool = name, "a tool is gone");
        }
    }

    /// There is no connection, or no list. Tools that were there stay on offer for a while.
    fn fail(&self, error: String) {
        debug!(server = &*self.server.options.rules.source.name, error, "no connection");
        let state = self.offers.borrow().report.state;
        let was_there = matches!(state, SourceState::Ready | SourceState::Reconnecting);
        if !was_there || self.restarts.has_given_up() {
            self.withdraw(&NotListed::Failed(error));
            return;
        }
        let told = error.as_str().into();
        self.shared.send_replace(Current::Connecting(Some(told)));
        self.offers.send_modify(|offering| {
            offering.report.state = SourceState::Reconnecting;
            offering.report.error = Some(error);
        });
    }

    /// Closes all connections, which the tools of turns would keep open.
    fn close(&self) {
        self.shared.send_replace(Current::Connecting(None));
        if let Some(own) = &self.own {
            own.close();
        }
    }

    /// Offers nothing.
    fn withdraw(&self, error: &NotListed) {
        self.shared.send_replace(Current::Failed(error.fault()));
        let mut report = self.server.report(SourceState::Failed);
        report.error = Some(error.to_string());
        self.offers.send_replace(Offering { report, tools: Vec::new() });
    }

    /// The connection has ended.
    fn lose(&self, why: &str) {
        self.shared.send_replace(Current::Connecting(None));
        self.offers.send_modify(|offering| {
            offering.report.state = SourceState::Reconnecting;
            offering.report.error = Some(why.to_owned());
        });
    }
}
