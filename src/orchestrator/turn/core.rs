//! Everything in a turn, apart from its state, that outlives a round.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::acknowledgement::Acknowledgement;
use super::free_calls::FreeCalls;
use super::mistakes::MistakeCounts;
use super::queue::{Action, EventDraft};
use super::round::{Message, Round};
use super::round_prompt::RoundPrompt;
use super::script::Script;
use super::seam::Seam;
use super::setup::Setup;
use super::tokens::Tokens;
use crate::call_format::{CallContract, CallFormat};
use crate::conversation::render::results;
use crate::conversation::{self, Opening, Outcome, Tally, UtteranceKind};
use crate::event::Usage;
use crate::limits;
use crate::orchestrator::call::{CallAt, Calls, Origin};
use crate::orchestrator::known_tools::KnownTools;
use crate::orchestrator::prerequisites;
use crate::orchestrator::primer::Primer;
use crate::orchestrator::repeats::Repeats;
use crate::orchestrator::stop_texts::StopTexts;
use crate::parser::Parser;
use crate::upstream::{Images, PassedOver, RoundRequest, Sampling, ToolChoice};

/// See the module docs. What every token needs comes first: see [`Driver`](crate::orchestrator::driver::Driver).
#[derive(Debug)]
#[repr(C)]
pub(super) struct Core {
    /// The last time reported, in milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// When this machine began or resumed the turn, in milliseconds since the Unix epoch.
    pub(super) begun_at_ms: u64,
    /// When to give up the turn if it still has no reader, in milliseconds since the Unix epoch.
    pub(super) give_up_at_ms: Option<u64>,
    pub(super) acknowledgement: Acknowledgement,
    /// Bytes that the model has written, and how many it may write.
    pub(super) bytes: usize,
    pub(super) bytes_max: usize,
    /// Bytes that the turn's events take, as last reported, and how many they may take.
    pub(super) logged_bytes: usize,
    pub(super) logged_bytes_max: usize,
    /// Joins the message to the one that was cut off, if it goes on with one.
    pub(super) seam: Option<Box<Seam>>,
    pub(super) calls: Calls,
    pub(super) script: Script,
    // Each token needs the fields above.
    pub(super) setup: Setup,
    /// The turn as history, without the message being written. The request of a round shares it
    /// while the round is read.
    pub(super) record: Arc<conversation::Turn>,
    pub(super) repeats: Repeats,
    pub(super) mistakes: MistakeCounts,
    /// The tools that the model knows when a round begins.
    pub(super) known: KnownTools,
    /// Tools that it has learned about since.
    learned: Vec<String>,
    /// What does not count against the turn's limits.
    pub(super) free_calls: FreeCalls,
    /// How many times in a row the model has answered with nothing, including in earlier turns.
    pub(super) empty_answers: u32,
    /// Whether the model answered without a required call and was told so.
    pub(super) was_reminded_to_call: bool,
    /// Whether a tool has returned something that strangers may have written.
    pub(super) is_tainted: bool,
    /// The tokens of the finished rounds.
    pub(super) usage: Usage,
    /// How many rounds have been requested.
    pub(super) rounds: u32,
    pub(super) before: Before,
    /// The upstream that answers.
    answering: Answering,
}

/// What had been before the turn was interrupted, if it was.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// Whether the model had made the required call.
    pub(super) has_called: bool,
    /// Whether the message was cut off that the next one goes on with.
    pub(super) is_cut: bool,
    /// The event after which its step begins, if the turn was resumed at calls that are not over: only the log
    /// has them.
    pub(super) step_after: Option<u64>,
}

/// An upstream of the turn's route.
#[derive(Debug)]
struct Answering {
    /// Its place, if it stands in for another. The next round then asks it first, so that an
    /// unreachable upstream does not delay every round.
    fallback: Option<usize>,
    name: String,
    /// The primer for its model's contract.
    primer: Arc<Primer>,
}

impl Core {
    pub(super) fn new(setup: Setup) -> Self {
        let primer = Arc::clone(setup.request.briefing.usual_primer());
        Self {
            script: Script::new(
                setup.guard(&primer, None),
                StopTexts::new(&setup.request.sampling.stop),
                setup.withholds(),
            ),
            calls: Calls::new(setup.call_ids_before()),
            acknowledgement: Acknowledgement::default(),
            record: Arc::new(setup.record()),
            repeats: setup.repeats(),
            mistakes: MistakeCounts::default(),
            known: setup.request.briefing.known.clone(),
            learned: Vec::new(),
            free_calls: FreeCalls::default(),
            empty_answers: setup.request.history.empty_answers(),
            was_reminded_to_call: false,
            is_tainted: setup.is_tainted(),
            usage: Usage::default(),
            bytes: 0,
            bytes_max: setup.rules().max_turn_bytes,
            logged_bytes: 0,
            logged_bytes_max: setup.log_bytes_max(),
            rounds: 0,
            before: Before::default(),
            seam: None,
            begun_at_ms: setup.request.started_at_ms,
            answering: Answering { fallback: None, name: setup.request.model.clone(), primer },
            give_up_at_ms: None,
            now_ms: setup.request.started_at_ms,
            setup,
        }
    }

