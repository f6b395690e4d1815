//! Reads a section key by key and continues after mistakes: a key with an unusable value gets
//! its default, the mistake is recorded, and the rest is read as well.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::mistake::Mistake;
use super::raw::{Node, Pair, Place, Value};
use crate::limits::config::QUOTE_CHARS_MAX;
use crate::text::closest;

/// A section that is being read. **Ask for every key that it may have, then call
/// [`finish`](Self::finish)**, which reports the keys that were never asked for.
#[derive(Debug)]
pub(super) struct Keys<'n, 'm> {
    path: String,
    place: Place,
    entries: &'n [Pair],
    known: Vec<&'static str>,
    /// Those that have no meaning here.
    refused: Vec<&'static str>,
    mistakes: &'m mut Vec<Mistake>,
}

/// Why a value was rejected.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) found: String,
    pub(super) expected: String,
}

impl Refused {
    /// Rejects `node` and quotes it.
    pub(super) fn new(node: &Node, expected: impl Into<String>) -> Self {
        Self { found: quote(&node.value), expected: expected.into() }
    }

    /// Rejects `node` without quoting it, because it may be a secret.
    pub(super) fn hidden(node: &Node, expected: impl Into<String>) -> Self {
        Self { found: kind(&node.value).to_owned(), expected: expected.into() }
    }

    /// The same, but `other` was expected as well.
    pub(super) fn or(self, other: &str) -> Self {
        Self { expected: format!("{}, or {other}", self.expected), ..self }
    }
}

