//! Finds the earliest of one or two openers in a stream of bytes.
//!
//! What has been read of an opener is never stored: it is a prefix of the opener
//! itself, so a position ([`Held`]) says it all. Where the next byte does not fit,
//! a table made at the start says how much of it is text after all and what is
//! still held: each byte is stepped over once, even for markers that overlap
//! themselves, such as `<<<call>>` after one `<` too many.

use super::{examined, find};

/// What ends a run of text or reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    Marker,
    ReasoningOpen,
    ReasoningClose,
}

/// How much of an opener has been read: the first `len` bytes of opener `which`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    which: u8,
    len: u8,
}

impl Held {
    pub(super) const NONE: Self = Self { which: 0, len: 0 };

    pub(super) const fn len(self) -> usize {
        self.len as usize
    }

    pub(super) const fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// What a byte did to what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing was held, and the byte begins no opener.
    Miss,
    /// The byte belongs to an opener so far.
    Hold(Held),
    /// The byte completes the opener of this number.
    Match(usize),
    /// The byte does not fit. It is looked at again in front of [`Fall::landing`].
    Fall(Fall),
}

/// What becomes of held bytes that are no opener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fall {
    /// So many of the first held bytes are text.
    pub drop: usize,
    /// What the rest is.
    pub landing: Landing,
}

/// What the rest of held bytes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landing {
    /// Held on, perhaps nothing.
    Held(Held),
    /// The rest begins with the whole opener of this number: it lies inside the
    /// other one, which began earlier and came to nothing.
    Match(usize),
}

/// Up to two openers.
#[derive(Debug, Clone)]
pub(super) struct Openers {
    patterns: Vec<(Opener, Box<[u8]>)>,
    /// `falls[which][len - 1]` belongs to `Held { which, len }`.
    falls: Vec<Box<[Fall]>>,
    /// Length of the prefix that both openers share; 0 where there are not two.
    shared: usize,
    first: [u8; 2],
    /// What follows on the first byte; nothing where an opener is one byte long.
    second: Option<[u8; 2]>,
}

impl Openers {
    /// The patterns must be non-empty and shorter than 256 bytes.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = (Opener, &'a str)>) -> Self {
        let patterns: Vec<(Opener, Box<[u8]>)> =
            patterns.map(|(opener, text)| (opener, text.as_bytes().into())).collect();
        // Without any, NUL is looked for and then found to begin nothing.
        let ends = [patterns.first(), patterns.last()]
            .map(|pattern| pattern.map_or(&[0, 0][..], |(_, text)| text));
        let first = [ends[0][0], ends[1][0]];
        let second = ends.iter().all(|text| text.len() > 1).then(|| [ends[0][1], ends[1][1]]);
        let shared = match &patterns[..] {
            [(_, a), (_, b)] => a.iter().zip(b.iter()).take_while(|(a, b)| a == b).count(),
            _ => 0,
        };
        let falls = patterns
            .iter()
            .map(|(_, text)| (1..text.len()).map(|len| fall(&patterns, &text[..len])).collect())
            .collect();
        Self { patterns, falls, shared, first, second }
    }

    pub(super) fn opener(&self, which: usize) -> Opener {
        self.patterns[which].0
    }

    pub(super) fn pattern(&self, which: usize) -> &[u8] {
        &self.patterns[which].1
    }

    /// The bytes that are held.
    pub(super) fn held(&self, held: Held) -> &[u8] {
        &self.patterns[usize::from(held.which)].1[..held.len()]
    }

    /// Whether no opener begins in the bytes, which is so in most chunks of prose.
    #[inline]
    pub(super) fn absent(&self, bytes: &[u8]) -> bool {
        self.find_first(bytes).is_none() || self.find(bytes).is_none()
    }

    /// Where an opener may begin, as far as its first two bytes tell: in code, most
    /// bytes that begin one are followed by a byte that belongs to none. Out of line:
    /// inlined, it costs every chunk of prose.
    #[inline(never)]
    pub(super) fn find(&self, bytes: &[u8]) -> Option<usize> {
        let mut at = self.find_first(bytes)?;
        let Some(second) = self.second else { return Some(at) };
        while let Some(next) = bytes.get(at + 1) {
            examined::note(1);
            if second.contains(next) {
                break;
            }
            at += 1;
            at += self.find_first(&bytes[at..])?;
        }
        Some(at)
    }

    #[inline]
    fn find_first(&self, bytes: &[u8]) -> Option<usize> {
        let [a, b] = self.first;
        let found = if a == b { find::byte(a, bytes) } else { find::either(a, b, bytes) };
        examined::note(found.map_or(bytes.len(), |at| at + 1));
        found
    }

    /// Whether the byte may begin an opener.
    #[inline]
    pub(super) fn begins(&self, byte: u8) -> bool {
        byte == self.first[0] || byte == self.first[1]
    }

    #[inline]
    pub(super) fn step(&self, held: Held, byte: u8) -> Step {
        examined::note(1);
        let len = held.len();
        let mut longer = None;
        for (which, (_, pattern)) in self.patterns.iter().enumerate() {
            let fits = which == usize::from(held.which) || len <= self.shared;
            if !fits || pattern[len] != byte {
                continue;
            }
            if len + 1 == pattern.len() {
                return Step::Match(which);
            }
            longer.get_or_insert(which);
        }
        match longer {
            #[expect(clippy::cast_possible_truncation, reason = "two patterns below 256 bytes")]
            Some(which) => Step::Hold(Held { which: which as u8, len: (len + 1) as u8 }),
            None if len == 0 => Step::Miss,
            None => Step::Fall(self.fall(held)),
        }
    }

    /// What becomes of what is held, which is not nothing, when no byte fits.
    pub(super) fn fall(&self, held: Held) -> Fall {
        self.falls[usize::from(held.which)][held.len() - 1]
    }
}

fn fall(patterns: &[(Opener, Box<[u8]>)], held: &[u8]) -> Fall {
    for drop in 1..held.len() {
        let rest = &held[drop..];
        let whole = (0..patterns.len()).find(|&which| rest.starts_with(&patterns[which].1));
        if let Some(which) = whole {
            return Fall { drop, landing: Landing::Match(which) };
        }
        if let Some(which) = (0..patterns.len()).find(|&w| patterns[w].1.starts_with(rest)) {
            #[expect(clippy::cast_possible_truncation, reason = "two patterns below 256 bytes")]
            let held = Held { which: which as u8, len: rest.len() as u8 };
            return Fall { drop, landing: Landing::Held(held) };
        }
    }
    Fall { drop: held.len(), landing: Landing::Held(Held::NONE) }
}
