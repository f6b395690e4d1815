//! The memory that a turn takes: roughly the bytes that it has allocated.
//!
//! This is not the length of its text: a list of small numbers takes forty times more memory than
//! JSON, and a bound on memory has to count memory.

use std::mem::size_of;

use serde_json::{Map, Value};

use super::{Answer, Call, Found, Given, Outcome, Part, PlacedImage, Question, Retry, Step, Turn};
use crate::tools::{Clarification, ClarificationOption, Continuation, ListedFile, ToolResult};

/// The overhead of a shared value: two counts.
const SHARED_BYTES: usize = 2 * size_of::<usize>();

/// The overhead of an object's entry: a hash, and a slot in a half-full table.
const ENTRY_BYTES: usize = 4 * size_of::<usize>();

pub(super) fn of_turn(turn: &Turn) -> usize {
    let steps = turn.steps.capacity() * size_of::<Step>();
    let own = SHARED_BYTES + size_of::<Turn>() + turn.turn_id.capacity() + turn.prompt.capacity();
    let continued = turn.continued.capacity() * size_of::<String>()
        + turn.continued.iter().map(String::capacity).sum::<usize>();
    let dropped = turn.dropped.as_ref().map_or(0, String::capacity);
    let questions = turn.questions.iter().map(of_question).sum::<usize>();
    let answer = turn.answer.as_deref().map_or(0, |answer| size_of::<Answer>() + of_answer(answer));
    // A turn that has just run shares them with a step, but one that was read from a store does not.
    let deferred = turn.deferred.capacity() * size_of::<usize>()
        + turn.deferred.iter().map(|call| of_shared_call(call)).sum::<usize>();
    own + continued
        + deferred
        + steps
        + turn.steps.iter().map(of_step).sum::<usize>()
        + dropped
        + questions
        + answer
        + of_images(&turn.images)
}

fn of_question(question: &Question) -> usize {
    let Question {
        clarification_id,
        call_id,
        tool_name,
        source,
        clarification,
        arguments,
        continuation,
    } = question;
    let words = [clarification_id, call_id, tool_name].map(String::capacity);
    let arguments = arguments.as_ref().map_or(0, |arguments| arguments.as_str().len());
    let continuation = match continuation {
        Continuation::Model | Continuation::Open => 0,
        Continuation::Approval { definition } => definition.capacity(),
        Continuation::Again { state } => of_value(state),
    };
    let own = size_of_val(question) + words.iter().sum::<usize>() + source.name.len();
    own + of_clarification(clarification) + arguments + continuation
}

fn of_answer(answer: &Answer) -> usize {
    let given = match &answer.given {
        Given::Option(option) => of_option(option),
        Given::Text(text) | Given::Refused(Some(text)) => text.capacity(),
        Given::Content(content) => of_value(content),
        Given::Approved { .. } | Given::Refused(None) | Given::Declined | Given::Cancelled => 0,
    };
    let Answer { clarification_id, question, given: _, not_chosen, beside } = answer;
    let not_chosen = not_chosen.iter().map(|id| size_of_val(id) + id.capacity()).sum::<usize>();
    let beside = beside.as_ref().map_or(0, String::capacity);
    clarification_id.capacity() + question.capacity() + given + not_chosen + beside
}

fn of_step(step: &Step) -> usize {
    let parts = step.parts.iter().map(|part| match part {
        Part::Text(text) => text.capacity(),
        Part::Said(said) => {
            let tools = said.tools.iter().map(|tool| size_of_val(tool) + tool.capacity());
            said.text.capacity() + tools.sum::<usize>()
        }
        Part::Reasoning(item) => {
            SHARED_BYTES + size_of_val(&**item) + item.upstream.capacity() + item.json.capacity()
        }
        Part::Call(call) => of_shared_call(call),
    });
    let notes = step.notes.iter().map(|note| size_of_val(note) + note.message.capacity());
    let parts = step.parts.capacity() * size_of::<Part>() + parts.sum::<usize>();
    let aside = step.aside.capacity() + of_images(&step.aside_images);
    parts + aside + notes.sum::<usize>() + step.retry.as_ref().map_or(0, of_retry)
}

/// The entries alone: the images themselves are kept elsewhere.
fn of_images(images: &[PlacedImage]) -> usize {
    images.iter().map(|PlacedImage { at, file }| size_of_val(at) + of_file(file)).sum()
}

fn of_retry(retry: &Retry) -> usize {
    let of_found = |found: &Found| {
        let values = found.values.iter().map(|value| size_of_val(value) + value.capacity());
        found.name.capacity() + values.sum::<usize>()
    };
    retry.tool.capacity() + retry.argument.as_ref().map_or(0, of_found)
}

fn of_shared_call(call: &Call) -> usize {
    SHARED_BYTES + size_of_val(call) + of_call(call)
}

fn of_call(call: &Call) -> usize {
    let outcome = match &call.outcome {
        Outcome::Ended(result) | Outcome::NotRun(result) | Outcome::Claimed(result) => {
            of_result(result)
        }
        Outcome::Skipped(reason) => reason.capacity(),
        Outcome::Cancelled | Outcome::HandedOut => 0,
        Outcome::Unapproved(clarification) => of_clarification(clarification),
    };
    let resolved = call.resolved_arguments.as_ref().map_or(0, |resolved| resolved.as_str().len());
    let words = call.call_id.capacity() + call.name.capacity() + call.arguments.as_str().len();
    words + resolved + outcome
}

fn of_result(result: &ToolResult) -> usize {
    let ToolResult {
        success: _,
        data,
        next_action: _,
        clarification,
        error,
        instruction_for_ai,
        files: _,
        artifacts,
        for_user,
        uncertain: _,
    } = result;
    let words = [error, instruction_for_ai].into_iter().flatten().map(String::capacity);
    let for_user: usize = for_user.iter().map(|text| size_of_val(text) + text.capacity()).sum();
    words.sum::<usize>()
        + for_user
        + artifacts.iter().map(of_file).sum::<usize>()
        + data.as_ref().map_or(0, of_value)
        + clarification.as_ref().map_or(0, of_clarification)
}

fn of_file(file: &ListedFile) -> usize {
    let ListedFile { id, kind, mime_type, bytes: _, name, url, error } = file;
    let words = [id, name, url, error].into_iter().flatten().chain([kind, mime_type]);
    size_of_val(file) + words.map(String::capacity).sum::<usize>()
}

fn of_clarification(clarification: &Clarification) -> usize {
    let Clarification { r#type, question, options, schema, url } = clarification;
    let options = options.iter().map(of_option).sum::<usize>();
    let schema = schema.as_ref().map_or(0, of_value);
    let url = url.as_ref().map_or(0, String::capacity);
    r#type.capacity() + question.capacity() + options + schema + url
}

fn of_option(option: &ClarificationOption) -> usize {
    size_of_val(option)
        + option.id.capacity()
        + option.title.capacity()
        + option.subtitle.as_ref().map_or(0, String::capacity)
        + option.metadata.as_ref().map_or(0, of_value)
}

/// The heap memory of a value, without the value itself.
fn of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.capacity(),
        Value::Array(items) => {
            items.capacity() * size_of::<Value>() + items.iter().map(of_value).sum::<usize>()
        }
        Value::Object(entries) => of_entries(entries),
    }
}

fn of_entries(entries: &Map<String, Value>) -> usize {
    let each = size_of::<(String, Value)>() + ENTRY_BYTES;
    let entries = entries.iter().map(|(key, value)| each + key.capacity() + of_value(value));
    entries.sum()
}
