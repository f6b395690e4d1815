//! Who stands in for the gateway: takes a turn, says numbered words, runs tools, and ends it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::task::AbortOnDropHandle;

use super::Flaw;
use super::network::Shared;
use super::node::pass;
use super::rules::Standing;
use crate::conversation::{self, Call, Ending, Outcome, Part, Step, Tally};
use crate::event::{Event, FailureCode, Summary, TurnFinish, Usage};
use crate::parser::Arguments;
use crate::session::{Begun, TakenOver, TurnGuard, TurnLog, Writer};
use crate::tools::ToolResult;

/// What a turn does. It is what was asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Script {
    pub(super) words: u64,
    /// Words after which a tool runs.
    pub(super) tools: Vec<u64>,
    pub(super) pace_ms: u64,
    /// Words in a round.
    pub(super) round: u64,
}

/// Why a turn ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Stop,
    Cancelled,
    StoreLost,
}

/// A turn that is being driven.
pub(super) struct Play {
    shared: Shared,
    session: String,
    script: Script,
    writer: Writer,
    turn: conversation::Turn,
    tally: Tally,
    /// The round that is under way.
    step: Step,
    said: u64,
}

/// All words of a turn.
pub(super) fn said(turn: &conversation::Turn) -> String {
    let parts = turn.steps.iter().flat_map(|step| &step.parts);
    let text =
        parts.filter_map(|part| if let Part::Text(text) = part { Some(&**text) } else { None });
    text.collect()
}

impl Script {
    pub(super) fn asked(&self) -> Arc<RawValue> {
        to_raw_value(self).expect("it has string keys").into()
    }
}

/// Drives a turn that has begun.
pub(super) async fn begin(
    shared: Shared,
    session: String,
    turn_id: String,
    script: Script,
    begun: Begun,
) {
    let Begun { guard, mut writer, .. } = begun;
    writer.note_asked(script.asked());
    let turn = conversation::Turn { turn_id: turn_id.clone(), ..conversation::Turn::default() };
    let (tally, step) = (Tally::default(), Step::default());
    writer.push(&Event::TurnStarted {
        session_id: &session,
        turn_id: &turn_id,
        model: "m",
        max_tool_loops: 1,
    });
    let play = Play { shared, session, script, writer, turn, tally, step, said: 0 };
    play.run(guard).await;
}

/// Goes on with a turn that was taken over; at times, gives it back or ends it.
pub(super) async fn resume(shared: Shared, taken_over: TakenOver) {
    let choice = note_takeover(&shared, &taken_over);
    match choice {
        0 => {
            shared.lock().seen.saw("takeover: given back");
            return taken_over.leave().await;
        }
        1 => {
            let turn = taken_over.interrupted.turn.turn_id.clone();
            shared.lock().rules.ended_at_once.insert(turn);
            return taken_over.end("chance").await;
        }
        _ => {}
    }
    let TakenOver { session_id: session, guard, mut writer, asked, interrupted, .. } = taken_over;
    let script: Script = serde_json::from_str(asked.get()).expect("a driver has written it");
    writer.note_asked(asked);
    let mut turn = interrupted.turn;
    turn.call_ids += interrupted.step_call_ids;
    let said = interrupted.said.split_whitespace().count() as u64;
    if !interrupted.step.parts.is_empty() {
        turn.steps.push(interrupted.step);
    }
    if self::said(&turn) != interrupted.said {
        let what =
            format!("{}: {:?} is not {:?}", turn.turn_id, self::said(&turn), interrupted.said);
        shared.lock().rules.fail(what);
    }
    let calls = turn.steps.iter().flat_map(Step::calls);
    if calls.into_iter().any(|call| matches!(call.outcome, Outcome::Cancelled)) {
        shared.lock().seen.saw("tool: it had begun elsewhere, and is not run again");
    }
    if !interrupted.is_begun {
        writer.push(&Event::TurnStarted {
            session_id: &session,
            turn_id: &turn.turn_id,
            model: "m",
            max_tool_loops: 1,
        });
    }
    writer.push(&Event::Status { message: "another gateway goes on" });
    let (tally, step) = (interrupted.tally, Step::default());
    let session = session.to_string();
    Play { shared, session, script, writer, turn, tally, step, said }.run(guard).await;
}

/// Counts who was the owner before, and says what is to be done.
fn note_takeover(shared: &Shared, taken_over: &TakenOver) -> u64 {
    let epochs = taken_over.writer.log().epochs();
    let before = epochs.starts().rev().nth(1);
    let mut net = shared.lock();
    let session = taken_over.session_id.to_string();
    let owner = before.and_then(|start| net.server.writers.get(&(session, start.epoch)).copied());
    let standing = owner.and_then(|owner| net.rules.standing(owner));
    match standing {
        Some(Standing::Killed) => net.seen.saw("takeover: after a kill"),
        Some(Standing::Stopped) => net.seen.saw("takeover: after a stop"),
        Some(Standing::Lives | Standing::CameBack) => {
            net.seen.saw("takeover: while its owner still lives");
        }
        None => {}
    }
    net.dice.roll(20)
}

/// Waits until the turn has to end.
async fn told(log: &TurnLog) -> End {
    poll_fn(|cx| {
        let audience = log.watch_audience(cx);
        if audience.cancelled {
            Poll::Ready(End::Cancelled)
        } else if audience.has_store_failed {
            Poll::Ready(End::StoreLost)
        } else {
            Poll::Pending
        }
    })
    .await
}

