//! Opening a round: what is asked again, with less, if the server refuses it.

use std::sync::atomic::Ordering;

use tracing::{debug, warn};

use super::Server;
use super::failed::Failed;
use crate::limits::upstream as limits;
use crate::upstream::extra_sampling::ExtraSampling;
use crate::upstream::models::Flavour;
use crate::upstream::{History, Images, Message, Round, RoundFailure, RoundRequest, Way};

impl Server {
    /// Opens a round. If the model has to go on with a message, and the server does not take one that
    /// is not finished, the model is asked in words.
    pub(in crate::upstream) async fn open(
        &self,
        request: &RoundRequest,
        history: History,
    ) -> Result<Round, RoundFailure> {
        if request.prompt.goes_on() && self.prefills().await {
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
    async fn known_way(&self, history: History) -> Result<Way, Failed> {
        let mut attempt = 1;
        loop {
            match self.way(history).await {
                Err(failed) if failed.waits_to_retry(&mut attempt).await => {}
                known => return known,
            }
        }
    }

    /// Opens a round. If the request may have been refused for how tokens are to be chosen, it is
    /// made again without what not every server knows.
    async fn open_sampled(
        &self,
        request: &RoundRequest,
        history: History,
        prefills: bool,
    ) -> Result<Round, Failed> {
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
                    warn!("the model server does not take all sampling fields of the client");
                    self.refused_sampling.note(&sent, &extra);
                    return Ok(round);
                }
                Err(failed) => failed,
            };
        }
        Err(failed)
    }

    /// Opens a round. If the model's context cannot hold the conversation, less of it is told: how many bytes make a
    /// token is a guess, and so may be the size of the context.
    async fn open_fitting(
        &self,
        request: &RoundRequest,
        extra: &ExtraSampling,
        history: History,
        prefills: bool,
    ) -> Result<Round, Failed> {
        let tightness = self.tightness.load(Ordering::Relaxed);
        let mut way = Way { prefills, tightness, ..self.known_way(history).await? };
        for _ in 0..limits::SHORTER_ATTEMPTS_MAX {
            let failed = match self.open_with(request, extra, way).await {
                Err(failed) if failed.failure.is_overflow() => failed,
                opened => {
                    if opened.is_ok() && way.tightness > tightness {
                        self.note_tightness(way.tightness);
                    }
                    return opened;
                }
            };
            let Some(tighter) = tighter(request, way) else { return Err(failed) };
            debug!(reason = %failed.failure.message, tightness = tighter, "telling less of the conversation");
            way.tightness = tighter;
        }
        self.open_with(request, extra, way).await
    }

    /// Later conversations are told this tightly from the start.
    fn note_tightness(&self, tightness: u8) {
        self.tightness.fetch_max(tightness, Ordering::Relaxed);
        let percent = (0..tightness).fold(100.0, |percent, _| percent * 0.75);
        warn!(
            "the model's context cannot hold what model.context_budget_tokens allows; from now on, conversations \
             get {percent:.0} % of it. Lower it, or give the server a larger context"
        );
    }

    /// Opens a round with this extra sampling. If the request may have been refused for its images,
    /// it is made again without them.
    async fn open_with(
        &self,
        request: &RoundRequest,
        extra: &ExtraSampling,
        way: Way,
    ) -> Result<Round, Failed> {
        let render = |images: &Images| {
            let mut rendered = request.render(way, images);
            rendered.sampling.extra = extra.clone();
            rendered
        };
        let images = self.images.not_refused(&request.images);
        let rendered = render(&images);
        let shown = rendered.image_ids();
        let failed = match self.try_open(&rendered).await {
            Ok(round) if shown.is_empty() => return Ok(round),
            Ok(round) => return Ok(round.shows_images(&self.images)),
            Err(failed) => failed,
        };
        let Some(refusal) = failed.image_refusal.filter(|_| !shown.is_empty()) else {
            return Err(failed);
        };
        let reason = failed.failure.message;
        debug!(%reason, "asking again without images");
        let without = render(&Images::new());
        let round = self.try_open(&without).await?;
        let images = shown.len();
        if self.images.note_refused(shown, refusal) {
            warn!(%reason, "the model server takes no images; it is told their names only");
        } else {
            warn!(%reason, images, "the model server refused images; it is not sent them again");
        }
        Ok(round)
    }
}

/// How tightly to tell a conversation so that it has at most three quarters of the bytes that it has now; the tightest
/// way that is any shorter, if none is that short. `None` if nothing can be left out.
fn tighter(request: &RoundRequest, way: Way) -> Option<u8> {
    let bytes = |tightness| {
        let messages = request.prompt.messages(Way { tightness, ..way }, &Images::new());
        messages.iter().map(Message::text_bytes).sum::<usize>()
    };
    let before = bytes(way.tightness);
    let all = way.tightness + 1..=limits::TIGHTNESS_MAX;
    let mut shorter = all.map(|tightness| (tightness, bytes(tightness)));
    let enough = shorter.find(|(_, bytes)| *bytes <= before / 4 * 3);
    let tightest = || Some((limits::TIGHTNESS_MAX, bytes(limits::TIGHTNESS_MAX)));
    enough.or_else(tightest).filter(|(_, bytes)| *bytes < before).map(|(tightness, _)| tightness)
}
