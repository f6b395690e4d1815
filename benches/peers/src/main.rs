//! Published streaming parsers of tool calls, beside Tether's and beside loops that do only what no
//! parser can do without.
//!
//! `benches/peers/run` builds and starts it; README.md says what is measured and how to read it.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement prints what it found"
)]

mod alloc;
mod dynamo;
mod measure;
mod options;
mod ours;
mod output;
mod smg;
mod stream;
mod table;

// Tether's parser, which needs nothing else of the gateway.
#[allow(dead_code, unused_imports, unreachable_pub, reason = "the gateway uses the rest")]
#[path = "../../../src/call_format/mod.rs"]
mod call_format;
#[allow(dead_code, unused_imports, unreachable_pub, reason = "the gateway uses the rest")]
#[path = "../../../src/limits/mod.rs"]
mod limits;
#[allow(dead_code, unused_imports, unreachable_pub, reason = "the gateway uses the rest")]
#[allow(unfulfilled_lint_expectations, reason = "some hold only for what is public")]
#[path = "../../../src/parser/mod.rs"]
mod parser;

// The floors and texts of the parser's own benches.
#[expect(dead_code, reason = "the parser's bench uses the rest")]
#[path = "../../support/floors.rs"]
mod floors;
#[path = "../../support/workload.rs"]
mod workload;

use std::process::ExitCode;

use crate::measure::{Participant, Setup, measure};
use crate::options::Options;
use crate::stream::{Markup, works};

/// An error that ends the program with a message for the person who started it.
type Error = Box<dyn std::error::Error>;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Who is measured. Each reads calls as its own format writes them.
const PARTICIPANTS: &[Participant] = &[
    participant("Tether", Markup::MarkerLine, ours::marker_line),
    participant("Tether, deltas", Markup::MarkerLine, ours::marker_line_deltas).of_calls(),
    participant("Tether hermes, deltas", Markup::Hermes, ours::hermes_deltas),
    participant("tool-parser qwen", Markup::Hermes, smg::qwen),
    participant("tool-parser llama", Markup::Llama, smg::llama),
    participant("smg-symphony qwen2_5", Markup::Hermes, smg::symphony_qwen),
    participant("smg-symphony, our marker", Markup::MarkerLine, smg::symphony_marker_line),
    participant("dynamo-parsers hermes", Markup::Hermes, dynamo::hermes),
];

const fn participant(name: &'static str, markup: Markup, set_up: Setup) -> Participant {
    Participant { name, markup, set_up, reads_text: true }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Error> {
    let options = Options::read(std::env::args().skip(1))?;
    let mut rows = Vec::new();
    for work in works().iter().filter(|work| work.name.starts_with(&options.work)) {
        let participants: Vec<_> = PARTICIPANTS
            .iter()
            .filter(|participant| participant.name.contains(&options.only))
            .filter(|participant| participant.reads(work))
            .collect();
        if participants.is_empty() {
            continue;
        }
        let measured = measure(work, &participants, options.cap);
        table::print_rows(work, &measured);
        rows.extend(measured);
    }
    table::print_summary(&rows);
    if let Some(file) = options.json {
        std::fs::write(file, table::json(&rows)?)?;
    }
    Ok(())
}
