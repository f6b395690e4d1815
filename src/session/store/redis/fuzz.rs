//! What must hold for logs in Redis; part of the fuzz target `stored_data`.

use redis::Value;

use super::reply;
use super::whole::described;

/// Checks that a log is read as scripts keep it: what it is, in words, and its batches.
///
/// The input is a reply in Redis' own protocol.
///
/// # Panics
/// If it is not.
pub(in crate::session) fn check_log(data: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(data) else { return };
    let Ok(Some(parts)) = reply::parts(answer) else { return };
    let Ok(log) = reply::log(parts) else { return };
    // Scripts put the log's number before this.
    let words = Value::BulkString(format!("1 {}", described(&log)).into_bytes());
    let turn = Value::BulkString(log.turn_id.clone().into_bytes());
    let again = reply::log([turn, words, Value::Nil, Value::Nil]).expect("it is read again");
    assert_eq!((again.last, &again.epochs), (log.last, &log.epochs));
}
