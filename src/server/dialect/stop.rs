//! The bounds of `stop`, which every dialect has.

use crate::limits::server::{STOP_STRING_BYTES_MAX, STOP_STRINGS_MAX};

/// What is expected of these stop texts if they are too many or too long.
pub(super) fn expected(stop: &[String]) -> Option<String> {
    let fits = stop.len() <= STOP_STRINGS_MAX
        && stop.iter().all(|text| text.len() <= STOP_STRING_BYTES_MAX);
    let told = || {
        format!("at most {STOP_STRINGS_MAX} strings, each of at most {STOP_STRING_BYTES_MAX} bytes")
    };
    (!fits).then(told)
}
