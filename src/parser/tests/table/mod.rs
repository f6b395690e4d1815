//! Inputs and what they produce, one row each. Every row runs whole, byte by byte and cut at every
//! position, as bytes and as text.
//!
//! In a row, `§` stands for the default marker. An event is written as `text «...»`,
//! `reasoning «...»`, `start INDEX@OFFSET`, `call INDEX NAME ARGUMENTS`, with `mended [...]` added
//! if it was repaired, or `error CODE@OFFSET`, with `of INDEX` added if a call had started,
//! `mid-line` if the marker did not begin a line, and the quoted bytes.

mod calls;
mod errors;
mod hermes;
mod lenient;
mod markers;
mod messages;
mod rows;
mod slips;
mod text;
mod written;

use super::*;

#[track_caller]
fn check(settings: &Settings, input: impl AsRef<[u8]>, expected: &[&str]) {
    let input = expand(input.as_ref());
    let record = read_every_way(settings, &input);
    let events: Vec<String> = record.events.iter().map(show).collect();
    assert_eq!(events, expected, "{:?}", String::from_utf8_lossy(&input));
    // The plain reference agrees.
    assert_eq!(reference::events(settings, &input), record.events);
}

fn expand(input: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(input) {
        Ok(text) => text.replace('§', "<<function_call>>").into_bytes(),
        Err(_) => input.to_vec(),
    }
}

pub(super) fn show(event: &Event) -> String {
    match event {
        Event::Text(text) => format!("text «{}»", visible(text)),
        Event::Reasoning(text) => format!("reasoning «{}»", visible(text)),
        Event::Started { index, offset } => format!("start {index}@{offset}"),
        Event::Completed { index, name, arguments, repaired } => {
            let mended: Vec<_> = repaired.iter().map(|repair| repair.name()).collect();
            let mended = if mended.is_empty() {
                String::new()
            } else {
                format!(" mended [{}]", mended.join(", "))
            };
            format!("call {index} {name} {}{mended}", visible(arguments))
        }
        Event::Error { code, offset, index, raw, at_line_start } => {
            let index = index.map_or(String::new(), |index| format!(" of {index}"));
            let line = if *at_line_start { "" } else { " mid-line" };
            format!("error {}@{offset}{index}{line} «{}»", code.name(), visible(raw))
        }
    }
}

/// Escapes line ends and NULs, to keep rows readable.
pub(super) fn visible(text: &str) -> String {
    text.replace('\r', "\\r").replace('\n', "\\n").replace('\0', "\\0")
}

fn with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = settings();
    change(&mut settings);
    settings
}

fn lenient() -> Settings {
    with(|s| s.strict_balancing = false)
}
