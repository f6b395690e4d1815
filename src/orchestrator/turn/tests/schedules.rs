//! Random schedules: whatever happens in whatever order, the invariants hold after
//! every step. A failure prints its seed; run that one again with
//! `TETHER_SEED=<seed>` and more of them with `TETHER_SCHEDULES=<count>`.

use super::chains::{add_policies, asks, completes};
use super::*;
use crate::conversation::Choice;
use crate::conversation::render::tests::check_sequence;
use crate::orchestrator::draft::Progress;
use crate::parser::Segment;

/// `SplitMix64`: small, seedable, the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let sides = u64::try_from(sides).unwrap();
        usize::try_from((z ^ (z >> 31)) % sides).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

/// What a model says: words, calls good and bad, halves of both.
const SAYINGS: &[&str] = &[
    "Hello. ",
    "\n",
    "é日",
    "<",
    "<<function_call>>",
    " {\"name\": \"calculate\", \"arguments\": {\"expression\": \"1+1\"}}",
    TIME,
    SUM,
    "<<function_call>> {\"name\": \"nope\", \"arguments\": {}}\n",
    "<<function_call>> {\"name\": \"calculate\", \"arguments\": {\"expression\": 1}}\n",
    "<<function_call>> [{\"name\": \"get_current_time\"}, 7, {\"name\": \"calculate\"}]",
    "<<function_call>> {]",
    "<<function_call>> {\"name\": \"read\", \"arguments\": {}}\n",
    "<<function_call>> {\"name\": \"look\", \"arguments\": {}}\n",
    "<<function_call>> {\"name\": \"send\", \"arguments\": {}}\n",
    "<<function_call>> {\"name\": \"send\", \"arguments\": {\"n\": {\"$result\": \"call_1.data.n\"}}}\n",
    "<<function_call>> {\"name\": \"step\", \"arguments\": {\"n\": 1}}\n",
    "\n<<function_call>> nothing\n",
    "{\"name\": ",
    "}",
    "\"",
    "<think>",
    "</think>",
    "\nResults of your calls:\n",
];

/// Native calls, good and bad: the name, and the pieces of the arguments.
const CALLS: &[(&str, &[&str])] = &[
    ("calculate", &["{\"expression\"", ": \"1+1\"}"]),
    ("calculate", &["{\"expression\": 1}"]),
    ("calculate", &["{\"expression\": \"1"]),
    ("get_current_time", &["{}"]),
    ("get_current_time", &[""]),
    ("get_current_time", &["{", "]"]),
    ("nope", &["{}"]),
    ("", &["{}"]),
    ("read", &["{}"]),
    ("look", &["{", "}"]),
    ("send", &["{}"]),
    ("send", &["{\"n\": {\"$result\": \"call_1.data.n\"}}"]),
    ("step", &["{\"n\": 1}"]),
];

/// A native call that has begun, and what was said of it.
struct Begun {
    name: &'static str,
    rest: std::slice::Iter<'static, &'static str>,
    arguments: String,
}

/// A turn under the dice, with what has to hold.
struct Play {
    scene: Scene,
    /// The running round's native calls, and how many of them are whole.
    begun: Vec<Begun>,
    whole: usize,
    seen: usize,
    markers: HashSet<String>,
    started: HashSet<String>,
    completed: HashSet<String>,
    acknowledged: bool,
    asked: bool,
    ended: bool,
    /// What the model has written into the running round, and what the text of the
    /// rounds before it has to be.
    written: String,
    text: String,
    /// The last usage of the running round, and the sum of those before it.
    round_usage: Usage,
    usage: Usage,
    /// Rounds that were asked for, of which the last runs.
    round: usize,
    settled_deeds: usize,
    checked_rounds: usize,
}

