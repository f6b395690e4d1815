//! Thousands of streams through a gateway, with everything that clients do to it, and what must hold
//! meanwhile. `tests/soak/README.md` says what is promised.
//!
//! ```text
//!   model ──stamped tokens──> gateway ──events──> clients: read, cut, re-join, stall, leave
//!   (thread)                 (process)  <──────── slow senders
//!                                       <──────── watcher (thread): /healthz, /metrics, /proc
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement prints what it found"
)]

mod answer;
mod client;
mod clock;
mod connection;
mod directive;
mod events;
mod gateway;
mod histogram;
mod loris;
mod model;
mod options;
mod phase;
mod pieces;
mod random;
mod reading;
mod report;
mod tally;
mod token;
mod verdict;
mod watcher;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use crate::gateway::{Gateway, Process};
use crate::model::Model;
use crate::options::Options;
use crate::report::Report;

/// An error that ends the program with a message for the person who started it.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// Status of wrong arguments, and of a machine that does not allow so many streams.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let run = || {
        let options = Options::read(std::env::args().skip(1))?;
        check_limits(&options)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(soak(&options))
    };
    match run() {
        Ok(report) => {
            println!("{}", report.text().trim_end());
            if report.is_kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn check_limits(options: &Options) -> Result<(), Error> {
    let (max, needed) = (Process::this().files_max(), options.files());
    if needed > max {
        let fitting = Options::streams_within(max);
        let streams = options.streams;
        return Err(format!(
            "{streams} streams need {needed} open files, and {max} are allowed: raise the limit, or use \
             --streams {fitting}"
        )
        .into());
    }
    Ok(())
}

/// Both phases, each with a gateway of its own.
async fn soak(options: &Options) -> Result<Report, Error> {
    let mut report = Report::default();
    let load = options.load();
    let model = Model::start(load.interval)?;
    let start =
        |turns_max| Gateway::start(&options.binary, &options.directory, model.address, turns_max);
    report.row("streams", format!("{} for {} s", options.streams, options.lasts.as_secs()));
    // Turns that their clients have left go on for a while.
    let gateway = start(2 * options.streams)?;
    let measured = phase::run(&gateway, load, verdict::REST).await?;
    verdict::soak(&mut report, &measured, options.is_short);
    verdict::rounds(&mut report, &measured, model.rounds());
    drop(gateway);
    if options.overload_lasts > Duration::ZERO {
        let room = (options.streams / 2).max(1);
        let gateway = start(room)?;
        let measured = phase::run(&gateway, options.overload(), Duration::ZERO).await?;
        verdict::overload(&mut report, &measured, room, model.rounds());
    }
    Ok(report)
}
