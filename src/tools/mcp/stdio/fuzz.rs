//! The properties of lines on a server's standard output; part of the fuzz target `mcp_server`.

use serde_json::Value;

use super::lines::{Line, Lines};
use crate::limits::mcp::TOKEN_BYTES_MAX;
use crate::tools::mcp::envelope::Envelope;

/// Checks that neither the lines nor the requests that they answer depend on where the bytes are cut.
///
/// The first byte says how they are cut.
///
/// # Panics
/// If they are not.
pub(in crate::tools::mcp) fn check_lines(data: &[u8]) {
    let Some((&size, text)) = data.split_first() else { return };
    let size = usize::from(size % 16) + 1;
    let mut lines = Lines::default();
    let mut read = Vec::new();
    for chunk in text.chunks(size) {
        lines.room().extend_from_slice(chunk);
        while let Some(line) = lines.next() {
            read.push(line);
        }
    }
    let mut whole: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    whole.pop();
    let expected: Vec<Line> = whole.iter().map(|line| Line::Whole(line.to_vec())).collect();
    assert_eq!(read, expected, "cut every {size} bytes");
    for line in whole {
        let mut envelope = Envelope::default();
        line.chunks(size).for_each(|part| envelope.push(part));
        check_envelope(line, &envelope);
    }
}

/// The scanner that finds which request a long line answers agrees with the JSON parser.
fn check_envelope(line: &[u8], envelope: &Envelope) {
    let Ok(Value::Object(members)) = serde_json::from_slice::<Value>(line) else { return };
    // The scanner reads no escapes, and only the beginning of a long number.
    if line.contains(&b'\\') || line.len() > TOKEN_BYTES_MAX {
        return;
    }
    // If a member is repeated, the parser may keep another one than the scanner sees.
    let names = |name: &str| memchr::memmem::find_iter(line, &format!("\"{name}\"")).count() > 1;
    if ["id", "method", "result", "error"].into_iter().any(names) {
        return;
    }
    let id = match members.get("id") {
        Some(Value::Number(id)) => id.as_i64(),
        Some(Value::String(id)) => id.parse().ok(),
        _ => None,
    };
    let is_request = members.contains_key("method");
    let is_answer = members.contains_key("result") || members.contains_key("error");
    let answered = id.filter(|_| is_answer && !is_request);
    assert_eq!(envelope.answered(), answered, "{}", String::from_utf8_lossy(line));
    assert_eq!(envelope.may_be_answer(), !is_request);
}
