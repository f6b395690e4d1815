//! What a process leaves in the buffer of running turns, whatever it was about to do.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;

use super::redo_tests::{Place, append_inline, assert_running, copy_of, event, news, text_of};
use super::*;
use crate::session::store::Batch;

const BUFFER: &str = "tether.db-redo-buffer";
const FILE: &str = "tether.db-redo1";

/// Bytes of the buffer before its records.
const HEADER: usize = 40;

/// A running turn that has appended so many events. The first is in the file, and the others in the buffer.
async fn running(events: u64) -> (Place, Lease) {
    // Where there always is a buffer.
    let place = Place::of(tempfile::tempdir_in("/dev/shm").unwrap(), SyncMode::Normal);
    let (lease, _) = place.begin("s").await;
    let appender = place.store.appender(&lease, "t").unwrap();
    for sequence in 1..=events {
        assert!(append_inline(&*appender, &news(sequence)));
        if sequence == 1 {
            place.store.redo.flush();
        }
    }
    (place, lease)
}

/// The bytes of its records.
fn used(place: &Place) -> usize {
    let buffer = fs::read(place.path(BUFFER)).unwrap();
    usize::try_from(u64::from_le_bytes(buffer[32..40].try_into().unwrap())).unwrap()
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn length(&self, name: &str) -> usize {
        usize::try_from(fs::metadata(self.path(name)).unwrap().len()).unwrap()
    }
}

#[tokio::test]
async fn what_turns_append_reaches_the_file_many_at_a_time() {
    let (place, lease) = running(1).await;
    let begun = place.length(FILE);
    let mut last = 1;
    while place.length(FILE) == begun {
        last += 1;
        place.store.append(&lease, "t", news(last)).await.unwrap();
    }
    let written = place.length(FILE) - begun;
    let each = written / (usize::try_from(last).unwrap() - 2);
    assert!(written <= limits::REDO_BUFFER_BYTES, "{written}");
    assert!(written > limits::REDO_BUFFER_BYTES - 2 * each, "{written}: all that has room");
    assert_running(place.killed().read("s", "t").await, last);
}

/// One that fills it to the last byte, one that does not fit any more, and one that is longer than all of it.
#[tokio::test]
async fn records_of_any_length_keep_their_order() {
    let (place, lease) = running(2).await;
    let mut record = Vec::new();
    let event_of =
        |text: Vec<u8>| LogNews::from(vec![Batch { first: 3, last: 3, bytes: text.into() }]);
    redo_record::append(&mut record, &lease, "t", &event_of(Vec::new()));
    let room = limits::REDO_BUFFER_BYTES - HEADER - used(&place) - record.len();
    for (bytes, is_written) in [(1, false), (room, false), (room + 1, true), (2 * room, true)] {
        let (place, lease) = running(2).await;
        let begun = place.length(FILE);
        place.store.append(&lease, "t", event_of(vec![b'x'; bytes])).await.unwrap();
        assert_eq!(place.length(FILE) > begun, is_written, "{bytes}");
        place.store.append(&lease, "t", vec![event(4)].into()).await.unwrap();
        let log = text_of(&place.killed().read("s", "t").await.unwrap());
        let text = "x".repeat(bytes);
        assert!(log == format!("event 1\nevent 2\n{text}event 4\n"), "{bytes}");
    }
}

/// At any byte of what goes there: what is in the buffer, and a record that must be in the file at once.
#[tokio::test]
async fn a_process_that_is_killed_while_it_writes_to_the_file_loses_and_doubles_nothing() {
    let (place, _) = running(3).await;
    let buffered = copy_of(&place.directory);
    let begun = place.length(FILE);
    place.store.redo.probe().unwrap();
    let whole = fs::read(place.path(FILE)).unwrap();
    for written in begun..=whole.len() {
        let left = copy_of(&buffered);
        fs::write(left.path().join(FILE), &whole[..written]).unwrap();
        let next = Place::of(left, SyncMode::Normal);
        assert_running(next.read("s", "t").await, 3);
        assert!(next.damaged().is_empty());
    }
}

/// What did not fit on a full disk does not hide what comes later.
#[tokio::test]
async fn what_a_failed_write_has_left_in_the_file_is_cut_off() {
    let (place, lease) = running(2).await;
    let begun = place.length(FILE);
    place.store.redo.fail_next_write();
    assert!(place.store.redo.probe().is_err());
    assert!(place.length(FILE) > begun, "a part of what is in the buffer");
    place.store.append(&lease, "t", news(3)).await.unwrap();
    let next = place.killed();
    assert_running(next.read("s", "t").await, 3);
    assert!(next.damaged().is_empty());
    assert_running(place.read("s", "t").await, 3);
}

/// By a power cut: the disk has an older state of the buffer than of the file.
#[tokio::test]
async fn what_follows_in_the_file_is_not_cut_off() {
    let (place, lease) = running(3).await;
    let older = fs::read(place.path(BUFFER)).unwrap();
    place.store.append(&lease, "t", news(4)).await.unwrap();
    place.store.redo.flush();
    let left = copy_of(&place.directory);
    fs::write(left.path().join(BUFFER), &older).unwrap();
    for sync in [SyncMode::Normal, SyncMode::Full] {
        let next = Place::of(copy_of(&left), sync);
        assert_running(next.read("s", "t").await, 4);
        assert!(next.damaged().is_empty());
    }
}

