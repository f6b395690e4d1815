//! One turn with random inputs, and what must hold after each step.

use super::coverage::{Coverage, name_of};
use super::model::{
    Begun, CONTRACTS, Dice, Mood, NativeCall, any_rules, asks_which, beside_clients, selected,
    written,
};
use super::rules::Witness;
use super::*;
use crate::limits::turn::UNTOLD_CALLS_FREE;

/// So long that a few of these exceed a small turn's limit.
const LONG: &str = "and so on, and so on, and so on, and so on, and so on, and so on, and so on";

/// The turn's text without the answer that the gateway made from results, and without the space
/// before that answer.
fn said_by_model(scene: &Scene) -> &str {
    let text = scene.turn.text();
    match scene.turn.record().steps.last().and_then(|step| step.parts.last()) {
        Some(Part::Said(said)) if said.kind == UtteranceKind::Response => {
            text.strip_suffix(said.text.as_str()).expect("it comes last").trim_end()
        }
        _ => text,
    }
}

/// A turn with random inputs, and the records to check it against.
#[expect(clippy::struct_excessive_bools, reason = "each was seen once")]
pub(super) struct Play {
    scene: Scene,
    mood: Mood,
    coverage: Coverage,
    witness: Witness,
    /// Inputs since the last poll.
    came: Vec<(&'static str, &'static str)>,
    put_out: usize,
    /// The running round's native calls, and how many of them are whole.
    begun: Vec<Begun>,
    whole: usize,
    checked_events: usize,
    markers: HashSet<String>,
    started: HashSet<String>,
    /// Whether a tool with a waiting hint was started.
    started_aloud: bool,
    completed: HashSet<String>,
    handed_out: HashSet<String>,
    acknowledged: bool,
    asked: bool,
    ended: bool,
    /// What the model has written in the running round, and the expected text of the earlier
    /// rounds.
    written: String,
    text: String,
    /// The last usage of each round, with the running one.
    usages: Vec<Usage>,
    /// How many rounds have been requested; the last one is running.
    round: usize,
    settled_deeds: usize,
    /// How many of the turn's steps were stored and read back.
    stored_steps: usize,
    checked_rounds: usize,
    now_ms: u64,
}

impl Play {
    /// A turn with this history, and with an answer to the question it may have left open.
    pub(super) fn new(dice: &mut Dice, turn_id: &str, history: &Conversation) -> Self {
        let rules = any_rules(dice);
        let form = *dice.pick(&[History::Text, History::Native]);
        let mut tools = tools();
        add_policies(&mut tools);
        let tools = beside_clients(dice, tools.catalog());
        let briefing = selected(dice, rules, &tools);
        let opening = opening(dice, history);
        let history = history.before(&opening);
        let mood = Mood::new(dice, matches!(opening, Opening::Answer(_)));
        let turn_id = turn_id.to_owned();
        let named = ToolChoice::Named("read".to_owned());
        let auto = ToolChoice::Auto;
        let tool_choice = dice.pick(&[auto.clone(), auto, ToolChoice::Required, named]).clone();
        let single_client_call = dice.roll(3) == 0;
        let stop = if dice.roll(6) == 0 { vec!["é日".to_owned()] } else { Vec::new() };
        let request = TurnRequest {
            sampling: Sampling { stop, ..Sampling::default() },
            turn_id,
            opening,
            tool_choice,
            single_client_call,
            briefing,
            history,
            ..request()
        };
        let scene = Scene::with_history(request, form);
        let mut play = Self {
            scene,
            mood,
            coverage: Coverage::default(),
            witness: Witness::default(),
            came: vec![("-", "begin")],
            put_out: 0,
            begun: Vec::new(),
            whole: 0,
            checked_events: 0,
            markers: HashSet::new(),
            started: HashSet::new(),
            started_aloud: false,
            completed: HashSet::new(),
            handed_out: HashSet::new(),
            acknowledged: false,
            asked: false,
            ended: false,
            written: String::new(),
            text: String::new(),
            usages: vec![Usage::NONE],
            round: 1,
            settled_deeds: 0,
            stored_steps: 0,
            checked_rounds: 0,
            now_ms: 0,
        };
        play.coverage.moved(("-", "begin"), play.scene.turn.state());
        play.drain();
        play
    }

