//! The event stream decoder. The floor is one `memchr` per line end.
//!
//! `cargo bench --bench sse`. Frames are those of llama.cpp, 250 bytes each. One iteration decodes
//! a stream of 1,000 frames, so "1 us" means a nanosecond per frame.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memchr::memchr;
use tether::upstream::sse::Decoder;

const FRAMES: usize = 1000;

fn stream() -> Vec<u8> {
    let frame = r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":" word"}}],"created":1795298701,"id":"chatcmpl-esbNjDPbSYyi1MFI2ayAoH1ehundT1FP","model":"smollm2-135m","system_fingerprint":"b10000-0000000","object":"chat.completion.chunk"}"#;
    format!("{frame}\n\n").repeat(FRAMES).into_bytes()
}

/// Finds every line end.
fn floor(chunk: &[u8]) -> usize {
    let (mut lines, mut rest) = (0, chunk);
    while let Some(end) = memchr(b'\n', rest) {
        lines += 1;
        rest = &rest[end + 1..];
    }
    lines
}

fn decode(decoder: &mut Decoder, stream: &[u8], chunk_bytes: usize) -> usize {
    let mut bytes = 0;
    for mut chunk in stream.chunks(chunk_bytes) {
        while let Ok(Some(frame)) = decoder.next_frame(&mut chunk) {
            bytes += black_box(frame.data).len();
        }
    }
    bytes
}

fn sse(criterion: &mut Criterion) {
    let stream = stream();
    let frame_bytes = stream.len() / FRAMES;
    let mut group = criterion.benchmark_group("sse");
    group.throughput(Throughput::Bytes(stream.len() as u64));
    for (name, chunk_bytes) in [
        ("a_frame_a_chunk", frame_bytes),
        ("16_KiB", 16 * 1024),
        ("64_KiB", 64 * 1024),
        ("37_bytes", 37),
    ] {
        group.bench_function(BenchmarkId::new("floor", name), |bencher| {
            bencher.iter(|| {
                stream.chunks(chunk_bytes).map(|chunk| floor(black_box(chunk))).sum::<usize>()
            });
        });
        group.bench_function(BenchmarkId::new("decoder", name), |bencher| {
            let mut decoder = Decoder::new();
            bencher.iter(|| decode(&mut decoder, black_box(&stream), chunk_bytes));
        });
    }
    group.finish();
}

criterion_group!(benches, sse);
criterion_main!(benches);
