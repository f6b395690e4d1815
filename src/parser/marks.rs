//! Finds the earliest of several marks in a stream of bytes: openers, closers, reasoning tags.
//!
//! The held bytes of a mark are never stored. They are a prefix of the mark itself, so a
//! position ([`Held`]) is enough. If the next byte does not fit, a table made in advance says how
//! many of them are text after all, and what is still held. So the search never goes back, even if
//! a marker overlaps itself, as `<<<call>>` does:
//!
//! ```text
//!   byte   <  <  <  <  c  a  l  l  >  >
//!   held   1  2  3  3  4  5  6  7  8  match
//!   text            <                           the first of the four
//! ```

use super::{examined, find};

/// What ends a run of text, of reasoning or of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Opens the header of a message.
    Header,
    /// Ends it.
    HeaderEnd,
    /// Ends the message, where something else closes the call.
    MessageEnd,
    /// Opens a frame around calls.
    FrameOpen,
    /// Closes it.
    FrameClose,
    /// Opens a call.
    Opener,
    /// Closes a call.
    Closer,
    /// Comes before the id in a label.
    LabelId,
    /// Ends a label.
    LabelEnd,
    /// Comes after a label, and is no part of it.
    LabelStop,
    /// Opens the tag of an argument.
    Key,
    /// Closes the value of one.
    ValueClose,
    /// Begins and ends a text.
    Quote,
    ReasoningOpen,
    ReasoningClose,
    /// Surrounds text, or ends it.
    Hidden,
}

/// How much of a mark has been read: the first `len` bytes of mark `which`.
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

/// What a byte does to the held bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing was held, and the byte begins no mark.
    Miss,
    /// The byte begins or continues a mark.
    Hold(Held),
    /// The byte completes this mark.
    Match(usize),
    /// The byte does not fit. It is tried again from [`Fall::landing`].
    Fall(Fall),
}

/// What becomes of held bytes that turn out not to be a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fall {
    /// How many of them, from the first, are text.
    pub drop: usize,
    /// What the rest is.
    pub landing: Landing,
}

/// What the remaining held bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landing {
    /// Still held, perhaps nothing.
    Held(Held),
    /// The rest begins with this whole mark. It lies inside another one, which began earlier and
    /// did not match.
    Match(usize),
}

/// A byte, and the step that it causes.
type Edge = (u8, Step);

/// Any number of marks.
///
/// The held bytes are a node in the tree of the marks' prefixes. A prefix that several marks
/// share counts as the first one's:
/// ```text
///                              .-- "c" --> [0, 2] -- "a" --> match 0: <ca
///   [0, 0] -- "<" --> [0, 1] --+
///                              '-- "t" --> [1, 2] -- "h" --> match 1: <th
/// ```
#[derive(Debug, Clone)]
pub(super) struct Marks {
    patterns: Vec<(Mark, Box<[u8]>)>,
    /// The edges if nothing is held.
    root: Box<[Edge]>,
    /// `edges[which][len - 1]` and `falls[which][len - 1]` belong to `Held { which, len }`.
    edges: Vec<Box<[Box<[Edge]>]>>,
    falls: Vec<Box<[Fall]>>,
    first: First,
    /// The bytes that may follow a first byte; `None` if any mark is only one byte long.
    second: Option<Box<[bool; 256]>>,
}

/// The bytes that marks begin with.
#[derive(Debug, Clone)]
enum First {
    /// Two bytes, or the same one twice.
    Two([u8; 2]),
    More(Box<[bool; 256]>),
}

