//! Conversations that the model's context cannot hold: less of them is told. How many bytes make a token is a guess, and
//! so may be the size of the context.
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
        let replacements = self.replacements.load(Ordering::Relaxed);
        let known = self.tightness.load(Ordering::Relaxed);
        let mut way = Way { prefills, tightness: known, ..self.known_way(history).await? };
        let (mut attempt, mut drops_images) = (0, false);
        loop {
            let failed = match self.open_with(request, extra, way, drops_images).await {
                Err(failed) if failed.failure.is_overflow() => failed,
                Err(failed) => return Err(failed),
                Ok(round) => {
                    if attempt > 0 {
                        info!(attempt, "the model's context holds a part of the conversation only");
                        let is_same = self.replacements.load(Ordering::Relaxed) == replacements;
                        self.note_tightness(if is_same { proven(request, way) } else { 0 });
                    }
                    return Ok(round);
                }
            };
            attempt += 1;
            let shorter = match attempt {
                ..limits::SHORTER_ATTEMPTS_MAX => tighter(request, way),
                limits::SHORTER_ATTEMPTS_MAX => tightest(request, way),
                _ => None,
            };
            let Some(tightness) = shorter else {
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

    /// Later conversations are told this tightly from the start.
    fn note_tightness(&self, tightness: u8) {
        if self.tightness.fetch_max(tightness, Ordering::Relaxed) >= tightness {
            return;
        }
        let percent = (0..tightness).fold(100.0, |percent, _| percent * 0.75);
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

/// How tightly to tell a conversation so that no more than three quarters are left of what can be left out. `None` if
/// nothing can.
fn tighter(request: &RoundRequest, way: Way) -> Option<u8> {
    let tightest = tightest(request, way)?;
    let told = |tightness| bytes(request, Way { tightness, ..way });
    let fewest = told(tightest);
    let enough = fewest + (told(way.tightness) - fewest) / 4 * 3;
    (way.tightness + 1..tightest).find(|&tightness| told(tightness) <= enough).or(Some(tightest))
}

/// How tightly to tell a conversation so that it has the fewest bytes. `None` if it has no more now.
fn tightest(request: &RoundRequest, way: Way) -> Option<u8> {
    let all = way.tightness + 1..=limits::TIGHTNESS_MAX;
    let sizes = all.map(|tightness| (bytes(request, Way { tightness, ..way }), tightness));
    let (fewest, tightness) = sizes.min()?;
    (fewest < bytes(request, way)).then_some(tightness)
}

/// How tightly other conversations have to be told: with no less room than what has been accepted. A long message that
/// stays in any case says nothing about them.
fn proven(request: &RoundRequest, way: Way) -> u8 {
    let accepted = bytes(request, way);
    let rooms = std::iter::successors(Some(request.prompt.room_bytes()), |room| Some(room / 4 * 3));
    let fitting = rooms.skip(1).take(way.tightness.into()).take_while(|room| *room >= accepted);
    u8::try_from(fitting.count()).unwrap_or(way.tightness)
}
