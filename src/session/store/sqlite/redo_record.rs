//! The records of a file of running turns.
//!
//! ```text
//!   file      "tether redo\n" | version u32 | generation u64 | records ...
//!   record    length u32 | sum u32 | kind u8 | epoch u64 | first u64 | last u64 | node 16 bytes
//!             | bytes of session, turn, journal u32 each | session | turn | journal | events
//! ```
//!
//! Numbers are little-endian. `length` counts what follows the sum, and `sum` is the CRC-32 of that. An empty
//! journal means that there is none. Four kinds of records use the fields in their own way; times are in
//! milliseconds since 1970:
//!
//! | kind | first, last | journal | events |
//! | --- | --- | --- | --- |
//! | a session was saved | version, time | its record | none |
//! | a session was deleted | up to version, 0 | none | none |
//! | a turn has ended | of its log | version u64, time u64, its session's record | its whole log |
//! | a turn gets an alias | alias, 0 | none | none |
//!
//! The ids of a turn, and who wrote it, take more room than a token. So a turn with an
//! [appender](super::appender) gets an alias, and its later records in the same file have that instead:
//!
//! ```text
//!   alias news   length u32 | sum u32 | kind u8 | alias u64 | first u64 | last u64 | bytes of journal u32
//!                | journal | events
//!
//!   [ 7 is turn t of session s | 7: events 1 to 2 | 7: event 3 | .. ]
//! ```
//!
//! An alias means the turn that it was last assigned to.
//!
//! Format 1 has no saved sessions, and format 2 no ended turns. In both, the version of a deletion is 0. Format 3 has
//! no [buffer](super::redo_buffer) beside it, and format 4 no aliases.

use std::collections::HashMap;
use std::iter;

use bytes::BufMut as _;
use uuid::Uuid;

use super::super::{Lease, LogNews, LogNewsRef, NodeId, Version};
use super::ended::EndedTurn;

/// What every file begins with.
const MAGIC: &[u8; 12] = b"tether redo\n";

/// The format of the records. All earlier ones are read as well.
const VERSION: u32 = 5;

/// Bytes of a file's header.
pub(super) const HEADER_BYTES: u64 = 24;

/// Bytes of a record's length and its sum.
const SUM_BYTES: usize = 4 + 4;

/// Bytes of a record before its texts, without its length and its sum.
const FIXED: usize = 1 + 3 * 8 + 16 + 3 * 4;

/// The same of news under an alias.
const ALIAS_NEWS_FIXED: usize = 1 + 3 * 8 + 4;

/// What a record says, and the byte for it.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Kind {
    News = 1,
    Settled = 2,
    Forget = 3,
    Probe = 4,
    Save = 5,
    Ended = 6,
    Alias = 7,
    AliasNews = 8,
}

/// What all records begin with, but news under an alias.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: Kind,
    by: Author,
    first: u64,
    last: u64,
}

/// Who wrote a record, and in which epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Author {
    pub(super) node: NodeId,
    pub(super) epoch: u64,
}

impl Author {
    /// Of records for which that does not matter.
    const NOBODY: Self = Self { node: NodeId(Uuid::nil()), epoch: 0 };

    pub(super) const fn of(lease: &Lease) -> Self {
        Self { node: lease.node, epoch: lease.epoch }
    }
}

/// A record in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) session_id: &'a str,
    pub(super) body: Body<'a>,
}

/// What a record says of its session.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'a> {
    /// A turn runs.
    News { turn_id: &'a str, news: News<'a> },
    /// The database has all of the turn, and the record of its session.
    Settled { turn_id: &'a str },
    /// It was deleted, up to this version of its record.
    Forget { latest: Version },
    /// Nothing.
    Probe,
    /// It has this record.
    Save(Saved<'a>),
    /// A turn has ended.
    Ended { turn_id: &'a str, end: End<'a> },
}

/// What is new of a running turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct News<'a> {
    pub(super) by: Author,
    /// The first and the last of its events; 0 if there are none.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) journal: Option<&'a [u8]>,
    pub(super) events: &'a [u8],
}

/// The end of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    /// The record of its session.
    pub(super) saved: Saved<'a>,
    /// The last event.
    pub(super) last: u64,
    /// The whole log.
    pub(super) events: &'a [u8],
}

/// The record of a session, as a record of the file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Saved<'a> {
    pub(super) by: Author,
    pub(super) version: Version,
    /// Milliseconds since 1970.
    pub(super) at: u64,
    pub(super) bytes: &'a [u8],
}

/// Whose format the records of a file have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Ours,
    /// That of an earlier release, which would misread records of ours.
    Older,
}

/// What a file begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    Ours {
        generation: u64,
        format: Format,
    },
    Newer {
        version: i32,
    },
    /// A file that was just created.
    Cut,
    Foreign,
}

pub(super) fn header(generation: u64) -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), &generation.to_le_bytes()].concat()
}

