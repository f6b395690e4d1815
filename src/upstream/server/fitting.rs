//! Conversations that do not fit into the model's context: the model is told less of them. The budget rests on two
//! guesses, the size of the context and the number of bytes in a token.
//!
//! ```text
//!   refused as too long ──> at most 3/4 of what can be left out ──> refused ──> .. ──> the least that can be told
//!                                         │
//!                                         └─ accepted: from now on, conversations get as much room as this one took
//! ```
//! If the longest answer is what does not fit, that is cut first: many clients always allow one as long as the context.

use std::mem;
use std::sync::atomic::Ordering;

use tracing::{debug, info, warn};

use super::Server;
use super::failed::Failed;
use crate::limits::upstream as limits;
use crate::upstream::extra_sampling::ExtraSampling;
use crate::upstream::overflow::{Overflow, TokenCounts};
use crate::upstream::{History, Images, Message, Round, RoundRequest, Sampling, Way};

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
        let way = Way { prefills, tightness, joins_system, ..found };
        let mut fit = Fit::new(request, extra, way);
        loop {
            let (sampling, way) = (&fit.sampling, fit.way);
            let failed = match self.open_with(request, sampling, way, fit.drops_images).await {
                Ok(round) => {
                    if self.replacements() == replacements {
                        self.note_fit(&fit);
                    }
                    return Ok(round);
                }
                Err(failed) => failed,
            };
            let reason = &failed.failure.message;
            if !way.joins_system && failed.failure.is_about_system_role() {
                debug!(reason, "asking without a message of instructions");
                fit.way.joins_system = true;
                continue;
            }
            if !failed.failure.is_overflow()
                && !matches!(failed.overflow, Some(Overflow::PromptAndAnswer(_)))
            {
                return Err(failed);
            }
            let has_images = !self.images.not_refused(&request.images).is_empty();
            if !fit.ask_for_less(failed.overflow, has_images) {
                return Err(failed);
            }
            let Fit { sampling: Sampling { max_tokens, .. }, way, .. } = &fit;
            debug!(reason, way.tightness, max_tokens, "asking for less of the context");
        }
    }

    /// Learns from a request that the model's context has held.
    fn note_fit(&self, fit: &Fit<'_>) {
        if fit.conversation_cuts > 0 {
            info!(
                fit.conversation_cuts,
                "the model's context holds a part of the conversation only"
            );
            if !fit.answer_may_be_why {
                self.note_tightness(proven(fit.request, fit.way));
            }
        }
        if fit.way.joins_system && !self.refuses_system.swap(true, Ordering::Relaxed) {
            warn!(
                "the model's chat template takes no instructions; they go before the user's first message"
            );
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

/// How much of the context a request takes: less each time that the server refuses it.
#[derive(Debug)]
struct Fit<'r> {
    request: &'r RoundRequest,
    sampling: Sampling,
    way: Way,
    drops_images: bool,
    /// How often the conversation was shortened.
    conversation_cuts: u32,
    /// How often the answer was.
    answer_cuts: u32,
    /// Whether the client's own `max_tokens` may be why. If so, the refusal says nothing about other requests.
    answer_may_be_why: bool,
}

impl<'r> Fit<'r> {
    fn new(request: &'r RoundRequest, extra: &ExtraSampling, way: Way) -> Self {
        let sampling = Sampling { extra: extra.clone(), ..request.sampling.clone() };
        let (drops_images, answer_may_be_why) = (false, false);
        Self {
            request,
            sampling,
            way,
            drops_images,
            conversation_cuts: 0,
            answer_cuts: 0,
            answer_may_be_why,
        }
    }

    /// Asks for less than what was refused. False if there is nothing left to give up.
    fn ask_for_less(&mut self, overflow: Option<Overflow>, has_images: bool) -> bool {
        let (is_set, asked) =
            (self.request.sampling.max_tokens.is_some(), self.sampling.max_tokens);
        let gives_way = match overflow {
            Some(Overflow::PromptAndAnswer(counts)) => {
                let is_much = asked.is_none_or(|tokens| tokens > counts.fair_share());
                self.answer_may_be_why = is_set && is_much;
                self.share_context(counts)
            }
            Some(Overflow::Prompt) => {
                self.answer_may_be_why = false;
                self.shorten_conversation()
            }
            Some(Overflow::Unclear) | None => {
                self.answer_may_be_why = is_set;
                self.shorten_conversation()
            }
        };
        // Images go last: the newest are what the user asks about.
        gives_way || (has_images && !mem::replace(&mut self.drops_images, true))
    }

    /// The answer gives way first, but for its fair share.
    fn share_context(&mut self, counts: TokenCounts) -> bool {
        let room = if counts.is_least { 0 } else { counts.room() };
        let is_shorter = self.shorten_answer(room.max(counts.fair_share()));
        if is_shorter && (counts.is_least || room >= counts.fair_share()) {
            return true;
        }
        self.shorten_conversation() || (room > 0 && self.shorten_answer(room)) || is_shorter
    }

    fn shorten_answer(&mut self, most: u32) -> bool {
        let is_longer = self.sampling.max_tokens.is_none_or(|tokens| tokens > most);
        if !is_longer || self.answer_cuts == limits::SHORTER_ATTEMPTS_MAX {
            return false;
        }
        self.sampling.max_tokens = Some(most);
        self.answer_cuts += 1;
        true
    }

    fn shorten_conversation(&mut self) -> bool {
        if self.conversation_cuts == limits::SHORTER_ATTEMPTS_MAX {
            return false;
        }
        let is_last_resort = self.conversation_cuts + 1 == limits::SHORTER_ATTEMPTS_MAX;
        let Some(tightness) = shorter(self.request, self.way, is_last_resort) else { return false };
        self.conversation_cuts += 1;
        self.way.tightness = tightness;
        true
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
