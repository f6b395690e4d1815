//! What models and tools may produce, chosen by dice.

use super::*;
use crate::call_format::CallFormat;
use crate::call_format::HERMES;
use crate::orchestrator::Selection;
use crate::tools::client::ClientTools;
use crate::tools::{Clarification, ClarificationOption};

/// `SplitMix64`: small, seedable, the same everywhere.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let sides = u64::try_from(sides).unwrap();
        usize::try_from((z ^ (z >> 31)) % sides).unwrap()
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

/// What a model may say: words, good and bad calls, halves of both.
pub(super) const SAYINGS: &[&str] = &[
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
    BROKEN,
    HALF,
    NO_CALLS,
    TWICE,
    "<<function_call>> {\"name\": \"read\", \"arguments\": {\"n\": {\"$result\": \"call_1.data\"}}}\n",
    READ,
    "<<function_call>> {\"name\": \"look\", \"arguments\": {}}\n",
    SEND,
    "<<function_call>> {\"name\": \"send\", \"arguments\": {\"n\": {\"$result\": \"call_1.data.n\"}}}\n",
    SEND_TO_SMITH,
    "<<function_call>> {\"name\": \"look\", \"arguments\": {\"n\": 2}}\n",
    "<<function_call>> {\"name\": \"step\", \"arguments\": {\"n\": 1}}\n",
    "\n<<function_call>> nothing\n",
    "{\"name\": ",
    "}",
    "\"",
    "<think>",
    "</think>",
    "\n`read` returned: {}\n",
    "{\"time\": \"12:00\"}\n",
    "`read` ",
    "<<function_call>> {\"name\": \"mute\", \"arguments\": {}}\n",
    "<<function_call>> [{\"name\": \"poll\"}, {\"name\": \"poll\"}]\n",
    DEEP,
    WIPE,
    "<<function_call>> {\"name\": \"wipe\", \"arguments\": {\"n\": 2}}\n",
    "<<function_call>> {\"name\": \"web\", \"arguments\": {}}\n",
    OPEN,
    "<<function_call>> {\"name\": \"open\", \"arguments\": {\"n\": 2}}\n",
];

/// How the models of the upstreams make calls.
pub(super) const CONTRACTS: [CallContract; 5] = [
    CallContract::InText(&MARKER_JSON),
    CallContract::InText(&HERMES),
    CallContract::Templated(&HERMES),
    CallContract::Native,
    CallContract::Native,
];

/// Rules for a turn.
pub(super) fn any_rules(dice: &mut Dice) -> Rules {
    Rules {
        call_contract: *dice.pick(&CONTRACTS),
        execution: *dice.pick(&[Execution::Eager, Execution::AfterTurn]),
        max_parallel: 1 + dice.roll(3),
        confirm: *dice.pick(&[
            Confirm::Never,
            Confirm::Destructive,
            Confirm::Destructive,
            Confirm::Destructive,
            Confirm::Mutating,
            Confirm::Always,
        ]),
        feedback_attempts: *dice.pick(&[1, 1, 2, 3, 20]),
        max_tool_loops: *dice.pick(&[1, 2, 3, 4, 9]),
        max_calls: *dice.pick(&[1, 2, 3, 6, 32]),
        max_turn_bytes: *dice.pick(&[300, 4096, 4096]),
        continue_after_tool: dice.roll(3) != 0,
        parser: parser::Settings {
            argument_deltas: dice.roll(2) == 0,
            strict_balancing: dice.roll(2) == 0,
            max_payload_bytes: *dice.pick(&[80, 4096, 4096]),
            ..parser::Settings::default()
        },
        ..Rules::default()
    }
}

/// A saying as a model writes it in this format.
pub(super) fn written(saying: &str, format: &CallFormat) -> String {
    let mut written = saying.replace(CallFormat::default().opener(), format.opener());
    let ends_call = written.ends_with("}\n") || written.ends_with("]\n");
    if let Some(closer) = format.row().closer.as_ref().filter(|_| ends_call) {
        written.push_str(closer.text);
        written.push('\n');
    }
    written
}

const READ: &str = "<<function_call>> {\"name\": \"read\", \"arguments\": {}}\n";
/// Two calls for the client.
const OPEN: &str =
    "<<function_call>> [{\"name\": \"open\"}, {\"name\": \"open\", \"arguments\": {\"n\": 2}}]\n";
const WIPE: &str = "<<function_call>> {\"name\": \"wipe\", \"arguments\": {}}\n";
const SEND: &str = "<<function_call>> {\"name\": \"send\", \"arguments\": {}}\n";
/// Sends to an option that is offered but never chosen.
const SEND_TO_SMITH: &str =
    "<<function_call>> {\"name\": \"send\", \"arguments\": {\"to\": [\"john_smith\"]}}\n";
/// Two calls that can run at the same time.
const TWICE: &str = "<<function_call>> [{\"name\": \"read\"}, {\"name\": \"mute\"}]\n";
const BROKEN: &str = "<<function_call>> {]";
/// More items that are not calls than are ever read.
const NO_CALLS: &str = "<<function_call>> [7,7,7,7,7,7,7,7,7,7]\n";
/// Refers to a result from so deep inside the arguments that little room is left for it.
const DEEP: &str = "<<function_call>> [{\"name\": \"read\"}, {\"name\": \"read\", \"arguments\": \
                    {\"x\": [[[[[[[[[[{\"$result\": \"call_1.data\"}]]]]]]]]]]}}]\n";
