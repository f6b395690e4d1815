//! Random schedules: whatever happens in whatever order, the invariants hold after every step. A
//! failure prints its seed. Run that schedule again with `TETHER_SEED=<seed>`, and more schedules
//! with `TETHER_SCHEDULES=<count>`.

mod coverage;
mod model;
mod pieces;
mod play;
mod possible;
mod rules;

use super::chains::{add_policies, asks, completes};
use super::*;
use crate::conversation::Given;
use crate::conversation::render::sequence::check_sequence;
use crate::conversation::{Choice, ClientInput, ClientResult, UtteranceKind};
use crate::orchestrator::call::{CallDraft, Origin, Standing};
use crate::parser::Segment;
use crate::tools::Confirm;

use coverage::Coverage;
use model::Dice;
use play::Play;

use crate::session::record::SessionRecord;

/// A client's next message.
fn opening(dice: &mut Dice, history: &Conversation) -> Opening {
    let prompt = Opening::Prompt("Go on.".into());
    if let Some(results) = client_results(dice, history) {
        return results;
    }
    let Some(question) = history.open_questions().first() else { return prompt };
    match dice.roll(6) {
        0 => return prompt,
        1 => return words(dice, history),
        _ => {}
    }
    let options = &question.clarification.options;
    let choice = match dice.roll(6) {
        0 => Choice::Decline,
        1 => Choice::Cancel,
        2..=5 if !options.is_empty() => {
            // Seldom the last, so that some option is never chosen.
            Choice::Option(options[dice.roll(options.len().max(2) - 1)].id.clone())
        }
        _ if question.clarification.takes_text() => Choice::Text("the first".into()),
        _ => Choice::Option(options[0].id.clone()),
    };
    Opening::Answer(history.answer(&question.clarification_id, choice).unwrap())
}

/// The words of a user who has read the question as text.
fn words(dice: &mut Dice, history: &Conversation) -> Opening {
    let words = ["1", "2.", "approve", "No", "the first"][dice.roll(5)];
    history.open(&ClientInput::Words(words.to_owned()), |_| true).expect("no words are refused")
}

/// The results of the calls that the last turn handed out, if there are any; seldom none.
fn client_results(dice: &mut Dice, history: &Conversation) -> Option<Opening> {
    let last = history.turns().next_back()?;
    let mut result = |call: &conversation::Call| {
        let result = if dice.roll(3) == 0 { ToolResult::error("no") } else { completes() };
        ClientResult { call_id: call.call_id.clone(), result }
    };
    let results: Vec<_> = last.handed_out().map(&mut result).collect();
    if dice.roll(4) == 0 {
        return None;
    }
    history.open(&ClientInput::Results(results), |_| false).ok()
}

fn play(seed: u64) -> Coverage {
    let mut coverage = Coverage::default();
    play_on(seed, |history| history, |_, covered| coverage.add(covered));
    coverage
}

/// Plays one to three turns. Between turns, `carry` hands on the history. After each, `ended`
/// receives its outputs and coverage.
fn play_on(
    seed: u64,
    carry: impl Fn(Conversation) -> Conversation,
    mut ended: impl FnMut(String, Coverage),
) {
    let mut dice = Dice(seed);
    let mut history = Conversation::default();
    for turn_id in &["t1", "t2", "t3"][..=dice.roll(3)] {
        let mut play = Play::new(&mut dice, turn_id, &carry(history));
        play.settle();
        play.check();
        for _ in 0..dice.roll(60) {
            play.step(&mut dice);
            play.check();
        }
        play.finish();
        let came_out = play.came_out();
        let covered;
        (history, covered) = play.check_end();
        ended(came_out, covered);
    }
}

/// A conversation that was saved and restored continues unchanged.
#[test]
fn a_conversation_continues_the_same_elsewhere() {
    for seed in 0..CARRIED {
        let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
        play_on(seed, |history| history, |came_out, _| here.push(came_out));
        let carry = |conversation| {
            let record = SessionRecord { conversation, ..SessionRecord::default() };
            SessionRecord::read(record.write().as_bytes()).unwrap().conversation
        };
        play_on(seed, carry, |came_out, _| elsewhere.push(came_out));
        assert_eq!(here, elsewhere, "seed {seed}");
    }
}

/// How many schedules are played twice.
const CARRIED: u64 = 400;

/// Also checks that the schedules cover everything declared. Prints a table of the coverage;
/// `tests/run` shows the line that begins with `notice:`.
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

/// How many schedules it takes to see every move and rule.
const SCHEDULES: u64 = 4000;
