//! The body of the fuzz target `sse_decoder`; an ordinary test replays its corpus.

use super::{Decoder, Field};

/// Small, so that short inputs reach the limit.
const FRAME_BYTES_MAX: usize = 512;

/// Checks that frames do not depend on where the stream is cut.
///
/// The first byte says how many of the next bytes are chunk lengths, used cyclically; the rest
/// is the stream.
///
/// # Panics
/// If two ways of cutting give different frames or endings, or if a buffer outgrows the limit.
pub fn sse_decoder(input: &[u8]) {
    let Some((&cuts, rest)) = input.split_first() else { return };
    let (cuts, stream) = rest.split_at(rest.len().min(usize::from(cuts % 16)));

    let whole = decode(std::iter::once(stream));
    assert_eq!(whole, decode(stream.chunks(1)), "byte by byte");

    let mut rest = stream;
    let mut lengths = cuts.iter().cycle();
    let chunks = std::iter::from_fn(|| {
        let length = lengths.next().map_or(1, |length| usize::from(*length)).min(rest.len());
        let (chunk, after) = rest.split_at(length.max(1).min(rest.len()));
        rest = after;
        (!chunk.is_empty()).then_some(chunk)
    });
    assert_eq!(whole, decode(chunks), "cut");
}

/// A frame's field, data, event and id.
type Owned = (Field, Vec<u8>, Vec<u8>, Option<Vec<u8>>);

#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    frames: Vec<Owned>,
    too_large: bool,
    mid_frame: bool,
}

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::with_frame_bytes_max(FRAME_BYTES_MAX);
    let mut outcome = Decoded { frames: Vec::new(), too_large: false, mid_frame: false };
    for mut chunk in chunks {
        loop {
            match decoder.next_frame(&mut chunk) {
                Ok(Some(frame)) => {
                    assert!(frame.data.len() <= FRAME_BYTES_MAX, "beyond the limit");
                    outcome.frames.push((
                        frame.field,
                        frame.data.to_vec(),
                        frame.event.to_vec(),
                        frame.id.map(<[u8]>::to_vec),
                    ));
                }
                Ok(None) => break,
                Err(_) => {
                    outcome.too_large = true;
                    return outcome;
                }
            }
        }
        assert!(chunk.is_empty(), "used up");
    }
    outcome.mid_frame = decoder.is_mid_frame();
    outcome
}
