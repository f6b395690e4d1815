//! The parser, next to a floor for each part of its work, in one run.
//!
//! `cargo bench --bench parser`. Throughput is in chunks for groups named `tokens`, and in bytes
//! for the others. Machines differ, so compare the cost of a token or byte with the floor in the
//! same group: text in tokens with `scan_and_copy`, large chunks with `memmem`, calls with
//! `follow_and_copy`.

use std::hint::black_box;
use std::ops::Range;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use tether::parser::{Parser, Segment, Settings};

mod support {
    pub(crate) mod floors;
    pub(crate) mod workload;
}

use support::floors::{Nesting, memmem_whole, scan_and_copy};
use support::workload::{Cut, Style, chunks, hundred_calls, one_call, text};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const CUTS: &[(&str, Cut)] = &[
    ("tokens", Cut::Tokens),
    ("64B", Cut::Bytes(64)),
    ("1KiB", Cut::Bytes(KIB)),
    ("64KiB", Cut::Bytes(64 * KIB)),
];

criterion_group!(benches, texts, calls);
criterion_main!(benches);

fn texts(c: &mut Criterion) {
    for (name, style) in
        [("prose", Style::Prose), ("code", Style::Code), ("markdown", Style::Markdown)]
    {
        let input = text(MIB, style);
        for &(cut_name, cut) in CUTS {
            let mut group = group(c, &format!("{name}/{cut_name}"), &input, cut);
            let chunks = chunks(&input, cut);
            group.bench_function("floor: memmem", |b| b.iter(|| memmem_whole(black_box(&input))));
            group.bench_function("floor: scan_and_copy", |b| {
                let mut out = String::with_capacity(input.len());
                b.iter(|| {
                    out.clear();
                    for chunk in &chunks {
                        black_box(scan_and_copy(black_box(&input[chunk.clone()]), &mut out));
                    }
                });
            });
            parsers(&mut group, &input, &chunks);
        }
    }
}

fn calls(c: &mut Criterion) {
    let sizes = [("1KiB", KIB), ("16KiB", 16 * KIB), ("256KiB", 256 * KIB), ("1MiB", MIB)];
    let mut inputs: Vec<(String, String)> =
        sizes.iter().map(|(name, bytes)| (format!("call {name}"), one_call(*bytes))).collect();
    inputs.push(("100 calls".to_owned(), hundred_calls()));
    for (name, input) in &inputs {
        for &(cut_name, cut) in CUTS {
            let mut group = group(c, &format!("{name}/{cut_name}"), input, cut);
            let chunks = chunks(input, cut);
            group.bench_function("floor: follow_and_copy", |b| {
                let mut out = String::with_capacity(input.len());
                b.iter(|| {
                    out.clear();
                    let mut nesting = Nesting::default();
                    for chunk in &chunks {
                        let chunk = black_box(&input[chunk.clone()]);
                        black_box(nesting.follow_and_copy(chunk, &mut out));
                    }
                });
            });
            parsers(&mut group, input, &chunks);
            deltas(&mut group, input, &chunks);
        }
    }
}

fn group<'c>(
    c: &'c mut Criterion,
    name: &str,
    input: &str,
    cut: Cut,
) -> BenchmarkGroup<'c, WallTime> {
    let mut group = c.benchmark_group(name);
    group.sample_size(20);
    group.throughput(match cut {
        Cut::Tokens => Throughput::Elements(chunks(input, cut).len() as u64),
        Cut::Bytes(_) => Throughput::Bytes(input.len() as u64),
    });
    group
}

/// The parser, with its text copied as in the floor, and without.
fn parsers(group: &mut BenchmarkGroup<'_, WallTime>, input: &str, chunks: &[Range<usize>]) {
    let mut parser = Parser::new(settings()).expect("the default marker");
    let mut out = String::with_capacity(input.len());
    group.bench_function("push_str and copy", |b| {
        b.iter(|| {
            out.clear();
            for chunk in chunks {
                parser.push_str(black_box(&input[chunk.clone()]), |segment| match segment {
                    Segment::Text(text) => out.push_str(text),
                    other => drop(black_box(other)),
                });
            }
            parser.finish(|segment| drop(black_box(segment)));
        });
    });
    group.bench_function("push_str", |b| {
        b.iter(|| {
            for chunk in chunks {
                parser.push_str(black_box(&input[chunk.clone()]), |s| drop(black_box(s)));
            }
            parser.finish(|segment| drop(black_box(segment)));
        });
    });
    group.bench_function("push", |b| {
        b.iter(|| {
            for chunk in chunks {
                let bytes = &input.as_bytes()[chunk.clone()];
                parser.push(black_box(bytes), |segment| drop(black_box(segment)));
            }
            parser.finish(|segment| drop(black_box(segment)));
        });
    });
}

fn deltas(group: &mut BenchmarkGroup<'_, WallTime>, input: &str, chunks: &[Range<usize>]) {
    let settings = Settings { argument_deltas: true, ..settings() };
    let mut parser = Parser::new(settings).expect("the default marker");
    group.bench_function("push_str with deltas", |b| {
        b.iter(|| {
            for chunk in chunks {
                parser.push_str(black_box(&input[chunk.clone()]), |s| drop(black_box(s)));
            }
            parser.finish(|segment| drop(black_box(segment)));
        });
    });
}

fn settings() -> Settings {
    // The largest call exceeds the default limit on purpose.
    Settings { max_payload_bytes: 2 * MIB, ..Settings::default() }
}
