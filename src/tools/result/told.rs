//! A result as a model is told it: nothing that it cannot read, and no more than it has room for.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::shown::ARTIFACTS;
use super::{ToolResult, cap};
use crate::text::json_len;

/// The share of a shortened text or list that is its beginning, in percent. The rest is its end:
/// what matters in logs and lists is often there.
const HEAD_PERCENT: usize = 70;

/// Room for a value that is cut: less would not show what it is. In bytes of JSON.
const MEMBER_BYTES_MIN: usize = 128;

impl ToolResult {
    /// The result for a model with room for `bytes_max` of JSON. Files are told in words, and what
    /// is meant for the user is left out. If it is too long, it loses its middle, and says how much
    /// that is: arrays lose whole elements.
    #[must_use]
    pub(crate) fn told(&self, bytes_max: usize) -> Cow<'_, Self> {
        let readable = self.readable();
        if json_len(&*readable) <= bytes_max {
            return readable;
        }
        let note = cap::note(json_len(&*readable));
        let mut told = readable.clone_with(None);
        // As in `cap`, a quarter for each, so that they leave room for the data.
        let room = bytes_max / 4;
        let shorten =
            |text: String| if json_len(&text) <= room { text } else { abridged_text(&text, room) };
        told.error = told.error.map(shorten);
        told.instruction_for_ai = Some(match told.instruction_for_ai.take().map(shorten) {
            // It was cut when it came, and was even longer then.
            Some(instruction) if cap::is_noted(&instruction) => instruction,
            Some(instruction) => format!("{note} {instruction}"),
            None => note,
        });
        let room = bytes_max.saturating_sub(json_len(&told) + r#""data":,"#.len());
        told.data = readable.data.as_ref().map(|data| abridged(data, room));
        Cow::Owned(told)
    }

    /// The result with files in words, and without what is meant for the user.
    fn readable(&self) -> Cow<'_, Self> {
        if self.artifacts.is_empty() {
            let is_plain = self.for_user.is_empty();
            let data = || self.clone_with(self.data.clone());
            return if is_plain { Cow::Borrowed(self) } else { Cow::Owned(data()) };
        }
        let words = self.artifacts.iter().enumerate().map(|(at, file)| file.in_words(at + 1));
        let mut data = self.members();
        data.insert(ARTIFACTS.to_owned(), words.collect());
        Cow::Owned(self.clone_with(Some(data.into())))
    }
}

/// As much of `value` as fits into `room` bytes of JSON, with a note of what is missing.
fn abridged(value: &Value, room: usize) -> Value {
    if json_len(value) <= room {
        return value.clone();
    }
    match value {
        Value::String(text) => Value::String(abridged_text(text, room)),
        Value::Array(items) => Value::Array(abridged_list(items, room)),
        Value::Object(members) => Value::Object(abridged_members(members, room)),
        scalar => scalar.clone(),
    }
}

fn abridged_text(text: &str, room: usize) -> String {
    let gap = |missing: usize| format!("\n[... {missing} characters are left out here ...]\n");
    let room = room.saturating_sub(json_len(&gap(text.len())));
    let head_room = room * HEAD_PERCENT / 100;
    let head: usize = fitting(text.chars(), head_room).map(char::len_utf8).sum();
    let rest = &text[head..];
    let tail: usize = fitting(rest.chars().rev(), room - head_room).map(char::len_utf8).sum();
    let (middle, end) = rest.split_at(rest.len() - tail);
    format!("{}{}{end}", &text[..head], gap(middle.chars().count()))
}

/// The first of these characters that fit into `room` bytes of a JSON string.
fn fitting(chars: impl Iterator<Item = char>, mut room: usize) -> impl Iterator<Item = char> {
    chars.take_while(move |char| {
        let left = room.checked_sub(json_len(char) - "\"\"".len());
        room = left.unwrap_or(0);
        left.is_some()
    })
}

