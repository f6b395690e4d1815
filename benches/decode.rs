//! Decodes Chat Completions frames, with and without the memo of the last frame's shape. The floor
//! copies the frame and searches it once.
//!
//! `cargo bench --bench decode`. One iteration decodes 1,000 frames, so "1 us" means a nanosecond
//! per frame.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use memchr::memchr;
use tether::upstream::Delta;
use tether::upstream::dialect::Decode as _;
use tether::upstream::dialect::openai_chat::Decoder;
use tether::upstream::sse::{Field, Frame};

const FRAMES: usize = 1000;

/// Frames as llama.cpp writes them, with one word each.
fn frames(word: impl Fn(usize) -> String) -> Vec<String> {
    (0..FRAMES)
        .map(|at| {
            let word = word(at);
            format!(r#"{{"choices":[{{"finish_reason":null,"index":0,"delta":{{"content":"{word}"}}}}],"created":1795298701,"id":"chatcmpl-esbNjDPbSYyi1MFI2ayAoH1ehundT1FP","model":"smollm2-135m","system_fingerprint":"b10000-0000000","object":"chat.completion.chunk"}}"#)
        })
        .collect()
}

fn decode_all(decoder: &mut Decoder, frames: &[String]) -> usize {
    let mut bytes = 0;
    for frame in frames {
        let frame = Frame { field: Field::Data, data: frame.as_bytes(), event: b"", id: None };
        let outcome = decoder.decode(&frame, &mut |delta| {
            if let Delta::Text(text) = delta {
                bytes += black_box(text).len();
            }
        });
        assert!(outcome.is_ok(), "frames are valid");
    }
    bytes
}

fn decode(criterion: &mut Criterion) {
    let kinds = [
        ("words", frames(|at| [" the", " model", " said", ","][at % 4].to_owned())),
        ("escapes", frames(|at| [r"\n\n", r#"\""#, r"\u00e9t\u00e9", r"\t"][at % 4].to_owned())),
        ("changing_shape", frames(|at| format!(r#"a"}},"x":{{"n":"{at}"#))),
    ];
    for (name, frames) in &kinds {
        let mut group = criterion.benchmark_group(format!("decode/{name}"));
        group.bench_function("floor", |bencher| {
            let mut copy = Vec::new();
            bencher.iter(|| {
                for frame in frames {
                    copy.clear();
                    copy.extend_from_slice(black_box(frame.as_bytes()));
                    black_box(memchr(0, &copy));
                }
            });
        });
        group.bench_function("memo", |bencher| {
            let mut decoder = Decoder::new();
            bencher.iter(|| decode_all(&mut decoder, black_box(frames)));
        });
        group.bench_function("parse", |bencher| {
            let mut decoder = Decoder::without_memo();
            bencher.iter(|| decode_all(&mut decoder, black_box(frames)));
        });
        group.finish();
    }
}

criterion_group!(benches, decode);
criterion_main!(benches);
