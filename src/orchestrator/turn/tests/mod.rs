use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;
use crate::call_format::{CallContract, CallFormat, MARKER_JSON};
use crate::conversation::{Conversation, Opening, Outcome, Step};
use crate::event::{FailureCode, Usage};

use crate::orchestrator::{Briefing, Execution, Rules, feedback};
use crate::parser;
use crate::tools::builtin::{Calculate, GetCurrentTime};
use crate::tools::{Catalog, Clarification, Continuation, Progress, Registry, ToolResult};
use crate::upstream::{
    ChatRequest, Delta, History, Message, PassedOver, Role, RoundFinish, Sampling, ToolChoice, Way,
};

mod answers;
mod approval;
mod caps;
mod chains;
mod choice;
mod closing;
mod continuations;
mod driving;
mod injections;
mod known;
mod native;
mod peek;
mod progress;
mod recipients;
mod response_format;
mod resumed_calls;
mod resumed_counts;
mod resuming;
mod schedules;
mod slips;
mod stop_texts;
mod usage;
mod words;

/// A turn and all its outputs.
struct Scene {
    turn: TurnMachine,
    /// Events as JSON, in order.
    events: Vec<Value>,
    /// What the driver was told to do: `round`, `stop round`, `start call_1`, ...
    deeds: Vec<String>,
    /// The requests to the model, as an upstream with this history takes them.
    rounds: Vec<ChatRequest>,
    /// The place of the upstream that each round asks first.
    asked_first: Vec<Option<usize>>,
    history: History,
    running: Vec<usize>,
    /// Calls that were not run, with their positions and why.
    not_run: Vec<String>,
    /// The names of all outputs.
    outputs: Vec<&'static str>,
    /// Where its first journal's steps end, if that is not where it was resumed.
    steps_end: Option<u64>,
    /// What its journals say, each after so many events.
    journals: Vec<(usize, conversation::Turn, Tally)>,
}

fn tools() -> Registry {
    let mut tools = Registry::default();
    tools.add(Arc::new(GetCurrentTime::new())).unwrap();
    tools.add(Arc::new(Calculate::new())).unwrap();
    tools
}

fn briefing(rules: Rules, tools: &Catalog) -> Arc<Briefing> {
    Arc::new(Briefing::new(&Arc::new(rules), None, tools).unwrap())
}

fn request() -> TurnRequest {
    TurnRequest {
        session_id: "s".into(),
        turn_id: "t".into(),
        started_at_ms: 0,
        opening: Opening::Prompt("What time is it?".into()),
        images: Vec::new(),
        model: "m".into(),
        sampling: Sampling::default(),
        max_tool_loops: None,
        max_calls: None,
        disconnect_grace: None,
        tool_choice: ToolChoice::Auto,
        response_format: None,
        is_read_whole: false,
        single_client_call: false,
        words_only: false,
        nobody_approves: false,
        confirm: None,
        briefing: briefing(Rules::default(), tools().catalog()),
        lent: Catalog::default(),
        history: Conversation::default(),
    }
}

