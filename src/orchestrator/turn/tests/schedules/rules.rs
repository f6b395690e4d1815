//! Detects which rules of a turn have applied, from what it says and asks for.

use super::coverage::Coverage;
use super::*;
use crate::limits::turn::MISTAKES_MAX;
use crate::orchestrator::turn::round::Surplus;

/// How much of a turn has been examined so far.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each was seen once")]
pub(super) struct Witness {
    events: usize,
    not_run: usize,
    deeds: usize,
    rounds: usize,
    markers: usize,
    /// The text of the running round.
    said: String,
    acknowledged: bool,
    started_any: bool,
    empty_answers: u32,
    tools_have_ended: bool,
    is_over: bool,
}

impl Witness {
    /// Examines the outputs since the last look.
    pub(super) fn look(&mut self, scene: &Scene, coverage: &mut Coverage) {
        let fresh = &scene.events[self.events..];
        if self.events == 0 {
            begins(scene, coverage);
        }
        for event in fresh {
            self.hear(event, scene, coverage);
        }
        self.look_at_calls(scene, coverage);
        self.look_at_stops(fresh, scene, coverage);
        self.look_at_tools(fresh, scene, coverage);
        for request in &scene.rounds[self.rounds..] {
            self.said.clear();
            if request.tool_choice != ToolChoice::Auto {
                coverage.saw("asked for a call");
            }
            if request.sampling.temperature.is_some() {
                coverage.saw("warmer after a mistake");
            }
        }
        if scene.turn.is_over() && !self.is_over {
            self.is_over = true;
            ends(scene, coverage);
        }
        self.events = scene.events.len();
        self.rounds = scene.rounds.len();
    }

    fn hear(&mut self, event: &Value, scene: &Scene, coverage: &mut Coverage) {
        let data = &event["data"];
        match event["type"].as_str().unwrap() {
            "text_delta" => self.said.push_str(data["text"].as_str().unwrap()),
            "tool_marker_detected" => self.markers += 1,
            "client_tool_call" if self.started_any => coverage.saw("handed out: beside ours"),
            "client_tool_call" => coverage.saw("handed out: alone"),
            "tool_arguments_delta" => coverage.saw("arguments are shown as they arrive"),
            "tool_started" => {
                self.started_any = true;
                if !self.acknowledged {
                    coverage.saw("acknowledged: nothing to say");
                }
                let call = call_of(data, scene);
                match call.origin {
                    Origin::Model => {}
                    Origin::Deferred => coverage.saw("resumed: a waiting lookup"),
                    Origin::Approved { .. } => coverage.saw("resumed: an approved call"),
                    Origin::Again(_) => coverage.saw("resumed: called again with the answer"),
                    Origin::Open { .. } => coverage.saw("resumed: an open call"),
                    Origin::Interrupted { .. } => panic!("clients know that it has begun"),
                }
                if !call.needs().is_empty() {
                    coverage.saw("reference: replaced by the result");
                }
            }
            "acknowledgement" => {
                self.acknowledged = true;
                coverage.saw(match data["source"].as_str().unwrap() {
                    "model" => "acknowledged: by the model",
                    _ => "acknowledged: by hints",
                });
            }
            "feedback" => self.hear_feedback(data, scene, coverage),
            "status" => hear_status(data["message"].as_str().unwrap(), coverage),
            "clarification_needed" => {
                coverage.saw(match &scene.turn.record().answer {
                    None => "asked: a first time",
                    Some(_) if scene.turn.core.calls.len() == 0 => "asked: a waiting question",
                    Some(_) if scene.rounds.is_empty() => "asked: before the model",
                    Some(_) => "asked: again, after an answer",
                });
                if data["type"] == "confirmation" {
                    coverage.saw("asked: to approve a call");
                }
            }
            "turn_failed" => {
                let message = data["message"].as_str().unwrap();
                coverage.saw(match data["code"].as_str().unwrap() {
                    "upstream_unavailable" => "fails: upstream_unavailable",
                    "upstream_error" => "fails: upstream_error",
                    "upstream_timeout" => "fails: upstream_timeout",
                    "store_unavailable" => "fails: store_unavailable",
                    "empty_response" if message.contains("closing") => "fails: no closing answer",
                    "empty_response" => "fails: empty_response",
                    "turn_too_large" if message.contains("events") => {
                        "fails: turn_too_large, its events"
                    }
                    "turn_too_large" => "fails: turn_too_large, its text",
                    _ => "fails: otherwise",
                });
            }
            "turn_completed" => coverage.saw(match data["finish_reason"].as_str().unwrap() {
                "stop" => "ends: stop",
                "length" => "ends: length",
                "content_filter" => "ends: content_filter",
                "clarification_needed" => "ends: clarification_needed",
                "client_tool_calls" => "ends: client_tool_calls",
                "loop_limit" => "ends: loop_limit",
                "cancelled" => "ends: cancelled",
                _ => "ends: otherwise",
            }),
            _ => {}
        }
    }