    /// Gives the turn an input and counts the move.
    fn give(&mut self, input: Input<'_>) {
        let turn = &mut self.scene.turn;
        let place = (turn.state().name(), name_of(&input));
        if turn.is_between_rounds() && matches!(input, Input::Delta(_)) {
            self.coverage.saw("ignored: the rest of a dropped round");
        }
        turn.handle(input);
        self.coverage.moved(place, turn.state());
        self.came.push(place);
    }

    /// Polls and counts the outputs.
    fn drain(&mut self) {
        self.scene.drain();
        if let [place] = self.came[..] {
            self.coverage.put_out(place, &self.scene.outputs[self.put_out..]);
        }
        self.came.clear();
        self.put_out = self.scene.outputs.len();
        self.witness.look(&self.scene, &mut self.coverage);
    }

    fn handle(&mut self, input: Input<'_>) {
        self.give(input);
        self.drain();
    }

    /// Gives the turn a delta and records it if the turn is listening.
    fn delta(&mut self, delta: Delta<'_>) {
        let turn = &self.scene.turn;
        let listens = matches!(turn.state(), TurnState::Planning | TurnState::Synthesizing);
        if listens && !turn.is_between_rounds() {
            match delta {
                Delta::Text(text) => self.written.push_str(text),
                Delta::Usage(usage) => *self.usages.last_mut().unwrap() = usage,
                _ => {}
            }
        }
        self.give(Input::Delta(delta));
    }

