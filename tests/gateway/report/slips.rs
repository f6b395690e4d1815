//! Models that make mistakes, in many variants of each kind, and then do as they are told.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting};
use tether::orchestrator::Execution;
use tether::tools::{Policy, ToolResult};

use crate::conversations::Dice;
use crate::support::events::{outcome, said};
use crate::support::model::{DONE, call, delta, finish, text};
use crate::support::tools::{Always, Panics, Wait};
use crate::support::{Frame, Gateway, Model};

/// The reasons for feedback, by name.
pub(super) const SLIPS: [&str; 7] = [
    "tool_not_found",
    "invalid_arguments",
    "malformed_call",
    "incomplete_call",
    "payload_too_large",
    "tool_failed",
    "empty_response",
];

/// The outcome of the conversations with one kind of mistake.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    pub(super) all: usize,
    /// Mistakes that the model made, and those it got feedback on.
    pub(super) made: usize,
    pub(super) told: usize,
    /// Conversations in which the user got the answer.
    pub(super) answered: usize,
    /// The other conversations.
    pub(super) lost: Vec<String>,
}

/// The gateway's limit for payloads.
const PAYLOAD_BYTES_MAX: usize = 1024;
const ANSWER: &str = "It is 84.";
/// After this many mistakes, the model loses its tools.
const ATTEMPTS: usize = 3;

/// One answer of the model, as a response body.
type Body = String;

/// Plays one conversation in which the model makes a mistake, perhaps several times, and then
/// answers correctly.
pub(super) async fn play(reason: &'static str, seed: u64, recoveries: &mut Recoveries) {
    let mut dice = Dice(seed);
    let contract = contract_of(reason, &mut dice);
    let execution = *dice.one_of(&[Execution::Eager, Execution::AfterTurn]);
    // The turn fails with the third empty answer in a row.
    let most = if reason == "empty_response" { ATTEMPTS - 1 } else { ATTEMPTS };
    let times = *dice.one_of(&[1, 1, most - 1, most]);
    let mut script: Vec<Body> =
        (0..times).map(|nth| slip(reason, contract, nth, &mut dice)).collect();
    if times < ATTEMPTS && *dice.one_of(&[true, true, false]) {
        script.push(good_call(contract));
    }
    script.push(text(ANSWER) + &finish("stop"));

    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.config.tools.call_contract = ContractSetting::Is(contract);
        setup.config.tools.execution = execution;
        setup.config.stream.parser.max_payload_bytes = PAYLOAD_BYTES_MAX;
        setup.config.limits.tool_timeout = Duration::from_millis(20);
        let closed = ToolResult::error("the service is closed until 8:00");
        let advised = closed.clone().with_instruction("Tell the user to come back later.");
        let changes = Policy { mutates: true, ..Policy::default() };
        for (name, policy, result) in
            [("fetch", Policy::default(), closed), ("book", changes, advised)]
        {
            setup.tools.add(Arc::new(Always::new(name, policy, result))).unwrap();
        }
        setup.tools.add(Arc::new(Panics::new("crash"))).unwrap();
        setup.tools.add(Arc::new(Wait::that("stall", changes))).unwrap();
    })
    .await;
    let body = json!({"session_id": "s", "prompt": "What is 12*7?", "max_tool_loops": 5});
    let frames = drive(&gateway, &mut model, &body, script.clone()).await;

    recoveries.all += 1;
    recoveries.made += times;
    let told = frames.iter().filter(|frame| frame.event == "feedback");
    recoveries.told += told.filter(|frame| frame.data["reason"] == reason).count();
    if outcome(&frames) == "stop" && said(&frames).ends_with(ANSWER) {
        recoveries.answered += 1;
    } else {
        let story = format!("seed {seed}, {contract:?}, {execution:?}: {script:#?}\n{frames:#?}");
        recoveries.lost.push(story);
    }
}

/// Runs the turn with the model's answers in order; the last one is repeated if the model is
/// asked again.
async fn drive(
    gateway: &Gateway,
    model: &mut Model,
    body: &Value,
    script: Vec<Body>,
) -> Vec<Frame> {
    let mut script = script.into_iter().peekable();
    let mut stream = gateway.turn(body).await;
    let mut rest = std::pin::pin!(stream.rest());
    loop {
        let answer = script.peek().cloned();
        tokio::select! {
            biased;
            frames = rest.as_mut() => return frames,
            round = model.round() => {
                let answer = answer.unwrap_or_else(|| text(ANSWER) + &finish("stop"));
                script.next();
                round.answer_with(&(answer + DONE)).await;
            }
        }
    }
}

