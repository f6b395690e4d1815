//! Random schedules: whatever happens in whatever order, the invariants hold after
//! every step. A failure prints its seed; run that one again with
//! `TETHER_SEED=<seed>` and more of them with `TETHER_SCHEDULES=<count>`.

mod coverage;
mod model;
mod pieces;
mod play;
mod possible;
mod rules;

use super::chains::{add_policies, asks, completes};
use super::*;
use crate::conversation::render::tests::check_sequence;
use crate::conversation::{Choice, UtteranceKind};
use crate::orchestrator::call::CallDraft;
use crate::orchestrator::call::Standing;
use crate::parser::Segment;

use coverage::Coverage;
use model::Dice;
use play::Play;

/// What a client may say next.
fn opening(dice: &mut Dice, history: &Conversation) -> Opening {
    let prompt = Opening::Prompt("Go on.".into());
    let Some(question) = history.open_questions().first() else { return prompt };
    if dice.roll(3) == 0 {
        return prompt;
    }
    let choice = match question.clarification.options.first() {
        Some(first) => Choice::Option(first.id.clone()),
        None => Choice::Text("the first".into()),
    };
    Opening::Answer(history.answer(&question.clarification_id, choice).unwrap())
}

fn play(seed: u64) -> Coverage {
    let mut dice = Dice(seed);
    let mut history = Conversation::default();
    let mut coverage = Coverage::default();
    for turn_id in &["t1", "t2", "t3"][..=dice.roll(3)] {
        let mut play = Play::new(&mut dice, turn_id, history);
        play.settle();
        play.check();
        for _ in 0..dice.roll(60) {
            play.step(&mut dice);
            play.check();
        }
        play.finish();
        let covered;
        (history, covered) = play.check_end();
        coverage.add(covered);
    }
    coverage
}

/// Also that they go through all that there is. The table of it is printed; `tests/run`
/// shows the line that begins with `notice:`.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own knobs")]
#[expect(clippy::print_stdout, reason = "a report for people")]
fn the_invariants_hold_in_every_schedule() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("TETHER_SEED") {
        play(seed);
        return;
    }
    let schedules = number("TETHER_SCHEDULES").unwrap_or(SCHEDULES);
    let mut coverage = Coverage::default();
    for seed in 0..schedules {
        let outcome = std::panic::catch_unwind(|| play(seed));
        assert!(outcome.is_ok(), "schedule failed; run it again with TETHER_SEED={seed}");
        coverage.add(outcome.unwrap_or_default());
    }
    println!("\nnotice: turn machine, {schedules} schedules: {}", coverage.summary());
    println!("{}", coverage.report());
    let complaints = coverage.complaints(schedules);
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
}

/// How many schedules see each move and each rule.
const SCHEDULES: u64 = 4000;
