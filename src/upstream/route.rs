//! The upstreams of a turn, in the order in which they are asked.
//!
//! The next upstream is asked only while no answer has begun. Once text, reasoning or a call has
//! arrived, the round stays with the model that sent it; headers and keep-alives do not count as an
//! answer. The conversation is rendered again for each upstream. An upstream that failed to answer
//! is asked last for a while, except in turns that ask for it by name.

use std::pin::pin;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::{Round, RoundFailure, RoundRequest, Upstream};
use crate::limits::upstream as limits;

/// The upstreams of a turn, in the order in which they are asked. Never empty.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    upstreams: Vec<Arc<Upstream>>,
    /// Whether the client asked for the first one by name.
    is_named: bool,
}

/// A round and the upstream that answers it.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The answer, arriving.
    pub(crate) round: Round,
    /// Who answers.
    pub(crate) upstream: Arc<Upstream>,
    /// Set if an upstream other than the first answers.
    pub(crate) fallback: Option<Fallback>,
}

/// The upstream that answers instead of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fallback {
    /// Its index in the route.
    pub(crate) place: usize,
    /// Its name.
    pub(crate) name: String,
    /// Why the first one does not answer.
    pub(crate) why: PassedOver,
}

/// Why an upstream was passed over in favour of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedOver {
    /// No connection could be made.
    Unreachable,
    /// It was asked but did not answer: it refused, timed out or broke off.
    Silent,
    /// It was not asked, because it is cooling down.
    CoolingDown,
}

impl PassedOver {
    /// The wording shown to clients, to follow the upstream's name.
    #[must_use]
    pub(crate) const fn wording(self) -> &'static str {
        match self {
            Self::Unreachable => "cannot be reached",
            Self::Silent => "did not answer",
            Self::CoolingDown => "failed recently",
        }
    }
}

impl Route {
    /// Creates a route to `first` and then to the others in `all`, in their order. `is_named`:
    /// the turn asks for `first` by name, so it is asked first even during a cool-down. A model
    /// inside this process does not stand in for a server: users would take its words for the server's.
    #[must_use]
    pub(crate) fn new(first: &Arc<Upstream>, all: &[Arc<Upstream>], is_named: bool) -> Self {
        let may_follow = |upstream: &&Arc<Upstream>| {
            upstream.name() != first.name() && (first.is_local() || !upstream.is_local())
        };
        let others = all.iter().filter(may_follow);
        let upstreams = std::iter::once(first).chain(others).map(Arc::clone).collect();
        Self { upstreams, is_named }
    }

    /// Opens a round, asking one upstream after another if necessary. Dropping the future or
    /// the round ends the generation.
    ///
    /// # Errors
    /// If the first upstream that is asked refuses the request itself, since others would too;
    /// or if no upstream answers: then the first failure, with the reasons of all.
    pub(crate) async fn open(&self, request: &RoundRequest) -> Result<Opened, RoundFailure> {
        if let [only] = &self.upstreams[..] {
            let upstream = Arc::clone(only);
            return only.open(request).await.map(|round| Opened {
                round,
                upstream,
                fallback: None,
            });
        }
        let mut failures: Vec<(&str, RoundFailure)> = Vec::new();
        let mut why = PassedOver::CoolingDown;
        let first = request.asked_first.unwrap_or_default();
        for place in self.order(request.asked_first) {
            let upstream = &self.upstreams[place];
            upstream.begin_attempt();
            let asked = Instant::now();
            let outcome = upstream.open(request).await;
            upstream.record_outcome(&outcome, asked);
            match outcome {
                Ok(round) => {
                    let name = upstream.name().to_owned();
                    let fallback = (place != first).then_some(Fallback { place, name, why });
                    return Ok(Opened { round, upstream: Arc::clone(upstream), fallback });
                }
                Err(failure) if failures.is_empty() && failure.is_refusal => return Err(failure),
                Err(failure) => {
                    debug!(
                        upstream = upstream.name(),
                        reason = %failure.message,
                        "upstream did not answer"
                    );
                    if place == first {
                        why = passed_over(&failure);
                    }
                    failures.push((upstream.name(), failure));
                }
            }
        }
        Err(all_failed(failures))
    }

    /// The upstream to ask first, unless it is cooling down.
    pub(crate) fn first(&self, asked_first: Option<usize>) -> &Upstream {
        &self.upstreams[asked_first.unwrap_or_default()]
    }

    /// Whether any of them takes images, as far as is known. If not, none need to be loaded.
    pub(crate) fn may_take_images(&self) -> bool {
        self.upstreams.iter().any(|upstream| upstream.may_take_images())
    }

    /// Checks whether any of them can be reached now.
    ///
    /// # Errors
    /// The failure of the first one asked, if none can be reached.
    pub(crate) async fn check(&self) -> Result<(), RoundFailure> {
        if let [only] = &self.upstreams[..] {
            return only.check().await;
        }
        let mut rest = self.order(None).into_iter().enumerate();
        let check = |(number, place)| async move { (number, self.check_one(place).await) };
        // The others are asked once the first has failed, or takes long: servers that are away without
        // a word must not hold up one that is there.
        let mut asked: FuturesUnordered<_> = rest.by_ref().take(1).map(check).collect();
        let mut head_start = pin!(sleep(limits::CHECK_HEAD_START));
        let mut failures = Vec::new();
        loop {
            tokio::select! {
                biased;
                outcome = asked.next() => match outcome {
                    Some((_, Ok(()))) => return Ok(()),
                    Some((number, Err(failure))) => failures.push((number, failure)),
                    None => break,
                },
                () = &mut head_start, if !head_start.is_elapsed() => {}
            }
            asked.extend(rest.by_ref().map(check));
        }
        let first = failures.into_iter().min_by_key(|(number, _)| *number);
        first.map_or(Ok(()), |(_, failure)| Err(failure))
    }

    /// Checks one of them, and notes whether it can be reached.
    async fn check_one(&self, place: usize) -> Result<(), RoundFailure> {
        let asked = Instant::now();
        let outcome = self.upstreams[place].check().await;
        self.upstreams[place].record_outcome(&outcome, asked);
        outcome
    }

    /// The indices in the order in which to ask now. An upstream asked for by name goes first
    /// even during a cool-down, until another one has answered in its place.
    fn order(&self, asked_first: Option<usize>) -> Vec<usize> {
        let first = asked_first.unwrap_or_default();
        let goes_last = |place: &usize| {
            let is_named_first = *place == 0 && asked_first.is_none() && self.is_named;
            !is_named_first && self.upstreams[*place].is_cooling_down()
        };
        let others = (0..self.upstreams.len()).filter(|place| *place != first);
        let mut order: Vec<_> = std::iter::once(first).chain(others).collect();
        order.sort_by_cached_key(goes_last);
        order
    }
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
