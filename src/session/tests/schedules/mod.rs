//! Random schedules of several nodes that share a store: whatever happens in whatever order, every reader sees
//! one sequence, no call runs twice, and every turn ends.
//!
//! ```text
//!   clients, readers ──> nodes: Sessions, a driver, a sweeper ──> network ──> server
//!   begin, re-join,      each on a runtime of its own that can     late,       the rules of the
//!   cancel               be killed, stopped or run slow            lost,       Redis scripts
//!                                                                  twice
//! ```
//! The session code is the real one. All of it runs on one thread, on paused clocks that the schedule moves, so a
//! seed always plays the same. A failure prints its seed. Play that schedule again, with a trace of all that
//! happens, with `TETHER_SEED=<seed>`, and more schedules with `TETHER_SCHEDULES=<count>`.

mod compared;
mod coverage;
mod dice;
mod driving;
mod network;
mod node;
mod rules;
mod server;
mod world;

use coverage::Coverage;
use world::World;

/// How long a lease lasts.
const LEASE_MS: u64 = 2000;
/// How long a turn waits for the store.
const WAIT_MS: u64 = 1000;
/// How many schedules it takes to see every situation.
const SCHEDULES: u64 = 400;

/// What is wrong in a schedule on purpose, to see whether anyone notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The store does not look at who holds the lease.
    NoFence,
    /// The epoch stays the same when a session changes hands.
    SameEpoch,
    /// The store does not know a request that it has done before.
    NotIdempotent,
    /// The store does not know that a request is older than what it has done.
    NoOrder,
    /// Readers see events before they are stored.
    ShownBeforeStored,
    /// Tools do not wait until their start is stored.
    NoBarrier,
}

fn play(seed: u64, flaw: Flaw) -> Result<Coverage, String> {
    World::new(seed, flaw, false).play().0
}

/// Checks that the schedules see everything declared, too. `tests/run` shows the line that begins with
/// `notice:`.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own knobs")]
#[expect(clippy::print_stdout, reason = "a report for people")]
fn the_promise_holds_in_every_schedule() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("TETHER_SEED") {
        let (outcome, trace) = World::new(seed, Flaw::None, true).play();
        println!("{}", trace.unwrap_or_default().join("\n"));
        outcome.unwrap();
        return;
    }
    let schedules = number("TETHER_SCHEDULES").unwrap_or(SCHEDULES);
    let (mut coverage, mut failures) = (Coverage::default(), Vec::new());
    for seed in 0..schedules {
        match play(seed, Flaw::None) {
            Ok(seen) => coverage.add(&seen),
            Err(what) => failures.push(format!("TETHER_SEED={seed}: {what}")),
        }
    }
    println!("\nnotice: nodes that share a store, {schedules} schedules: {}", coverage.summary());
    println!("{}", coverage.report());
    let count = failures.len();
    assert!(count == 0, "{count} schedules failed; play one again with\n{}", failures.join("\n"));
    let complaints = coverage.complaints(schedules >= SCHEDULES);
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
}

/// Each has found a mistake, which is undone if it breaks again.
const FOUND: &[(&str, &[u64])] = &[
    ("a call ran although its start was not stored", &[17, 19]),
    ("a call ran on a node that came back, after it had run elsewhere", &[182, 292]),
    ("an append that came late brought back an older journal", &[41, 110]),
    ("a reader was refused by a node that had heard less than it", &[46, 156, 272]),
    (
        "a node that ran a later turn had not heard of a deletion, and did not tell a reader",
        &[1443],
    ),
];

#[test]
fn what_was_found_is_not_broken_again() {
    for (what, seeds) in FOUND {
        for seed in *seeds {
            assert_eq!(play(*seed, Flaw::None).err(), None, "{what}: {seed}");
        }
    }
}

/// Or else a seed would tell nothing.
#[test]
fn a_seed_always_plays_the_same() {
    for seed in 0..4 {
        let [(one, trace), (other, again)] =
            [(); 2].map(|()| World::new(seed, Flaw::None, true).play());
        assert!(trace == again, "{seed}");
        assert_eq!(one, other, "{seed}");
    }
}

#[test]
fn the_schedules_notice_what_is_wrong() {
    let flaws = [
        Flaw::NoFence,
        Flaw::SameEpoch,
        Flaw::NotIdempotent,
        Flaw::NoOrder,
        Flaw::ShownBeforeStored,
        Flaw::NoBarrier,
    ];
    for flaw in flaws {
        assert!((0..SCHEDULES).any(|seed| play(seed, flaw).is_err()), "{flaw:?}");
    }
}
