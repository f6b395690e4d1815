//! A session as one line of JSON, to be kept elsewhere or moved to another store.
//!
//! ```text
//! {"version": 1, "id": "demo", "epoch": 1, "used_at_ms": ..., "record": {"version": 4, ...},
//!  "logs": [{"turn_id": ..., "epoch": 1, "batches": [{"first": 1, "last": 2, "events": [{...}, {...}]}]}],
//!  "artifacts": [{"id": ..., "owner": ..., "name": ..., "mime_type": ..., "base64": ...}]}
//! ```
//! `tests/data/session` keeps a line of each version. A newer release reads them all.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::log::{TurnLog, encode};
use super::record::{RecordError, SessionRecord};
use super::store::{Artifact, Batch, EpochStart, Epochs, SessionCopy, StoredLog};
use crate::limits::session::{ARTIFACT_BYTES_MAX, ID_BYTES_MAX};

/// The version of a line. Raise it if older lines must be read in another way.
pub(crate) const VERSION: u32 = 1;

/// Why a line is not a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    #[error("it is not an exported session: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "a newer version of Tether exported it (version {0}; this one reads up to {VERSION}); use \
         that version"
    )]
    Newer(u32),
    #[error("no session has the id {0:?}")]
    Id(String),
    #[error("{id}: {error}")]
    Record { id: String, error: RecordError },
    #[error("{id}: the log of turn {turn_id:?} is damaged")]
    Log { id: String, turn_id: String },
    #[error("{id}: the file {file:?} is not base64: {error}")]
    File { id: String, file: String, error: DecodeError },
    #[error("{0}: its files are longer than {max} MiB together", max = ARTIFACT_BYTES_MAX >> 20)]
    TooLarge(String),
}

#[derive(Deserialize)]
#[serde(expecting = "a session as `export` writes it")]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Line<'a, F> {
    version: u32,
    id: String,
    epoch: u64,
    used_at_ms: u64,
    #[serde(borrow)]
    record: &'a RawValue,
    #[serde(borrow)]
    logs: Vec<Log<'a>>,
    artifacts: Vec<F>,
}

#[derive(Serialize, Deserialize)]
struct Log<'a> {
    turn_id: String,
    /// In which it was begun.
    epoch: u64,
    /// Those of the gateways that have gone on with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    later: Vec<Later>,
    #[serde(borrow)]
    batches: Vec<WrittenBatch<'a>>,
    /// What its turn still lacks, if it is not over.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    journal: Option<&'a RawValue>,
}

#[derive(Serialize, Deserialize)]
struct Later {
    /// The sequence of its first event.
    first: u64,
    epoch: u64,
}

#[derive(Serialize, Deserialize)]
struct WrittenBatch<'a> {
    first: u64,
    last: u64,
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct File {
    id: String,
    owner: String,
    name: Option<String>,
    mime_type: String,
    base64: String,
}

#[derive(Serialize)]
struct WrittenFile<'a> {
    id: &'a str,
    owner: &'a str,
    name: Option<&'a str>,
    mime_type: &'a str,
    #[serde(serialize_with = "base64")]
    base64: &'a [u8],
}

/// Encodes content while it is written, without a second copy of it.
fn base64<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(bytes, &STANDARD))
}

/// A session as a line, with its LF.
///
/// # Errors
/// If the session is damaged.
pub(crate) fn write(copy: &SessionCopy) -> Result<Vec<u8>, LineError> {
    let SessionCopy { id, epoch, used_at_ms, record, logs, artifacts } = copy;
    check_record(id, record)?;
    let line = Line {
        version: VERSION,
        id: id.clone(),
        epoch: *epoch,
        used_at_ms: *used_at_ms,
        record: serde_json::from_slice(record)?,
        logs: logs.iter().map(|log| written_log(id, log)).collect::<Result<_, _>>()?,
        artifacts: artifacts.iter().map(written_file).collect(),
    };
    let mut out = Vec::new();
    encode::serialize(&mut out, &line);
    out.push(b'\n');
    Ok(out)
}

