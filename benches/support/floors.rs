//! The least that the work can cost: loops that do only what their name says.

use memchr::{memchr, memchr2, memmem};

const MARKER: &[u8] = b"<<function_call>>";

/// One search over the whole stream.
pub(crate) fn memmem_whole(text: &str) -> usize {
    memmem::find_iter(text.as_bytes(), MARKER).count()
}

/// Looks for the marker's first byte in each chunk, compares at each hit, and copies the chunk.
/// Holds nothing back.
pub(crate) fn scan_and_copy(chunk: &str, out: &mut String) -> usize {
    let bytes = chunk.as_bytes();
    let (mut found, mut at) = (0, 0);
    while let Some(hit) = find(MARKER[0], &bytes[at..]) {
        found += usize::from(bytes[at + hit..].starts_with(MARKER));
        at += hit + 1;
    }
    out.push_str(chunk);
    found
}

/// `memchr`, or a plain loop for few bytes, where the call would cost more than the search.
#[inline]
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() <= 8 { bytes.iter().position(|&b| b == byte) } else { memchr(byte, bytes) }
}

/// Follows strings, escapes and nesting, and copies each chunk.
#[derive(Default)]
pub(crate) struct Nesting {
    depth: usize,
    string: bool,
    escape: bool,
}

impl Nesting {
    /// Returns whether the outermost bracket closes in this chunk.
    pub(crate) fn follow_and_copy(&mut self, chunk: &str, out: &mut String) -> bool {
        out.push_str(chunk);
        let bytes = chunk.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if self.escape {
                self.escape = false;
                at += 1;
                continue;
            }
            if self.string {
                let rest = &bytes[at..];
                let stop = if rest.len() < 16 {
                    rest.iter().position(|&b| b == b'"' || b == b'\\')
                } else {
                    memchr2(b'"', b'\\', rest)
                };
                let Some(stop) = stop else { return false };
                self.string = rest[stop] != b'"';
                self.escape = self.string;
                at += stop + 1;
                continue;
            }
            match bytes[at] {
                b'"' => self.string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return true;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        false
    }
}