/// Records that are added after it would never be read.
#[tokio::test]
async fn nothing_is_written_after_a_record_that_was_cut() {
    let (place, lease) = running(3).await;
    place.store.redo.flush();
    let left = copy_of(&place.directory);
    let whole = fs::read(place.path(FILE)).unwrap();
    fs::write(left.path().join(FILE), &whole[..whole.len() - 1]).unwrap();
    // As if the tables could not be completed, because the disk is full.
    let redo = Redo::open(&left.path().join("tether.db"), SyncMode::Normal).unwrap();
    redo.append(|| true, &lease, "t", &news(3)).unwrap();
    drop(redo);
    assert_running(Place::of(left, SyncMode::Normal).read("s", "t").await, 3);
}

/// A file that was cut by a power cut, or put there from a backup. Somebody may want to look.
#[tokio::test]
async fn a_buffer_that_belongs_to_no_file_is_kept_as_a_copy() {
    let (place, _) = running(3).await;
    let whole = fs::read(place.path(FILE)).unwrap();
    let mut other = whole.clone();
    other[16] ^= 1;
    for file in [&whole[..whole.len() - 1], &other] {
        let left = copy_of(&place.directory);
        fs::write(left.path().join(FILE), file).unwrap();
        let buffer = fs::read(left.path().join(BUFFER)).unwrap();
        let next = Place::of(left, SyncMode::Normal);
        assert!(next.damaged().contains(&format!("{BUFFER}.damaged")), "{:?}", next.damaged());
        assert!(fs::read(next.path(&format!("{BUFFER}.damaged"))).unwrap() == buffer);
        let (lease, _) = next.begin("new").await;
        next.store.append(&lease, "t", news(1)).await.unwrap();
        assert_running(next.killed().read("new", "t").await, 1);
    }
}

/// What follows in the file was not written from it.
#[tokio::test]
async fn a_file_that_is_longer_than_it_should_be_is_kept_as_a_copy() {
    let (place, _) = running(3).await;
    let left = copy_of(&place.directory);
    let mut file = fs::read(place.path(FILE)).unwrap();
    redo_record::probe(&mut file);
    fs::write(left.path().join(FILE), &file).unwrap();
    let next = Place::of(left, SyncMode::Normal);
    assert_eq!(next.damaged(), [format!("{FILE}.damaged")]);
    assert!(fs::read(next.path(&format!("{FILE}.damaged"))).unwrap() == file);
    assert_running(next.read("s", "t").await, 3);
}

/// No release has left that, but a disk may.
#[tokio::test]
async fn a_buffer_that_was_cut_or_damaged_costs_its_last_records_alone() {
    let (place, _) = running(3).await;
    let buffer = fs::read(place.path(BUFFER)).unwrap();
    let used =
        40 + usize::try_from(u64::from_le_bytes(buffer[32..40].try_into().unwrap())).unwrap();
    for at in 40..used {
        let left = copy_of(&place.directory);
        let mut damaged = buffer.clone();
        damaged[at] ^= 0x41;
        let damaged = if at % 2 == 0 { &damaged[..] } else { &buffer[..at] };
        fs::write(left.path().join(BUFFER), damaged).unwrap();
        let next = Place::of(left, SyncMode::Normal);
        let log = next.read("s", "t").await;
        assert_running(log.clone(), log.unwrap().last);
    }
}

#[tokio::test]
async fn a_buffer_that_was_only_just_created_or_cut_is_begun_anew() {
    let (place, _) = running(1).await;
    let buffer = fs::read(place.path(BUFFER)).unwrap();
    for left in [&[][..], &buffer[..5], &buffer[..HEADER - 1], &[0; 9], &[0; 4096]] {
        let copy = copy_of(&place.directory);
        fs::write(copy.path().join(BUFFER), left).unwrap();
        let next = Place::of(copy, SyncMode::Normal);
        assert_running(next.read("s", "t").await, 1);
        assert_eq!(next.length(BUFFER), limits::REDO_BUFFER_BYTES);
    }
}

/// Only an earlier process has buffered something.
#[tokio::test]
async fn what_waits_for_the_disk_is_not_buffered() {
    let (place, _) = running(3).await;
    let next = Place::of(copy_of(&place.directory), SyncMode::Full);
    assert_running(next.read("s", "t").await, 3);
    assert!(!next.path(BUFFER).exists());
    let (lease, _) = next.begin("new").await;
    let begun = next.length("tether.db-redo2").max(next.length(FILE));
    next.store.append(&lease, "t", news(1)).await.unwrap();
    assert!(next.length("tether.db-redo2").max(next.length(FILE)) > begun);
}

#[test]
fn a_newer_buffer_and_one_of_another_program_are_left_alone() {
    let newer = [&b"tether buf.\n\x02\0\0\0"[..], &[0; 24]].concat();
    for (bytes, is_newer) in [(newer, true), (vec![b'x'; HEADER], false)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tether.db");
        let buffer = directory.path().join(BUFFER);
        fs::write(&buffer, &bytes).unwrap();
        let refused = SqliteStore::open(&path, SyncMode::Normal, redo_tests::TTL).unwrap_err();
        assert_eq!(matches!(refused, OpenError::Newer { version: 2, .. }), is_newer, "{refused}");
        assert_eq!(matches!(refused, OpenError::Foreign(_)), !is_newer, "{refused}");
        assert!(refused.to_string().contains(BUFFER), "{refused}");
        assert_eq!(fs::read(&buffer).unwrap(), bytes);
    }
}