pub(super) fn read_header(bytes: &[u8]) -> Header {
    let mut rest = bytes;
    let (Some(magic), Some(version), Some(generation)) =
        (take(&mut rest, MAGIC.len()), u32_of(&mut rest), u64_of(&mut rest))
    else {
        return if header(0).starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
            Header::Cut
        } else {
            Header::Foreign
        };
    };
    match version {
        _ if magic != MAGIC => Header::Foreign,
        VERSION => Header::Ours { generation, format: Format::Ours },
        1..VERSION => Header::Ours { generation, format: Format::Older },
        version => Header::Newer { version: i32::try_from(version).unwrap_or(i32::MAX) },
    }
}

/// Appends what is new of a running turn.
pub(super) fn append(records: &mut Vec<u8>, lease: &Lease, turn_id: &str, news: &LogNews) {
    let LogNews { batches, journal } = news;
    let first = batches.first().map_or(0, |batch| batch.first);
    let last = batches.last().map_or(0, |batch| batch.last);
    let head = Head { kind: Kind::News, by: Author::of(lease), first, last };
    let events = batches.iter().map(|batch| &batch.bytes[..]);
    let journal = journal.as_deref().unwrap_or_default();
    encode(records, head, [&lease.session_id, turn_id], [journal], events);
}

/// Appends a record that assigns an alias to a turn.
pub(super) fn alias(records: &mut Vec<u8>, lease: &Lease, turn_id: &str, alias: u64) {
    let head = Head { kind: Kind::Alias, by: Author::of(lease), first: alias, last: 0 };
    encode(records, head, [&lease.session_id, turn_id], [&[]], [].into_iter());
}

/// Appends a record with what is new of the turn that has this alias.
pub(super) fn alias_news(records: &mut Vec<u8>, alias: u64, news: &LogNewsRef<'_>) {
    let &LogNewsRef { first, last, runs, journal } = news;
    let journal = journal.unwrap_or_default();
    let mut fixed = [0; SUM_BYTES + ALIAS_NEWS_FIXED];
    let mut rest = &mut fixed[SUM_BYTES..];
    rest.put_u8(Kind::AliasNews as u8);
    for field in [alias, first, last] {
        rest.put_u64_le(field);
    }
    rest.put_u32_le(length_of(journal.len()));
    push(records, &fixed, iter::once(journal).chain(runs.iter().map(|run| &run.bytes[..])));
}

/// Appends the record of a session.
pub(super) fn save(
    records: &mut Vec<u8>,
    lease: &Lease,
    (version, saved_at): (Version, u64),
    saved: &[u8],
) {
    let head = Head { kind: Kind::Save, by: Author::of(lease), first: version.0, last: saved_at };
    encode(records, head, [&lease.session_id, ""], [saved], [].into_iter());
}

/// Appends the end of a turn.
pub(super) fn ended(records: &mut Vec<u8>, turn: &EndedTurn) {
    let EndedTurn { lease, turn_id, version, at, record: saved, batches } = turn;
    let last = batches.last().map_or(0, |batch| batch.last);
    let head = Head { kind: Kind::Ended, by: Author::of(lease), first: 1, last };
    let (version, at) = (version.0.to_le_bytes(), at.to_le_bytes());
    let events = batches.iter().map(|batch| &batch.bytes[..]);
    encode(records, head, [&lease.session_id, turn_id], [&version, &at, saved], events);
}

/// Appends a record to `records` that says that the database has all of a turn.
pub(super) fn settled(records: &mut Vec<u8>, session_id: &str, turn_id: &str) {
    mark(records, Kind::Settled, 0, [session_id, turn_id]);
}

/// Appends a record that says that a session was deleted, up to this version of its record.
pub(super) fn forget(records: &mut Vec<u8>, session_id: &str, latest: Version) {
    mark(records, Kind::Forget, latest.0, [session_id, ""]);
}

/// Appends a record that says nothing.
pub(super) fn probe(records: &mut Vec<u8>) {
    mark(records, Kind::Probe, 0, ["", ""]);
}

fn mark(records: &mut Vec<u8>, kind: Kind, first: u64, ids: [&str; 2]) {
    let head = Head { kind, by: Author::NOBODY, first, last: 0 };
    encode(records, head, ids, [&[]], [].into_iter());
}

/// Appends a record. Its journal is in parts.
fn encode<'a, const PARTS: usize>(
    records: &mut Vec<u8>,
    Head { kind, by, first, last }: Head,
    [session_id, turn_id]: [&'a str; 2],
    journal: [&'a [u8]; PARTS],
    events: impl Iterator<Item = &'a [u8]>,
) {
    let ids = [session_id.as_bytes(), turn_id.as_bytes()];
    let journal_bytes = journal.iter().map(|part| part.len()).sum();
    let mut fixed = [0; SUM_BYTES + FIXED];
    let mut rest = &mut fixed[SUM_BYTES..];
    rest.put_u8(kind as u8);
    for number in [by.epoch, first, last] {
        rest.put_u64_le(number);
    }
    rest.put_slice(by.node.0.as_bytes());
    for bytes in [ids[0].len(), ids[1].len(), journal_bytes] {
        rest.put_u32_le(length_of(bytes));
    }
    push(records, &fixed, ids.into_iter().chain(journal).chain(events));
}

/// Appends a record of these parts, and sets its length and its sum, for which there is room at its beginning.
fn push<'a>(records: &mut Vec<u8>, fixed: &[u8], parts: impl Iterator<Item = &'a [u8]>) {
    let start = records.len();
    records.extend_from_slice(fixed);
    for part in parts {
        records.extend_from_slice(part);
    }
    let (mut head, body) = records[start..].split_at_mut(SUM_BYTES);
    head.put_u32_le(length_of(body.len()));
    head.put_u32_le(crc32fast::hash(body));
}

