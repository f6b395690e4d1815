//! Searches for a byte in chunks that are often only a few bytes long.

/// Up to this length, two overlapping words are faster than a call to `memchr`.
const SHORT: usize = 16;

#[inline]
pub(super) fn byte(needle: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() > SHORT {
        return memchr::memchr(needle, bytes);
    }
    if !short_has(bytes, needle) {
        return None;
    }
    bytes.iter().position(|&byte| byte == needle)
}

#[inline]
pub(super) fn either(a: u8, b: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() > SHORT {
        return memchr::memchr2(a, b, bytes);
    }
    if !short_has(bytes, a) && !short_has(bytes, b) {
        return None;
    }
    bytes.iter().position(|&byte| byte == a || byte == b)
}

/// Whether the bytes, at most [`SHORT`], contain this byte.
#[inline]
fn short_has(bytes: &[u8], byte: u8) -> bool {
    match *bytes {
        [] => false,
        [a] => a == byte,
        [a, b] => a == byte || b == byte,
        [a, b, c] => a == byte || b == byte || c == byte,
        _ => {
            if let (Some(&head), Some(&tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
                word_has(u64::from_ne_bytes(head), byte) || word_has(u64::from_ne_bytes(tail), byte)
            } else {
                let half = |four: Option<&[u8; 4]>| u32::from_ne_bytes(*four.unwrap_or(&[0; 4]));
                let (head, tail) = (half(bytes.first_chunk()), half(bytes.last_chunk()));
                word_has(u64::from(head) << 32 | u64::from(tail), byte)
            }
        }
    }
}

/// Whether a word's eight bytes contain this byte: XOR turns it into zero, and the subtraction
/// finds a zero.
#[inline]
fn word_has(word: u64, byte: u8) -> bool {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    let differs = word ^ (ONES * u64::from(byte));
    differs.wrapping_sub(ONES) & !differs & HIGHS != 0
}