/// The name of an output.
const fn name_of(output: &Output<'_>) -> &'static str {
    match output {
        Output::Event(event) => event.name(),
        Output::StartRound(_) => "start_round",
        Output::StopRound => "stop_round",
        Output::StartTool { .. } => "start_tool",
        Output::ResumeTool { .. } => "resume_tool",
        Output::ParkTool { .. } => "park_tool",
        Output::StopTool { .. } => "stop_tool",
        Output::StopTools => "stop_tools",
        Output::Log(LogLine::EmptyAnswer) => "empty_answer",
        Output::Log(LogLine::NotRun { .. }) => "not_run",
        Output::Log(LogLine::Abandoned) => "abandoned",
    }
}

impl Scene {
    fn new() -> Self {
        Self::of(request())
    }

    fn with_rules(change: impl FnOnce(&mut Rules)) -> Self {
        let mut rules = Rules::default();
        change(&mut rules);
        Self::with(rules, request())
    }

    fn with_tools(tools: &Catalog) -> Self {
        Self::of(TurnRequest { briefing: briefing(Rules::default(), tools), ..request() })
    }

    /// The request's turn by other rules.
    fn with(rules: Rules, request: TurnRequest) -> Self {
        let briefing = briefing(rules, &request.briefing.tools);
        Self::of(TurnRequest { briefing, ..request })
    }

    fn of(request: TurnRequest) -> Self {
        let history = match request.briefing.rules.call_contract {
            CallContract::InText(_) => History::Text,
            CallContract::Templated(_) | CallContract::Native => History::Native,
        };
        Self::with_history(request, history)
    }

    fn with_history(request: TurnRequest, history: History) -> Self {
        Self::playing(TurnMachine::new(request), history)
    }

    fn playing(turn: TurnMachine, history: History) -> Self {
        let mut scene = Self {
            steps_end: turn.steps_end(),
            turn,
            events: Vec::new(),
            deeds: Vec::new(),
            rounds: Vec::new(),
            asked_first: Vec::new(),
            history,
            running: Vec::new(),
            not_run: Vec::new(),
            outputs: Vec::new(),
            journals: Vec::new(),
        };
        scene.drain();
        scene
    }

    fn note_journal(&mut self) {
        let turn = conversation::Turn::clone(self.turn.so_far());
        self.journals.push((self.events.len(), turn, self.turn.tally()));
    }

    fn drain(&mut self) {
        if self.outputs.is_empty() {
            self.note_journal();
        }
        let (so_far, tally) = (Arc::clone(self.turn.so_far()), self.turn.tally());
        while let Some(output) = self.turn.poll() {
            self.outputs.push(name_of(&output));
            match output {
                Output::Event(event) => self.events.push(serde_json::to_value(event).unwrap()),
                Output::StartRound(request) => {
                    self.deeds.push("round".into());
                    let way = Way::of(self.turn.contract(), self.history);
                    self.rounds.push(request.render(way, &request.sampling, &request.images));
                    self.asked_first.push(request.asked_first);
                    let turn = conversation::Turn::clone(&so_far);
                    self.journals.push((self.events.len(), turn, tally.clone()));
                }
                Output::StopRound => self.deeds.push("stop round".into()),
                Output::StartTool { call, call_id, name, arguments, .. } => {
                    self.deeds.push(format!("start {call_id} {name} {arguments}"));
                    self.running.push(call.place());
                }
                Output::ResumeTool { call, call_id, name, parked_as, given } => {
                    self.deeds.push(format!("resume {parked_as} as {call_id} {name} {given:?}"));
                    self.running.push(call.place());
                }
                Output::ParkTool { call } => {
                    self.deeds.push("park tool".into());
                    self.running.retain(|running| *running != call.place());
                }
                Output::Log(LogLine::EmptyAnswer | LogLine::Abandoned) => {}
                Output::Log(LogLine::NotRun { call_id, position, why, .. }) => {
                    self.not_run.push(format!("{call_id} at {position}: {}", why.name()));
                }
                Output::StopTool { call } => {
                    self.deeds.push("stop tool".into());
                    self.running.retain(|running| *running != call.place());
                }
                Output::StopTools => {
                    self.deeds.push("stop tools".into());
                    self.running.clear();
                }
            }
        }
    }

    fn handle(&mut self, input: Input<'_>) -> &mut Self {
        self.turn.handle(input);
        self.drain();
        self
    }

    fn says(&mut self, text: &str) -> &mut Self {
        self.handle(Input::Delta(Delta::Text(text)))
    }

    /// Says it one character at a time.
    fn spells(&mut self, text: &str) -> &mut Self {
        for char in text.chars() {
            self.says(char.encode_utf8(&mut [0; 4]));
        }
        self
    }

    /// Sets the clock to this time.
    fn ticks(&mut self, now_ms: u64) -> &mut Self {
        self.turn.set_now(now_ms);
        self.handle(Input::Tick)
    }

    fn finishes(&mut self, finish: RoundFinish) -> &mut Self {
        self.handle(Input::Delta(Delta::Finish(finish)));
        self.handle(Input::RoundEnded)
    }

    fn stops(&mut self) -> &mut Self {
        self.finishes(RoundFinish::Stop)
    }

    fn tool_returns(&mut self, call: usize, result: ToolResult) -> &mut Self {
        self.running.retain(|running| *running != call);
        let call = CallAt::new(call);
        self.handle(Input::ToolEnded { call, result, duration_ms: 5, attempts: 1 })
    }

    fn tool_progresses(&mut self, call: usize, progress: Progress, attempt: u32) -> &mut Self {
        let call = CallAt::new(call);
        self.handle(Input::ToolProgressed { call, progress, attempt })
    }

    fn tool_asks(
        &mut self,
        call: usize,
        question: Clarification,
        continuation: Continuation,
    ) -> &mut Self {
        let call = CallAt::new(call);
        self.handle(Input::ToolAsked { call, question, continuation, duration_ms: 5, attempts: 1 })
    }

    /// The event types, with adjacent text deltas merged.
    fn types(&self) -> Vec<&str> {
        let mut types: Vec<&str> =
            self.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        types.dedup_by(|a, b| a == b && *a == "text_delta");
        types
    }

    fn event(&self, name: &str) -> &Value {
        let found = self.events.iter().rev().find(|event| event["type"] == name);
        &found.unwrap_or_else(|| panic!("no {name} in {:#?}", self.events))["data"]
    }

    fn last_message(&self) -> &Message {
        self.rounds.last().unwrap().messages.last().unwrap()
    }

    #[track_caller]
    fn ends(&self, finish_reason: &str, text: &str) {
        assert!(self.turn.is_over());
        let end = self.event("turn_completed");
        assert_eq!(
            (end["finish_reason"].as_str(), end["text"].as_str()),
            (Some(finish_reason), Some(text))
        );
    }

    #[track_caller]
    fn fails(&self, code: &str) {
        assert!(self.turn.is_over());
        assert_eq!(self.event("turn_failed")["code"], code);
    }
}

const TIME: &str = "<<function_call>> {\"name\": \"get_current_time\", \"arguments\": {\"timezone\": \"Asia/Tokyo\"}}\n";
const SUM: &str =
    "<<function_call>> {\"name\": \"calculate\", \"arguments\": {\"expression\": \"1+1\"}}\n";

fn ok() -> ToolResult {
    ToolResult::data(json!({ "time": "12:00" }))
}

#[test]
fn words_alone_are_the_answer() {
    let mut scene = Scene::new();
    scene.says("Hello ").says("there.").stops();
    assert_eq!(scene.types(), ["turn_started", "text_delta", "turn_completed"]);
    scene.ends("stop", "Hello there.");
    assert_eq!(scene.turn.into_record().steps.len(), 1);
}

#[test]
fn the_first_words_of_another_message_have_its_round() {
    let mut scene = Scene::new();
    scene.says("Let ").says("me look.\n").spells(TIME).says("Soon.").stops();
    scene.tool_returns(0, ok()).says("It ").says("is noon.").stops();
    let mut texts = scene.events.iter().filter(|event| event["type"] == "text_delta");
    let round_of = |event: &Value| event["data"]["loop"].as_u64();
    let rounds: Vec<_> = texts.by_ref().map(round_of).collect();
    assert_eq!(rounds.iter().flatten().collect::<Vec<_>>(), [&2]);
    assert_eq!(rounds[rounds.len() - 2..], [Some(2), None]);
}

#[test]
fn the_first_words_of_a_turn_have_no_round() {
    let mut scene = Scene::new();
    scene.spells(TIME).stops();
    scene.tool_returns(0, ok()).says("It is noon.").stops();
    assert_eq!(*scene.event("text_delta"), json!({ "text": "It is noon." }));
}

#[test]
fn deltas_handled_together_come_out_as_one_event() {
    let mut scene = Scene::new();
    for word in ["one ", "two ", "three"] {
        scene.turn.handle(Input::Delta(Delta::Text(word)));
    }
    scene.drain();
    assert_eq!(scene.event("text_delta")["text"], "one two three");
    assert_eq!(scene.events.len(), 2);
}

#[test]
fn a_call_runs_and_its_result_goes_back() {
    let mut scene = Scene::new();
    scene.says("Let me look.\n").spells(TIME).stops();
    assert_eq!(scene.deeds[1], "start call_1 get_current_time {\"timezone\":\"Asia/Tokyo\"}");
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 2);
    let told = scene.last_message();
    assert_eq!(told.role, Role::User);
    assert!(told.text_content().unwrap().contains("\"time\":\"12:00\""));
    scene.says("It is noon.").stops();
    assert_eq!(
        scene.types(),
        [
            "turn_started",
            "text_delta",
            "tool_marker_detected",
            "acknowledgement",
            "tool_started",
            "tool_completed",
            "text_delta",
            "turn_completed",
        ]
    );
    scene.ends("stop", "Let me look.\nIt is noon.");
    assert_eq!(scene.event("turn_completed")["loops"], 2);
    assert_eq!(scene.event("turn_completed")["tool_calls"], 1);
}

