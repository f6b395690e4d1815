//! A configured upstream: what speaks there, and how a round is opened on it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::cool_down::CoolDown;
use super::local::LocalModel;
use super::server::{OptionsError, Server, ServerOptions};
use super::{History, Round, RoundFailure, RoundRequest};
use crate::telemetry::metrics;

/// How an upstream is reached and spoken to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, by which clients ask for it.
    pub name: String,
    /// How calls and results go back to it.
    pub history: History,
    /// What speaks there.
    pub kind: Kind,
}

/// What speaks at an upstream.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A server, of whatever dialect.
    Server(ServerOptions),
    /// A model inside this process.
    Local(Arc<dyn LocalModel>),
}

/// An upstream, ready to be asked.
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
    /// An upstream as configured. Nothing is sent to it yet.
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

    /// Its name, by which clients ask for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks for a round. Dropping the future, or the round, ends the generation.
    ///
    /// # Errors
    /// Nothing of an answer has arrived then; see [`RoundFailure`].
    pub async fn open(&self, request: &RoundRequest) -> Result<Round, RoundFailure> {
        match &self.speaker {
            Speaker::Server(server) => server.open(&request.render(self.history)).await,
            Speaker::Local(model) => Ok(Round::local(model.answer(&request.render(self.history)))),
        }
    }

    /// Whether it could not be reached a short while ago, so that others are to be asked
    /// first where there are others.
    pub(super) fn is_cooling_down(&self) -> bool {
        self.cool_down.lock().is_on(Instant::now())
    }

    /// It is about to be asked: where its time is over, by one turn, and the others wait
    /// for what comes of that.
    pub(super) fn try_again(&self) {
        self.cool_down.lock().try_again(Instant::now());
    }

    /// Remembers what came of reaching it, tried at `asked`. Only where there are others
    /// is it of use.
    pub(super) fn remember<T>(&self, outcome: &Result<T, RoundFailure>, asked: Instant) {
        let upstream = &*self.name;
        match outcome {
            Ok(_) => {
                if self.cool_down.lock().end() {
                    info!(upstream, "the upstream can be reached again");
                }
            }
            Err(failure) if failure.is_absence() => {
                let wait = self.cool_down.lock().fail(asked, Instant::now());
                if let Some(wait) = wait {
                    let (reason, seconds) = (&*failure.message, wait.as_secs());
                    warn!(upstream, reason, seconds, "the upstream cools down: others go first");
                    metrics::upstream_cools_down(upstream);
                }
            }
            Err(_) => {}
        }
    }

    /// Whether it can be reached now.
    ///
    /// # Errors
    /// Why it cannot.
    pub async fn check(&self) -> Result<(), RoundFailure> {
        match &self.speaker {
            Speaker::Server(server) => server.check().await,
            Speaker::Local(_) => Ok(()),
        }
    }
}
