//! A configured upstream: what answers there, and how to open a round on it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::cool_down::CoolDown;
use super::detect::Detected;
use super::identity::Identity;
use super::local::LocalModel;
use super::server::{OptionsError, Server, ServerOptions};
use super::{Constrain, History, Images, Round, RoundFailure, RoundRequest, Way};
use crate::call_format::ContractSetting;
use crate::telemetry::metrics;

/// How to reach an upstream and talk to it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name that clients select it by.
    pub(crate) name: String,
    /// How its model makes calls.
    pub(crate) contract: ContractSetting,
    /// How calls in its model's text, and their results, are sent back to it.
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
    contract: ContractSetting,
    history: History,
    backend: Backend,
    cool_down: Mutex<CoolDown>,
}

#[derive(Debug)]
enum Backend {
    Server(Box<Server>),
    Local(Arc<dyn LocalModel>),
}

impl Upstream {
    /// Creates an upstream from its configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        let Options { name, contract, history, kind } = options;
        let backend = match kind {
            Kind::Server(options) => {
                Backend::Server(Box::new(Server::new(&name, contract, options)?))
            }
            Kind::Local(model) => Backend::Local(model),
        };
        Ok(Self { name, contract, history, backend, cool_down: Mutex::default() })
    }

    /// The name that clients select it by.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its model is inside this process.
    pub(super) const fn is_local(&self) -> bool {
        matches!(self.backend, Backend::Local(_))
    }

    /// How traces and metrics name it.
    pub(crate) fn identity(&self) -> Identity {
        match &self.backend {
            Backend::Server(server) => server.telemetry_identity(),
            Backend::Local(_) => {
                Identity { provider: "tether", model: self.name.clone(), address: None }
            }
        }
    }

    /// Opens a round, and waits for its answer to begin. Dropping the future or the round ends the generation.
    ///
    /// # Errors
    /// If the round failed before the answer began; see [`RoundFailure`].
    pub(crate) async fn open(&self, request: &RoundRequest) -> Result<Round, RoundFailure> {
        match &self.backend {
            Backend::Server(server) => server.open(request, self.history).await,
            Backend::Local(model) => {
                let contract = self.contract.or_taught();
                let way = Way { prefills: true, ..Way::of(contract, self.history) };
                let request = request.render(way, &request.sampling, &Images::new());
                let round = Round::local(model.answer(&request), contract);
                let mut round = round.prefilled(request.is_prefilled);
                round.begin().await?;
                Ok(round)
            }
        }
    }

    /// How its model makes calls, as far as is known, and why.
    #[must_use]
    pub(crate) fn contract(&self) -> Option<Detected> {
        match (self.contract, &self.backend) {
            (ContractSetting::Is(contract), _) => {
                let reason = "the configuration says so".to_owned();
                Some(Detected { contract, reason, format: contract.row() })
            }
            (ContractSetting::Auto, Backend::Server(server)) => server.detected(),
            (ContractSetting::Auto, Backend::Local(_)) => Some(Detected {
                contract: self.contract.or_taught(),
                reason: "the embedded model writes any format".to_owned(),
                format: None,
            }),
        }
    }

    /// Whether it takes images, as far as is known. A model inside this process never does.
    pub(super) fn may_take_images(&self) -> bool {
        match &self.backend {
            Backend::Server(server) => server.may_take_images(),
            Backend::Local(_) => false,
        }
    }

    /// Whether it recently failed to answer, so that other upstreams are asked first.
    pub(super) fn is_cooling_down(&self) -> bool {
        self.cool_down.lock().is_on(Instant::now())
    }

    /// Announces an attempt. If the cool-down is over, it is extended, so that a single turn
    /// tries while the others wait for its result.
    pub(super) fn begin_attempt(&self) {
        self.cool_down.lock().begin_attempt(Instant::now());
    }

    /// Records the outcome of an attempt that began at `asked`. Only useful if there are other
    /// upstreams.
    pub(super) fn record_outcome<T>(&self, outcome: &Result<T, RoundFailure>, asked: Instant) {
        let upstream = &*self.name;
        match outcome {
            Ok(_) => {
                if self.cool_down.lock().record_success() {
                    info!(upstream, "upstream reachable again");
                }
            }
            Err(failure) if failure.is_unavailable() => {
                let wait = self.cool_down.lock().record_failure(asked, Instant::now());
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

    /// What it says about itself and how it behaves, a sentence each; nothing for a model inside
    /// this process.
    ///
    /// # Errors
    /// The reason if it cannot be reached.
    pub(crate) async fn probe(
        &self,
        constrain: Option<Constrain>,
    ) -> Result<Vec<String>, RoundFailure> {
        match &self.backend {
            Backend::Server(server) => server.probe(constrain, self.history).await,
            Backend::Local(_) => Ok(Vec::new()),
        }
    }

    /// Checks whether it can be reached now.
    ///
    /// # Errors
    /// The reason if it cannot be reached.
    pub(crate) async fn check(&self) -> Result<(), RoundFailure> {
        match &self.backend {
            Backend::Server(server) => server.check().await,
            Backend::Local(_) => Ok(()),
        }
    }
}