#[test]
fn without_tools_calls_are_text() {
    let mut scene = Scene::with_tools(&Catalog::default());
    scene.says(TIME).stops();
    scene.ends("stop", TIME);
}

#[test]
fn an_eager_call_runs_while_the_model_still_speaks() {
    let mut scene = Scene::new();
    scene.says(TIME);
    assert_eq!(scene.running, [0]);
    scene.tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 1, "the message has not ended");
    scene.says("More.").stops();
    assert_eq!(scene.rounds.len(), 2);
}

#[test]
fn after_turn_waits_for_the_message_to_end() {
    let mut scene = Scene::with_rules(|rules| rules.execution = Execution::AfterTurn);
    scene.says(TIME).says(SUM);
    assert!(scene.running.is_empty());
    scene.stops();
    assert_eq!(scene.running, [0, 1]);
}

#[test]
fn no_more_calls_run_at_once_than_allowed() {
    let mut scene = Scene::with_rules(|rules| rules.max_parallel = 1);
    scene.says(TIME).says(SUM).stops();
    assert_eq!(scene.running, [0]);
    scene.tool_returns(0, ok());
    assert_eq!(scene.running, [1]);
    scene.tool_returns(1, ok());
    assert_eq!(scene.rounds.len(), 2);
}

#[test]
fn results_go_back_in_the_order_of_the_calls() {
    let mut scene = Scene::new();
    scene.says(TIME).says(SUM).stops();
    scene
        .tool_returns(1, ToolResult::data(json!("second")))
        .tool_returns(0, ToolResult::data(json!("first")));
    let told = scene.last_message().text_content().unwrap().into_owned();
    assert!(told.find("first") < told.find("second"), "{told}");
}

