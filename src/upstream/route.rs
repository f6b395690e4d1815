//! The upstreams of a turn, in the order in which they are asked.
//!
//! The next one is asked only where nobody has answered yet: once an answer has begun,
//! the model is somebody, and what it said stays said. The conversation is rendered for
//! each of them anew.

use std::sync::Arc;

use tracing::warn;

use super::{Round, RoundFailure, RoundRequest, Upstream};

/// The upstreams of a turn, in the order in which they are asked. Never empty.
#[derive(Debug, Clone)]
pub struct Route {
    upstreams: Vec<Arc<Upstream>>,
}

/// A round, and who answers it.
#[derive(Debug)]
pub struct Opened {
    /// The answer, arriving.
    pub round: Round,
    /// The upstream's place in the route; 0 is the one that was to answer.
    pub place: usize,
}

impl Route {
    /// A route to `first`, and on to the others of `all` in their order.
    #[must_use]
    pub fn new(first: &Arc<Upstream>, all: &[Arc<Upstream>]) -> Self {
        let others = all.iter().filter(|upstream| upstream.name() != first.name());
        Self { upstreams: std::iter::once(first).chain(others).map(Arc::clone).collect() }
    }

    /// Asks for a round, where need be of one after the other. Dropping the future, or
    /// the round, ends the generation.
    ///
    /// # Errors
    /// Where the first refuses the request itself, which others would not mend; or where
    /// nobody answers: as the first has failed, with everybody's reasons.
    pub async fn open(&self, request: &RoundRequest) -> Result<Opened, RoundFailure> {
        let mut failures: Vec<(&str, RoundFailure)> = Vec::new();
        for (place, upstream) in self.upstreams.iter().enumerate() {
            match upstream.open(request).await {
                Ok(round) => return Ok(Opened { round, place }),
                Err(failure) => {
                    let is_final = place == 0 && !failure.retryable;
                    if is_final || self.upstreams.len() == 1 {
                        return Err(failure);
                    }
                    warn!(upstream = upstream.name(), reason = %failure.message, "no answer");
                    failures.push((upstream.name(), failure));
                }
            }
        }
        Err(all_failed(failures))
    }

    /// From now on this one is asked first. Returns its name.
    pub fn prefer(&mut self, place: usize) -> &str {
        let preferred = self.upstreams.remove(place);
        self.upstreams.insert(0, preferred);
        self.upstreams[0].name()
    }
}

fn all_failed(failures: Vec<(&str, RoundFailure)>) -> RoundFailure {
    let reasons: Vec<_> =
        failures.iter().map(|(name, failure)| format!("{name}: {}", failure.message)).collect();
    let (_, first) = failures.into_iter().next().expect("a route is never empty");
    RoundFailure { message: reasons.join("; "), ..first }
}