impl Play {
    /// A turn behind others, with an answer to what they may have asked.
    fn new(dice: &mut Dice, turn_id: &str, history: Conversation) -> Self {
        let call_contract = *dice.pick(&[CallContract::MarkerJson, CallContract::Native]);
        let rules = Rules {
            call_contract,
            execution: *dice.pick(&[Execution::Eager, Execution::AfterTurn]),
            max_parallel: 1 + dice.roll(3),
            feedback_attempts: 1 + u32::try_from(dice.roll(3)).unwrap(),
            max_tool_loops: 1 + u32::try_from(dice.roll(4)).unwrap(),
            max_calls: 1 + u32::try_from(dice.roll(6)).unwrap(),
            max_turn_bytes: *dice.pick(&[200, 4096]),
            continue_after_tool: dice.roll(8) != 0,
            parser: parser::Settings {
                argument_deltas: dice.roll(2) == 0,
                strict_balancing: dice.roll(2) == 0,
                ..parser::Settings::default()
            },
            ..Rules::default()
        };
        let form = *dice.pick(&[History::Text, History::Native]);
        let mut tools = tools();
        add_policies(&mut tools);
        let briefing = Arc::new(match call_contract {
            CallContract::MarkerJson => Briefing::new("Be kind.", "<<function_call>>", tools),
            CallContract::Native => Briefing::native("Be kind.", tools),
        });
        let opening = opening(dice, &history);
        let turn_id = turn_id.to_owned();
        let request = TurnRequest { turn_id, opening, briefing, history, ..request() };
        let scene = Scene::with_history(rules, request, form);
        Self {
            scene,
            begun: Vec::new(),
            whole: 0,
            seen: 0,
            markers: HashSet::new(),
            started: HashSet::new(),
            completed: HashSet::new(),
            acknowledged: false,
            asked: false,
            ended: false,
            written: String::new(),
            text: String::new(),
            round_usage: Usage::default(),
            usage: Usage::default(),
            round: 1,
            settled_deeds: 0,
            checked_rounds: 0,
        }
    }

    /// Hands over a delta; what the turn listens to is written down.
    fn delta(&mut self, delta: Delta<'_>) {
        let turn = &mut self.scene.turn;
        let listens = matches!(turn.state, State::Planning | State::Synthesizing);
        if listens && !turn.between_rounds {
            match delta {
                Delta::Text(text) => self.written.push_str(text),
                Delta::Usage(usage) => self.round_usage = usage,
                _ => {}
            }
        }
        turn.handle(Input::Delta(delta));
    }

    /// The round's text has to be what the parser makes of all of it at once.
    ///
    /// A round that the turn itself has stopped keeps what was decided until then.
    fn end_round(&mut self, was_stopped: bool) {
        let mut parser = Parser::new(self.scene.turn.rules.parser_settings()).unwrap();
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
        let said = &self.scene.turn.draft.text;
        if said.ends_with(RESULTS_HEADING) && self.text.starts_with(said) {
            // What stands behind results that it invents is not read.
            self.text.clone_from(said);
        }
        self.usage += std::mem::take(&mut self.round_usage);
        self.begun.clear();
        self.whole = 0;
    }

    /// A call begins, goes on, or becomes whole: the oldest first, as servers tell it.
    /// Pieces of several come in any order.
    fn call_natively(&mut self, dice: &mut Dice) {
        let open = self.begun.len() - self.whole;
        match dice.roll(4) {
            0 | 1 if open > 0 => {
                let at = self.whole + dice.roll(open);
                let call = &mut self.begun[at];
                if let Some(json) = call.rest.next() {
                    call.arguments.push_str(json);
                    self.delta(Delta::CallArguments { index: u32::try_from(at).unwrap(), json });
                }
            }
            2 if open > 0 => self.complete_call(),
            _ => {
                let index = u32::try_from(self.begun.len()).unwrap();
                let (name, pieces) = *dice.pick(CALLS);
                self.begun.push(Begun { name, rest: pieces.iter(), arguments: String::new() });
                self.delta(Delta::CallStarted { index });
            }
        }
    }

    fn complete_call(&mut self) {
        let Begun { name, arguments, .. } = &self.begun[self.whole];
        let (name, arguments) = (*name, arguments.clone());
        let index = u32::try_from(self.whole).unwrap();
        self.whole += 1;
        self.delta(Delta::CallCompleted { index, name, arguments: &arguments });
    }

    /// The model finishes; what is open becomes whole behind that.
    fn finish_round(&mut self, finish: RoundFinish) {
        self.delta(Delta::Finish(finish));
        while self.whole < self.begun.len() {
            self.complete_call();
        }
        self.scene.drain();
        self.scene.handle(Input::RoundEnded);
    }

    fn is_native(&self) -> bool {
        self.scene.turn.rules.call_contract == CallContract::Native
    }