#[test]
fn one_failed_tool_does_not_lose_the_others_result() {
    let mut scene = Scene::new();
    scene.says(TIME).says(SUM).stops();
    scene.tool_returns(0, ToolResult::error("no such zone")).tool_returns(1, ok());
    let told = scene.last_message().text_content().unwrap().into_owned();
    assert!(told.contains("no such zone") && told.contains("12:00"), "{told}");
    assert_eq!(scene.event("feedback")["reason"], "tool_failed");
}

#[test]
fn an_unknown_tool_is_fed_back_with_the_closest_names() {
    let mut scene = Scene::new();
    scene.says("<<function_call>> {\"name\": \"get_time\", \"arguments\": {}}\n").stops();
    let feedback = scene.event("feedback");
    assert_eq!((&feedback["reason"], &feedback["attempt"]), (&json!("tool_not_found"), &json!(1)));
    assert!(feedback["message"].as_str().unwrap().contains("get_current_time"));
    assert!(scene.running.is_empty());
    assert!(scene.last_message().text_content().unwrap().contains("get_current_time"));
}

#[test]
fn invalid_arguments_are_fed_back_and_not_run() {
    let mut scene = Scene::new();
    scene
        .says("<<function_call>> {\"name\": \"calculate\", \"arguments\": {\"expression\": 7}}")
        .stops();
    assert_eq!(scene.event("feedback")["reason"], "invalid_arguments");
    assert!(scene.running.is_empty());
    assert_eq!(scene.rounds.len(), 2);
}

#[test]
fn half_a_call_is_fed_back_and_leaks_nothing() {
    let mut scene = Scene::new();
    scene.says("Well.\n<<function_call>> {\"name\": \"calc").stops();
    let feedback = scene.event("feedback");
    assert_eq!(
        (&feedback["reason"], &feedback["call_id"]),
        (&json!("incomplete_call"), &json!("call_1"))
    );
    assert_eq!(scene.event("text_delta")["text"], "Well.\n");
    assert_eq!(scene.rounds.len(), 2);
}