impl<'n, 'm> Keys<'n, 'm> {
    /// Starts to read `node`, whose key has this path. Repeated keys are mistakes; the first
    /// one counts.
    pub(super) fn new(path: String, node: &'n Node, mistakes: &'m mut Vec<Mistake>) -> Self {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            // A section whose keys are all commented out.
            Value::Null | Value::Unreadable => &[],
            other => {
                let message = format!("found {}, expected a mapping", kind(other));
                mistakes.push(Mistake { place: Some(node.place), key: path.clone(), message });
                &[]
            }
        };
        let (known, refused) = (Vec::new(), Vec::new());
        let mut keys = Self { path, place: node.place, entries, known, refused, mistakes };
        keys.report_repeated("", keys.entries);
        keys
    }

    /// Reads a value, or returns the default.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        default: T,
        reader: impl FnOnce(&'n Node) -> Result<T, Refused>,
    ) -> T {
        let Some(entry) = self.entry(key) else { return default };
        self.value(key, &entry.node, reader).unwrap_or(default)
    }

    /// Reads a value that must be there. Without it, returns `stand_in`.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        stand_in: T,
        reader: impl FnOnce(&'n Node) -> Result<T, Refused>,
    ) -> T {
        if !self.has(key) {
            self.note(self.place, key, "expected a value: this key is required".to_owned());
        }
        self.read(key, stand_in, reader)
    }

    /// Reads a mapping whose keys are the operator's own; empty if the key is absent.
    pub(super) fn pairs<T>(
        &mut self,
        key: &'static str,
        reader: impl Fn(&'n Node) -> Result<T, Refused>,
    ) -> Vec<(String, T)> {
        let pairs = self.mapping(key);
        let read = |pair: &'n Pair| {
            let value =
                self.value(&format!("{key}.{}", shorten(&pair.key)), &pair.node, &reader)?;
            Some((pair.key.clone(), value))
        };
        pairs.iter().filter_map(read).collect()
    }

    /// The same, for values that may also be sections.
    pub(super) fn pairs_or_sections<T>(
        &mut self,
        key: &'static str,
        reader: impl Fn(&'n Node) -> Result<T, Refused>,
        section: impl Fn(Keys<'n, '_>) -> T,
    ) -> Vec<(String, T)> {
        let pairs = self.mapping(key);
        let read = |pair: &'n Pair| {
            let name = format!("{key}.{}", shorten(&pair.key));
            let value = match pair.node.value {
                Value::Map(_) => {
                    section(Keys::new(self.path_of(&name), &pair.node, &mut *self.mistakes))
                }
                _ => self.value(&name, &pair.node, &reader)?,
            };
            Some((pair.key.clone(), value))
        };
        pairs.iter().filter_map(read).collect()
    }

    /// Reads a list element by element, or returns the default.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        default: Vec<T>,
        reader: impl Fn(&'n Node) -> Result<T, Refused>,
    ) -> Vec<T> {
        let Some(nodes) = self.elements(key) else { return default };
        let read = |(index, node)| self.value(&format!("{key}[{index}]"), node, &reader);
        nodes.iter().enumerate().filter_map(read).collect()
    }

    /// Reads a list of sections; `None` if the key is absent or its value is not a list.
    pub(super) fn sections<T>(
        &mut self,
        key: &'static str,
        mut reader: impl FnMut(Keys<'n, '_>) -> T,
    ) -> Option<Vec<T>> {
        let nodes = self.elements(key)?;
        let path = self.path_of(key);
        let read = |(index, node)| {
            reader(Keys::new(format!("{path}[{index}]"), node, &mut *self.mistakes))
        };
        Some(nodes.iter().enumerate().map(read).collect())
    }

    /// Reads a mapping of sections whose keys are the operator's own; empty if the key is absent.
    pub(super) fn named_sections<T>(
        &mut self,
        key: &'static str,
        mut reader: impl FnMut(Keys<'n, '_>) -> T,
    ) -> Vec<(String, T)> {
        let section = self.section(key);
        let Keys { path, entries, .. } = section;
        let read = |entry: &'n Pair| {
            let path = format!("{path}.{}", shorten(&entry.key));
            (entry.key.clone(), reader(Keys::new(path, &entry.node, &mut *self.mistakes)))
        };
        entries.iter().map(read).collect()
    }

    /// Whether a key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Whether a key is there that may be.
    pub(super) fn is_set(&mut self, key: &'static str) -> bool {
        self.entry(key).is_some()
    }

    /// What is under a key, if it is there.
    pub(super) fn node(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The section under a key; empty if the key is absent.
    pub(super) fn section(&mut self, key: &'static str) -> Keys<'n, '_> {
        let path = self.path_of(key);
        match self.entry(key) {
            Some(entry) => Keys::new(path, &entry.node, self.mistakes),
            None => Keys {
                path,
                place: self.place,
                entries: &[],
                known: Vec::new(),
                refused: Vec::new(),
                mistakes: self.mistakes,
            },
        }
    }

    /// Records that the section as a whole cannot be used.
    pub(super) fn refuse_whole(&mut self, message: String) {
        self.mistakes.push(Mistake { place: Some(self.place), key: self.path.clone(), message });
    }

    /// Records that a key's value conflicts with another key's. `key` may go on with keys inside
    /// of the value: `query.units`.
    pub(super) fn refuse(&mut self, key: &str, message: String) {
        let first = key.split('.').next().unwrap_or_default();
        let place = self.node(first).map_or(self.place, |node| node.place);
        self.mistakes.push(Mistake { place: Some(place), key: self.path_of(key), message });
    }

    /// Records a mistake for each of `keys` that is present, because it has no meaning here.
    pub(super) fn refuse_all(&mut self, keys: &[&'static str], message: &str) {
        for key in keys {
            self.refused.push(key);
            if let Some(entry) = self.entry(key) {
                self.note(entry.place, key, message.to_owned());
            }
        }
    }

    /// The keys that may stand here, each once.
    fn expected(&self) -> Vec<&'static str> {
        let mut expected = Vec::new();
        for key in &self.known {
            if !self.refused.contains(key) && !expected.contains(key) {
                expected.push(*key);
            }
        }
        expected
    }

    /// Reports the keys that were never asked for.
    pub(super) fn finish(mut self) {
        let expected = self.expected();
        for entry in self.entries {
            if self.known.contains(&entry.key.as_str()) {
                continue;
            }
            let message = match closest(&entry.key, expected.iter().copied()) {
                Some(known) => format!("unknown key, did you mean `{known}`?"),
                None => format!("unknown key, expected {}", enumerate(&expected)),
            };
            self.note(entry.place, &shorten(&entry.key), message);
        }
    }

    /// Reports the keys that are repeated among `entries`, whose keys begin with `path`.
    fn report_repeated(&mut self, path: &str, entries: &[Pair]) {
        for (entry, first) in repeated(entries) {
            let message = format!("duplicate key, first used on line {}", first.place.line);
            self.note(entry.place, &format!("{path}{}", shorten(&entry.key)), message);
        }
    }

    fn entry(&mut self, key: &'static str) -> Option<&'n Pair> {
        self.known.push(key);
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn mapping(&mut self, key: &'static str) -> &'n [Pair] {
        let Some(entry) = self.entry(key) else { return &[] };
        match &entry.node.value {
            Value::Map(entries) => {
                self.report_repeated(&format!("{key}."), entries);
                entries
            }
            Value::Null | Value::Unreadable => &[],
            other => {
                let message = format!("found {}, expected a mapping", kind(other));
                self.note(entry.node.place, key, message);
                &[]
            }
        }
    }

    fn elements(&mut self, key: &'static str) -> Option<&'n [Node]> {
        let entry = self.entry(key)?;
        match &entry.node.value {
            Value::List(nodes) => Some(nodes),
            Value::Unreadable => None,
            // It may be a secret that stands alone.
            other => {
                let message = format!("found {}, expected a list", kind(other));
                self.note(entry.node.place, key, message);
                None
            }
        }
    }

    fn value<T>(
        &mut self,
        key: &str,
        node: &'n Node,
        reader: impl FnOnce(&'n Node) -> Result<T, Refused>,
    ) -> Option<T> {
        if node.value == Value::Unreadable {
            return None;
        }
        reader(node)
            .map_err(|Refused { found, expected }| {
                self.note(node.place, key, format!("found {found}, expected {expected}"));
            })
            .ok()
    }

    fn note(&mut self, place: Place, key: &str, message: String) {
        self.mistakes.push(Mistake { place: Some(place), key: self.path_of(key), message });
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// Any text.
pub(super) fn text(node: &Node) -> Result<&str, Refused> {
    match &node.value {
        Value::Text(text) | Value::Substituted { text, .. } => Ok(text),
        Value::Bool(_) | Value::Integer(_) | Value::Decimal(_) => {
            Err(Refused::new(node, "text (put it in quotes)"))
        }
        _ => Err(Refused::new(node, "text")),
    }
}

/// The keys that are there a second time, each with its first place.
pub(super) fn repeated(entries: &[Pair]) -> impl Iterator<Item = (&Pair, &Pair)> {
    entries.iter().enumerate().filter_map(|(index, entry)| {
        let first = entries.iter().take(index).find(|other| other.key == entry.key)?;
        Some((entry, first))
    })
}

/// `true` or `false`.
pub(super) fn boolean(node: &Node) -> Result<bool, Refused> {
    match &node.value {
        Value::Bool(value) => Some(*value),
        Value::Substituted { text, .. } => text.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| Refused::new(node, "`true` or `false`"))
}

/// A whole number of `unit` in `range`.
pub(super) fn integer<T>(
    range: RangeInclusive<T>,
    unit: &str,
) -> impl Fn(&Node) -> Result<T, Refused>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    move |node| {
        let number = match &node.value {
            Value::Integer(number) => Some(*number),
            Value::Substituted { text, .. } => text.parse().ok(),
            _ => None,
        };
        number.and_then(|number| T::try_from(number).ok()).filter(|n| range.contains(n)).ok_or_else(
            || {
                let (least, most) = (range.start(), range.end());
                let of = if unit.is_empty() { "" } else { " of " };
                Refused::new(node, format!("a whole number{of}{unit} from {least} to {most}"))
            },
        )
    }
}

/// A number in `range`.
pub(super) fn decimal(range: RangeInclusive<f64>) -> impl Fn(&Node) -> Result<f64, Refused> {
    move |node| {
        number(node).filter(|number| range.contains(number)).ok_or_else(|| {
            Refused::new(node, format!("a number from {} to {}", range.start(), range.end()))
        })
    }
}

/// A number of seconds in `range`; fractions are allowed.
pub(super) fn wait(range: RangeInclusive<Duration>) -> impl Fn(&Node) -> Result<Duration, Refused> {
    move |node| {
        number(node)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .filter(|duration| range.contains(duration))
            .ok_or_else(|| {
                let (least, most) = (range.start().as_secs_f64(), range.end().as_secs_f64());
                Refused::new(node, format!("a number of seconds from {least} to {most}"))
            })
    }
}

/// One of the names in `choices`. Names in `later` are part of the documented contract, but
/// this build does not support them.
pub(super) fn choice<T: Copy>(
    choices: &[(&'static str, T)],
    later: &'static [&'static str],
) -> impl Fn(&Node) -> Result<T, Refused> {
    move |node| {
        let name = match &node.value {
            Value::Text(text) | Value::Substituted { text, .. } => Some(text.as_str()),
            _ => None,
        };
        if let Some((_, choice)) = choices.iter().find(|(known, _)| Some(*known) == name) {
            return Ok(*choice);
        }
        let names: Vec<&str> = choices.iter().map(|(known, _)| *known).collect();
        let mut expected = enumerate(&names);
        if let Some(later) = later.iter().find(|later| Some(**later) == name) {
            expected = format!("{expected}; this build does not support `{later}`");
        }
        Err(Refused::new(node, expected))
    }
}

/// "`a`, `b` or `c`".
pub(super) fn enumerate(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [only] => format!("`{only}`"),
        [most @ .., last] => format!("`{}` or `{last}`", most.join("`, `")),
    }
}

fn number(node: &Node) -> Option<f64> {
    match &node.value {
        Value::Decimal(number) => Some(*number),
        // Beyond 2^53, it is out of every range anyway.
        #[expect(clippy::cast_precision_loss, reason = "every range ends far below 2^53")]
        Value::Integer(number) => Some(*number as f64),
        Value::Substituted { text, .. } => text.parse().ok(),
        _ => None,
    }
}

fn quote(value: &Value) -> String {
    match value {
        Value::Bool(value) => format!("`{value}`"),
        Value::Integer(number) => format!("`{number}`"),
        // With its point, which is what is wrong if a whole number is expected.
        Value::Decimal(number) => format!("`{number:?}`"),
        Value::Text(text) => format!("the text `{}`", shorten(text)),
        Value::Substituted { written, .. } => {
            format!("`{}` (its value is hidden)", shorten(written))
        }
        Value::Null | Value::Unreadable | Value::List(_) | Value::Map(_) => kind(value).to_owned(),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Integer(_) | Value::Decimal(_) => "a number",
        Value::Text(_) | Value::Substituted { .. } | Value::Unreadable => "text",
        Value::List(_) => "a list",
        Value::Map(_) => "a mapping",
    }
}

/// Shortens text to fit a line of a message and escapes control characters.
pub(super) fn shorten(text: &str) -> String {
    let mut short = String::new();
    for character in text.chars().take(QUOTE_CHARS_MAX) {
        if character.is_control() {
            short.extend(character.escape_default());
        } else {
            short.push(character);
        }
    }
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        short.push_str("...");
    }
    short
}