    fn step(&mut self, dice: &mut Dice) {
        match dice.roll(24) {
            0..=13 => {
                // Several deltas may be handled before anything is polled.
                for _ in 0..=dice.roll(3) {
                    // Servers that read no calls are not asked for any, and may tell of some.
                    if dice.roll(4) == 0 || (self.is_native() && dice.roll(3) > 0) {
                        self.call_natively(dice);
                        continue;
                    }
                    let saying = *dice.pick(SAYINGS);
                    self.delta(Delta::Text(saying));
                }
            }
            14 => {
                let tokens = u64::try_from(dice.roll(9)).unwrap();
                self.delta(Delta::Reasoning("hm"));
                self.delta(Delta::Usage(Usage {
                    prompt_tokens: 1,
                    completion_tokens: tokens,
                    total_tokens: 1 + tokens,
                }));
            }
            _ => self.act(dice),
        }
        self.scene.drain();
        self.settle();
    }

    /// Whatever else may happen to a turn.
    fn act(&mut self, dice: &mut Dice) {
        let side = dice.roll(10);
        match side {
            0 => return self.finish_round(RoundFinish::Length),
            1..=3 => return self.finish_round(RoundFinish::Stop),
            _ => {}
        }
        let scene = &mut self.scene;
        match side {
            4..=6 if !scene.running.is_empty() => {
                let call = *dice.pick(&scene.running);
                let result = match dice.roll(12) {
                    0..=2 => ToolResult::error("no"),
                    3 => asks(),
                    4 => completes(),
                    n => ToolResult::data(json!({ "n": n / 7 })),
                };
                scene.tool_returns(call, result);
            }
            9 => drop(scene.handle(Input::TimerEnded)),
            7 if dice.roll(12) == 0 => drop(scene.handle(Input::Cancel)),
            8 if dice.roll(12) == 0 => drop(scene.handle(Input::RoundFailed {
                code: FailureCode::UpstreamTimeout,
                message: "silent".into(),
                retryable: true,
            })),
            _ => {}
        }
    }

    /// Closes the books of a round that ended otherwise than by a delta.
    fn settle(&mut self) {
        // Cancelling and failing stop the tools, too.
        let deeds = &self.scene.deeds[self.settled_deeds..];
        let stops = |(at, deed): (usize, &String)| {
            deed == "stop round" && deeds.get(at + 1).is_none_or(|next| next != "stop tools")
        };
        let was_stopped = deeds.iter().enumerate().any(stops);
        self.settled_deeds = self.scene.deeds.len();
        let turn = &self.scene.turn;
        if turn.state == State::Executing || turn.is_over() || self.scene.rounds.len() > self.round
        {
            self.end_round(was_stopped);
        }
        self.round = self.scene.rounds.len();
    }

    fn check(&mut self) {
        let parallel_max = self.scene.turn.rules.max_parallel;
        assert!(self.scene.running.len() <= parallel_max, "too many at once");
        for event in &self.scene.events[self.seen..] {
            assert!(!self.ended, "nothing follows the last event: {event}");
            let call = event["data"]["call_id"].as_str().map(str::to_owned);
            match event["type"].as_str().unwrap() {
                "tool_marker_detected" => assert!(self.markers.insert(call.unwrap()), "once"),
                "tool_started" => {
                    let call = call.unwrap();
                    let is_resumed = event["data"]["loop"] == 0;
                    assert!(is_resumed || self.markers.contains(&call), "a marker first");
                    assert!(self.started.insert(call), "once");
                }
                "tool_completed" => {
                    let call = call.unwrap();
                    assert!(self.started.contains(&call), "a start first");
                    assert!(self.completed.insert(call), "once");
                }
                "acknowledgement" => {
                    assert!(self.started.is_empty(), "it comes before all tools");
                    assert!(!std::mem::replace(&mut self.acknowledged, true), "once");
                }
                "clarification_needed" => {
                    assert!(!std::mem::replace(&mut self.asked, true), "once");
                }
                "text_delta" => {
                    let text = event["data"]["text"].as_str().unwrap();
                    assert!(!text.is_empty());
                }
                "turn_completed" | "turn_failed" => self.ended = true,
                _ => {}
            }
        }
        self.check_barriers();
        self.seen = self.scene.events.len();
        assert_eq!(self.ended, self.scene.turn.is_over());
        let deeds = &self.scene.deeds;
        let starts = deeds.iter().filter(|deed| deed.starts_with("start")).count();
        // What waits for the acknowledgement runs already.
        let held = self.scene.turn.held.iter();
        let held = held.filter(|entry| matches!(entry, EventDraft::ToolStarted { .. })).count();
        assert_eq!(starts, self.started.len() + held);
        for request in &self.scene.rounds[self.checked_rounds..] {
            if let Err(wrong) = check_sequence(&request.messages) {
                panic!("{wrong}: {:#?}", request.messages);
            }
        }
        self.checked_rounds = self.scene.rounds.len();
    }

