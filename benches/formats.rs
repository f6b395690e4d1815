//! What each call format costs to read, beside the floors in the same run.
//!
//! `cargo bench --bench formats`. Prose is compared with looking for one byte and copying, a call with
//! a long argument with following its brackets and strings; "told" is the same call whose arguments are reported
//! as they arrive. Each floor and each format take turns, and
//! the fastest of many rounds counts, because the machine is not always the same.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use tether::call_format::{CallFormat, ROWS, Row};
use tether::parser::{Parser, Segment, Settings, Tools};

mod support {
    #[expect(dead_code, reason = "the parser's bench uses the rest")]
    pub(crate) mod floors;
    #[expect(dead_code, reason = "the parser's bench uses the rest")]
    pub(crate) mod workload;
}

use support::floors::{Nesting, scan_and_copy};
use support::workload::{Cut, Style, chunks, text};

fn main() {
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    let (bytes, rounds) = if is_test { (1 << 12, 1) } else { (1 << 19, 25) };
    let prose = text(bytes, Style::Prose);
    println!("{:>20} {:>8} {:>10} {:>8}", "format", "prose", "arguments", "told");
    for row in ROWS {
        let call = long_call(row, bytes);
        let prose = ratio(
            rounds,
            &prose,
            &mut |chunk, out| {
                black_box(scan_and_copy(chunk, out));
            },
            settings(row),
        );
        let mut nesting = Nesting::default();
        let [arguments, told] = [false, true].map(|argument_deltas| {
            ratio(
                rounds,
                &call,
                &mut |chunk, out| {
                    black_box(nesting.follow_and_copy(chunk, out));
                },
                Settings { argument_deltas, ..settings(row) },
            )
        });
        println!("{:>20} {prose:>8.2} {arguments:>10.2} {told:>8.2}", row.name);
    }
}

/// A call whose argument is a text about as long as this.
fn long_call(row: &'static Row, bytes: usize) -> String {
    let mut call = String::new();
    let arguments = json!({ "s": text(bytes, Style::Prose) }).to_string();
    CallFormat::of(row).push_call(&mut call, "f", &arguments);
    call
}

/// How much longer the parser takes than a floor for the same input.
fn ratio(
    rounds: usize,
    input: &str,
    floor: &mut dyn FnMut(&str, &mut String),
    settings: Settings,
) -> f64 {
    let chunks = chunks(input, Cut::Tokens);
    let mut out = String::with_capacity(2 * input.len());
    let mut parser = Parser::new(settings).expect("a row of the table");
    let mut best = [Duration::MAX; 2];
    for _ in 0..rounds {
        out.clear();
        let begun = Instant::now();
        for chunk in &chunks {
            floor(black_box(&input[chunk.clone()]), &mut out);
        }
        best[0] = best[0].min(begun.elapsed());
        out.clear();
        let begun = Instant::now();
        let mut sink = |segment: Segment<'_>| match segment {
            Segment::Text(words) => out.push_str(words),
            other => drop(black_box(other)),
        };
        for chunk in &chunks {
            parser.push_str(black_box(&input[chunk.clone()]), &mut sink);
        }
        parser.finish(&mut sink);
        best[1] = best[1].min(begun.elapsed());
    }
    best[1].as_secs_f64() / best[0].as_secs_f64()
}

fn settings(row: &'static Row) -> Settings {
    let schema = json!({ "properties": { "s": { "type": "string" } } });
    let tools = Tools::of([("f", &schema)]);
    Settings {
        format: CallFormat::of(row),
        tools,
        max_payload_bytes: 1 << 22,
        ..Settings::default()
    }
}