    /// The turn as history, for writing. Copies it if a round's request still shares it.
    pub(super) fn record_mut(&mut self) -> &mut conversation::Turn {
        Arc::make_mut(&mut self.record)
    }

    /// Asks the model, with its tools.
    pub(super) fn ask(&mut self) -> Round {
        self.learn_tools();
        let tool_choice = if self.has_tools() { self.tool_choice() } else { ToolChoice::Auto };
        let request = self.round_request(None, self.known.clone(), tool_choice);
        Round::new(self.start(request), self.calls.end())
    }

    /// Whether the model is offered any tools.
    pub(super) fn has_tools(&self) -> bool {
        !self.known.offered.is_empty()
    }

    /// From the next round on, the model knows these tools.
    pub(super) fn note_learned<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.learned.extend(names.map(str::to_owned));
    }

    fn learn_tools(&mut self) {
        let learned = std::mem::take(&mut self.learned);
        self.known.learn(learned.iter().filter_map(|name| self.setup.tools().get(name)));
    }

    /// Asks the model for its closing answer, with this message and without tools.
    pub(super) fn ask_to_close(&mut self, closing: Cow<'static, str>) -> Message {
        let request = self.round_request(Some(closing), KnownTools::default(), ToolChoice::Auto);
        self.start(request)
    }

    fn start(&mut self, request: RoundRequest) -> Message {
        self.rounds += 1;
        let tokens = Tokens::of(&request, self.contract());
        self.script.act(Action::StartRound(Box::new(request)));
        let goes_on = std::mem::take(&mut self.before.is_cut);
        self.script.begin_message((!goes_on).then_some(self.rounds));
        self.seam = goes_on.then(|| Box::new(Seam::after(&self.record)));
        Message::new(self.rounds, self.script.text.len(), self.now_ms)
            .with_tokens(tokens)
            .that_goes_on(goes_on)
    }

    /// What the turn has counted.
    pub(super) fn tally(&self) -> Tally {
        let is_at_calls = self.before.step_after.is_some();
        let calls_before = u32::try_from(self.calls.made_before()).unwrap_or(u32::MAX);
        Tally {
            call_ids: if is_at_calls { 0 } else { self.calls.len() },
            calls: if is_at_calls { calls_before } else { self.calls.made() },
            rounds: self.rounds,
            usage: self.usage,
            bytes: self.bytes,
            has_called: self.has_called_as_asked(),
            closes: None,
            is_cut: false,
            learned: self.learned().map(str::to_owned).collect(),
            free_calls: self.free_calls.calls(),
            free_rounds: self.free_calls.rounds(),
            empty_answers: self.empty_answers,
            mistakes: self.mistakes.attempts(),
            mistaken_rounds: self.mistakes.rounds(),
            was_reminded_to_call: self.was_reminded_to_call,
            repeats: self.repeats.messages(),
        }
    }

    /// The tools that the model has learned about since the turn began, or will know in the next round.
    fn learned(&self) -> impl Iterator<Item = &str> {
        let known = self.known.learned_since(&self.setup.request.briefing.known);
        known.chain(self.learned.iter().map(String::as_str))
    }

    fn round_request(
        &self,
        closing: Option<Cow<'static, str>>,
        tools: KnownTools,
        tool_choice: ToolChoice,
    ) -> RoundRequest {
        let request = &self.setup.request;
        let mut sampling = self.sampling();
        if let Some(format) = request.response_format.as_ref().filter(|_| tools.offered.is_empty())
        {
            sampling.extra = sampling.extra.and(format.fields());
        }
        // Without tools, the server itself holds the model to the form.
        let answer = request.response_format.as_ref().filter(|_| !tools.offered.is_empty());
        let answer = answer.map(|format| Arc::new(format.schema()));
        let prompt = RoundPrompt {
            briefing: Arc::clone(&request.briefing),
            history: request.history.clone(),
            current: Arc::clone(&self.record),
            closing,
            goes_on: self.before.is_cut,
            response_format: request.response_format.clone(),
            offer_tokens: tools.tokens,
        };
        RoundRequest {
            prompt: Arc::new(prompt),
            images: Images::new(),
            sampling,
            tools: tools.offered,
            named: tools.named,
            tool_choice,
            answer,
            // The driver fills it in.
            trace: None,
            asked_first: self.answering.fallback,
        }
    }

    /// Whether the next round has to call a tool. After the first call the model is free:
    /// otherwise it would never answer.
    fn tool_choice(&self) -> ToolChoice {
        let request = &self.setup.request;
        if self.has_called_as_asked() { ToolChoice::Auto } else { request.tool_choice.clone() }
    }

    /// Whether the model has made the required call. A refused call does not count. If the turn
    /// begins with an answer, the call that asked was the required one.
    pub(super) fn has_called_as_asked(&self) -> bool {
        if self.before.has_called || matches!(self.setup.request.opening, Opening::Answer(_)) {
            return true;
        }
        let allows = |(name, _): (&str, _)| self.setup.request.tool_choice.allows(name);
        self.calls.iter().any(|call| {
            matches!(call.origin, Origin::Model | Origin::Interrupted { .. })
                && call.is_taken()
                && call.whole().is_some_and(allows)
        })
    }

    /// Raises the temperature with each mistake, so that the model does not repeat itself. The
    /// model server is told of no stop texts: see [`StopTexts`].
    fn sampling(&self) -> Sampling {
        let mut sampling = self.setup.request.sampling.clone();
        sampling.stop.clear();
        let mistakes = self.mistakes.rounds();
        if mistakes > 0 {
            let base = sampling.temperature.unwrap_or(limits::turn::USUAL_TEMPERATURE);
            let warmer = self.setup.rules().temperature_step.mul_add(f64::from(mistakes), base);
            // Rounded to hundredths, as people write it.
            let warmer = (warmer * 100.0).round() / 100.0;
            sampling.temperature = Some(warmer.min(limits::turn::WARMED_TEMPERATURE_MAX).max(base));
        }
        sampling
    }

    /// Reports that another upstream answers, and prefers it from now on.
    pub(super) fn reroute(
        &mut self,
        message: &mut Message,
        place: usize,
        name: String,
        why: PassedOver,
    ) {
        let why = why.wording();
        let status = format!("{} {why}; using {name} instead", self.answering.name);
        self.say_status(message, status);
        self.answering.fallback = Some(place);
        self.answering.name = name;
    }

    /// How the model that answers makes calls.
    pub(super) fn contract(&self) -> CallContract {
        self.answering.primer.contract
    }

    /// How it writes them.
    pub(super) fn format(&self) -> &CallFormat {
        self.answering.primer.format()
    }

    /// Takes this contract for that of the model that answers. Returns the parser that reads it, if
    /// that is another one.
    pub(super) fn adopt(
        &mut self,
        message: &mut Message,
        contract: CallContract,
    ) -> Option<Parser> {
        if contract == self.contract() {
            return None;
        }
        let primer = self.setup.request.briefing.primer(contract);
        message.tokens.are_told(contract);
        self.script.guard = self.setup.guard(&primer, Some(&self.record));
        let parser = self.setup.parser(&primer);
        self.answering.primer = primer;
        Some(parser)
    }

    /// Name of the upstream that answers.
    pub(super) fn answering(&self) -> &str {
        &self.answering.name
    }

    /// Notes whether anyone reads the turn.
    pub(super) fn note_audience(&mut self, is_present: bool) {
        self.give_up_at_ms = match self.give_up_at_ms {
            _ if is_present => None,
            None => Some(self.in_ms(self.setup.disconnect_grace())),
            since => since,
        };
    }

    /// The time this far from now.
    pub(super) fn in_ms(&self, wait: Duration) -> u64 {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.now_ms.saturating_add(wait)
    }

    /// Sends a status and keeps it for the transcript.
    pub(super) fn say_status(&mut self, message: &mut Message, status: impl Into<String>) {
        let status = status.into();
        message.push_said(UtteranceKind::Status, status.clone(), self.now_ms);
        self.script.say(EventDraft::Status(status));
    }

    /// Adds a message to the history, with the outcomes of its calls from `first_call` on. Calls
    /// that are still running are cancelled, and the rest never start.
    pub(super) fn push_step(&mut self, message: &mut Message, first_call: CallAt) {
        for call in self.calls.since_mut(first_call) {
            if call.is_running() {
                call.end(Outcome::Cancelled);
            } else if call.is_open() {
                call.end(Outcome::Skipped("the turn ended before it could begin".to_owned()));
            }
        }
        self.before.step_after = None;
        let mut step = message.take_step(&self.script.text, &self.calls);
        let mutates = |name: &str| self.setup.policy(name).is_some_and(|policy| policy.mutates);
        step.retry = prerequisites::call_to_retry(&self.record.steps, &step, mutates);
        for call in step.calls() {
            let (format, most) = (self.answering.primer.format(), self.setup.result_bytes_max());
            let json = || results::json(&call.result(), format, most);
            self.script.guard.learn_result(json);
        }
        if message.goes_on && !step.parts.is_empty() {
            let begun = self.record_mut().steps.pop().unwrap_or_default();
            step = begun.continued_by(step);
        }
        if !step.parts.is_empty() || !step.notes.is_empty() {
            self.record_mut().steps.push(step);
        }
    }
}
