//! The upstreams of a turn, in the order in which they are asked.
//!
//! The next one is asked only where nobody has answered yet: once an answer has begun
//! with words, reasoning or a call, the model is somebody, and what it said stays said. A
//! head and signs of life are no answer. The conversation is rendered for
//! each of them anew. Who could not be reached is asked last for a while, in all turns but
//! those that name it.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::debug;

use super::{Round, RoundFailure, RoundRequest, Upstream};

/// The upstreams of a turn, in the order in which they are asked. Never empty.
#[derive(Debug, Clone)]
pub struct Route {
    upstreams: Vec<Arc<Upstream>>,
    /// Whether the first one was asked for by name.
    is_named: bool,
}

/// A round, and who answers it.
#[derive(Debug)]
pub struct Opened {
    /// The answer, arriving.
    pub round: Round,
    /// Where another upstream answers than the one that was asked first.
    pub instead: Option<Instead>,
}

/// Who answers instead of the upstream that was asked first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instead {
    /// Its place in the route.
    pub place: usize,
    /// Its name.
    pub name: String,
    /// Why the one that was asked first does not.
    pub why: PassedOver,
}

/// Why an upstream does not answer a round, and another does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedOver {
    /// There is no connection to it.
    Unreachable,
    /// It was asked, and said nothing: it refused, fell silent or broke off.
    Silent,
    /// It was not asked: it cools down.
    HeldBack,
}

impl PassedOver {
    /// What is told of it, behind its name.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Unreachable => "cannot be reached",
            Self::Silent => "gave no answer",
            Self::HeldBack => "gave no answer a short while ago",
        }
    }
}

impl Route {
    /// A route to `first`, and on to the others of `all` in their order. `is_named`: the
    /// turn asks for `first` by name, and waits for it whatever is known of it.
    #[must_use]
    pub fn new(first: &Arc<Upstream>, all: &[Arc<Upstream>], is_named: bool) -> Self {
        let others = all.iter().filter(|upstream| upstream.name() != first.name());
        let upstreams = std::iter::once(first).chain(others).map(Arc::clone).collect();
        Self { upstreams, is_named }
    }

    /// Asks for a round, where need be of one after the other. Dropping the future, or
    /// the round, ends the generation.
    ///
    /// # Errors
    /// Where the first that is asked refuses the request itself, which others would not
    /// mend; or where nobody answers: as that one has failed, with everybody's reasons.
    pub async fn open(&self, request: &RoundRequest) -> Result<Opened, RoundFailure> {
        if let [only] = &self.upstreams[..] {
            return only.open(request).await.map(|round| Opened { round, instead: None });
        }
        let mut failures: Vec<(&str, RoundFailure)> = Vec::new();
        let mut why = PassedOver::HeldBack;
        let first = request.asked_first.unwrap_or_default();
        for place in self.order(request.asked_first) {
            let upstream = &self.upstreams[place];
            upstream.try_again();
            let asked = Instant::now();
            let outcome = begin(upstream, request).await;
            upstream.remember(&outcome, asked);
            match outcome {
                Ok(round) => {
                    let name = upstream.name().to_owned();
                    let instead = (place != first).then_some(Instead { place, name, why });
                    return Ok(Opened { round, instead });
                }
                Err(failure) if failures.is_empty() && !failure.retryable => return Err(failure),
                Err(failure) => {
                    debug!(upstream = upstream.name(), reason = %failure.message, "no answer");
                    if place == first {
                        why = passed_over(&failure);
                    }
                    failures.push((upstream.name(), failure));
                }
            }
        }
        Err(all_failed(failures))
    }

    /// Whether one of them can be reached now.
    ///
    /// # Errors
    /// Why the first that was asked cannot.
    pub async fn check(&self) -> Result<(), RoundFailure> {
        if let [only] = &self.upstreams[..] {
            return only.check().await;
        }
        let mut first = Ok(());
        for place in self.order(None) {
            let asked = Instant::now();
            let outcome = self.upstreams[place].check().await;
            self.upstreams[place].remember(&outcome, asked);
            match outcome {
                Ok(()) => return Ok(()),
                Err(failure) => first = first.and(Err(failure)),
            }
        }
        first
    }

    /// Their places in the order in which they are asked now. Who is named is asked first
    /// whatever is known of it, until another one has answered instead.
    fn order(&self, asked_first: Option<usize>) -> Vec<usize> {
        let first = asked_first.unwrap_or_default();
        let is_held_back = |place: &usize| {
            let is_wanted = *place == 0 && asked_first.is_none() && self.is_named;
            !is_wanted && self.upstreams[*place].is_cooling_down()
        };
        let others = (0..self.upstreams.len()).filter(|place| *place != first);
        let mut order: Vec<_> = std::iter::once(first).chain(others).collect();
        order.sort_by_cached_key(is_held_back);
        order
    }
}

/// Asks for a round, up to the beginning of its answer.
async fn begin(upstream: &Upstream, request: &RoundRequest) -> Result<Round, RoundFailure> {
    let mut round = upstream.open(request).await?;
    round.begin().await?;
    Ok(round)
}

const fn passed_over(failure: &RoundFailure) -> PassedOver {
    if failure.is_unreachable { PassedOver::Unreachable } else { PassedOver::Silent }
}

fn all_failed(failures: Vec<(&str, RoundFailure)>) -> RoundFailure {
    let reasons: Vec<_> =
        failures.iter().map(|(name, failure)| format!("{name}: {}", failure.message)).collect();
    let (_, first) = failures.into_iter().next().expect("a route is never empty");
    RoundFailure { message: reasons.join("; "), ..first }
}
