//! The same message cut differently: the outcome does not depend on how the network cuts it.

use super::model::{SAYINGS, written};
use super::*;
use crate::call_format::HERMES;

/// The outcome of a message that arrives in pieces of `size` characters, if no tool ends before
/// the message does: what ran, what did not, what was said, and what the model is told.
fn outcome(
    rules: &Rules,
    (message, stop): (&str, &[String]),
    size: usize,
    finish: RoundFinish,
) -> Vec<String> {
    let mut tools = tools();
    add_policies(&mut tools);
    let briefing = briefing(rules.clone(), tools.catalog());
    let sampling = Sampling { stop: stop.to_vec(), ..Sampling::default() };
    let mut scene = Scene::of(TurnRequest { sampling, briefing, ..request() });
    let chars: Vec<char> = message.chars().collect();
    let is_stopped = |scene: &Scene| scene.deeds.iter().any(|deed| deed == "stop round");
    for piece in chars.chunks(size) {
        if !is_stopped(&scene) {
            scene.says(&piece.iter().collect::<String>());
        }
    }
    if !is_stopped(&scene) {
        scene.finishes(finish);
    }
    while let Some(&call) = scene.running.first() {
        if scene.rounds.len() > 1 {
            break;
        }
        scene.tool_returns(call, ok());
    }
    let told = scene.events.iter().filter(|event| event["type"] == "feedback");
    let mut outcome: Vec<String> = told.map(|event| event["data"].to_string()).collect();
    outcome.extend(scene.deeds.iter().cloned());
    outcome.extend(scene.not_run.iter().cloned());
    outcome.push(scene.turn.text().to_owned());
    outcome.extend(scene.rounds.get(1).map(|round| format!("{:#?}", round.messages)));
    outcome
}

#[test]
fn a_message_has_one_outcome_however_it_is_cut() {
    for seed in 0..1500 {
        let mut dice = Dice(seed);
        let rules = Rules {
            execution: *dice.pick(&[Execution::Eager, Execution::AfterTurn]),
            max_calls: *dice.pick(&[2, 3, 32]),
            feedback_attempts: *dice.pick(&[1, 2, 3]),
            call_contract: *dice.pick(&[&MARKER_JSON, &HERMES].map(CallContract::InText)),
            parser: parser::Settings {
                strict_balancing: dice.roll(2) == 0,
                ..parser::Settings::default()
            },
            ..Rules::default()
        };
        let sayings = dice.roll(9);
        let mut say =
            |_| written(dice.pick::<&str>(SAYINGS), &rules.call_contract.format(&rules.marker));
        let message: String = (0..=sayings).map(&mut say).collect();
        let finish = *dice.pick(&[RoundFinish::Stop, RoundFinish::Stop, RoundFinish::Length]);
        let stops = ["é", "llo. Hel", " \n", "`read`", "\n\n"].map(str::to_owned);
        let stop = &stops[..dice.roll(8).min(stops.len())];
        let whole = outcome(&rules, (&message, stop), usize::MAX, finish);
        for size in [1, 2, 3, 7, 40] {
            let cut = outcome(&rules, (&message, stop), size, finish);
            assert_eq!(
                cut, whole,
                "seed {seed}, {rules:?}, stop {stop:?}, in pieces of {size}:\n{message}"
            );
        }
    }
}