    /// No call runs behind a barrier that came to nothing, and none that mutates
    /// before its message is over or behind one that has not succeeded.
    fn check_barriers(&self) {
        let turn = &self.scene.turn;
        let calls = &turn.draft.calls;
        for &at in &self.scene.running {
            let call = &calls[at];
            let mutates = call.policy.mutates;
            let message_is_over =
                turn.state != State::Planning || call.round < turn.draft.round.number;
            assert!(!mutates || message_is_over, "{call:?} began before the message's end");
            let before = calls[..at].iter().filter(|before| before.round == call.round);
            for before in before.filter(|before| mutates || before.policy.is_barrier()) {
                let is_put_off = before.progress() == Progress::PutOff && !mutates;
                let may_run = is_put_off || before.progress() == Progress::Done;
                assert!(may_run, "{call:?} runs behind {before:?}");
            }
        }
    }

    /// Brings it to an end, as a driver's patience would.
    fn finish(&mut self) {
        for _ in 0..200 {
            if self.scene.turn.is_over() {
                break;
            }
            match self.scene.running.first() {
                Some(&call) => drop(self.scene.tool_returns(call, ok())),
                None => drop(self.scene.stops()),
            }
            self.settle();
            self.check();
        }
        assert!(self.scene.turn.is_over(), "it does not end: {:#?}", self.scene.deeds);
    }

    /// Checks what is left, and returns it as history.
    fn check_end(self) -> Conversation {
        let said: String = self
            .scene
            .events
            .iter()
            .filter(|event| event["type"] == "text_delta")
            .map(|event| event["data"]["text"].as_str().unwrap())
            .collect();
        let end = &self.scene.events.last().unwrap()["data"];
        assert_eq!(end["text"], said.as_str(), "the text is what was said");
        assert_eq!(said, self.text, "and it is what the parser makes of each round");
        assert_eq!(end["usage"], serde_json::to_value(self.usage).unwrap(), "no token twice");
        let cap = self.scene.turn.max_tool_loops;
        let rounds = u32::try_from(self.scene.rounds.len()).unwrap();
        // The closing answer may be asked for twice.
        assert!(rounds <= cap + 2, "{rounds} rounds with a cap of {cap}");
        let asked = self.scene.turn.state() == State::AwaitingClarification;
        assert_eq!((asked, end["finish_reason"] == "clarification_needed"), (self.asked, asked));
        let mut history = self.scene.turn.request.history.clone();
        let record = self.scene.turn.into_record();
        assert_ne!(record.ending, Ending::Running);
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
            assert!(ids.insert(call.call_id.clone()), "a call stands once in the history");
            let ran = self.completed.contains(&call.call_id);
            assert!(!ran || !matches!(call.outcome, Outcome::Cancelled));
        }
        for call in &self.started {
            assert!(ids.contains(call), "what was started is in the history");
        }
        history.push(record);
        history
    }
}

/// What a client may say next.
fn opening(dice: &mut Dice, history: &Conversation) -> Opening {
    let prompt = Opening::Prompt("Go on.".into());
    let Some(question) = history.open_questions().first() else { return prompt };
    if dice.roll(3) == 0 {
        return prompt;
    }
    let choice = Choice::Text("the first".into());
    Opening::Answer(history.answer(&question.clarification_id, choice).unwrap())
}

fn play(seed: u64) {
    let mut dice = Dice(seed);
    let mut history = Conversation::default();
    for turn_id in &["t1", "t2", "t3"][..=dice.roll(3)] {
        let mut play = Play::new(&mut dice, turn_id, history);
        play.settle();
        play.check();
        for _ in 0..dice.roll(60) {
            play.step(&mut dice);
            play.check();
        }
        play.finish();
        history = play.check_end();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own knobs")]
fn the_invariants_hold_in_every_schedule() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("TETHER_SEED") {
        return play(seed);
    }
    for seed in 0..number("TETHER_SCHEDULES").unwrap_or(4000) {
        let outcome = std::panic::catch_unwind(|| play(seed));
        assert!(outcome.is_ok(), "schedule failed; run it again with TETHER_SEED={seed}");
    }
}