#[test]
fn a_call_cut_by_the_token_limit_has_to_be_shorter() {
    let mut scene = Scene::new();
    scene.says("<<function_call>> {\"name\": \"calc").finishes(RoundFinish::Length);
    assert!(scene.event("feedback")["message"].as_str().unwrap().contains("token limit"));
}

#[test]
fn a_repaired_call_is_not_run_if_the_token_limit_cut_it() {
    let cut = "<<function_call>> {\"name\": \"calculate\", \"arguments\": {\"expression\": \"1+1";
    let lenient = || Scene::with_rules(|rules| rules.parser.strict_balancing = false);
    let mut scene = lenient();
    scene.says(cut).stops();
    assert_eq!(scene.running, [0], "a model that stops has said what it meant");
    let mut scene = lenient();
    scene.says(cut).finishes(RoundFinish::Length);
    assert!(scene.running.is_empty());
    assert_eq!(scene.event("feedback")["reason"], "incomplete_call");
    assert!(scene.last_message().text_content().unwrap().contains("token limit"));
}

#[test]
fn a_marker_line_without_a_call_is_fed_back() {
    let mut scene = Scene::new();
    scene.says("<<function_call>> get_current_time").stops();
    assert_eq!(scene.event("feedback")["reason"], "malformed_call");
    assert_eq!(scene.rounds.len(), 2);
}

#[test]
fn too_many_mistakes_of_one_kind_lead_to_an_answer_in_words() {
    let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 9);
    for _ in 0..3 {
        scene.says("<<function_call>> {\"name\": \"nope\"}").stops();
    }
    assert_eq!(scene.event("feedback")["attempt"], 3);
    assert!(scene.rounds.last().unwrap().tools.is_empty());
    scene.says("Sorry.").stops();
    scene.ends("stop", "Sorry.");
}

#[test]
fn each_mistake_makes_the_model_warmer() {
    let mut scene = Scene::new();
    assert_eq!(scene.rounds[0].sampling.temperature, None);
    scene.says("<<function_call>> {\"name\": \"nope\"}").stops();
    assert_eq!(scene.rounds[1].sampling.temperature, Some(0.9));
}

/// If a delta ends the turn, passing the limit must not end it again.
#[test]
fn a_delta_that_ends_the_turn_and_passes_its_limit_ends_it_once() {
    let mut scene = Scene::with_rules(|rules| {
        rules.continue_after_tool = false;
        rules.max_turn_bytes = 200;
    });
    scene.says(TIME).tool_returns(0, ok());
    scene.says(&format!("\n`x` returned: {}", "x".repeat(200)));
    let ends = ["turn_completed", "turn_failed"];
    let last = scene.types().into_iter().filter(|name| ends.contains(name)).count();
    assert_eq!(last, 1, "{:?}", scene.types());
}

#[test]
fn a_payload_of_endless_mistakes_is_bounded() {
    let mut scene = Scene::new();
    let payload = format!("<<function_call>>[{}7]", "7,".repeat(5000));
    scene.says(&payload);
    assert!(scene.events.len() < 100, "{} events", scene.events.len());
    assert!(scene.deeds.contains(&"stop round".to_owned()));
    assert!(scene.last_message().text_content().unwrap().len() < 8192);
}

#[test]
fn a_refused_call_is_answered_even_if_results_end_the_turn() {
    let mut scene = Scene::with_rules(|rules| rules.continue_after_tool = false);
    scene.says("<<function_call>> {\"name\": \"nope\"}").stops();
    assert_eq!(scene.rounds.len(), 2);
}

#[test]
fn deltas_of_a_dropped_round_do_not_reach_the_next() {
    let mut scene = Scene::new();
    scene.says(TIME).tool_returns(0, ok());
    // All in one batch: the stop, the start of the next round and the rest of the first.
    scene.turn.handle(Input::Delta(Delta::Text("`get_current_time` returned: x")));
    scene.turn.handle(Input::Delta(Delta::Text("garbage")));
    scene.turn.handle(Input::RoundEnded);
    scene.drain();
    assert_eq!(scene.rounds.len(), 2);
    scene.says("Noon.").stops();
    assert!(!scene.event("turn_completed")["text"].as_str().unwrap().contains("garbage"));
}