/// Some mistakes are possible only in text.
fn contract_of(reason: &str, dice: &mut Dice) -> CallContract {
    let native =
        matches!(reason, "tool_not_found" | "invalid_arguments" | "malformed_call" | "tool_failed");
    let both = [CallContract::default(), CallContract::Native];
    *dice.one_of(if native { &both } else { &both[..1] })
}

fn good_call(contract: CallContract) -> Body {
    written(contract, "calculate", &json!({"expression": "12*7"}).to_string())
}

/// A call of the model in the form of its contract.
fn written(contract: CallContract, name: &str, arguments: &str) -> Body {
    match contract {
        CallContract::InText(_) | CallContract::Templated(_) => {
            let payload = format!("{{\"name\": \"{name}\", \"arguments\": {arguments}}}");
            text(&format!("<<function_call>> {payload}")) + &finish("stop")
        }
        CallContract::Native => {
            let call = json!({"index": 0, "id": "c1", "type": "function",
                "function": {"name": name, "arguments": arguments}});
            delta(&json!({ "tool_calls": [call] })) + &finish("tool_calls")
        }
    }
}

fn slip(reason: &str, contract: CallContract, nth: usize, dice: &mut Dice) -> Body {
    let words = *dice.one_of(&["", "Let me see.\n", "One moment, I'll work that out.\n\n"]);
    let broken = |line: &str, why: &str| text(&format!("{words}{line}")) + &finish(why);
    match reason {
        "tool_not_found" => {
            let names = ["calc", "Calculate!", "calculator", "get_time", "web.search", "tool_name"];
            let arguments = *dice.one_of(&["{}", "{\"expression\": \"12*7\"}", "{\"q\": [1]}"]);
            written(contract, dice.one_of::<&str>(&names), arguments)
        }
        "invalid_arguments" => written(
            contract,
            "calculate",
            dice.one_of::<&str>(&[
                "{}",
                "{\"expression\": 84}",
                "{\"expression\": \"\"}",
                "{\"expr\": \"12*7\"}",
                "{\"expression\": \"12*7\", \"digits\": 2}",
                "{\"expression\": null}",
                "{\"expression\": {\"$result\": \"call_7.data\"}}",
            ]),
        ),
        "malformed_call" if contract == CallContract::Native => {
            written(contract, "calculate", dice.one_of::<&str>(&["[1]", "12*7", "{]", "{\"a\": }"]))
        }
        "malformed_call" => broken(
            dice.one_of::<&str>(&[
                "<<function_call>> calculate 12*7\n",
                "<<function_call>> {\"name\": calculate}\n",
                "<<function_call>> {\"expression\": \"12*7\"}\n",
                "<<function_call>> {]\n",
                "<<function_call>> [7]\n",
                "<<function_call>> {\"name\": \"calculate\", \"arguments\": \"12*7\"}\n",
            ]),
            "stop",
        ),
        "incomplete_call" => {
            let whole = call("calculate", &json!({"expression": "12*7"}));
            let cut = *dice.one_of(&[25, 35, 50, whole.len() - 1]);
            broken(&whole[..cut], dice.one_of::<&str>(&["stop", "length"]))
        }
        "payload_too_large" => {
            let pads = [PAYLOAD_BYTES_MAX, 2 * PAYLOAD_BYTES_MAX, 9 * PAYLOAD_BYTES_MAX];
            let long = "1".repeat(*dice.one_of(&pads));
            broken(&call("calculate", &json!({ "expression": long })), "stop")
        }
        "tool_failed" => {
            // A different tool each time, because the same call would not run again.
            let tools = [["fetch", "crash", "stall"], ["stall", "book", "fetch"]];
            written(contract, dice.one_of(&tools)[nth % 3], "{}")
        }
        "empty_response" => {
            let nothing =
                ["", " ", "\n\n", "<think>What is asked?</think>", "<think>Hm.</think>\n"];
            text(dice.one_of::<&str>(&nothing)) + &finish("stop")
        }
        other => panic!("no mistake of this kind: {other}"),
    }
}
