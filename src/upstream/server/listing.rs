//! A server's list of its models: asking for it, and what its absence says.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::Server;
use super::failed::Failed;
use crate::http;
use crate::limits::upstream as limits;
use crate::upstream::RoundFailure;
use crate::upstream::models::{Flavour, Models};

/// What is known about a server.
#[derive(Debug)]
pub(super) enum Known {
    /// It has not been asked, or may have been replaced since.
    Nothing,
    /// It does not list its models.
    Unlisted,
    /// Its answer, and when it came.
    Models { models: Models, at: Instant },
}

/// The last failure to list models.
#[derive(Debug)]
pub(super) struct FailedListing {
    failed: Failed,
    at: Instant,
    /// How many times the model may have been replaced by then.
    replacements: u64,
}

impl Server {
    /// The server's description of itself. It is requested before the first round, and again
    /// only when there is a sign that the server has been replaced, or some time after it was too
    /// busy. A server that gives none is used as it is, unless the name of a model is needed.
    pub(super) async fn models(&self) -> Result<Models, Failed> {
        self.models_since(Instant::now()).await
    }

    /// The same for a round that began to ask at `since`. Rounds that begin together ask once and share the result.
    pub(super) async fn models_since(&self, since: Instant) -> Result<Models, Failed> {
        let needs_name = self.model.is_empty();
        let mut asked = self.asking.lock().await;
        match &*self.known.lock() {
            Known::Models { models, .. } if !self.model_of(models).is_empty() => {
                return Ok(models.clone());
            }
            Known::Unlisted if !needs_name => return Ok(Models::default()),
            _ => {}
        }
        let replacements = self.replacements();
        if let Some(FailedListing { failed, at, replacements: then }) = &*asked {
            let is_too_early = failed.is_silence() && at.elapsed() < limits::LIST_AGAIN;
            if *at >= since || (!needs_name && is_too_early && *then == replacements) {
                return self.without_list(failed.clone());
            }
        }
        let within = if needs_name {
            self.idle_timeout.min(limits::LIST_TIMEOUT)
        } else {
            limits::CHECK_TIMEOUT
        };
        let listed = self.fetch_models(within).await;
        let named = listed.and_then(|models| self.check_named(&models).map(|()| models));
        let failed = match named {
            Ok(models) => return Ok(models),
            Err(failed) => failed,
        };
        *asked = Some(FailedListing { failed: failed.clone(), at: Instant::now(), replacements });
        let listed = self.without_list(failed.clone());
        // A server that is still starting, or a proxy in front of one, is asked again, and so is one whose list broke
        // off, or that was too busy.
        let may_list = failed.wait.is_some() || failed.status.is_none_or(http::is_transient);
        if listed.is_ok() && !may_list {
            *self.known.lock() = Known::Unlisted;
        }
        listed
    }

    /// Checks that the model has a name, configured or listed.
    fn check_named(&self, models: &Models) -> Result<(), Failed> {
        if self.model_of(models).is_empty() {
            return Err(Failed::permanent(RoundFailure::no_model()));
        }
        Ok(())
    }

    /// Warns if it is not clear that the right model is asked.
    fn note_names(&self, models: &Models) {
        let upstream = &*self.name;
        if let ("", [first, _, ..]) = (&*self.model, &*models.names) {
            let count = models.names.len();
            warn!(
                upstream,
                count,
                model = first,
                "the server has several models, and none is set: its first is asked"
            );
        }
        if let Some(listed) = self.names_instead(models) {
            warn!(upstream, model = self.model, listed, "the server does not list this model");
        }
    }

    /// The names that a server lists in place of the configured one. vLLM answers to no others, unless a plugin loads
    /// adapters.
    pub(super) fn names_instead(&self, Models { flavour, names, .. }: &Models) -> Option<String> {
        let is_listed = self.model.is_empty() || names.contains(&self.model);
        let shown = &names[..names.len().min(limits::NAMES_SHOWN_MAX)];
        (!is_listed && *flavour == Flavour::Vllm).then(|| shown.join(", "))
    }

    /// What is known of a server that has not listed its models.
    fn without_list(&self, failed: Failed) -> Result<Models, Failed> {
        if self.model.is_empty() && failed.is_silence() {
            let failure = RoundFailure { message: late_list(&failed), ..failed.failure.clone() };
            return Err(Failed { failure, ..failed });
        }
        if self.model.is_empty() || !failed.was_reached {
            return Err(failed);
        }
        debug!(reason = %failed.failure.message, "the server does not list its models");
        Ok(Models::default())
    }

    /// Checks whether the server can be reached now. If it can, the model's contract is known from
    /// then on.
    pub(in crate::upstream) async fn check(&self) -> Result<(), RoundFailure> {
        self.check_reachable().await?;
        self.contract().await.map(|_| ()).map_err(|failed| failed.failure)
    }

    async fn check_reachable(&self) -> Result<(), RoundFailure> {
        if let Known::Models { models, at } = &*self.known.lock()
            && at.elapsed() < limits::CHECK_AGE
        {
            return self.check_named(models).map_err(|failed| failed.failure);
        }
        let listed = match self.fetch_models(limits::CHECK_TIMEOUT).await {
            Ok(models) => self.check_named(&models),
            Err(failed) if failed.has_no_list() && !self.model.is_empty() => {
                // It answers, and is used without a list. What it has listed before still holds.
                let mut known = self.known.lock();
                if matches!(*known, Known::Nothing) {
                    *known = Known::Unlisted;
                    warn!(reason = %failed.failure.message, "the model server lists no models");
                }
                Ok(())
            }
            Err(failed) => Err(failed),
        };
        listed.map_err(|failed| failed.failure)
    }

    /// Requests the list of models, which also identifies the server.
    async fn fetch_models(&self, within: Duration) -> Result<Models, Failed> {
        let path = format!("{}/models", self.path);
        let list = self.look_up_within(within, Method::GET, &path, Bytes::new()).await?;
        let models = Models::read(&list, &self.model).ok_or_else(Failed::not_a_list)?;
        let before = self.listed.lock().replace(models.clone());
        if before.as_ref().is_some_and(|before| models.may_replace(before)) {
            self.forget_model();
        }
        if before.is_none_or(|before| before.names != models.names) {
            self.note_names(&models);
        }
        *self.known.lock() = Known::Models { models: models.clone(), at: Instant::now() };
        Ok(models)
    }
}

/// What to do about a server that does not list its models in time.
fn late_list(Failed { failure, .. }: &Failed) -> String {
    format!("{} to GET /models; set this upstream's model, and no list is needed", failure.message)
}
