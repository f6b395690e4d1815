//! What a turn is given at its start and never changes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::TurnRequest;
use crate::conversation::render::results;
use crate::conversation::{self, Answer, Call, Opening, Outcome, Question, Step, trim};
use crate::limits::turn::{EVENTS_FACTOR, GUARDED_CALLS};
use crate::orchestrator::call::{Origin, Written};
use crate::orchestrator::primer::Primer;
use crate::orchestrator::repeats::Repeats;
use crate::orchestrator::result_guard::ResultGuard;
use crate::orchestrator::rules::Rules;
use crate::parser::Parser;
use crate::tools::builtin::FindTools;
use crate::tools::{
    Catalog, Continuation, Given, InvalidCall, Policy, Resumption, ToolResult, ToolSpec,
};
use crate::upstream::ToolChoice;

/// What a model is told when it repeats a lookup that made the user choose.
const CHOSEN: &str =
    "The user has chosen this one. Continue with what was asked before, using this id.";

/// The request, and what follows from it.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) request: TurnRequest,
    pub(super) max_tool_loops: u32,
    pub(super) max_calls: u32,
}

impl Setup {
    pub(super) fn new(request: TurnRequest) -> Self {
        let rules = &request.briefing.rules;
        let lower = |cap: u32, asked: Option<u32>| asked.map_or(cap, |asked| asked.min(cap));
        let max_tool_loops = lower(rules.max_tool_loops, request.max_tool_loops);
        let max_calls = lower(rules.max_calls, request.max_calls);
        Self { request, max_tool_loops, max_calls }
    }

    /// How long the turn goes on without a reader.
    pub(super) fn disconnect_grace(&self) -> Duration {
        self.request.disconnect_grace.unwrap_or_else(|| self.rules().disconnect_grace)
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.request.briefing.rules
    }

    pub(super) fn tools(&self) -> &Catalog {
        &self.request.briefing.tools
    }

    /// Checks whether a call may run. If there is no such tool, the error lists those that the
    /// model was told about at the start.
    pub(super) fn check(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &Value,
    ) -> Result<(), InvalidCall> {
        let TurnRequest { lent, briefing, .. } = &self.request;
        if *origin != Origin::Model && lent.get(name).is_some() {
            return lent.check(name, arguments);
        }
        self.tools().check_knowing(name, arguments, &briefing.told)
    }

    /// The tool of this name: one of the turn's, or one that is lent to an earlier turn's calls.
    pub(super) fn spec(&self, name: &str) -> Option<&ToolSpec> {
        spec_of(&self.request, name)
    }

    /// Whether this is the tool that finds other tools.
    pub(super) fn is_finder(&self, name: &str) -> bool {
        self.spec(name).is_some_and(FindTools::is)
    }

    pub(super) fn policy(&self, name: &str) -> Option<Policy> {
        self.spec(name).map(|spec| spec.policy)
    }

    /// Whether a call of this tool that came without a text of arguments must not run without arguments. Servers
    /// do not always say that a message was cut off, and what was left out may be all that limits a change.
    pub(super) fn may_lose_arguments(&self, name: &str) -> bool {
        let has_arguments = |spec: &ToolSpec| {
            let named = spec.parameters.get("properties").and_then(Value::as_object);
            named.is_some_and(|named| !named.is_empty())
        };
        // Nothing is known about what a client's tool does.
        let may_change = |spec: &ToolSpec| spec.policy.mutates || spec.source.is_client();
        self.spec(name).is_some_and(|spec| may_change(spec) && has_arguments(spec))
    }

    /// How many calls the turn may make: `1 call`, `4 calls`.
    pub(super) fn calls_max_in_words(&self) -> String {
        let calls = if self.max_calls == 1 { "call" } else { "calls" };
        format!("{} {calls}", self.max_calls)
    }

    /// The longest result that the model is shown, in bytes.
    pub(super) fn result_bytes_max(&self) -> usize {
        trim::result_bytes(self.rules().context_budget_tokens)
    }

    /// Bytes that the turn's events may take.
    pub(super) fn log_bytes_max(&self) -> usize {
        self.rules().max_turn_bytes.saturating_mul(EVENTS_FACTOR)
    }

