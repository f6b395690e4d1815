//! Splits a stream of bytes at a delimiter, wherever the bytes are cut.

use memchr::memchr;

/// The piece that has begun, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    begun: Vec<u8>,
}

impl Pieces {
    /// Reads more. `on_piece` gets each piece that is complete, without the delimiter.
    pub(crate) fn push(
        &mut self,
        delimiter: u8,
        mut bytes: &[u8],
        mut on_piece: impl FnMut(&[u8]),
    ) {
        while let Some(end) = memchr(delimiter, bytes) {
            let (piece, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.begun.is_empty() {
                on_piece(piece);
            } else {
                self.begun.extend_from_slice(piece);
                on_piece(&self.begun);
                self.begun.clear();
            }
            bytes = rest;
        }
        self.begun.extend_from_slice(bytes);
    }
}
