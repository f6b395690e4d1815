//! Finds the earliest of some openers in a stream of bytes.
//!
//! What has been read of an opener is never stored: it is a prefix of the opener
//! itself, so a position ([`Held`]) says it all. Where the next byte does not fit,
//! a table made at the start says how much of it is text after all and what is
//! still held: each byte is stepped over once, even for markers that overlap
//! themselves, such as `<<<call>>` after one `<` too many.

use super::{examined, find};

/// What ends a run of text, of reasoning or of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    /// Of a call; its place among the format's.
    Call(u8),
    /// The end of a call.
    Closer,
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

/// A byte, and what it does to what is held.
type Edge = (u8, Step);

/// Any number of openers.
///
/// What is held is a node of the tree of their prefixes. A prefix that several of them share
/// is the first one's:
/// ```text
///            .-- "c" --> [0, 3] -- "a" --> match 0: <ca
///   [0, 0] -- "<" --> [0, 1]
///            '-- "t" --> [1, 2] -- "h" --> match 1: <th
/// ```
#[derive(Debug, Clone)]
pub(super) struct Openers {
    patterns: Vec<(Opener, Box<[u8]>)>,
    /// What may follow when nothing is held.
    root: Box<[Edge]>,
    /// `edges[which][len - 1]` and `falls[which][len - 1]` belong to `Held { which, len }`.
    edges: Vec<Box<[Box<[Edge]>]>>,
    falls: Vec<Box<[Fall]>>,
    first: First,
    /// What may follow the first byte; nothing where an opener is one byte long.
    second: Option<Box<[bool; 256]>>,
}

/// The bytes that openers begin with.
#[derive(Debug, Clone)]
enum First {
    /// Two, or twice the same.
    Two([u8; 2]),
    More(Box<[bool; 256]>),
}

impl First {
    fn of(patterns: &[(Opener, Box<[u8]>)]) -> Self {
        let mut bytes: Vec<u8> = patterns.iter().map(|(_, text)| text[0]).collect();
        bytes.sort_unstable();
        bytes.dedup();
        match bytes[..] {
            // NUL is looked for then, and begins nothing.
            [] => Self::Two([0, 0]),
            [byte] => Self::Two([byte, byte]),
            [a, b] => Self::Two([a, b]),
            _ => Self::More(table(bytes.into_iter())),
        }
    }

    #[inline]
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Two([a, b]) if a == b => find::byte(*a, bytes),
            Self::Two([a, b]) => find::either(*a, *b, bytes),
            Self::More(table) => bytes.iter().position(|byte| table[usize::from(*byte)]),
        }
    }

    #[inline]
    fn has(&self, byte: u8) -> bool {
        match self {
            Self::Two(bytes) => bytes.contains(&byte),
            Self::More(table) => table[usize::from(byte)],
        }
    }
}

fn table(bytes: impl Iterator<Item = u8>) -> Box<[bool; 256]> {
    let mut table = Box::new([false; 256]);
    for byte in bytes {
        table[usize::from(byte)] = true;
    }
    table
}

impl Openers {
    /// The patterns must be non-empty, and fewer and shorter than 256. Of two that begin at
    /// the same byte, the shorter one counts; of two that are equal, the first.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = (Opener, &'a str)>) -> Self {
        let patterns: Vec<(Opener, Box<[u8]>)> =
            patterns.map(|(opener, text)| (opener, text.as_bytes().into())).collect();
        let lengths = |text: &[u8]| 1..text.len();
        let prefixes = patterns.iter().map(|(_, text)| text);
        Self {
            root: edges(&patterns, b""),
            edges: prefixes
                .clone()
                .map(|text| lengths(text).map(|len| edges(&patterns, &text[..len])).collect())
                .collect(),
            falls: prefixes
                .map(|text| lengths(text).map(|len| fall(&patterns, &text[..len])).collect())
                .collect(),
            first: First::of(&patterns),
            second: patterns
                .iter()
                .all(|(_, text)| text.len() > 1)
                .then(|| table(patterns.iter().map(|(_, text)| text[1]))),
            patterns,
        }
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
        let Some(second) = &self.second else { return Some(at) };
        while let Some(next) = bytes.get(at + 1) {
            examined::note(1);
            if second[usize::from(*next)] {
                break;
            }
            at += 1;
            at += self.find_first(&bytes[at..])?;
        }
        Some(at)
    }

    #[inline]
    fn find_first(&self, bytes: &[u8]) -> Option<usize> {
        let found = self.first.find(bytes);
        examined::note(found.map_or(bytes.len(), |at| at + 1));
        found
    }

    /// Whether the byte may begin an opener.
    #[inline]
    pub(super) fn begins(&self, byte: u8) -> bool {
        self.first.has(byte)
    }

    #[inline]
    pub(super) fn step(&self, held: Held, byte: u8) -> Step {
        examined::note(1);
        let edges = match held.len() {
            0 => &self.root,
            len => &self.edges[usize::from(held.which)][len - 1],
        };
        match edges.iter().find(|(next, _)| *next == byte) {
            Some((_, step)) => *step,
            None if held.is_empty() => Step::Miss,
            None => Step::Fall(self.fall(held)),
        }
    }

    /// What becomes of what is held, which is not nothing, when no byte fits.
    pub(super) fn fall(&self, held: Held) -> Fall {
        self.falls[usize::from(held.which)][held.len() - 1]
    }
}