fn abridged_list(items: &[Value], room: usize) -> Vec<Value> {
    let room = room.saturating_sub(json_len(&gap(items.len())) + "[,]".len());
    let head_room = room * HEAD_PERCENT / 100;
    let head = count_fitting(items.iter(), head_room);
    let rest = items.get(head.max(1)..).unwrap_or_default();
    let tail = count_fitting(rest.iter().rev(), room - head_room);
    // Part of a first element that does not fit says more than a number.
    let part = items.first().filter(|_| head == 0).map(|first| abridged(first, head_room));
    let (shown, end) = (head + usize::from(part.is_some()), items.len() - tail);
    let middle = (end > shown).then(|| gap(end - shown));
    let (head, tail) = (items[..head].iter().cloned(), items[end..].iter().cloned());
    head.chain(part).chain(middle).chain(tail).collect()
}

fn gap(missing: usize) -> Value {
    Value::from(format!("[... {missing} more left out here ...]"))
}

/// How many of these fit into `room` bytes of a JSON array, from the first on.
fn count_fitting<'v>(items: impl Iterator<Item = &'v Value>, mut room: usize) -> usize {
    let fits = |item: &&Value| {
        let left = room.checked_sub(json_len(item) + ",".len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    items.take_while(fits).count()
}

/// The first members that have room. Small values are kept whole, and the others share what is left
/// equally, so that one long text does not push out an id.
fn abridged_members(members: &Map<String, Value>, room: usize) -> Map<String, Value> {
    let more = |missing: usize| ("...".to_owned(), gap(missing));
    let mut left = room.saturating_sub(json_len(&more(members.len())) + "{}".len());
    let mut costs: Vec<usize> = Vec::new();
    for (key, value) in members {
        let value = json_len(value);
        let least = json_len(key) + ":,".len() + value.min(MEMBER_BYTES_MIN);
        let Some(rest) = left.checked_sub(least) else { break };
        left = rest;
        costs.push(value);
    }
    let mut smallest_first: Vec<usize> = (0..costs.len()).collect();
    smallest_first.sort_by_key(|at| costs[*at]);
    let mut rooms = vec![0; costs.len()];
    for (done, at) in smallest_first.into_iter().enumerate() {
        let least = costs[at].min(MEMBER_BYTES_MIN);
        let share = left / (costs.len() - done);
        rooms[at] = costs[at].min(least + share);
        left -= rooms[at] - least;
    }
    let kept = members.iter().zip(rooms);
    let kept = kept.map(|((key, value), room)| (key.clone(), abridged(value, room)));
    let missing = members.len() - costs.len();
    kept.chain((missing > 0).then(|| more(missing))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::limits::tools::OUTPUT_BYTES_MIN;

    fn told(data: Value, bytes_max: usize) -> Value {
        let result = ToolResult::data(data);
        let told = result.told(bytes_max);
        assert!(json_len(&*told) <= bytes_max, "{told:?}");
        told.data.clone().unwrap()
    }

    #[test]
    fn what_fits_is_told_as_it_is() {
        let result = ToolResult::data(json!({"text": "x".repeat(1000)}));
        let bytes = json_len(&result);
        assert!(matches!(result.told(bytes), Cow::Borrowed(_)));
        assert!(matches!(result.told(bytes - 1), Cow::Owned(_)));
    }

    #[test]
    fn a_long_text_loses_its_middle() {
        let text: String =
            (0..1000).flat_map(|n| ["line ".to_owned(), n.to_string(), "\n".to_owned()]).collect();
        let told = told(json!({ "text": text, "id": 7 }), 1000);
        let (shown, id) = (told["text"].as_str().unwrap(), &told["id"]);
        assert!(shown.starts_with("line 0\nline 1\n") && shown.ends_with("line 999\n"), "{shown}");
        assert!(shown.contains(" characters are left out here ...]\n"), "{shown}");
        assert_eq!(id, 7);
    }

    #[test]
    fn a_long_list_loses_whole_elements_of_its_middle() {
        let items: Vec<Value> = (0..1000).map(|n| json!({ "n": n })).collect();
        let told = told(json!({ "items": items }), 1000);
        let shown = told["items"].as_array().unwrap();
        assert_eq!((&shown[0]["n"], &shown[shown.len() - 1]["n"]), (&json!(0), &json!(999)));
        let gap = format!("[... {} more left out here ...]", 1001 - shown.len());
        assert!(shown.contains(&gap.into()), "{shown:?}");
    }

    #[test]
    fn an_element_that_does_not_fit_is_told_in_part() {
        let long = json!({ "text": "x".repeat(9000), "id": 7 });
        let told = told(json!([long, long, 1]), 1000);
        assert_eq!((&told[0]["id"], &told[1], &told[2]), (&json!(7), &gap(1), &json!(1)));
    }

    #[test]
    fn the_first_of_many_members_are_told() {
        let members: Map<String, Value> =
            (0..1000).map(|n| (format!("key {n}"), json!("x".repeat(200)))).collect();
        let told = told(Value::Object(members), 1000);
        assert!(told["key 0"].as_str().unwrap().contains("left out"));
        assert!(told["..."].as_str().unwrap().contains("more left out"));
    }

    #[test]
    fn the_model_learns_that_it_is_told_a_part() {
        let data = json!("x".repeat(5000));
        let result = ToolResult::data(data).with_instruction("Be kind.");
        let told = result.told(1000).into_owned().instruction_for_ai.unwrap();
        let note = format!("This result was too long ({} bytes)", json_len(&result));
        assert!(told.starts_with(&note), "{told}");
        assert!(told.ends_with(" Be kind."), "{told}");
    }

    #[test]
    fn a_result_that_was_cut_twice_says_once_how_long_it_was() {
        let whole = ToolResult::data(json!("x".repeat(50_000)));
        let capped = cap::cap(whole.clone(), 20_000);
        let told = capped.told(5000).into_owned().instruction_for_ai.unwrap();
        assert_eq!(told, cap::note(json_len(&whole)));
    }

    #[test]
    fn a_long_error_loses_its_middle() {
        let result = ToolResult::error(format!("first {} last", "x".repeat(200_000)));
        let told = result.told(OUTPUT_BYTES_MIN).into_owned();
        let error = told.error.clone().unwrap();
        assert!(error.starts_with("first ") && error.ends_with(" last"), "{error}");
        assert!(json_len(&told) <= OUTPUT_BYTES_MIN);
    }

    #[test]
    fn an_empty_list_has_no_middle() {
        for depth in 1..20 {
            let nest = |inner, _| json!([inner, "x".repeat(300)]);
            let data = (0..depth).fold(json!([]), nest);
            let told = told(json!({ "list": data, "text": "x".repeat(9000) }), OUTPUT_BYTES_MIN);
            assert!(told["list"].is_array(), "{told}");
        }
    }

    /// Lists and objects around texts, with nothing in some of them.
    fn nested() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!([])),
            Just(json!({})),
            "[a\"é]{0,600}".prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
        ];
        leaf.prop_recursive(12, 60, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c]{1,3}", inner), 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_told_fits(
            texts in prop::collection::vec(any::<String>(), 0..40),
            long in "[a\u{1}\"é]{0,4000}",
            nested in prop::collection::vec(nested(), 0..30),
            room in OUTPUT_BYTES_MIN..2 * OUTPUT_BYTES_MIN,
        ) {
            let result = ToolResult::data(json!({ "a": nested, "b": &nested[..nested.len() / 2] }));
            prop_assert!(json_len(&*result.told(room)) <= room);
            let members: Map<String, Value> =
                texts.iter().map(|text| (text.clone(), json!([text, long]))).collect();
            let mut result = ToolResult::data(json!({ "a": members, "b": texts, "c": long }));
            result.error = Some(long.clone());
            result.instruction_for_ai = Some(long);
            prop_assert!(json_len(&*result.told(room)) <= room);
        }
    }
}