#[test]
fn empty_answers_are_retried_twice_and_then_given_up() {
    let mut scene = Scene::new();
    scene.stops();
    assert_eq!(scene.event("status")["message"], "the model's answer was empty; asking again");
    scene.says(" \n").stops();
    assert_eq!(scene.rounds.len(), 3);
    scene.handle(Input::Delta(Delta::Reasoning("Hm."))).stops();
    scene.fails("empty_response");
}

#[test]
fn the_token_limit_shows_in_the_finish_reason() {
    let mut scene = Scene::new();
    scene.says("Once upon a").finishes(RoundFinish::Length);
    scene.ends("length", "Once upon a");
}

#[test]
fn without_continuing_the_turn_ends_with_the_results() {
    let mut scene = Scene::with_rules(|rules| rules.continue_after_tool = false);
    scene.says(TIME).stops().tool_returns(0, ok());
    scene.ends("stop", "");
    assert_eq!(scene.rounds.len(), 1);
}

#[test]
fn a_broken_round_fails_the_turn_and_keeps_what_was_said() {
    let mut scene = Scene::new();
    scene.says("Half an answer and <<func");
    scene.handle(Input::RoundFailed {
        code: FailureCode::UpstreamError,
        message: "gone".into(),
        retryable: true,
    });
    scene.fails("upstream_error");
    assert_eq!(scene.event("turn_failed")["text"], "Half an answer and <<func");
    assert_eq!(scene.turn.into_record().steps.len(), 1);
}

#[test]
fn a_turn_at_its_limit_continues_and_one_byte_over_fails() {
    let mut scene = Scene::with_rules(|rules| rules.max_turn_bytes = 8);
    scene.says("12345678");
    assert!(!scene.turn.is_over());
    scene.says("9");
    scene.fails("turn_too_large");
    assert_eq!(scene.deeds[1..], ["stop round", "stop tools"]);
}

#[test]
fn a_turn_whose_events_are_at_their_limit_continues_and_one_byte_over_fails() {
    let mut scene = Scene::with_rules(|rules| rules.max_turn_bytes = 100);
    let max = 100 * EVENTS_FACTOR;
    scene.says("Half an ans <").handle(Input::Logged(max));
    assert!(!scene.turn.is_over());
    scene.handle(Input::Logged(max + 1));
    scene.fails("turn_too_large");
    assert_eq!(scene.event("turn_failed")["text"], "Half an ans <");
    assert_eq!(scene.deeds[1..], ["stop round", "stop tools"]);
}

#[test]
fn cancelling_while_the_model_speaks_keeps_its_words() {
    let mut scene = Scene::new();
    scene.says("One two <").handle(Input::Cancel);
    scene.ends("cancelled", "One two <");
    assert_eq!(scene.deeds[1..], ["stop round", "stop tools"]);
}

#[test]
fn cancelling_while_a_tool_runs_leaves_the_call_cancelled() {
    let mut scene = Scene::new();
    scene.says(TIME).stops().handle(Input::Cancel);
    scene.ends("cancelled", "");
    scene.tool_returns(0, ok());
    let record = scene.turn.into_record();
    let outcomes: Vec<_> = record.steps[0].calls().map(|call| call.outcome.clone()).collect();
    assert_eq!(outcomes, [Outcome::Cancelled]);
}

#[test]
fn arguments_are_shown_as_they_arrive_when_asked_for() {
    let mut scene = Scene::with_rules(|rules| rules.parser.argument_deltas = true);
    scene.spells(SUM);
    let deltas: String = scene
        .events
        .iter()
        .filter(|event| event["type"] == "tool_arguments_delta")
        .map(|event| event["data"]["delta"].as_str().unwrap())
        .collect();
    assert_eq!(deltas, "{\"expression\": \"1+1\"}");
}

#[test]
fn an_array_is_several_calls() {
    let mut scene = Scene::new();
    scene
        .says(
            "<<function_call>> [{\"name\": \"calculate\", \"arguments\": {\"expression\": \"1\"}}, \
               {\"name\": \"get_current_time\"}]",
        )
        .stops();
    assert_eq!(scene.running, [0, 1]);
}
