//! Measures what users get from a real model through the gateway, in whole turns.
//!
//! Plays the tasks of `tests/data/effect` over the gateway's own HTTP API, with one gateway per
//! task, and prints a Markdown table. It does not start the model server (`tests/effect/run`
//! does). A model's wrong answer is a figure, not a failure. `README.md` explains the columns.
//!
//! This file is not called `main.rs`, because Cargo would also build that as an integration test.

mod client;
mod judge;
mod options;
mod play;
mod record;
mod report;
mod table;
mod tasks;
mod tools;

use std::process::ExitCode;

use clap::Parser as _;

use crate::options::Options;
use crate::report::Report;

/// An error that ends the program with a message for the person who started it.
type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    let options = Options::parse();
    let tasks = tasks::load(&options.selection())?;
    let mut report = Report::new(options.jsonl.as_deref(), tasks.len())?;
    for task in tasks {
        let outcome = play::play(&task, &options.setting).await?;
        report.note(&task, outcome)?;
    }
    Ok(report.finish(options.fail_on_shown))
}