    /// Checks that the round's text is what the parser finds in all of it at once.
    ///
    /// A round stopped by the turn itself keeps the text from before the stop.
    fn end_round(&mut self, was_stopped: bool) {
        let mut parser = Parser::new(self.settings()).unwrap();
        let text = &mut self.text;
        let mut take = |segment: Segment<'_>| {
            if let Segment::Text(said) = segment {
                text.push_str(said);
            }
        };
        parser.push_str(&std::mem::take(&mut self.written), &mut take);
        if !was_stopped {
            parser.finish(&mut take);
        }
        let said = said_by_model(&self.scene);
        let rest = self.text.strip_prefix(said).unwrap_or_default();
        let is_results = rest.starts_with(['`', '{', '[']);
        let stops = &self.scene.turn.request().sampling.stop;
        let is_stop_text = stops.iter().any(|stop| rest.starts_with(stop));
        if (was_stopped || is_results || is_stop_text) && self.text.starts_with(said) {
            // The rest of the message was not read.
            said.clone_into(&mut self.text);
        }
        self.usages.push(Usage::NONE);
        self.begun.clear();
        self.whole = 0;
    }

    /// How the model's words are read now.
    fn settings(&self) -> parser::Settings {
        self.scene.turn.rules().parser_settings(self.scene.turn.contract(), None)
    }

    /// Begins, continues or completes a native call. Calls complete oldest first, as in servers,
    /// but their pieces come in any order.
    fn call_natively(&mut self, dice: &mut Dice) {
        if self.begun.is_empty() && dice.roll(4) == 0 {
            return self.fail_amid_calls(dice);
        }
        let open = self.begun.len() - self.whole;
        match dice.roll(4) {
            0 | 1 if open > 0 => {
                self.continue_call(self.whole + dice.roll(open));
            }
            2 if open > 0 => self.complete_call(),
            _ => {
                let call = self.mood.call(dice);
                self.begin_call(call);
            }
        }
    }

    fn begin_call(&mut self, (name, pieces): NativeCall) {
        let index = u32::try_from(self.begun.len()).unwrap();
        self.begun.push(Begun { name, rest: pieces.iter(), arguments: String::new() });
        self.delta(Delta::CallStarted { index });
    }

    /// Writes the next piece of a call's arguments, if there is one.
    fn continue_call(&mut self, at: usize) -> bool {
        let Some(json) = self.begun[at].rest.next() else { return false };
        self.begun[at].arguments.push_str(json);
        self.delta(Delta::CallArguments { index: u32::try_from(at).unwrap(), json });
        true
    }

    fn complete_call(&mut self) {
        let Begun { name, arguments, .. } = &self.begun[self.whole];
        let (name, arguments) = (*name, arguments.clone());
        let index = u32::try_from(self.whole).unwrap();
        self.whole += 1;
        self.delta(Delta::CallCompleted { index, name, arguments: &arguments });
    }

    /// Ends the model's message, and then completes the open calls.
    fn finish_round(&mut self, finish: RoundFinish) {
        self.delta(Delta::Finish(finish));
        self.drain();
        while self.whole < self.begun.len() {
            self.complete_call();
        }
        self.drain();
        self.handle(Input::RoundEnded);
    }

    fn is_native(&self) -> bool {
        self.scene.turn.contract() == CallContract::Native
    }

    pub(super) fn step(&mut self, dice: &mut Dice) {
        match dice.roll(24) {
            0..=11 if !self.mood.is_silent() => {
                // Several deltas may be handled before anything is polled.
                for _ in 0..=dice.roll(3) {
                    // A server with calls in the text is sent no tools, but may report calls all
                    // the same.
                    if dice.roll(4) == 0 || (self.is_native() && dice.roll(3) > 0) {
                        self.call_natively(dice);
                    } else {
                        let format = self.scene.turn.format();
                        let text = written(self.mood.saying(dice), format);
                        self.delta(Delta::Text(&text));
                    }
                }
            }
            12 | 13 => self.think(dice),
            14 => {
                let tokens = u64::try_from(dice.roll(9)).unwrap();
                self.delta(Delta::Usage(Usage {
                    prompt_tokens: 1,
                    completion_tokens: tokens,
                    total_tokens: 1 + tokens,
                }));
            }
            _ => self.act(dice),
        }
        self.drain();
        self.settle();
    }

    fn think(&mut self, dice: &mut Dice) {
        match dice.roll(3) {
            0 => self.delta(Delta::ReasoningItem(dice.pick::<&str>(&["{}", LONG]))),
            1 => self.delta(Delta::Reasoning(LONG)),
            _ => self.delta(Delta::Reasoning("hm")),
        }
    }

    /// Something else that may happen in a turn.
    fn act(&mut self, dice: &mut Dice) {
        match dice.roll(11) {
            10 => self.report(dice),
            0 => self.finish_round(*dice.pick(&[RoundFinish::Length, RoundFinish::ContentFilter])),
            1 | 2 => self.finish_round(*dice.pick(&[RoundFinish::Stop, RoundFinish::ToolCalls])),
            // It ends without a finish reason.
            3 => self.handle(Input::RoundEnded),
            4..=6 if !self.scene.running.is_empty() => {
                let call = *dice.pick(&self.scene.running);
                let result = self.mood.result(dice);
                self.tool_returns(call, result);
            }
            7 | 8 => self.disturb(dice),
            9 => {
                let passed = *dice.pick(&[1, 999, 1000, 30_000]);
                self.pass_time(passed);
            }
            _ => {}
        }
    }

    /// Progress from a tool, whether it runs or not.
    fn report(&mut self, dice: &mut Dice) {
        let call = match self.scene.running.first() {
            Some(&running) if dice.roll(4) > 0 => running,
            _ => dice.roll(4),
        };
        if dice.roll(3) == 0 {
            self.tool_asks(call, dice);
            return;
        }
        for _ in 0..=dice.roll(3) {
            let progress = Progress::new(f64::from(u32::try_from(dice.roll(9)).unwrap()));
            let attempt = u32::try_from(1 + dice.roll(2)).unwrap();
            let call = CallAt::new(call);
            self.give(Input::ToolProgressed { call, progress, attempt });
        }
        self.drain();
    }

    fn tool_asks(&mut self, call: usize, dice: &mut Dice) {
        let Some(question) = asks_which().clarification else { return };
        let runs = self.scene.running.contains(&call);
        let call = CallAt::new(call);
        let again = Continuation::Again { state: json!({ "asked": "once" }) };
        let continuation = dice.pick(&[Continuation::Model, again, Continuation::Open]).clone();
        self.handle(Input::ToolAsked { call, question, continuation, duration_ms: 5, attempts: 1 });
        if runs {
            self.coverage.saw("asked: by a tool that runs");
        }
    }

    /// Lets time pass, whether or not that reaches a deadline.
    fn pass_time(&mut self, passed_ms: u64) {
        self.now_ms += passed_ms;
        let deadline_ms = self.scene.turn.deadline_ms();
        self.scene.turn.set_now(self.now_ms);
        self.handle(Input::Tick);
        // A deadline in the past would make the driver spin.
        let next_ms = self.scene.turn.deadline_ms();
        assert!(next_ms.is_none_or(|next_ms| next_ms > self.now_ms), "{deadline_ms:?}");
    }

    /// Something that seldom happens.
    fn disturb(&mut self, dice: &mut Dice) {
        let max = self.scene.turn.rules().max_turn_bytes * EVENTS_FACTOR;
        match dice.roll(19) {
            0 if self.now_ms.is_multiple_of(2) => self.handle(Input::StoreLost),
            0 => self.handle(Input::Cancel),
            1 => {
                let code = *dice.pick(&[
                    FailureCode::UpstreamUnavailable,
                    FailureCode::UpstreamError,
                    FailureCode::UpstreamTimeout,
                ]);
                let message = "silent".into();
                self.handle(Input::RoundFailed { code, message, retryable: true });
            }
            2 => self.handle(Input::Logged(max + 1)),
            3..=5 => self.handle(Input::Logged(max)),
            6..=9 => {
                self.handle(Input::Rerouted {
                    place: 1,
                    answering: "other".into(),
                    why: PassedOver::Unreachable,
                });
                if self.written.is_empty() && self.begun.is_empty() {
                    let contract = *dice.pick(&CONTRACTS);
                    self.handle(Input::Answered {
                        contract,
                        in_reasoning: false,
                        is_prefilled: false,
                    });
                }
            }
            16..=18 => self.handle(Input::Audience { is_present: dice.roll(2) == 0 }),
            // A result of a call that is no longer running, or not yet.
            _ => {
                let call = dice.roll(4);
                if !self.scene.running.contains(&call) {
                    self.coverage.saw("ignored: input of a tool that does not run");
                    self.tool_returns(call, ok());
                }
            }
        }
    }

    /// A tool fails, asks, or ends the chain, while the model still writes another call, or before it
    /// begins one.
    fn fail_amid_calls(&mut self, dice: &mut Dice) {
        if !self.is_native() {
            return;
        }
        for name in [&["read"][..], &["read", "mute"]][dice.roll(2)] {
            self.begin_call((name, &["{}"]));
            while self.continue_call(self.begun.len() - 1) {}
            while self.whole < self.begun.len() {
                self.complete_call();
            }
        }
        let half = ("read", &["{", "}"][..]);
        let has_begun = dice.roll(2) == 0;
        if has_begun {
            self.begin_call(half);
        }
        self.drain();
        self.settle();
        if let Some(&call) = self.scene.running.first() {
            match dice.roll(5) {
                0 | 1 => self.tool_returns(call, ToolResult::error("no")),
                2 | 3 => self.tool_returns(call, completes()),
                _ => self.tool_asks(call, dice),
            }
            self.settle();
        }
        if self.begun.is_empty() {
            return;
        }
        if has_begun {
            self.continue_call(self.begun.len() - 1);
        } else {
            self.begin_call(half);
        }
    }

    fn tool_returns(&mut self, call: usize, result: ToolResult) {
        self.scene.running.retain(|running| *running != call);
        let call = CallAt::new(call);
        self.handle(Input::ToolEnded { call, result, duration_ms: 5, attempts: 1 });
    }

    /// Settles a round that ended other than by a delta.
    pub(super) fn settle(&mut self) {
        // Cancelling and failing also stop the tools.
        let deeds = &self.scene.deeds[self.settled_deeds..];
        let stops = |(at, deed): (usize, &String)| {
            deed == "stop round" && deeds.get(at + 1).is_none_or(|next| next != "stop tools")
        };
        let was_stopped = deeds.iter().enumerate().any(stops);
        self.settled_deeds = self.scene.deeds.len();
        let turn = &self.scene.turn;
        if turn.state() == TurnState::Executing
            || turn.is_over()
            || self.scene.rounds.len() > self.round
        {
            self.end_round(was_stopped);
        }
        self.round = self.scene.rounds.len();
    }

    /// What the turn has added to the history can be stored after each of its steps.
    fn check_stored(&mut self) {
        let turn = self.scene.turn.record();
        if turn.steps.len() == self.stored_steps {
            return;
        }
        self.stored_steps = turn.steps.len();
        let mut conversation = self.scene.turn.request().history.clone();
        // What it continues is not in the history of its request.
        let turn = &conversation::Turn { continues: false, ..turn.clone() };
        conversation.push(turn.clone());
        let stored = SessionRecord { conversation, ..SessionRecord::default() }.write();
        let read = SessionRecord::read(stored.as_bytes()).unwrap();
        assert_eq!(read.conversation.turns().next_back().map(|last| &**last), Some(turn));
    }

    pub(super) fn check(&mut self) {
        self.check_stored();
        let parallel_max = self.scene.turn.rules().max_parallel;
        assert!(self.scene.running.len() <= parallel_max, "too many at once");
        for event in &self.scene.events[self.checked_events..] {
            assert!(!self.ended, "nothing follows the last event: {event}");
            let call = event["data"]["call_id"].as_str().map(str::to_owned);
            match event["type"].as_str().unwrap() {
                "tool_marker_detected" => assert!(self.markers.insert(call.unwrap()), "once"),
                "tool_started" => {
                    let call = call.unwrap();
                    let is_resumed = event["data"]["loop"] == 0;
                    assert!(is_resumed || self.markers.contains(&call), "a marker first");
                    assert!(self.started.insert(call), "once");
                    self.started_aloud |= event["data"]["tool_name"] != "mute";
                }
                "tool_progress" => {
                    let call = call.unwrap();
                    assert!(self.started.contains(&call), "a start first");
                    assert!(!self.completed.contains(&call), "no report of what has ended");
                    self.coverage.saw("progress reported");
                }
                "tool_completed" => {
                    let call = call.unwrap();
                    assert!(self.started.contains(&call), "a start first");
                    assert!(self.completed.insert(call), "once");
                }
                "client_tool_call" => {
                    let call = call.unwrap();
                    assert!(self.markers.contains(&call), "a marker first");
                    assert!(self.scene.running.is_empty(), "ours are done");
                    assert!(self.handed_out.insert(call), "once");
                }
                "acknowledgement" => {
                    assert!(!self.started_aloud, "it comes before all that it could tell of");
                    assert!(!std::mem::replace(&mut self.acknowledged, true), "once");
                }
                "clarification_needed" => {
                    assert!(!std::mem::replace(&mut self.asked, true), "once");
                }
                "text_delta" => {
                    let text = event["data"]["text"].as_str().unwrap();
                    assert!(!text.is_empty());
                }
                "turn_completed" | "turn_failed" => {
                    self.ended = true;
                    let hands_out = event["data"]["finish_reason"] == "client_tool_calls";
                    assert_eq!(hands_out, !self.handed_out.is_empty(), "that is the end");
                }
                _ => {}
            }
        }
        self.check_barriers();
        self.checked_events = self.scene.events.len();
        assert_eq!(self.ended, self.scene.turn.is_over());
        let waiting = self.scene.turn.core.acknowledgement.waiting();
        let is_planning = self.scene.turn.state() == TurnState::Planning;
        assert!(waiting.is_empty() || is_planning, "only while the model speaks: {waiting:?}");
        let deeds = &self.scene.deeds;
        let begins = |deed: &&String| deed.starts_with("start") || deed.starts_with("resume");
        let starts = deeds.iter().filter(begins).count();
        // Tools that wait for the acknowledgement are already running.
        let waiting =
            waiting.iter().filter(|event| matches!(event, EventDraft::ToolStarted { .. })).count();
        assert_eq!(starts, self.started.len() + waiting);
        for request in &self.scene.rounds[self.checked_rounds..] {
            if let Err(wrong) = check_sequence(&request.messages) {
                panic!("{wrong}: {:#?}", request.messages);
            }
        }
        self.checked_rounds = self.scene.rounds.len();
    }

    /// Checks that no call runs after a barrier that did not succeed, and that no mutating call
    /// runs before its message is over or after a call that did not succeed.
    fn check_barriers(&self) {
        let turn = &self.scene.turn;
        let calls: Vec<_> = turn.core.calls.iter().collect();
        for &at in &self.scene.running {
            let call = calls[at];
            let mutates = call.policy().mutates;
            let is_approved = matches!(call.origin, Origin::Approved { is_current: true });
            let setup = &turn.core.setup;
            let goes_on = matches!(call.origin, Origin::Again(_) | Origin::Open { .. });
            assert!(
                !setup.wants_approval(&call.policy())
                    || is_approved
                    || goes_on
                    || setup.is_approved(call.name()),
                "{call:?} runs without approval"
            );
            let message_is_over =
                turn.state() != TurnState::Planning || call.round < turn.core.rounds;
            assert!(!mutates || message_is_over, "{call:?} began before the message's end");
            let before = calls[..at].iter().filter(|before| before.round == call.round);
            let is_first = before.clone().all(|before| before.standing() != Standing::Open);
            assert!(!call.policy().sequential || is_first, "{call:?} runs beside others");
            for before in before.filter(|before| mutates || before.policy().is_barrier()) {
                let waits = matches!(before.standing(), Standing::PutOff | Standing::HandedOut);
                let may_run = (waits && !mutates) || before.standing() == Standing::Done;
                assert!(may_run, "{call:?} runs after {before:?}");
            }
        }
    }

    /// Brings the turn to an end, as a patient driver would.
    pub(super) fn finish(&mut self) {
        for _ in 0..200 {
            if self.scene.turn.is_over() {
                break;
            }
            match self.scene.running.first() {
                Some(&call) => self.tool_returns(call, ok()),
                None => self.finish_round(RoundFinish::Stop),
            }
            self.settle();
            self.check();
        }
        assert!(self.scene.turn.is_over(), "it does not end: {:#?}", self.scene.deeds);
    }

    /// All outputs: events, actions, and requests to the model.
    pub(super) fn came_out(&self) -> String {
        format!("{:#?}\n{:#?}\n{:#?}", self.scene.events, self.scene.deeds, self.scene.rounds)
    }

    /// Checks the end, and returns the turn as history.
    pub(super) fn check_end(self) -> (Conversation, Coverage) {
        let said: String = self
            .scene
            .events
            .iter()
            .filter(|event| event["type"] == "text_delta")
            .map(|event| event["data"]["text"].as_str().unwrap())
            .collect();
        let end = &self.scene.events.last().unwrap()["data"];
        assert_eq!(end["text"], said.as_str(), "the text is what was said");
        let by_model = said_by_model(&self.scene);
        let parsed = if by_model == said { &self.text } else { self.text.trim_end() };
        assert_eq!(by_model, parsed, "and it is what the parser makes of each round");
        let (_, rounds) = self.usages.split_last().unwrap();
        let counted: u64 = rounds.iter().map(|usage| usage.total_tokens).sum();
        let total = end["usage"]["total_tokens"].as_u64().unwrap();
        // The tokens of a round that was broken off are estimated.
        let is_estimated = rounds.contains(&Usage::NONE) && total > counted;
        assert!(total == counted || is_estimated, "each token once: {counted} and {total}");
        let cap = self.scene.turn.core.setup.max_tool_loops;
        let free = self.scene.turn.core.rounds - self.scene.turn.core.counted_rounds();
        assert!(free as usize <= UNTOLD_CALLS_FREE, "{free} rounds were free");
        let rounds = u32::try_from(self.scene.rounds.len()).unwrap();
        // The closing answer may be asked for twice.
        assert!(rounds <= cap + free + 2, "{rounds} rounds with a cap of {cap}");
        let asked = self.scene.turn.state() == TurnState::AwaitingClarification;
        assert_eq!((asked, end["finish_reason"] == "clarification_needed"), (self.asked, asked));
        let mut history = self.scene.turn.request().history.clone();
        let record = self.scene.turn.into_record();
        assert!(record.ending.is_some());
        let mut sent: Vec<Value> = Vec::new();
        for call in record.steps.iter().flat_map(Step::calls) {
            let arguments = call.arguments.to_value();
            if call.name == "send"
                && self.completed.contains(&call.call_id)
                && call.result().success
            {
                assert!(!sent.contains(&arguments), "sent twice: {call:?}");
                sent.push(arguments);
            }
        }
        let mut ids = HashSet::new();
        for call in record.steps.iter().flat_map(Step::calls) {
            assert!(ids.insert(call.call_id.clone()), "a call is in the history once");
            let ran = self.completed.contains(&call.call_id);
            assert!(!ran || !matches!(call.outcome, Outcome::Cancelled));
        }
        let handed_out: HashSet<_> = match record.ending {
            Some(Ending::Completed(TurnFinish::ClientToolCalls)) => {
                record.handed_out().map(|call| call.call_id.clone()).collect()
            }
            _ => HashSet::new(),
        };
        assert_eq!(handed_out, self.handed_out, "the history awaits what was handed out");
        for call in &self.started {
            assert!(ids.contains(call), "what was started is in the history");
        }
        history.push(conversation::Turn { continues: false, ..record });
        (history, self.coverage)
    }
}