impl Play {
    async fn run(mut self, mut guard: TurnGuard) {
        let end = match guard.store_while(pin!(self.go_on())).await {
            Ok(()) => End::Stop,
            Err(end) => end,
        };
        self.close_step();
        self.push_end(end);
        let Self { shared, session, mut writer, turn, .. } = self;
        let turn_id = turn.turn_id.clone();
        writer.seal();
        shared.lock().note(&format!("{turn_id} ends: {end:?}"));
        guard.finish(Some(turn)).await;
        drop(writer);
        let mut net = shared.lock();
        let is_over =
            net.server.log(&session, Some(&turn_id)).is_some_and(|log| log.journal.is_none());
        if is_over && matches!(end, End::Cancelled) {
            net.seen.saw("cancel: the turn ended as cancelled");
        }
    }

    async fn go_on(&mut self) -> Result<(), End> {
        self.note_round().await?;
        loop {
            if self.script.tools.contains(&self.said) && !self.has_called() {
                self.call().await?;
            }
            if self.said == self.script.words {
                return Ok(());
            }
            if self.said > 0 && self.said.is_multiple_of(self.script.round) {
                self.close_step();
                self.tally.rounds += 1;
                self.note_round().await?;
            }
            self.unless_told(pass(self.script.pace_ms)).await?;
            self.said += 1;
            let text = format!("{} ", self.said);
            self.writer.push(&Event::text(&text));
            self.writer.publish();
            match self.step.parts.last_mut() {
                Some(Part::Text(words)) => words.push_str(&text),
                _ => self.step.parts.push(Part::Text(text)),
            }
        }
    }

    /// Waits for something, unless the turn has to end before.
    async fn unless_told<T>(&self, what: impl Future<Output = T>) -> Result<T, End> {
        tokio::select! {
            biased;
            end = told(self.writer.log()) => Err(end),
            done = what => Ok(done),
        }
    }

    fn close_step(&mut self) {
        let step = std::mem::take(&mut self.step);
        if !step.parts.is_empty() {
            self.turn.steps.push(step);
        }
    }

    /// A model is asked once the journal is stored.
    async fn note_round(&mut self) -> Result<(), End> {
        self.writer.note_journal(&Arc::new(self.turn.clone()), self.tally.clone(), None);
        self.writer.publish();
        self.unless_told(self.writer.barrier().wait()).await
    }

    fn has_called(&self) -> bool {
        let id = format!("call_{}", self.said);
        let steps = self.turn.steps.iter().chain([&self.step]);
        steps.flat_map(Step::calls).any(|call| call.call_id == id)
    }

    async fn call(&mut self) -> Result<(), End> {
        let (number, turn_id) = (self.said, self.turn.turn_id.clone());
        let call_id = format!("call_{number}");
        let tool_args = RawValue::from_string("{}".to_owned()).expect("it is JSON");
        let flaw = {
            let mut net = self.shared.lock();
            net.rules.call_begins(&turn_id, number);
            net.server.flaw
        };
        self.writer.push(&Event::ToolStarted {
            call_id: &call_id,
            tool_name: "f",
            tool_args: &tool_args,
            r#loop: 1,
        });
        self.writer.publish();
        let (shared, barrier, session) =
            (Arc::clone(&self.shared), self.writer.barrier(), self.session.clone());
        // As the gateway runs tools: in tasks that wait for the barrier themselves.
        let tool = AbortOnDropHandle::new(tokio::spawn(async move {
            if flaw != Flaw::NoBarrier {
                barrier.wait().await;
            }
            {
                let mut guard = shared.lock();
                let net = &mut *guard;
                net.rules.call_runs(&net.server, (&session, &turn_id), number);
                net.seen.saw("tool: ran");
            }
            pass(100).await;
        }));
        let _ = self.unless_told(tool).await?;
        let (result, name) = (ToolResult::error("no"), "f".to_owned());
        self.writer.push(&Event::ToolCompleted {
            call_id: &call_id,
            tool_name: &name,
            tool_result: &result,
            duration_ms: 1,
            attempts: 1,
        });
        self.writer.publish();
        let arguments = Arguments::parse("{}").expect("it is JSON");
        let (resolved_arguments, outcome) = (None, Outcome::Ended(result));
        let call = Call { call_id, name, arguments, resolved_arguments, outcome };
        self.step.parts.push(Part::Call(Arc::new(call)));
        Ok(())
    }

    fn push_end(&mut self, end: End) {
        let summary = Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text: "" };
        let stopped =
            |finish_reason| Event::TurnCompleted { finish_reason, stop_text: None, summary };
        let failed = FailureCode::StoreUnavailable;
        let (event, ending) = match end {
            End::Stop => (stopped(TurnFinish::Stop), Ending::Completed(TurnFinish::Stop)),
            End::Cancelled => {
                (stopped(TurnFinish::Cancelled), Ending::Completed(TurnFinish::Cancelled))
            }
            End::StoreLost => {
                (Event::cut_short(failed, "the store does not answer"), Ending::Failed(failed))
            }
        };
        self.writer.push(&event);
        self.turn.ending = Some(ending);
    }
}