fn written_log<'a>(id: &str, log: &'a StoredLog) -> Result<Log<'a>, LineError> {
    check_log(id, log)?;
    let StoredLog { turn_id, epochs, batches, journal, .. } = log;
    let later = epochs.starts().skip(1);
    let later = later.map(|EpochStart { first, epoch }| Later { first, epoch }).collect();
    let batches = batches.iter().map(|Batch { first, last, bytes }| {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events = lines.map(serde_json::from_slice).collect::<Result<_, _>>()?;
        Ok(WrittenBatch { first: *first, last: *last, events })
    });
    let batches = batches.collect::<Result<_, serde_json::Error>>()?;
    let journal = journal.as_deref().map(serde_json::from_slice).transpose()?;
    Ok(Log { turn_id: turn_id.clone(), epoch: epochs.at(1), later, batches, journal })
}

fn written_file(artifact: &Artifact) -> WrittenFile<'_> {
    let Artifact { owner, id, name, mime_type, bytes } = artifact;
    WrittenFile { id, owner, name: name.as_deref(), mime_type, base64: bytes }
}

/// Reads a line, and checks that all of it can be used.
///
/// # Errors
/// See [`LineError`].
pub(crate) fn read(line: &[u8]) -> Result<SessionCopy, LineError> {
    let Head { version } = serde_json::from_slice(line)?;
    if version > VERSION {
        return Err(LineError::Newer(version));
    }
    let Line::<'_, File> { id, epoch, used_at_ms, record, logs, artifacts, .. } =
        serde_json::from_slice(line)?;
    if !is_id(&id) {
        return Err(LineError::Id(id));
    }
    let record = Bytes::copy_from_slice(record.get().as_bytes());
    check_record(&id, &record)?;
    let logs = logs.into_iter().map(|log| read_log(&id, log)).collect::<Result<_, _>>()?;
    let artifacts = artifacts.into_iter().map(|file| read_file(&id, file));
    let artifacts = artifacts.collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = artifacts.iter().map(|artifact| artifact.bytes.len()).sum();
    if bytes > ARTIFACT_BYTES_MAX {
        return Err(LineError::TooLarge(id));
    }
    Ok(SessionCopy { id, epoch, used_at_ms, record, logs, artifacts })
}

/// Whether a session can have this id: the name that a client gave it, and its owner.
fn is_id(id: &str) -> bool {
    let is_visible = |char: char| char.is_ascii_graphic();
    (1..=2 * ID_BYTES_MAX).contains(&id.len()) && id.chars().all(is_visible)
}

fn check_record(id: &str, record: &[u8]) -> Result<(), LineError> {
    let failed = |error| LineError::Record { id: id.to_owned(), error };
    SessionRecord::read(record).map(drop).map_err(failed)
}

fn check_log(id: &str, log: &StoredLog) -> Result<(), LineError> {
    let restored = TurnLog::restore(log.epochs.clone(), log.batches.clone(), log.last);
    restored.map(drop).ok_or_else(|| damaged(id, log))
}

fn damaged(id: &str, log: &StoredLog) -> LineError {
    LineError::Log { id: id.to_owned(), turn_id: log.turn_id.clone() }
}

fn read_log(id: &str, log: Log<'_>) -> Result<StoredLog, LineError> {
    let Log { turn_id, epoch, later, batches, journal } = log;
    let later = later.into_iter().map(|Later { first, epoch }| EpochStart { first, epoch });
    let starts: Vec<_> = [EpochStart { first: 1, epoch }].into_iter().chain(later).collect();
    let epochs = Epochs::of(&starts)
        .ok_or_else(|| LineError::Log { id: id.to_owned(), turn_id: turn_id.clone() })?;
    let batches = batches.into_iter().map(|WrittenBatch { first, last, events }| {
        let mut lines = Vec::new();
        for event in events {
            push_event(&mut lines, event);
        }
        Batch { first, last, bytes: lines.into() }
    });
    let batches: Vec<Batch> = batches.collect();
    let last = batches.last().map_or(0, |batch| batch.last);
    let journal = journal.map(|json| Bytes::copy_from_slice(json.get().as_bytes()));
    let log = StoredLog { turn_id, epochs, last, batches, journal };
    check_log(id, &log)?;
    Ok(log)
}

