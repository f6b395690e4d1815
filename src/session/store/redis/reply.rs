//! What scripts answer, read.

use std::time::Duration;

use bytes::Bytes;
use redis::{ParsingError, Value, from_redis_value};
use uuid::Uuid;

use super::super::{Batch, EpochStart, Epochs, Holder, NodeId, StoreError, StoredLog};

/// What a part of an answer is read as.
pub(super) type Read<T> = Result<T, StoreError>;

pub(super) fn unreadable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("the server has answered something else than expected: {error}"))
}

/// A simple value: text, a number, a list of them.
pub(super) fn plain<T: redis::FromRedisValue>(value: Value) -> Read<T> {
    from_redis_value(value).map_err(|error: ParsingError| unreadable(error))
}

/// A list of so many values; `None` if there is nothing.
pub(super) fn parts<const N: usize>(value: Value) -> Read<Option<[Value; N]>> {
    match value {
        Value::Nil => Ok(None),
        Value::Array(values) => match values.try_into() {
            Ok(values) => Ok(Some(values)),
            Err(values) => {
                let values: Vec<Value> = values;
                Err(unreadable(format_args!("{} values instead of {N}", values.len())))
            }
        },
        _ => Err(unreadable("no list")),
    }
}

pub(super) fn list(value: Value) -> Read<Vec<Value>> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::Array(values) => Ok(values),
        _ => Err(unreadable("no list")),
    }
}

/// Bytes, which are not copied.
pub(super) fn bytes(value: Value) -> Read<Option<Bytes>> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        _ => Err(unreadable("no bytes")),
    }
}

/// Which node had a session before, and how long ago its lease lapsed.
pub(super) fn holder(node: Value, lapsed: Value) -> Read<Option<Holder>> {
    let (node, lapsed): (Option<String>, Option<u64>) = (plain(node)?, plain(lapsed)?);
    // Sessions that were imported have none.
    let node = node.and_then(|node| Uuid::try_parse(&node).ok()).map(NodeId);
    Ok(node.map(|node| Holder { node, lapsed: lapsed.map(Duration::from_millis) }))
}

/// A log as scripts return it: its turn, what it is, its journal, its batches.
pub(super) fn log([turn, text, journal, batches]: [Value; 4]) -> Read<StoredLog> {
    let (turn_id, text): (String, String) = (plain(turn)?, plain(text)?);
    let Some((last, epochs)) = described(&text) else {
        return Err(unreadable(format_args!("the log {text:?}")));
    };
    let batches = list(batches)?.into_iter().map(batch).collect::<Result<_, _>>()?;
    Ok(StoredLog { turn_id, epochs, last, batches, journal: bytes(journal)? })
}

/// The last event of a log, and its epochs, out of `number last bytes first:epoch first:epoch...`.
fn described(text: &str) -> Option<(u64, Epochs)> {
    let mut words = text.split(' ').skip(1);
    let last = words.next()?.parse().ok()?;
    let starts = words.skip(1).map(|start| {
        let (first, epoch) = start.split_once(':')?;
        Some(EpochStart { first: first.parse().ok()?, epoch: epoch.parse().ok()? })
    });
    Some((last, Epochs::of(&starts.collect::<Option<Vec<_>>>()?)?))
}

/// An entry of the stream.
fn batch(entry: Value) -> Read<Batch> {
    let missing = || unreadable("an entry without its fields");
    let [id, fields] = parts(entry)?.ok_or_else(missing)?;
    let [_, first, _, content] = parts(fields)?.ok_or_else(missing)?;
    let id: String = plain(id)?;
    let last = id.split_once('-').and_then(|(_, last)| last.parse().ok()).ok_or_else(missing)?;
    Ok(Batch { first: plain(first)?, last, bytes: bytes(content)?.unwrap_or_default() })
}