    /// Whether words are shown only once they are known to be the answer: it has a form, and what is
    /// said beside calls has not. Without tools, the first words are the answer, so they stream.
    pub(super) fn withholds(&self) -> bool {
        let may_wait = self.request.is_read_whole || !self.tools().is_empty();
        self.request.response_format.is_some() && may_wait
    }

    pub(super) fn has_to_call(&self) -> bool {
        self.request.tool_choice != ToolChoice::Auto
    }

    /// What reads the model's words. A model that was never told about calls may write about them.
    /// But one that sees its own calls in the history will write more, tools or no tools.
    pub(super) fn parser(&self, primer: &Primer) -> Parser {
        let syntax = &primer.syntax;
        Parser::of(Arc::clone(if self.may_call() { syntax } else { syntax.without_calls() }))
    }

    /// Whether the model knows of calls.
    pub(super) fn may_call(&self) -> bool {
        !self.tools().is_empty() || self.call_ids_before() > 0
    }

    /// The turn as history, before anything is said.
    pub(super) fn record(&self) -> conversation::Turn {
        let TurnRequest { opening, history, turn_id, started_at_ms, .. } = &self.request;
        let open_question = history.open_questions().first();
        let (turn_id, started_at_ms) = (turn_id.clone(), *started_at_ms);
        let (answer, dropped) = match opening {
            Opening::Prompt(_) => (None, open_question.map(|open| &open.clarification.question)),
            Opening::Answer(answer) => (Some(answer.clone()), None),
            Opening::Results(turn) => {
                return conversation::Turn { started_at_ms, ..turn.going_on(turn_id) };
            }
        };
        let asked = history.chain().next().filter(|_| answer.is_some());
        conversation::Turn {
            deferred: asked.map(|asked| asked.deferred.clone()).unwrap_or_default(),
            turn_id,
            started_at_ms,
            prompt: opening.words().into_owned(),
            images: self.request.images.clone(),
            answer,
            dropped: dropped.cloned(),
            ..conversation::Turn::default()
        }
    }

    /// The user's answer with which the turn began.
    pub(super) fn answer(&self) -> Option<&Answer> {
        match &self.request.opening {
            Opening::Prompt(_) => None,
            Opening::Answer(answer) => Some(answer),
            Opening::Results(turn) => turn.answer.as_deref(),
        }
    }

    /// The question that this turn answers, and the answer.
    pub(super) fn answered(&self) -> Option<(&Question, &Answer)> {
        let answer = self.answer()?;
        Some((self.request.history.open_questions().first()?, answer))
    }

    /// The open questions that follow the one this turn answers.
    pub(super) fn waiting_questions(&self) -> &[Question] {
        let Opening::Answer(_) = self.request.opening else { return &[] };
        self.request.history.open_questions().get(1..).unwrap_or_default()
    }

    /// The turn that this one continues with the client's results.
    pub(super) fn continued(&self) -> Option<&conversation::Turn> {
        match &self.request.opening {
            Opening::Results(turn) => Some(turn),
            Opening::Prompt(_) | Opening::Answer(_) => None,
        }
    }

    /// The calls of the turns that this one continues, oldest first.
    pub(super) fn calls_before(&self) -> impl Iterator<Item = &Call> {
        let asked = self.answer().is_some().then(|| self.request.history.chain());
        let mut turns: Vec<&conversation::Turn> =
            asked.into_iter().flatten().map(|turn| &**turn).collect();
        turns.reverse();
        let turns = turns.into_iter().chain(self.continued());
        turns.flat_map(|turn| &turn.steps).flat_map(Step::calls)
    }

    /// How many call ids of the session have been used.
    pub(super) fn call_ids_before(&self) -> usize {
        self.request.history.call_ids() + self.continued().map_or(0, |turn| turn.call_ids)
    }