    fn hear_feedback(&mut self, data: &Value, scene: &Scene, coverage: &mut Coverage) {
        let message = data["message"].as_str().unwrap();
        let attempt = data["attempt"].as_u64().unwrap();
        coverage.saw(match data["reason"].as_str().unwrap() {
            "tool_not_found" => "feedback: tool_not_found",
            "invalid_arguments" if message.contains("which does not exist") => {
                "feedback: invalid_arguments, no such result"
            }
            "invalid_arguments" if message.contains("nested too deeply") => {
                "feedback: invalid_arguments, too deep a result"
            }
            "invalid_arguments" if message.contains("did not choose") => {
                "feedback: invalid_arguments, not chosen"
            }
            "invalid_arguments" if !call_of(data, scene).needs().is_empty() => {
                "feedback: invalid_arguments, resolved from a reference"
            }
            "invalid_arguments" => "feedback: invalid_arguments",
            "malformed_call" if message.contains("must come before") => {
                "feedback: a call is required"
            }
            "malformed_call" => "feedback: malformed_call",
            "incomplete_call" if !message.contains("token limit") => "feedback: incomplete_call",
            "incomplete_call" if data["call_id"].is_null() => {
                "feedback: incomplete_call, a marker alone, cut"
            }
            "incomplete_call" if call_of(data, scene).whole().is_some() => {
                "feedback: incomplete_call, cut and repaired"
            }
            "incomplete_call" => "feedback: incomplete_call, cut",
            "payload_too_large" => "feedback: payload_too_large",
            "tool_failed" => "feedback: tool_failed",
            "invented_result" => "feedback: invented_result",
            "empty_response" => {
                self.empty_answers += 1;
                match (attempt, self.empty_answers) {
                    (1, _) => "feedback: empty_response, the first in a row",
                    (2, 1) => "feedback: empty_response, the second with the turn before",
                    _ => "feedback: empty_response, the second in a row",
                }
            }
            _ => "feedback: otherwise",
        });
    }

    fn look_at_calls(&mut self, scene: &Scene, coverage: &mut Coverage) {
        for not_run in &scene.not_run[self.not_run..] {
            coverage.saw(match not_run.rsplit(' ').next().unwrap() {
                "refused" => "not run: refused",
                "skipped" => "not run: skipped",
                "over_cap" => "not run: over_cap",
                "repeated" => "not run: repeated",
                "unapproved" => "not run: unapproved",
                "untold" => "not run: untold",
                _ => "not run: otherwise",
            });
        }
        self.not_run = scene.not_run.len();
        let all = &scene.turn.core.calls;
        let calls = scene.turn.round().map_or(&[][..], |round| all.since(round.first_call));
        for (place, call) in calls.iter().enumerate() {
            if call.waiting().is_none() {
                continue;
            }
            let is_open = |call: &CallDraft| call.standing() == Standing::Open;
            let mut before = calls[..place].iter();
            if !call.needs().is_empty() {
                coverage.saw("waits: for the result it refers to");
            } else if call.duplicate_of().is_some_and(|at| is_open(&all[at])) {
                coverage.saw("waits: for the same call before it");
            } else if before.clone().any(|call| call.policy().is_barrier() && is_open(call)) {
                coverage.saw("waits: for a barrier");
            } else if call.policy().sequential && before.any(is_open) {
                coverage.saw("waits: sequential, for those before it");
            } else if call.policy().mutates && scene.turn.state() == TurnState::Planning {
                coverage.saw("waits: for the end of the message");
            } else if scene.running.len() == scene.turn.rules().max_parallel {
                coverage.saw("waits: for room");
            }
        }
    }

    /// Detects why the turn has stopped a round.
    fn look_at_stops(&mut self, fresh: &[Value], scene: &Scene, coverage: &mut Coverage) {
        let deeds = &scene.deeds[self.deeds..];
        self.deeds = scene.deeds.len();
        let stopped = deeds.iter().position(|deed| deed == "stop round");
        let by_itself = |at: usize| deeds.get(at + 1).is_none_or(|next| next != "stop tools");
        if !stopped.is_some_and(by_itself) {
            return;
        }
        let unread = fresh.iter().filter(|event| event["type"] == "feedback");
        let unread = unread.filter(|event| event["data"]["reason"] == "malformed_call").count();
        let calls = scene.turn.core.counted_calls(CallAt::new(self.markers))
            > scene.turn.core.setup.max_calls as usize;
        let has_ended = fresh.iter().any(|event| {
            let next = &event["data"]["tool_result"]["next_action"];
            next == "clarification_needed" || next == "complete"
        });
        let surplus = scene.turn.round().and_then(|round| round.surplus);
        let causes = [
            (unread >= MISTAKES_MAX, "stopped: too many unreadable calls"),
            (calls, "stopped: too many calls"),
            (surplus == Some(Surplus::Results), "stopped: a block of results"),
            (surplus == Some(Surplus::Repeats), "stopped: a repeated call"),
            (surplus == Some(Surplus::StopText), "stopped: a stop text"),
            (has_ended, "stopped: a tool has ended the chain"),
            (scene.turn.asks_approval(), "stopped: a call to approve"),
        ];
        match causes.iter().filter(|(holds, _)| *holds).collect::<Vec<_>>()[..] {
            [(_, cause)] => coverage.saw(cause),
            [] if scene.turn.has_lost_tools() => coverage.saw("stopped: no tools left"),
            _ => {}
        }
    }