/// The bounds of logs and journals are far below this.
fn length_of(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a record is small")
}

/// The records of a file, up to the first that is cut or damaged.
#[derive(Debug)]
pub(super) struct Records<'a> {
    unread: &'a [u8],
    aliases: HashMap<u64, AliasedTurn<'a>>,
}

/// The turn that has an alias, and who wrote it.
#[derive(Debug, Clone, Copy)]
struct AliasedTurn<'a> {
    session: &'a str,
    turn: &'a str,
    by: Author,
}

/// A record as it is in the file.
enum Parsed<'a> {
    Record(Record<'a>),
    Alias(u64, AliasedTurn<'a>),
    AliasNews(u64, News<'a>),
}

pub(super) fn records(file: &[u8]) -> Records<'_> {
    Records::new(file.get(header(0).len()..).unwrap_or_default())
}

/// The whole records that these bytes begin with.
pub(super) fn whole(bytes: &[u8]) -> &[u8] {
    let mut records = Records::new(bytes);
    records.by_ref().for_each(drop);
    &bytes[..bytes.len() - records.unread.len()]
}

impl<'a> Records<'a> {
    fn new(unread: &'a [u8]) -> Self {
        Self { unread, aliases: HashMap::new() }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let mut rest = self.unread;
            let parsed = next(&mut rest)?;
            self.unread = rest;
            match parsed {
                Parsed::Record(record) => return Some(record),
                Parsed::Alias(alias, turn) => {
                    self.aliases.insert(alias, turn);
                }
                Parsed::AliasNews(alias, news) => {
                    // `whole` may begin after the alias was assigned.
                    let Some(&AliasedTurn { session, turn, by }) = self.aliases.get(&alias) else {
                        continue;
                    };
                    let body = Body::News { turn_id: turn, news: News { by, ..news } };
                    return Some(Record { session_id: session, body });
                }
            }
        }
    }
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<Parsed<'a>> {
    let length = u32_of(rest)? as usize;
    let sum = u32_of(rest)?;
    let body = take(rest, length)?;
    if crc32fast::hash(body) != sum {
        return None;
    }
    match body.split_first()? {
        (8, body) => parse_alias_news(body),
        (kind, body) => parse(*kind, body),
    }
}

fn parse_alias_news(mut body: &[u8]) -> Option<Parsed<'_>> {
    let rest = &mut body;
    let (alias, first, last) = (u64_of(rest)?, u64_of(rest)?, u64_of(rest)?);
    let journal_bytes = u32_of(rest)? as usize;
    let (journal, events) = (take(rest, journal_bytes)?, *rest);
    let news = News { by: Author::NOBODY, first, last, journal: non_empty(journal), events };
    Some(Parsed::AliasNews(alias, news))
}

/// A record of any other kind.
fn parse(kind: u8, mut body: &[u8]) -> Option<Parsed<'_>> {
    let rest = &mut body;
    let (epoch, first, last) = (u64_of(rest)?, u64_of(rest)?, u64_of(rest)?);
    let node = NodeId(Uuid::from_slice(take(rest, 16)?).ok()?);
    let by = Author { node, epoch };
    let lengths = [u32_of(rest)?, u32_of(rest)?, u32_of(rest)?];
    let [session_id, turn_id, journal] = lengths.map(|length| take(rest, length as usize));
    let session_id = std::str::from_utf8(session_id?).ok()?;
    let turn_id = std::str::from_utf8(turn_id?).ok()?;
    let (mut journal, events) = (journal?, *rest);
    let body = match kind {
        1 => {
            let news = News { by, first, last, journal: non_empty(journal), events };
            Body::News { turn_id, news }
        }
        2 => Body::Settled { turn_id },
        3 => Body::Forget { latest: Version(first) },
        4 => Body::Probe,
        5 => Body::Save(Saved { by, version: Version(first), at: last, bytes: journal }),
        6 => {
            let (version, at) = (Version(u64_of(&mut journal)?), u64_of(&mut journal)?);
            let saved = Saved { by, version, at, bytes: journal };
            Body::Ended { turn_id, end: End { saved, last, events } }
        }
        7 => {
            let turn = AliasedTurn { session: session_id, turn: turn_id, by };
            return Some(Parsed::Alias(first, turn));
        }
        _ => return None,
    };
    Some(Parsed::Record(Record { session_id, body }))
}

/// A journal, if there is one.
fn non_empty(journal: &[u8]) -> Option<&[u8]> {
    Some(journal).filter(|journal| !journal.is_empty())
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(taken)
}

fn u32_of(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_of(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8)?.try_into().ok().map(u64::from_le_bytes)
}
