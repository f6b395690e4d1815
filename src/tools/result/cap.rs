//! Cuts results that are too long, without breaking them.

use serde_json::{Map, Value};

use super::ToolResult;
use crate::limits::tools::{MESSAGE_BYTES_MAX, OUTPUT_BYTES_MIN, QUESTION_BYTES_MAX};
use crate::text::{ELLIPSIS, json_len};

pub(super) fn cap(mut result: ToolResult, bytes_max: usize) -> ToolResult {
    let bytes_max = bytes_max.max(OUTPUT_BYTES_MIN);
    let bytes = json_len(&result);
    let question_bytes = result.clarification.as_ref().map_or(0, json_len);
    if question_bytes > QUESTION_BYTES_MAX {
        // Its event would lack the options.
        return too_long(question_bytes, QUESTION_BYTES_MAX);
    }
    if bytes <= bytes_max {
        return result;
    }
    // Question, error and instruction get at most a quarter each; the last quarter is for the
    // rest.
    let text_max = MESSAGE_BYTES_MAX.min(bytes_max / 4);
    if question_bytes > text_max {
        return too_long(question_bytes, text_max);
    }
    result.error = result.error.map(|error| cut_text(error, text_max));
    result.instruction_for_ai = Some(match result.instruction_for_ai.take() {
        Some(instruction) => format!("{} {}", note(bytes), cut_text(instruction, text_max)),
        None => note(bytes),
    });
    result.for_user = shortened_texts(result.for_user, bytes_max / 4);
    result.data = result.data.take().and_then(|data| {
        const KEY_BYTES: usize = r#""data":,"#.len();
        let rest = json_len(&result) + KEY_BYTES;
        shortened(data, bytes_max.saturating_sub(rest))
    });
    result
}

fn too_long(bytes: usize, bytes_max: usize) -> ToolResult {
    ToolResult::error(format!(
        "the tool asks a question that is too long to pass on: it has {bytes} bytes, {bytes_max} are \
         allowed"
    ))
}

/// The first of these texts that fit into `budget` bytes of JSON, and part of the next one.
fn shortened_texts(texts: Vec<String>, budget: usize) -> Vec<String> {
    match shortened(texts.into(), budget) {
        Some(Value::Array(texts)) => {
            texts.into_iter().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// What every such note begins with.
const NOTE: &str = "This result was too long (";

/// Whether an instruction says already that the result was cut.
pub(super) fn is_noted(instruction: &str) -> bool {
    instruction.starts_with(NOTE)
}

pub(super) fn note(bytes: usize) -> String {
    format!(
        "{NOTE}{bytes} bytes) and is shown in part. Say so if the answer \
         depends on the rest, or call the tool again for less."
    )
}

/// As much of `value` as fits into `budget` bytes of JSON; `None` if nothing does.
pub(crate) fn shortened(value: Value, budget: usize) -> Option<Value> {
    if json_len(&value) <= budget {
        return Some(value);
    }
    match value {
        Value::String(text) if budget >= json_len(&ELLIPSIS) => {
            Some(Value::String(cut_text(text, budget)))
        }
        Value::Array(items) => shrink_array(items, budget),
        Value::Object(fields) => shrink_object(fields, budget),
        _ => None,
    }
}

/// The first items that fit, and part of the next one.
fn shrink_array(items: Vec<Value>, budget: usize) -> Option<Value> {
    let mut left = budget.checked_sub("[]".len())?;
    let mut kept = Vec::new();
    for item in items {
        let comma = usize::from(!kept.is_empty());
        let Some(room) = left.checked_sub(comma) else { break };
        let bytes = json_len(&item);
        if bytes <= room {
            left = room - bytes;
            kept.push(item);
        } else {
            kept.extend(shortened(item, room));
            break;
        }
    }
    Some(Value::Array(kept))
}

/// All keys that have room. Small values are kept whole and the others share what is left equally,
/// so that one long text does not push out an id.
fn shrink_object(fields: Map<String, Value>, budget: usize) -> Option<Value> {
    let mut left = budget.checked_sub("{}".len())?;
    let costs = fields.iter().map(|(key, value)| {
        let key_bytes = json_len(key) + ":,".len();
        (key_bytes, json_len(value))
    });
    let costs: Vec<(usize, usize)> = costs.collect();
    let mut smallest_first: Vec<usize> = (0..costs.len()).collect();
    smallest_first.sort_by_key(|&field| costs[field].0 + costs[field].1);

    let mut rooms = vec![0; costs.len()];
    for (done, &field) in smallest_first.iter().enumerate() {
        let share = left / (costs.len() - done);
        let (key_bytes, value_bytes) = costs[field];
        let taken = share.min(key_bytes + value_bytes);
        rooms[field] = taken.saturating_sub(key_bytes);
        if rooms[field] > 0 {
            left -= taken;
        }
    }
    let kept = fields.into_iter().zip(rooms);
    let kept = kept.filter(|(_, room)| *room > 0);
    Some(Value::Object(
        kept.filter_map(|((key, value), room)| Some((key, shortened(value, room)?))).collect(),
    ))
}

/// Cuts `text` to at most `budget` bytes as a JSON string.
fn cut_text(mut text: String, budget: usize) -> String {
    if json_len(&text) <= budget {
        return text;
    }
    let mut left = budget.saturating_sub(json_len(&ELLIPSIS));
    let mut end = 0;
    for (start, char) in text.char_indices() {
        let bytes = json_len(&char) - r#""""#.len();
        if bytes > left {
            break;
        }
        left -= bytes;
        end = start + char.len_utf8();
    }
    text.truncate(end);
    text.push(ELLIPSIS);
    text
}