    /// Detects what took the tools away.
    fn look_at_tools(&mut self, fresh: &[Value], scene: &Scene, coverage: &mut Coverage) {
        let have_ended = scene.turn.has_lost_tools();
        if !have_ended || std::mem::replace(&mut self.tools_have_ended, have_ended) {
            return;
        }
        let attempts = u64::from(scene.turn.rules().feedback_attempts);
        let any = |holds: &dyn Fn(&Value, &Value) -> bool| {
            fresh.iter().any(|event| holds(&event["type"], &event["data"]))
        };
        let says = |words: &str| {
            any(&|_, data| data["message"].as_str().is_some_and(|said| said.contains(words)))
        };
        let is_last = |name: &Value, data: &Value| {
            name == "feedback" && data["attempt"].as_u64().unwrap() >= attempts
        };
        let causes = [
            (any(&is_last), "no tools: too many mistakes of one kind"),
            (any(&|name, _| name == "loop_limit_reached"), "no tools: the loop cap"),
            (says("limits.max_calls_per_turn"), "no tools: the call cap"),
            (
                any(&|_, data| data["tool_result"]["next_action"] == "complete"),
                "no tools: the chain is complete",
            ),
            (says("was called again"), "no tools: a call repeated without end"),
        ];
        if let [(_, cause)] = causes.iter().filter(|(holds, _)| *holds).collect::<Vec<_>>()[..] {
            coverage.saw(cause);
        }
    }
}

fn call_of<'s>(data: &Value, scene: &'s Scene) -> &'s CallDraft {
    let calls = &scene.turn.core.calls;
    calls.iter().find(|call| data["call_id"] == *call.call_id).expect("events name calls")
}

fn begins(scene: &Scene, coverage: &mut Coverage) {
    let turn = &scene.turn;
    coverage.saw(match turn.rules().call_contract {
        CallContract::Templated(_) => "calls: in the text, by the template",
        CallContract::InText(row) if row.closer.is_some() => "calls: in the text, closed",
        CallContract::InText(_) => "calls: in the text, not closed",
        CallContract::Native => "calls: native",
    });
    if let Some(answer) = &turn.record().answer {
        coverage.saw(match answer.given {
            Given::Option(_) | Given::Text(_) | Given::Content(_) => "question: answered",
            Given::Approved { for_session: false } => "question: approved",
            Given::Approved { for_session: true } => "question: approved for the session",
            Given::Refused(_) => "question: refused",
            Given::Declined => "question: declined",
            Given::Cancelled => "question: cancelled",
        });
    }
    if turn.core.setup.continued().is_some() {
        coverage.saw("continues: with the client's results");
    }
    if turn.record().dropped.is_some() {
        coverage.saw("question: dropped");
    }
}

fn ends(scene: &Scene, coverage: &mut Coverage) {
    let turn = &scene.turn;
    if turn.record().questions.len() > 1 && !scene.rounds.is_empty() {
        coverage.saw("asked: several at once");
    }
    let step = turn.record().steps.last();
    let ended = turn.ending() == Some(Ending::Completed(TurnFinish::Stop));
    if ended && step.is_some_and(|step| step.calls().next().is_some()) {
        coverage.saw("ends: with the results");
    }
}

fn hear_status(message: &str, coverage: &mut Coverage) {
    let rules = [
        ("needs the user's answer first", "skipped: after a question"),
        ("ended the chain", "skipped: after the end of the chain"),
        ("which comes first, has failed", "skipped: after a failure"),
        ("which comes first, could not be read", "skipped: after an unreadable call"),
        ("which comes first, was not run", "skipped: after a skipped call"),
        ("which comes first, was put off", "skipped: after a call that was put off"),
        ("not all of the model's message could be read", "put off: not all could be read"),
        ("comes later in the model's message and may change", "put off: a lookup comes later"),
        ("the model's message was cut off", "skipped: in a message that was cut off"),
        ("the user has to answer a question first", "skipped: a client's call, after a question"),
        ("only one such call may be made", "skipped: a client's call, one at a time"),
        ("comes first", "put off: after a client's call"),
        ("the user has just refused it", "skipped: just refused"),
        ("send was called again", "repeated: a mutating call"),
        ("was called again", "repeated: with nothing new to learn"),
        ("limits.max_calls_per_turn", "call cap reached"),
        ("the model's answer was empty", "empty answer"),
        ("in its closing answer; the call was not run", "closing: a stray call"),
        ("the model wrote no answer; asking again", "closing: asked again"),
        ("here is what its tools found", "closing: composed from the results"),
        ("the model used up its tokens", "ends: out of tokens"),
        ("a filter of the model server let nothing", "ends: filtered"),
        ("cannot be reached", "another upstream answers"),
        ("the model is told what", "untold: a call by bare name"),
    ];
    let rule = rules.iter().find(|(words, _)| message.contains(words));
    assert!(rule.is_some(), "undeclared: {message}");
    coverage.saw(rule.map_or("status: otherwise", |(_, rule)| rule));
}