const HALF: &str = "<<function_call>> {\"name\": \"read\", \"arguments\": {\"n\": 1";

/// A briefing on all tools or, once in a while, on some of them in full and the others by name.
pub(super) fn selected(dice: &mut Dice, rules: Rules, tools: &Catalog) -> Arc<Briefing> {
    let all = 0..tools.specs().len();
    let (told, named) = match dice.roll(7) {
        0 => all.partition(|_| dice.roll(2) == 0),
        _ => (all.collect(), Vec::new()),
    };
    let selection = Selection { told, named, unnamed: 0 };
    Arc::new(Briefing::selected(&Arc::new(rules), None, tools, selection).unwrap())
}

/// These tools, and those of a client that brings some.
pub(super) fn beside_clients(dice: &mut Dice, tools: &Catalog) -> Catalog {
    let mut clients = ClientTools::default();
    if dice.roll(3) > 0 {
        clients.add("open".to_owned(), "Opens a file.", None).unwrap();
    }
    clients.beside(tools)
}

/// The name and the pieces of the arguments.
pub(super) type NativeCall = (&'static str, &'static [&'static str]);

/// Native calls, good and bad.
const CALLS: &[NativeCall] = &[
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
    TO_SMITH,
    ("wipe", &["{}"]),
    ("web", &["{}"]),
    ("open", &["{}"]),
    ("open", &["{\"n\": 2}"]),
    ("look", &["{\"n\": 2}"]),
    ("step", &["{\"n\": 1}"]),
    ("mute", &["{}"]),
    ("read", &["{\"n\": {\"$result\": \"call_1.data\"}}"]),
    ("read", &["{\"x\": [[[[[[[[[[{\"$result\": \"call_1.data\"}]]]]]]]]]]}"]),
];

const TO_SMITH: NativeCall = ("send", &["{\"to\": \"john_smith\"}"]);

/// A native call that has begun, and what has been written of it.
pub(super) struct Begun {
    pub(super) name: &'static str,
    pub(super) rest: std::slice::Iter<'static, &'static str>,
    pub(super) arguments: String,
}

/// A turn's tendencies, so that rare things happen several times in a row.
#[derive(Debug)]
pub(super) struct Mood {
    model: ModelMood,
    tools: ToolMood,
}

#[derive(Debug)]
enum ModelMood {
    /// Says anything.
    Fickle,
    /// Says nothing.
    Silent,
    /// Repeats one saying most of the time, in text or natively.
    Stubborn(&'static str, NativeCall),
}

#[derive(Debug)]
enum ToolMood {
    /// Return anything.
    Fickle,
    /// Always return the same.
    Steady,
    /// Ask the user.
    Unsure,
    /// Return results nested too deeply to be used in another call.
    Deep,
}

/// A question with two options.
pub(super) fn asks_which() -> ToolResult {
    let option = |id: &str| ClarificationOption {
        id: id.to_owned(),
        title: "John".to_owned(),
        subtitle: None,
        confidence: None,
        metadata: None,
    };
    ToolResult::clarification(Clarification {
        r#type: "choice".to_owned(),
        question: "Which John?".to_owned(),
        options: vec![option("john_doe"), option("john_smith")],
        ..Clarification::default()
    })
}

impl Mood {
    pub(super) fn new(dice: &mut Dice, is_answered: bool) -> Self {
        let model = match dice.roll(6) {
            3.. if is_answered => ModelMood::Stubborn(SEND_TO_SMITH, TO_SMITH),
            0 => ModelMood::Silent,
            1 => ModelMood::Stubborn(dice.pick::<&str>(SAYINGS), *dice.pick(CALLS)),
            2 => {
                let said = dice.pick::<&str>(&[
                    READ,
                    SEND,
                    SEND_TO_SMITH,
                    WIPE,
                    OPEN,
                    TWICE,
                    DEEP,
                    DEEP,
                    HALF,
                    NO_CALLS,
                ]);
                ModelMood::Stubborn(said, ("read", &["{}"]))
            }
            _ => ModelMood::Fickle,
        };
        let tools = match dice.roll(7) {
            0 | 1 => ToolMood::Steady,
            2 | 4 => ToolMood::Unsure,
            3 => ToolMood::Deep,
            _ => ToolMood::Fickle,
        };
        Self { model, tools }
    }

    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.model, ModelMood::Silent)
    }

    pub(super) fn saying(&self, dice: &mut Dice) -> &'static str {
        match self.model {
            ModelMood::Stubborn(saying, _) if dice.roll(4) > 0 => saying,
            _ => dice.pick::<&str>(SAYINGS),
        }
    }

    pub(super) fn call(&self, dice: &mut Dice) -> NativeCall {
        match self.model {
            ModelMood::Stubborn(_, call) if dice.roll(4) > 0 => call,
            _ => *dice.pick(CALLS),
        }
    }

    /// A tool's result.
    pub(super) fn result(&self, dice: &mut Dice) -> ToolResult {
        let deep = || (0..120).fold(json!(1), |inner, _| json!([inner]));
        match (&self.tools, dice.roll(14)) {
            (ToolMood::Steady, _) => ok(),
            (ToolMood::Unsure, 5..9) => asks_which(),
            (ToolMood::Unsure, 9..) | (_, 3) => asks(),
            (_, 0..=2) => ToolResult::error("no"),
            (_, 4) => completes(),
            (ToolMood::Deep, 5..) | (_, 5) => ToolResult::data(deep()),
            (_, n) => ToolResult::data(json!({ "n": n / 9 })),
        }
    }
}
