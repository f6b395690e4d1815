//! The properties of the file of running turns and of its buffer; part of the fuzz target `stored_data`.

use std::path::PathBuf;

use uuid::Uuid;

use super::redo_buffer::{self, Left, Place};
use super::redo_record::{
    Body, Header, Record, alias, alias_news, append, forget, header, probe, read_header, records,
    save, settled,
};
use crate::session::store::{Lease, LogNews, LogNewsRef, NodeId, Version};

/// Checks that a redo file is read as it was written, up to the place where it is damaged.
///
/// ```text
///   data:  | at | flip | cut | text of a record | 0 | text of a record | 0 | ...
/// ```
/// The byte at `at` 256ths of the file is changed by `flip`, and the last `cut` 1024ths of the file are lost.
///
/// # Panics
/// If it is not.
pub(in crate::session) fn check_redo_file(data: &[u8]) {
    let Some((&[at, flip, cut], texts)) = data.split_first_chunk() else { return };
    let mut file = header(u64::from(cut));
    let mut written = Vec::new();
    for (text, number) in texts.split(|byte| *byte == 0).zip(1..) {
        write(&mut file, number, text);
        written.push((expected(number, text), file.len()));
    }
    let changed = usize::from(at) * file.len() / 256;
    let kept = file.len() - usize::from(cut) * file.len() / 1024;
    file[changed] ^= flip;
    file.truncate(kept);
    let whole = if flip == 0 { kept } else { kept.min(changed) };
    let intact = written.iter().take_while(|(_, end)| *end <= whole);
    let read = records(&file);
    if whole >= header(0).len() {
        let generation = u64::from(cut);
        let is_read =
            matches!(read_header(&file), Header::Ours { generation: it, .. } if it == generation);
        assert!(is_read, "the header");
        let read: Vec<_> = read.map(|record| describe(&record)).collect();
        let intact: Vec<_> = intact.map(|(record, _)| record.clone()).collect();
        assert_eq!(read, intact, "all records before the damage, and none after it");
    } else {
        _ = (read_header(&file), read.count());
    }
}

/// Checks that a buffer's records are read up to where it was cut, and nothing else.
///
/// ```text
///   data:  | cut | records |
/// ```
/// The last `cut` 256ths of the buffer are lost.
///
/// # Panics
/// If it is not.
pub(in crate::session) fn check_redo_buffer(data: &[u8]) {
    let read = |bytes: &[u8]| Left::parse(PathBuf::new(), bytes);
    if let Ok(Some(left)) = read(data) {
        assert!(data[redo_buffer::HEADER_BYTES..].starts_with(&left.records));
    }
    let Some((&cut, records)) = data.split_first() else { return };
    let place = Place { generation: u64::from(cut), offset: 1 << cut.min(63) };
    let mut buffer = redo_buffer::header(place, records.len() as u64);
    buffer.extend_from_slice(records);
    buffer.truncate(buffer.len() - usize::from(cut) * buffer.len() / 256);
    let kept = buffer.get(redo_buffer::HEADER_BYTES..).unwrap_or_default();
    let left = read(&buffer).expect("it is ours").map(|left| (left.place, left.records));
    assert_eq!(left, Some((place, kept.to_vec())).filter(|_| !kept.is_empty()));
}

/// How many kinds of records are written.
const KINDS: u64 = 6;

/// Appends the record with this number, which has `text` in it.
fn write(file: &mut Vec<u8>, number: u64, text: &[u8]) {
    let session_id = String::from_utf8_lossy(text).into();
    let node = NodeId(Uuid::from_u128(u128::from(number)));
    let lease = Lease { session_id, node, epoch: number, grant: number };
    let mut record = Vec::new();
    match number % KINDS {
        0 => {
            let news = LogNews { batches: Vec::new(), journal: Some(text.to_vec().into()) };
            append(&mut record, &lease, "turn", &news);
        }
        1 => save(&mut record, &lease, (Version(number), u64::MAX - number), text),
        2 => settled(&mut record, &lease.session_id, "turn"),
        3 => forget(&mut record, &lease.session_id, Version(number)),
        4 => {
            let news = LogNewsRef { first: 0, last: 0, runs: &[], journal: Some(text) };
            alias(&mut record, &lease, "turn", number);
            alias_news(&mut record, number, &news);
        }
        _ => probe(&mut record),
    }
    file.extend_from_slice(&record);
}

/// The description of the record with this number.
fn expected(number: u64, text: &[u8]) -> String {
    let id = String::from_utf8_lossy(text);
    match number % KINDS {
        0 | 4 => format!(
            "news of turn in {id}, epoch {number}: {:?}",
            Some(text).filter(|it| !it.is_empty())
        ),
        1 => format!("{id} has {text:?} as {number} since {}", u64::MAX - number),
        2 => format!("turn in {id} is settled"),
        3 => format!("{id} is deleted up to {number}"),
        _ => "a probe".to_owned(),
    }
}

/// Describes a record that was read.
fn describe(Record { session_id: id, body }: &Record<'_>) -> String {
    match body {
        Body::News { turn_id, news } => {
            format!("news of {turn_id} in {id}, epoch {}: {:?}", news.by.epoch, news.journal)
        }
        Body::Save(saved) => {
            format!("{id} has {:?} as {} since {}", saved.bytes, saved.version.0, saved.at)
        }
        Body::Settled { turn_id } => format!("{turn_id} in {id} is settled"),
        Body::Forget { latest } => format!("{id} is deleted up to {}", latest.0),
        Body::Probe => "a probe".to_owned(),
        Body::Ended { turn_id, .. } => format!("{turn_id} in {id} has ended"),
    }
}