/// What may follow a prefix.
fn edges(patterns: &[(Opener, Box<[u8]>)], held: &[u8]) -> Box<[Edge]> {
    let len = held.len();
    let mut edges: Vec<Edge> = Vec::new();
    for (which, (_, text)) in patterns.iter().enumerate() {
        if !text.starts_with(held) || text.len() == len {
            continue;
        }
        let byte = text[len];
        let is_whole = text.len() == len + 1;
        let step = if is_whole { Step::Match(which) } else { Step::Hold(hold(which, len + 1)) };
        match edges.iter_mut().find(|(known, _)| *known == byte) {
            None => edges.push((byte, step)),
            // It ends here, and the others do not.
            Some((_, known)) if is_whole && matches!(known, Step::Hold(_)) => *known = step,
            Some(_) => {}
        }
    }
    edges.into()
}

#[expect(clippy::cast_possible_truncation, reason = "patterns are fewer and shorter than 256")]
const fn hold(which: usize, len: usize) -> Held {
    Held { which: which as u8, len: len as u8 }
}

fn fall(patterns: &[(Opener, Box<[u8]>)], held: &[u8]) -> Fall {
    for drop in 1..held.len() {
        let rest = &held[drop..];
        let whole = patterns.iter().enumerate().filter(|(_, (_, text))| rest.starts_with(text));
        if let Some((which, _)) = whole.min_by_key(|(_, (_, text))| text.len()) {
            return Fall { drop, landing: Landing::Match(which) };
        }
        if let Some(which) = patterns.iter().position(|(_, text)| text.starts_with(rest)) {
            return Fall { drop, landing: Landing::Held(hold(which, rest.len())) };
        }
    }
    Fall { drop: held.len(), landing: Landing::Held(Held::NONE) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first opener that the states find: where it begins, and which it is.
    fn found(openers: &Openers, text: &[u8]) -> Option<(usize, usize)> {
        let (mut held, mut at) = (Held::NONE, 0);
        let mut landed = None;
        while at < text.len() && landed.is_none() {
            match openers.step(held, text[at]) {
                Step::Miss => at += 1,
                Step::Hold(more) => (held, at) = (more, at + 1),
                Step::Match(which) => return Some((at + 1 - openers.pattern(which).len(), which)),
                Step::Fall(Fall { landing: Landing::Held(rest), .. }) => held = rest,
                Step::Fall(fall) => landed = Some((at - held.len() + fall.drop, fall.landing)),
            }
        }
        while landed.is_none() && !held.is_empty() {
            let start = text.len() - held.len();
            let fall = openers.fall(held);
            match fall.landing {
                Landing::Held(rest) => held = rest,
                Landing::Match(_) => landed = Some((start + fall.drop, fall.landing)),
            }
        }
        match landed {
            Some((start, Landing::Match(which))) => Some((start, which)),
            _ => None,
        }
    }

    /// The same by looking everywhere: the earliest, and of those the shortest.
    fn looked_up(patterns: &[String], text: &str) -> Option<(usize, usize)> {
        (0..text.len()).find_map(|start| {
            let here = patterns.iter().enumerate();
            let here = here.filter(|(_, pattern)| text[start..].starts_with(*pattern));
            here.min_by_key(|(_, pattern)| pattern.len()).map(|(which, _)| (start, which))
        })
    }

    proptest! {
        #[test]
        fn any_number_of_openers_is_found(
            patterns in prop::collection::vec("[ab<]{1,5}", 0..7),
            text in "[ab<]{0,40}",
        ) {
            let named = patterns.iter().map(|pattern| (Opener::Call(0), pattern.as_str()));
            let openers = Openers::new(named);
            prop_assert_eq!(found(&openers, text.as_bytes()), looked_up(&patterns, &text));
            if openers.absent(text.as_bytes()) {
                let last = text.len().saturating_sub(1);
                prop_assert_eq!(looked_up(&patterns, &text[..last]), None);
            }
        }
    }
}
