//! `tether sessions show`: a transcript for a person, or as the gateway returns it.

use std::borrow::Cow;
use std::io::{self, Write};

use jiff::Timestamp;

use super::{NoSuch, failed};
use crate::cli::CliError;
use crate::conversation::{Answer, Call, Ending, Given, Outcome, Part, Question, Turn};
use crate::limits::session::SHOWN_RESULT_BYTES_MAX;
use crate::server::transcript;
use crate::session::store::Store;
use crate::session::{self, Snapshot};
use crate::terminal;
use crate::text::cut;
use crate::tools::ToolResult;

/// Writes the transcript.
///
/// # Errors
/// If there is no such session, or the store or `out` fails.
pub(super) async fn run(
    store: &dyn Store,
    id: &str,
    as_json: bool,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let copy = store.copy(id).await.map_err(failed)?.ok_or_else(|| failed(NoSuch(id)))?;
    let snapshot = Snapshot::of_record(&copy.record).map_err(failed)?;
    let (name, owner) = session::name_and_owner(id);
    if as_json {
        let transcript = transcript(name, &snapshot);
        serde_json::to_writer(&mut *out, &transcript).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    writeln!(out, "session {name}")?;
    if !owner.is_empty() {
        writeln!(out, "owner {owner}")?;
    }
    writeln!(out, "last used {}", time(copy.used_at_ms))?;
    match snapshot.conversation.dropped() {
        0 => {}
        dropped => writeln!(out, "older turns dropped: {dropped}")?,
    }
    for turn in snapshot.conversation.turns() {
        write_turn(out, turn)?;
    }
    Ok(out.flush()?)
}

/// A time for people, in UTC.
pub(super) fn time(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    at.unwrap_or_default().strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

fn write_turn(out: &mut impl Write, turn: &Turn) -> io::Result<()> {
    writeln!(out, "\nturn {}, {}", inert(&turn.turn_id), time(turn.started_at_ms))?;
    match &turn.answer {
        Some(answer) => say(out, "user", &in_words(answer))?,
        None => say(out, "user", &turn.prompt)?,
    }
    for step in &turn.steps {
        for part in &step.parts {
            match part {
                Part::Text(text) => say(out, "assistant", text)?,
                Part::Said(said) if said.is_text_again() => {}
                Part::Said(said) => say(out, "gateway", &said.text)?,
                Part::Call(call) => write_call(out, call)?,
                Part::Reasoning(_) => {}
            }
        }
        for note in &step.notes {
            say(out, "feedback", &note.message)?;
        }
    }
    for Question { tool_name, clarification, .. } in &turn.questions {
        say(out, &format!("question of {tool_name}"), &clarification.question)?;
    }
    match turn.ending {
        Some(Ending::Completed(finish)) => writeln!(out, "ended: {}", finish.name()),
        Some(Ending::Failed(code)) => writeln!(out, "failed: {}", code.name()),
        None => writeln!(out, "not ended"),
    }
}

fn in_words(Answer { given, beside, .. }: &Answer) -> String {
    let given: Cow<'_, str> = match given {
        Given::Option(option) => option.title.as_str().into(),
        Given::Text(text) => text.into(),
        Given::Content(content) => content.to_string().into(),
        Given::Approved { for_session: false } => "(approved)".into(),
        Given::Approved { for_session: true } => "(approved for this session)".into(),
        Given::Refused(words) => words.as_deref().unwrap_or("(denied)").into(),
        Given::Declined => "(declined)".into(),
        Given::Cancelled => "(cancelled)".into(),
    };
    [Some(&*given), beside.as_deref()].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn write_call(out: &mut impl Write, call: &Call) -> io::Result<()> {
    say(out, &format!("call of {}", call.name), call.arguments.as_str())?;
    let (label, text): (_, Cow<'_, str>) = match &call.outcome {
        Outcome::Ended(result) => ("result", result_text(result).into()),
        Outcome::Claimed(result) => ("the client's result", result_text(result).into()),
        Outcome::NotRun(result) => ("not run", result_text(result).into()),
        Outcome::Skipped(why) => ("skipped", why.into()),
        Outcome::Cancelled => ("cancelled", "".into()),
        Outcome::Unapproved(_) => ("not run", "it needs the user's approval".into()),
        Outcome::HandedOut => ("not run", "the client has not returned its result".into()),
    };
    say(out, label, &text)
}

fn result_text(result: &ToolResult) -> String {
    let text = match (&result.error, &result.data) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(data)) => data.to_string(),
        (None, None) => String::new(),
    };
    cut(&text, SHOWN_RESULT_BYTES_MAX)
}

/// Writes who said something, and what, indented. Escapes everything that would command a terminal:
/// models and strangers have written it.
fn say(out: &mut impl Write, who: &str, text: &str) -> io::Result<()> {
    let mut lines = text.trim().lines();
    writeln!(out, "{}: {}", inert(who), inert(lines.next().unwrap_or_default()))?;
    lines.try_for_each(|line| writeln!(out, "    {}", inert(line)))
}

fn inert(line: &str) -> Cow<'_, str> {
    terminal::spelled_out(line, &['\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let mut out = Vec::new();
        say(&mut out, "assistant", text).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_models_write_commands_no_terminal() {
        assert_eq!(
            said("red \u{1b}[31m\u{7}\r\nb\u{9b}0m \u{202e}c"),
            "assistant: red \\u001b[31m\\u0007\n    b\\u009b0m \\u202ec\n"
        );
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(1_795_315_264_812), "2026-11-22 02:41:04Z");
        assert_eq!(time(u64::MAX), "1970-01-01 00:00:00Z");
    }
}