impl First {
    fn of(patterns: &[(Mark, Box<[u8]>)]) -> Self {
        let mut bytes: Vec<u8> = patterns.iter().map(|(_, text)| text[0]).collect();
        bytes.sort_unstable();
        bytes.dedup();
        match bytes[..] {
            // The search then looks for NUL, which begins nothing.
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

impl Marks {
    /// Builds the tables. There must be fewer than 256 patterns, each with 1 to 255 bytes. If two
    /// match at the same position, the shorter one wins; if two are equal, the first.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = (Mark, &'a str)>) -> Self {
        let patterns: Vec<(Mark, Box<[u8]>)> =
            patterns.map(|(mark, text)| (mark, text.as_bytes().into())).collect();
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

    pub(super) fn mark(&self, which: usize) -> Mark {
        self.patterns[which].0
    }

    pub(super) fn pattern(&self, which: usize) -> &[u8] {
        &self.patterns[which].1
    }

    /// The held bytes.
    pub(super) fn held(&self, held: Held) -> &[u8] {
        &self.patterns[usize::from(held.which)].1[..held.len()]
    }

    /// Whether no mark begins in the bytes, as in most chunks of prose.
    #[inline]
    pub(super) fn absent(&self, bytes: &[u8]) -> bool {
        self.find_first(bytes).is_none() || self.find(bytes).is_none()
    }

    /// Where a mark may begin, judged by its first two bytes: in code, most bytes that begin an
    /// mark are followed by one that continues none. Not inlined, because that would slow down
    /// every chunk of prose.
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

    /// Whether a mark begins with this byte.
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

    /// Adds a byte to the held ones. Returns the mark that it completes. No mark may lie inside another one.
    #[inline]
    pub(super) fn push(&self, held: &mut Held, byte: u8) -> Option<usize> {
        loop {
            match self.step(*held, byte) {
                Step::Match(mark) => {
                    *held = Held::NONE;
                    return Some(mark);
                }
                Step::Hold(more) => *held = more,
                Step::Miss => {}
                Step::Fall(fall) => {
                    let Landing::Held(rest) = fall.landing else {
                        unreachable!("no mark lies inside a proper prefix of one")
                    };
                    *held = rest;
                    continue;
                }
            }
            return None;
        }
    }

    /// What becomes of the held bytes if the next byte does not fit. There must be some.
    pub(super) fn fall(&self, held: Held) -> Fall {
        self.falls[usize::from(held.which)][held.len() - 1]
    }
}

/// The edges that leave a prefix.
fn edges(patterns: &[(Mark, Box<[u8]>)], held: &[u8]) -> Box<[Edge]> {
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
            // This mark ends here, so it is the shorter one.
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

fn fall(patterns: &[(Mark, Box<[u8]>)], held: &[u8]) -> Fall {
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

    /// The first mark that the steps find: where it begins, and which one it is.
    fn found(marks: &Marks, text: &[u8]) -> Option<(usize, usize)> {
        let (mut held, mut at) = (Held::NONE, 0);
        let mut landed = None;
        while at < text.len() && landed.is_none() {
            match marks.step(held, text[at]) {
                Step::Miss => at += 1,
                Step::Hold(more) => (held, at) = (more, at + 1),
                Step::Match(which) => return Some((at + 1 - marks.pattern(which).len(), which)),
                Step::Fall(Fall { landing: Landing::Held(rest), .. }) => held = rest,
                Step::Fall(fall) => landed = Some((at - held.len() + fall.drop, fall.landing)),
            }
        }
        while landed.is_none() && !held.is_empty() {
            let start = text.len() - held.len();
            let fall = marks.fall(held);
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
        fn any_number_of_marks_is_found(
            patterns in prop::collection::vec("[ab<]{1,5}", 0..7),
            text in "[ab<]{0,40}",
        ) {
            let named = patterns.iter().map(|pattern| (Mark::Opener, pattern.as_str()));
            let marks = Marks::new(named);
            prop_assert_eq!(found(&marks, text.as_bytes()), looked_up(&patterns, &text));
            if marks.absent(text.as_bytes()) {
                prop_assert_eq!(looked_up(&patterns, &text), None);
                let begins = |pattern: &String| (1..pattern.len()).any(|n| text.ends_with(&pattern[..n]));
                prop_assert!(!patterns.iter().any(begins), "the end of the text begins one");
            }
        }
    }
}
