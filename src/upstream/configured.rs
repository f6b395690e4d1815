//! A configured upstream: what answers there, and how to open a round on it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::cool_down::CoolDown;
use super::local::LocalModel;
use super::server::{OptionsError, Server, ServerOptions};
use super::{History, Round, RoundFailure, RoundRequest};
use crate::telemetry::metrics;

/// How to reach an upstream and talk to it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name that clients select it by.
    pub(crate) name: String,
    /// How calls and results are sent back to it.
    pub(crate) history: History,
    /// What answers there.
    pub(crate) kind: Kind,
}

/// What answers at an upstream.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A model server, of any dialect.
    Server(ServerOptions),
    /// A model inside this process.
    Local(Arc<dyn LocalModel>),
}

/// An upstream, ready for requests.
#[derive(Debug)]
pub struct Upstream {
    name: String,
    history: History,
    speaker: Speaker,
    cool_down: Mutex<CoolDown>,
}

#[derive(Debug)]
enum Speaker {
    Server(Box<Server>),
    Local(Arc<dyn LocalModel>),
}

impl Upstream {
    /// Creates an upstream from its configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        let Options { name, history, kind } = options;
        let speaker = match kind {
            Kind::Server(options) => Speaker::Server(Box::new(Server::new(&name, options)?)),
            Kind::Local(model) => Speaker::Local(model),
        };
        Ok(Self { name, history, speaker, cool_down: Mutex::default() })
    }

    /// The name that clients select it by.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Opens a round. Dropping the future or the round ends the generation.
    ///
    /// # Errors
    /// If the round failed before any of the answer arrived; see [`RoundFailure`].
    pub(crate) async fn open(&self, request: &RoundRequest) -> Result<Round, RoundFailure> {
        match &self.speaker {
            Speaker::Server(server) => server.open(&request.render(self.history)).await,
            Speaker::Local(model) => Ok(Round::local(model.answer(&request.render(self.history)))),
        }
    }

    /// Whether it recently failed to answer, so that other upstreams are asked first.
    pub(super) fn is_cooling_down(&self) -> bool {
        self.cool_down.lock().is_on(Instant::now())
    }

    /// Announces an attempt. If the cool-down is over, it is extended, so that a single turn
    /// tries while the others wait for its result.
    pub(super) fn try_again(&self) {
        self.cool_down.lock().try_again(Instant::now());
    }

    /// Records the outcome of an attempt that began at `asked`. Only useful if there are other
    /// upstreams.
    pub(super) fn remember<T>(&self, outcome: &Result<T, RoundFailure>, asked: Instant) {
        let upstream = &*self.name;
        match outcome {
            Ok(_) => {
                if self.cool_down.lock().end() {
                    info!(upstream, "upstream reachable again");
                }
            }
            Err(failure) if failure.is_absence() => {
                let wait = self.cool_down.lock().fail(asked, Instant::now());
                if let Some(wait) = wait {
                    let (reason, seconds) = (&*failure.message, wait.as_secs());
                    warn!(
                        upstream,
                        reason, seconds, "upstream in cool-down; others are tried first"
                    );
                    metrics::upstream_cools_down(upstream);
                }
            }
            Err(_) => {}
        }
    }

    /// Checks whether it can be reached now.
    ///
    /// # Errors
    /// The reason if it cannot be reached.
    pub(crate) async fn check(&self) -> Result<(), RoundFailure> {
        match &self.speaker {
            Speaker::Server(server) => server.check().await,
            Speaker::Local(_) => Ok(()),
        }
    }
}
