//! Goes on with turns whose gateway was stopped.

use std::sync::{Arc, Weak};

use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{Instant, sleep};
use tracing::{debug, info_span};

use super::Gateway;
use super::asked::{Asked, NotDrafted};
use super::begin::now_ms;
use super::begin_error::BeginError;
use super::new_turn::Resolved;
use super::offer::Offer;
use super::run::{KeptAnswer, run};
use super::shares::TurnPermit;
use crate::limits::session as limits;
use crate::orchestrator::{Basis, Driver, Parts, TurnMachine, TurnRequest};
use crate::session::TakenOver;
use crate::telemetry::metrics;
use crate::upstream::{Route, Upstream};

/// Why a turn does not go on.
#[derive(Debug, thiserror::Error)]
enum NotResumed {
    #[error("its request cannot be read: {0}")]
    Asked(#[from] serde_json::Error),
    #[error(transparent)]
    Refused(#[from] BeginError),
    #[error("its answer has a form, and a part of it has been sent")]
    InForm,
}

/// What a turn goes on with.
struct Prepared<'g> {
    request: TurnRequest,
    asked: Asked,
    upstream: &'g Arc<Upstream>,
    offer: Offer,
}

impl Gateway {
    /// From now on, turns that were interrupted go on here: those that the store knows of, and any that somebody
    /// comes across.
    pub fn resume_interrupted(self: &Arc<Self>) {
        let (successor, taken_over) = mpsc::channel(limits::TAKEN_OVER_MAX);
        self.sessions.resume_with(successor, Arc::clone(&self.places));
        tokio::spawn(resume_all(Arc::downgrade(self), taken_over));
        tokio::spawn(look_for_interrupted(Arc::downgrade(self)));
    }

    /// Goes on with a turn. If no other gateway can, it waits for a place here.
    async fn resume(&self, mut taken_over: TakenOver) {
        let permit = match taken_over.permit.take() {
            Some(permit) => Ok(permit),
            None => Arc::clone(&self.places).acquire_owned().await,
        };
        let Ok(permit) = permit else { return taken_over.leave().await };
        // Whoever stops the gateway waits for the turn, also before it runs.
        let _token = self.turns.token();
        if self.is_draining() {
            return taken_over.leave().await;
        }
        let prepared = self.prepare(&taken_over).await;
        let Prepared { request, asked, upstream, offer } = match prepared {
            Ok(prepared) => prepared,
            Err(NotResumed::Refused(BeginError::Draining)) => return taken_over.leave().await,
            Err(reason) => return taken_over.end(&reason.to_string()).await,
        };
        let draft = match asked.draft(&self.recent_turns).await {
            Ok(draft) => draft,
            Err(NotDrafted::Store(_)) => return taken_over.leave().await,
            Err(reason) => return taken_over.end(&reason.to_string()).await,
        };
        let fates = TurnMachine::fates(&request, &taken_over.interrupted);
        taken_over.takeover.log_resumed(&taken_over.interrupted, &fates);
        let TakenOver {
            session_id: stored_as, guard, mut writer, asked: json, interrupted, ..
        } = taken_over;
        writer.note_asked(json);
        let serializers = self.serializers.get();
        let serializer = guard.answer_head().and_then(|head| serializers?.of_head(head));
        let (session_id, turn_id) = (request.session_id.clone(), request.turn_id.clone());
        let span = info_span!("turn", session = %session_id, turn = %turn_id);
        let parts = Parts {
            turn: TurnMachine::resume(request, interrupted, now_ms()),
            session_id: stored_as,
            parked_in: asked.parked_in.into(),
            writer,
            route: Route::new(upstream, &self.upstreams, asked.model.is_some()),
            tools: offer.tools,
            tool_timeout: self.tool_timeout,
            parked: self.parked.clone(),
            artifacts: self.sessions.artifacts(&asked.owner),
            // The trace of its request has ended.
            trace: None,
        };
        let driver = span.in_scope(|| Box::new(Driver::new(parts)));
        metrics::turn_interrupted("resumed");
        let place = TurnPermit { _place: permit, _counted: self.shares.count(&asked.owner, None) };
        let kept = KeptAnswer { draft: draft.map(Box::new), serializer };
        self.turns.spawn(run(driver, place, guard, kept, span));
    }

    /// The turn's request as it was, with the tools of today.
    async fn prepare(&self, taken_over: &TakenOver) -> Result<Prepared<'_>, NotResumed> {
        let TakenOver { guard, conversation, asked, interrupted, .. } = taken_over;
        let asked = Asked::read(asked)?;
        let upstream = self.upstream(asked.model.as_deref())?;
        let all = self.offer_of(asked.tools.as_deref()).await?;
        let mut new = asked.new_turn();
        let mut offer = self.chosen(&all, &mut new)?;
        let rules = self.rules_with(asked.instructions.clone());
        let opening = asked.opening.clone();
        let history = conversation.before(&opening);
        let basis = Basis { opening: &opening, history: &history };
        let briefing = self.brief(&offer, &rules, guard, &basis);
        let lent = self.lend(&mut offer, &opening, asked.answers_explicitly, &history);
        let turn = &interrupted.turn;
        let request = new.into_request(Resolved {
            session_id: asked.session_id.clone(),
            turn_id: turn.turn_id.clone(),
            started_at_ms: turn.started_at_ms,
            model: upstream.name().to_owned(),
            briefing,
            lent,
            disconnect_grace: asked.disconnect_grace,
            opening,
            images: asked.images.clone(),
            history,
        });
        if !TurnMachine::can_resume(&request, interrupted) {
            return Err(NotResumed::InForm);
        }
        Ok(Prepared { request, asked, upstream, offer })
    }
}

/// Goes on with each turn that is taken over, until the gateway is gone.
async fn resume_all(gateway: Weak<Gateway>, mut taken_over: Receiver<TakenOver>) {
    while let Some(taken_over) = taken_over.recv().await {
        let Some(gateway) = gateway.upgrade() else { return };
        tokio::spawn(async move { gateway.resume(taken_over).await });
    }
}

/// Looks for interrupted turns at the start, until the store lets them go on, and from time to time if other nodes may
/// die.
async fn look_for_interrupted(gateway: Weak<Gateway>) {
    loop {
        let Some(gateway) = gateway.upgrade() else { return };
        if gateway.is_draining() {
            return;
        }
        let settled = gateway.sessions.settle_all().await.unwrap_or_else(|error| {
            debug!(%error, "interrupted turns were not looked for");
            false
        });
        let interval = match gateway.sessions.settle_interval() {
            Some(interval) => interval,
            None if settled => return,
            None => limits::STORE_BACK_WAIT,
        };
        let sessions = gateway.sessions.clone();
        drop(gateway);
        let until = Instant::now() + interval;
        loop {
            sleep(limits::STORE_BACK_WAIT.min(interval)).await;
            // A store that has failed meanwhile is asked sooner whether it is back.
            if Instant::now() >= until || sessions.is_store_recovering() {
                break;
            }
        }
    }
}