    /// The call that continues with the user's answer, if there is one.
    pub(super) fn answered_call(&self) -> Option<(Written, Origin)> {
        let Opening::Answer(_) = self.request.opening else { return None };
        let (question, answer) = self.answered()?;
        let (name, given) = (question.tool_name.clone(), answer.given.clone());
        let origin = match &question.continuation {
            Continuation::Model => return None,
            Continuation::Approval { definition } => {
                let Given::Approved { .. } = given else { return None };
                let is_same = |spec: &ToolSpec| spec.digest() == *definition;
                Origin::Approved { is_current: self.spec(&name).is_none_or(is_same) }
            }
            Continuation::Again { state } => {
                Origin::Again(Resumption { state: state.clone(), given })
            }
            Continuation::Open => {
                Origin::Open { parked_as: question.clarification_id.clone(), given }
            }
        };
        let arguments = question.arguments.clone()?;
        Some((Written { name, arguments, end_is_repaired: false }, origin))
    }

    /// The calls of the turns that this one continues. What they sent must not be sent again, but
    /// what they read may be read again: the answer may have taken hours.
    pub(super) fn repeats(&self) -> Repeats {
        let mut repeats = Repeats::default();
        let chosen = self.chosen();
        for call in self.calls_before() {
            if let Outcome::Ended(result) = &call.outcome {
                let policy = self.policy(&call.name).unwrap_or(Policy::NONE);
                if policy.mutates || result.clarification.is_some() {
                    let arguments = call.taken_arguments().to_value();
                    let chosen = chosen.as_ref().filter(|(asked_by, _)| *asked_by == call.call_id);
                    let result = chosen.map_or(result, |(_, result)| result);
                    repeats.note(&call.name, arguments, policy, result, None);
                }
            }
        }
        repeats
    }

    /// The call whose question the user has answered with an option, and what it returns if the model repeats it: the
    /// choice, because the question would send the model back to the user.
    fn chosen(&self) -> Option<(&str, ToolResult)> {
        let (Question { call_id, continuation: Continuation::Model, .. }, answer) =
            self.answered()?
        else {
            return None;
        };
        let Given::Option(option) = &answer.given else { return None };
        let result = ToolResult::data(serde_json::to_value(option).ok()?);
        Some((call_id, result.with_instruction(CHOSEN)))
    }

    /// A guard that knows what this turn's messages may echo: the results of the examples and of
    /// the last calls, and the name of every tool called so far. `record` is the turn so far.
    pub(super) fn guard(
        &self,
        primer: &Primer,
        record: Option<&conversation::Turn>,
    ) -> ResultGuard {
        let TurnRequest { briefing, history, .. } = &self.request;
        let format = primer.format();
        let mut guard =
            ResultGuard::new(briefing.told.names(), format.row().result[0], self.wants_json());
        let examples = &primer.examples;
        let turns = history.turns().map(|turn| &**turn).chain(record.or_else(|| self.continued()));
        let before = turns.flat_map(|turn| &turn.steps).flat_map(Step::calls);
        let before = before.collect::<Vec<_>>();
        for call in examples.calls().chain(before.iter().copied()) {
            guard.learn_tool(&call.name);
        }
        let last = &before[before.len().saturating_sub(GUARDED_CALLS)..];
        let most = self.result_bytes_max();
        for echo in &*examples.echoes(format, most) {
            guard.learn_echo(echo);
        }
        for call in last {
            guard.learn_result(|| results::json(&call.result(), format, most));
        }
        guard
    }

    /// Whether the operator, or the user in any turn, mentions JSON. If so, an answer may well be
    /// JSON.
    fn wants_json(&self) -> bool {
        let TurnRequest { opening, history, .. } = &self.request;
        self.request.response_format.is_some()
            || names_json(&self.rules().system_prompt)
            || names_json(&opening.words())
            || history.turns().any(|turn| names_json(&turn.prompt))
    }
}

fn names_json(words: &str) -> bool {
    let bytes = words.as_bytes();
    memchr::memchr2_iter(b'j', b'J', bytes)
        .any(|at| bytes[at..].get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"json")))
}

/// The tool of this name: one of the turn's, or one that is lent to an earlier turn's calls.
pub(super) fn spec_of<'r>(request: &'r TurnRequest, name: &str) -> Option<&'r ToolSpec> {
    request.briefing.tools.get(name).or_else(|| request.lent.get(name))
}
