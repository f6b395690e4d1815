//! Searches for a byte in chunks that are often only a few bytes long.

/// Up to this length, two overlapping words are faster than a call to `memchr`.
const SHORT: usize = 16;

#[inline]
pub(super) fn byte(needle: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() > SHORT {
        return memchr::memchr(needle, bytes);
    }
    if !short_has(bytes, |byte| byte == needle, |word| zeros(word ^ repeated(needle))) {
        return None;
    }
    bytes.iter().position(|&byte| byte == needle)
}

#[inline]
pub(super) fn either(a: u8, b: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() > SHORT {
        return memchr::memchr2(a, b, bytes);
    }
    let is_either = |byte| byte == a || byte == b;
    if !short_has(bytes, is_either, |word| zeros(word ^ repeated(a)) | zeros(word ^ repeated(b))) {
        return None;
    }
    bytes.iter().position(|&byte| is_either(byte))
}

/// Whether there is a hit in the bytes, at most [`SHORT`]. Of a word, `hits` is 0 if there is none.
#[inline]
fn short_has(bytes: &[u8], is_hit: impl Fn(u8) -> bool, hits: impl Fn(u64) -> u64) -> bool {
    match *bytes {
        [] => false,
        [a] => is_hit(a),
        [a, b] => is_hit(a) || is_hit(b),
        [a, b, c] => is_hit(a) || is_hit(b) || is_hit(c),
        _ => {
            if let (Some(&head), Some(&tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
                hits(u64::from_ne_bytes(head)) != 0 || hits(u64::from_ne_bytes(tail)) != 0
            } else {
                let half = |four: Option<&[u8; 4]>| u32::from_ne_bytes(*four.unwrap_or(&[0; 4]));
                let (head, tail) = (half(bytes.first_chunk()), half(bytes.last_chunk()));
                hits(u64::from(head) << 32 | u64::from(tail)) != 0
            }
        }
    }
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