/// Adds an event to the lines of a log: as it is, or as we write it if another program has put blanks into it.
fn push_event(lines: &mut Vec<u8>, event: &RawValue) {
    let text = event.get();
    let is_ours = text.starts_with(r#"{"type":""#);
    match (!is_ours).then(|| serde_json::from_str::<Value>(text)) {
        Some(Ok(value)) => encode::serialize(&mut *lines, &value),
        _ => lines.extend_from_slice(text.as_bytes()),
    }
    lines.push(b'\n');
}

fn read_file(id: &str, file: File) -> Result<Artifact, LineError> {
    let File { id: file, owner, name, mime_type, base64 } = file;
    match STANDARD.decode(base64) {
        Ok(bytes) => Ok(Artifact { owner, id: file, name, mime_type, bytes: bytes.into() }),
        Err(error) => Err(LineError::File { id: id.to_owned(), file, error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of version 1. Replace nothing in it: a newer release has to read them.
    const VERSION_1: &str = include_str!("../../tests/data/session/export-1.jsonl");

    fn line() -> &'static str {
        VERSION_1.lines().next().unwrap()
    }

    #[test]
    fn every_version_is_read() {
        for (line, (id, owner)) in
            VERSION_1.lines().zip([("demo", ""), ("demo@YWxpY2U=", "YWxpY2U=")])
        {
            let copy = read(line.as_bytes()).unwrap();
            assert_eq!((&*copy.id, copy.epoch, copy.used_at_ms), (id, 3, 1_795_315_264_812));
            let [log] = &copy.logs[..] else { panic!("one log") };
            assert_eq!(
                (&*log.turn_id, log.epochs.last(), log.last, log.batches.len()),
                ("two", 3, 3, 2)
            );
            assert!(log.batches[1].bytes.starts_with(b"{\"type\":\"text_delta\""));
            let [file] = &copy.artifacts[..] else { panic!("one file") };
            assert_eq!((&*file.owner, &file.bytes[..]), (owner, &b"content"[..]));
        }
    }

    #[test]
    fn a_line_is_written_as_it_was_read() {
        for line in VERSION_1.lines() {
            let copy = read(line.as_bytes()).unwrap();
            let written = write(&copy).unwrap();
            assert_eq!(read(&written).unwrap(), copy);
            assert_eq!(String::from_utf8(written).unwrap(), format!("{line}\n"));
        }
    }

    /// Other programs that read and write JSON put blanks into it.
    #[test]
    fn a_line_may_have_been_written_again_by_another_program() {
        let same: Value = serde_json::from_str(line()).unwrap();
        let spaced = serde_json::to_string_pretty(&same).unwrap();
        assert_eq!(read(spaced.as_bytes()).unwrap().logs, read(line().as_bytes()).unwrap().logs);
    }

    /// The model may have written its arguments over several lines.
    #[test]
    fn a_session_stays_on_its_line() {
        let mut copy = read(line().as_bytes()).unwrap();
        let record = String::from_utf8(copy.record.to_vec()).unwrap();
        copy.record = record.replace("{\"name\": \"John\"}", "{\n\"name\":\r\n\"John\"}").into();
        let written = write(&copy).unwrap();
        assert!(!written[..written.len() - 1].iter().any(|byte| b"\r\n".contains(byte)));
        read(&written).unwrap();
    }

    #[test]
    fn nothing_else_is_read() {
        let with = |from: &str, to: &str| {
            let changed = line().replace(from, to);
            assert_ne!(changed, line(), "{from}");
            read(changed.as_bytes()).unwrap_err().to_string()
        };
        for (from, to, expected) in [
            (
                "{\"version\":1",
                "{\"version\":2",
                "a newer version of Tether exported it (version 2; ",
            ),
            ("{\"version\":1", "[1", "it is not an exported session: "),
            ("\"id\":\"demo\"", "\"id\":\"\"", "no session has the id \"\""),
            ("\"id\":\"demo\"", "\"id\":\"a b\"", "no session has the id \"a b\""),
            ("\"version\":4", "\"version\":99", "demo: the session was written by a newer version"),
            ("\"turns\":[", "\"turns\":[7,", "demo: the session's record cannot be read: "),
            ("\"first\":2", "\"first\":3", "demo: the log of turn \"two\" is damaged"),
            (
                "\"type\":\"text_delta\"",
                "\"type\":\"x\"",
                "demo: the log of turn \"two\" is damaged",
            ),
            (
                "Y29udGVudA==",
                "Y29udGVudA",
                "demo: the file \"11111111111111111111111111111111\" is not base64",
            ),
        ] {
            let error = with(from, to);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn files_together_have_a_maximum() {
        let content = |bytes| STANDARD.encode(vec![0; bytes]);
        let with = |bytes| line().replace("Y29udGVudA==", &content(bytes));
        assert!(read(with(ARTIFACT_BYTES_MAX).as_bytes()).is_ok());
        let refused = read(with(ARTIFACT_BYTES_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(refused.to_string(), "demo: its files are longer than 32 MiB together");
    }
}
