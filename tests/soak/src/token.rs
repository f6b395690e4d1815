//! Tokens that say where they belong and when they were written, and the check that all arrive.
//!
//! ```text
//!   41@7300123xxxx;
//!   |  |      '- as much padding as the stream wants
//!   |  '- when the model wrote it, in microseconds
//!   '- its number in the turn
//! ```
//! Events may join tokens or cut them, so the check looks at text alone.

use memchr::memrchr;

use crate::pieces::Pieces;

/// Writes a token.
pub(crate) fn write(out: &mut Vec<u8>, number: u64, at: u64, padding: usize) {
    out.extend_from_slice(format!("{number}@{at}").as_bytes());
    out.resize(out.len() + padding, b'x');
    out.push(b';');
}

/// Reads the text of a turn.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    tokens: Pieces,
    next: u64,
    /// Tokens that were skipped.
    pub(crate) lost: u64,
    /// Tokens that came again.
    pub(crate) doubled: u64,
}

impl Checker {
    /// Tokens so far.
    pub(crate) const fn count(&self) -> u64 {
        self.next
    }

    /// Reads more text. `on_token` gets the stamp of each token.
    pub(crate) fn push(&mut self, text: &[u8], mut on_token: impl FnMut(u64)) {
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.push(b';', text, |token| self.token(token, &mut on_token));
        self.tokens = tokens;
    }

    /// Other words of the model have no stamp.
    fn token(&mut self, token: &[u8], on_token: &mut impl FnMut(u64)) {
        let Some(at) = memrchr(b'@', token) else { return };
        let digits = token[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let number = decimal(&token[at - digits..at]);
        on_token(decimal(&token[at + 1..]));
        if number < self.next {
            self.doubled += 1;
        } else {
            self.lost += number - self.next;
            self.next = number + 1;
        }
    }

    /// The turn is over, and had so many tokens.
    pub(crate) const fn finish(&mut self, tokens: u64) {
        self.lost += tokens.saturating_sub(self.next);
    }
}

/// The number at the start of these bytes.
pub(crate) fn decimal(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]], tokens: u64) -> (u64, u64, Vec<u64>) {
        let (mut checker, mut stamps) = (Checker::default(), Vec::new());
        for piece in pieces {
            checker.push(piece, |at| stamps.push(at));
        }
        checker.finish(tokens);
        (checker.lost, checker.doubled, stamps)
    }

    #[test]
    fn tokens_are_read_wherever_they_are_cut() {
        let mut text = b"Well;".to_vec();
        write(&mut text, 0, 17, 0);
        write(&mut text, 1, 18, 3);
        for at in 0..=text.len() {
            let (start, end) = text.split_at(at);
            assert_eq!(read(&[start, end], 2), (0, 0, vec![17, 18]));
        }
    }

    #[test]
    fn what_is_missing_and_what_comes_twice_is_counted() {
        assert_eq!(read(&[b"0@1;2@1;"], 3).0, 1);
        assert_eq!(read(&[b"0@1;1@1;"], 4).0, 2);
        assert_eq!(read(&[b"0@1;1@1;0@1;"], 2).1, 1);
    }
}
