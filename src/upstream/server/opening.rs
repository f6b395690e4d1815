//! Opening a round: what is asked again, with less, if the server refuses it.

use tracing::{debug, warn};

use super::Server;
use super::failed::Failed;
use super::listing::Known;
use crate::upstream::models::Flavour;
use crate::upstream::{History, Images, Round, RoundFailure, RoundRequest, Sampling, Way};

impl Server {
    /// Opens a round. If the model has to go on with a message, and the server does not take one that
    /// is not finished, the model is asked in words.
    pub(in crate::upstream) async fn open(
        &self,
        request: &RoundRequest,
        history: History,
    ) -> Result<Round, RoundFailure> {
        if request.prompt.goes_on() && Box::pin(self.prefills()).await {
            match self.open_sampled(request, history, true).await {
                Err(failed) if failed.rejection.is_some() => {
                    debug!(reason = %failed.failure.message, "asking in words to go on");
                }
                opened => return opened.map_err(|failed| failed.failure),
            }
        }
        let opened = self.open_sampled(request, history, false).await;
        opened.map_err(|failed| failed.failure)
    }

    /// Whether the server lets a model go on with a message that is not finished, as far as is known.
    async fn prefills(&self) -> bool {
        let flavour = self.models().await.map_or(Flavour::Other, |models| models.flavour);
        self.sends_prompts || (flavour.prefills() && self.dialect.path() == "/chat/completions")
    }

    /// Finds out how requests are written. A server that is still starting is asked more than once.
    pub(super) async fn known_way(&self, history: History) -> Result<Way, Failed> {
        let mut attempt = 1;
        loop {
            match self.listed_way(history).await {
                Err(failed) if failed.waits_to_retry(&mut attempt).await => {}
                known => return known,
            }
        }
    }

    /// How requests are written, by a server that has told the size of its model's context if it can.
    async fn listed_way(&self, history: History) -> Result<Way, Failed> {
        if matches!(*self.known.lock(), Known::Nothing) {
            self.models().await?;
        }
        self.way(history).await
    }

    /// Opens a round. If the request may have been refused for how tokens are to be chosen, it is
    /// made again without what not every server knows.
    async fn open_sampled(
        &self,
        request: &RoundRequest,
        history: History,
        prefills: bool,
    ) -> Result<Round, Failed> {
        let replacements = self.replacements();
        let sent = self.refused_sampling.taken_from(&request.sampling.extra);
        let mut extra = sent.clone();
        let mut failed = match self.open_fitting(request, &extra, history, prefills).await {
            Ok(round) => return Ok(round),
            Err(failed) => failed,
        };
        while let Some(refusal) = failed.rejection.as_deref().filter(|_| !extra.is_empty()) {
            extra = extra.without_blamed(refusal);
            debug!(reason = %failed.failure.message, "asking again with less extra sampling");
            failed = match self.open_fitting(request, &extra, history, prefills).await {
                Ok(round) => {
                    warn!(reason = %failed.failure.message, "the model server does not take all fields of the client");
                    if self.replacements() == replacements {
                        self.refused_sampling.note(&sent, &extra);
                    }
                    return Ok(round);
                }
                Err(failed) => failed,
            };
        }
        Err(failed)
    }

    /// Opens a round with this sampling. If the request may have been refused for its images,
    /// it is made again without them; if it was too long, only with `drops_images`.
    pub(super) async fn open_with(
        &self,
        request: &RoundRequest,
        sampling: &Sampling,
        way: Way,
        drops_images: bool,
    ) -> Result<Round, Failed> {
        let render = |images: &Images| request.render(way, sampling, images);
        let replacements = self.replacements();
        let images = self.images.not_refused(&request.images);
        let shown = if images.is_empty() { Vec::new() } else { render(&images).image_ids() };
        let failed = match self.try_open(|| render(&images)).await {
            Ok(round) => {
                if !shown.is_empty() && round.has_words() && self.replacements() == replacements {
                    self.images.note_supported();
                }
                return Ok(round);
            }
            Err(failed) => failed,
        };
        let may_help = !shown.is_empty() && (drops_images || !failed.failure.is_overflow());
        let Some(refusal) = failed.image_refusal.filter(|_| may_help) else {
            return Err(failed);
        };
        let reason = failed.failure.message;
        debug!(%reason, "asking again without images");
        // The refusal itself may have looked as if the model had been replaced.
        let replacements = self.replacements();
        let round = self.try_open(|| render(&Images::new())).await?;
        if self.replacements() != replacements {
            return Ok(round);
        }
        let images = shown.len();
        if self.images.note_refused(shown, refusal) {
            warn!(%reason, "the model server takes no images; it is told their names only");
        } else {
            warn!(%reason, images, "the model server refused images; it is not sent them again");
        }
        Ok(round)
    }
}
