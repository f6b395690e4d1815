//! Conversations that do not fit into the model's context: the model is told less of them. The budget rests on two
//! guesses, the size of the context and the number of bytes in a token.
//!
//! ```text
//!   refused as too long ──> at most 3/4 of what can be left out ──> refused ──> .. ──> the least that can be told
//!                                         │
//!                                         └─ accepted: from now on, conversations get as much room as this one took
//! ```

use std::sync::atomic::Ordering;

use tracing::{debug, info, warn};

use super::Server;
use super::failed::Failed;
use crate::limits::upstream as limits;
use crate::upstream::extra_sampling::ExtraSampling;
use crate::upstream::{History, Images, Message, Round, RoundRequest, Way};

impl Server {
    /// Opens a round with this extra sampling, with as much of the conversation as the model's context can hold.
    pub(super) async fn open_fitting(
        &self,
        request: &RoundRequest,
        extra: &ExtraSampling,
        history: History,
        prefills: bool,
    ) -> Result<Round, Failed> {
        let replacements = self.replacements();
        let found = Box::pin(self.known_way(history)).await?;
        let of_context = self.tightness_of_context(request.prompt.room_tokens());
        self.show_tightness(of_context);
        let tightness = self.tightness.load(Ordering::Relaxed).max(of_context);
        let joins_system = self.refuses_system.load(Ordering::Relaxed);
        let mut way = Way { prefills, tightness, joins_system, ..found };
        let (mut attempt, mut drops_images) = (0, false);
        loop {
            let failed = match self.open_with(request, extra, way, drops_images).await {
                Err(failed) if failed.failure.is_overflow() => failed,
                Err(failed) if !way.joins_system && failed.failure.is_about_system_role() => {
                    debug!(reason = %failed.failure.message, "asking without a message of instructions");
                    way.joins_system = true;
                    continue;
                }
                Err(failed) => return Err(failed),
                Ok(round) => {
                    if attempt > 0 {
                        info!(attempt, "the model's context holds a part of the conversation only");
                    }
                    if self.replacements() == replacements {
                        if attempt > 0 {
                            self.note_tightness(proven(request, way));
                        }
                        if way.joins_system && !self.refuses_system.swap(true, Ordering::Relaxed) {
                            warn!(
                                "the model's chat template takes no instructions; they go before the user's first message"
                            );
                        }
                    }
                    return Ok(round);
                }
            };
            attempt += 1;
            let is_last_resort = attempt == limits::SHORTER_ATTEMPTS_MAX;
            let may_retry = attempt <= limits::SHORTER_ATTEMPTS_MAX;
            let tightness = may_retry.then(|| shorter(request, way, is_last_resort)).flatten();
            let Some(tightness) = tightness else {
                // Images go last: the newest are what the user asks about.
                let has_images = !self.images.not_refused(&request.images).is_empty();
                if drops_images || !has_images {
                    return Err(failed);
                }
                drops_images = true;
                continue;
            };
            debug!(reason = %failed.failure.message, tightness, "telling less of the conversation");
            way.tightness = tightness;
        }
    }

    /// The tightness at which a conversation with this room fits the context that the server lists.
    fn tightness_of_context(&self, room_tokens: usize) -> u8 {
        let context = self.listed.lock().as_ref().and_then(|models| models.context);
        let Some(most) = context.and_then(|tokens| usize::try_from(tokens).ok()) else { return 0 };
        let fits = |tightness: &u8| Way::room(room_tokens, *tightness) <= most;
        (0..limits::TIGHTNESS_MAX).find(fits).unwrap_or(limits::TIGHTNESS_MAX)
    }

    /// From now on, conversations begin with this tightness.
    fn note_tightness(&self, tightness: u8) {
        self.tightness.fetch_max(tightness, Ordering::Relaxed);
        self.show_tightness(tightness);
    }

    /// Tells the operator how tightly conversations are told.
    fn show_tightness(&self, tightness: u8) {
        if self.shown_tightness.fetch_max(tightness, Ordering::Relaxed) >= tightness {
            return;
        }
        let percent = 100.0 * 0.75_f64.powi(tightness.into());
        warn!(
            "the model's context cannot hold what model.context_budget_tokens allows; from now on, conversations \
             get {percent:.0} % of it. Lower it, or give the server a larger context"
        );
    }
}

/// How many bytes of text the model reads if it is told the conversation in this way.
fn bytes(request: &RoundRequest, way: Way) -> usize {
    let messages = request.prompt.messages(way, &Images::new());
    messages.iter().map(Message::text_bytes).sum()
}

/// How tightly to tell a conversation so that no more than three quarters are left of what can be left out or, as a
/// last resort, nothing. `None` if nothing can be left out.
fn shorter(request: &RoundRequest, way: Way, is_last_resort: bool) -> Option<u8> {
    let tighter = way.tightness + 1..=limits::TIGHTNESS_MAX;
    let sizes: Vec<_> =
        tighter.map(|tightness| (bytes(request, Way { tightness, ..way }), tightness)).collect();
    let (now, fewest) = (bytes(request, way), sizes.iter().min()?.0);
    let surplus = now.checked_sub(fewest).filter(|surplus| *surplus > 0)?;
    let enough = if is_last_resort { fewest } else { fewest + surplus / 4 * 3 };
    sizes.into_iter().find(|(bytes, _)| *bytes <= enough).map(|(_, tightness)| tightness)
}

/// How tightly other conversations have to be told: with no less room than what has been accepted. A long message that
/// stays in any case says nothing about them.
fn proven(request: &RoundRequest, way: Way) -> u8 {
    let (accepted, room) = (bytes(request, way), request.prompt.room_bytes());
    let fits = |tightness: &u8| Way::room(room, *tightness) >= accepted;
    (1..=way.tightness).take_while(fits).last().unwrap_or_default()
}
