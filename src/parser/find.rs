//! Searches for a byte in chunks that are often only a few bytes long.

/// Up to this length, two overlapping words are faster than a call to `memchr`.
const SHORT: usize = 16;

#[inline]
pub(super) fn byte(needle: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() > SHORT {
        return memchr::memchr(needle, bytes);
    }
    if !short_has([needle], bytes) {
        return None;
    }
    bytes.iter().position(|&byte| byte == needle)
}

/// The first of two bytes. Not inlined, because text is mostly searched for one: the check that lets text
/// through would have to save more registers.
#[inline(never)]
pub(super) fn either(a: u8, b: u8, bytes: &[u8]) -> Option<usize> {
    either_inlined(a, b, bytes)
}

/// The first of two bytes, where most of a long call passes through: 5 % of its instructions.
#[expect(clippy::inline_always, reason = "as a hint, it does nothing here")]
#[inline(always)]
pub(super) fn either_inlined(a: u8, b: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() > SHORT {
        return memchr::memchr2(a, b, bytes);
    }
    if !short_has([a, b], bytes) {
        return None;
    }
    bytes.iter().position(|&byte| byte == a || byte == b)
}

/// Whether the bytes, at most [`SHORT`], contain any of the needles.
#[inline]
fn short_has<const N: usize>(needles: [u8; N], bytes: &[u8]) -> bool {
    match *bytes {
        [] => false,
        [a] => needles.contains(&a),
        [a, b] => needles.iter().any(|&needle| a == needle || b == needle),
        [a, b, c] => needles.iter().any(|&needle| a == needle || b == needle || c == needle),
        _ => {
            if let (Some(&head), Some(&tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
                word_has(needles, u64::from_ne_bytes(head))
                    || word_has(needles, u64::from_ne_bytes(tail))
            } else {
                let half = |four: Option<&[u8; 4]>| u32::from_ne_bytes(*four.unwrap_or(&[0; 4]));
                let (head, tail) = (half(bytes.first_chunk()), half(bytes.last_chunk()));
                word_has(needles, u64::from(head) << 32 | u64::from(tail))
            }
        }
    }
}

/// Whether a word contains any of the needles: XOR turns such a byte into zero. One branch for all needles.
#[inline]
fn word_has<const N: usize>(needles: [u8; N], word: u64) -> bool {
    needles.iter().fold(0, |hits, &needle| hits | zeros(word ^ repeated(needle))) != 0
}

const fn repeated(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Not 0 if any byte of a word is: subtracting 1 from that byte carries into its high bit.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(repeated(0x01)) & !word & repeated(0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hit_is_found_in_any_length() {
        for length in 0..=SHORT + 1 {
            for places in 0..1_u32 << length.min(12) {
                // `<` next to the byte before it is what the subtraction could mistake.
                let bytes: Vec<u8> =
                    (0..length).map(|at| if places >> at & 1 == 1 { b'<' } else { b'=' }).collect();
                let found = bytes.iter().position(|&byte| byte == b'<');
                assert_eq!(byte(b'<', &bytes), found, "{bytes:?}");
                assert_eq!(either(b'x', b'<', &bytes), found, "{bytes:?}");
                assert_eq!(either(b'=', b'<', &bytes), (length > 0).then_some(0), "{bytes:?}");
            }
        }
    }
}
