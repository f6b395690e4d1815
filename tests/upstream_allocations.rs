//! A token in a model's stream costs no allocation: frames and their text are borrowed from the
//! chunk or from reused buffers.

use allocation_counter::measure;
use tether::upstream::Delta;
use tether::upstream::dialect::Decode as _;
use tether::upstream::dialect::openai_chat;
use tether::upstream::sse;

fn stream(words: &[&str], frames: usize) -> Vec<u8> {
    let frames = (0..frames).map(|at| {
        let word = words[at % words.len()];
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}}}}],\"created\":1}}\n\n")
    });
    frames.collect::<String>().into_bytes()
}

/// Decodes `chunks` with both decoders; returns the bytes of text.
fn decode(
    frames: &mut sse::Decoder,
    chat: &mut openai_chat::Decoder,
    stream: &[u8],
    chunk_bytes: usize,
) -> usize {
    let mut bytes = 0;
    for mut chunk in stream.chunks(chunk_bytes) {
        while let Some(frame) = frames.next_frame(&mut chunk).expect("within the limit") {
            chat.decode(&frame, &mut |delta| {
                if let Delta::Text(text) = delta {
                    bytes += text.len();
                }
            })
            .expect("a valid frame");
        }
    }
    bytes
}

/// Checks that a stream allocates nothing once the buffers have grown.
#[track_caller]
fn check(mut chat: openai_chat::Decoder, words: &[&str], chunk_bytes: usize) {
    let stream = stream(words, 200);
    let mut frames = sse::Decoder::new();
    let expected = decode(&mut frames, &mut chat, &stream, chunk_bytes);
    let mut bytes = 0;
    let allocations = measure(|| bytes = decode(&mut frames, &mut chat, &stream, chunk_bytes));
    assert_eq!((bytes, allocations.count_total), (expected, 0), "{words:?} by {chunk_bytes}");
    assert!(bytes > 0);
}

#[test]
fn no_allocation_for_a_token() {
    let words = [" the", " caf\u{e9}", r"\n", r"\u00e9\ud83d\ude00", "\\\""];
    for chunk_bytes in [1, 7, 100, 4096, usize::MAX] {
        check(openai_chat::Decoder::new(), &words, chunk_bytes);
        check(openai_chat::Decoder::without_memo(), &words, chunk_bytes);
    }
}

#[test]
fn no_allocation_at_all_for_plain_frames_in_one_chunk() {
    let stream = stream(&[" the"], 200);
    let allocations = measure(|| {
        let mut frames = sse::Decoder::new();
        let mut chunk = stream.as_slice();
        while frames.next_frame(&mut chunk).unwrap().is_some() {}
    });
    assert_eq!(allocations.count_total, 0);
}
