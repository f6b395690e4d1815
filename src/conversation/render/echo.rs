//! What a result's echo in a model's words is known by.

use std::sync::Arc;

use crate::limits::turn::{ECHO_BYTES_MIN, MATCHED_BYTES_MAX};

/// As much of a result's JSON as is compared with a message, without white space. `None` if an answer may well look
/// the same.
pub(crate) fn echo(json: &str) -> Option<Arc<str>> {
    if json.len() < ECHO_BYTES_MIN || !json.starts_with(['{', '[']) {
        return None;
    }
    // The last character may end 3 bytes after it.
    let mut echo = String::with_capacity(MATCHED_BYTES_MAX + 3);
    for char in json.chars().filter(|char| !is_blank(*char)) {
        if echo.len() >= MATCHED_BYTES_MAX {
            break;
        }
        echo.push(char);
    }
    Some(echo.into())
}

/// White space and zero-width characters.
pub(crate) fn is_blank(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\u{200b}' | '\u{2060}' | '\u{feff}')
}
