//! The properties of logs in Redis; part of the fuzz target `stored_data`.

use redis::Value;

use super::reply;
use super::whole::described;

/// Checks that the words with which a script describes a log are read as they were written.
///
/// The input is a reply in Redis's own protocol, RESP.
///
/// # Panics
/// If it is not.
pub(in crate::session) fn check_log(data: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(data) else { return };
    let Ok(Some(parts)) = reply::parts(answer) else { return };
    let Ok(log) = reply::log(parts) else { return };
    // Scripts write the log's number first.
    let words = Value::BulkString(format!("1 {}", described(&log)).into_bytes());
    let turn = Value::BulkString(log.turn_id.clone().into_bytes());
    let again = reply::log([turn, words, Value::Nil, Value::Nil]).expect("it is read again");
    assert_eq!((again.last, &again.epochs), (log.last, &log.epochs));
}
