//! Results of calls, read back from the forms in which they are shown to a model.

use serde_json::{Map, Value};

use crate::call_format::ROWS;

/// The result of one call.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) tool: String,
    /// The result as the model sees it: data, or an object with an error, a question or an
    /// instruction.
    told: Value,
}

impl Outcome {
    /// Reads the result in a tool message (`history: native`). More text may follow it.
    pub(super) fn of_message(tool: String, content: &str) -> Self {
        Self { tool, told: first_value(content).unwrap_or_default() }
    }

    /// Reads a line `` `NAME` (call_N) returned: JSON `` (`history: text`); returns the call's
    /// number, too. Some formats write marks around it.
    pub(super) fn of_line(line: &str) -> Option<(usize, Self)> {
        let mut marks = ROWS.iter().map(|row| row.result[0].trim()).filter(|mark| !mark.is_empty());
        let line = marks.find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
        let (tool, rest) = line.strip_prefix('`')?.split_once("` (call_")?;
        let (number, json) = rest.split_once(") returned: ")?;
        let (tool, told) = (tool.to_owned(), first_value(json)?);
        Some((number.parse().ok()?, Self { tool, told }))
    }

    /// Reads the lines under `Here is what NAME found:`, the form for a model that cannot make
    /// any more calls. Returns the rest of the text, too.
    pub(super) fn of_lines(text: &str) -> Option<(Self, &str)> {
        let (heading, rest) = text.strip_prefix("Here is what ")?.split_once(":\n")?;
        let tool = heading.strip_suffix(" found").or_else(|| heading.strip_suffix(" answered"))?;
        let (lines, rest) = rest.split_once("\n\n").unwrap_or((rest, ""));
        let told = value_of(&mut lines.lines().peekable(), 0);
        Some((Self { tool: tool.to_owned(), told }, rest))
    }

    pub(super) fn success(&self) -> bool {
        self.told["error"].is_null()
    }

    /// `null` if there is none.
    pub(super) fn data(&self) -> &Value {
        if self.told["instruction_for_ai"].is_null() { &self.told } else { &self.told["data"] }
    }

    pub(super) fn error(&self) -> &str {
        self.told["error"].as_str().unwrap_or("it said nothing more")
    }

    /// The question to the user, if the tool cannot decide.
    pub(super) fn question(&self) -> Option<&str> {
        self.told["clarification"]["question"].as_str()
    }

    pub(super) fn was_skipped(&self) -> bool {
        self.error().starts_with("not run")
    }

    pub(super) fn options(&self) -> &[Value] {
        self.told["clarification"]["options"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The JSON value with which a text begins.
fn first_value(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text).into_iter().next()?.ok()
}

/// Reads the value in lines of this indent or deeper; numbered lines form an array.
fn value_of<'a>(
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    indent: usize,
) -> Value {
    let indent_of = |line: &str| line.len() - line.trim_start().len();
    let mut members = Map::new();
    while let Some(line) = lines.next_if(|line| indent_of(line) == indent) {
        let Some((key, value)) = line.trim_start().split_once(':') else { continue };
        let inner = lines.peek().map(|next| indent_of(next)).filter(|inner| *inner > indent);
        let value = match inner {
            Some(inner) => value_of(lines, inner),
            None => Value::from(value.trim_start()),
        };
        members.insert(key.to_owned(), value);
    }
    let is_numbered = members.keys().zip(1..).all(|(key, number)| *key == number.to_string());
    if is_numbered && !members.is_empty() {
        return members.into_iter().map(|(_, value)| value).collect();
    }
    members.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_read_back_as_their_data() {
        let text = "Here is what list found:\ntoday: Monday: fine\nbills:\n  1:\n    number: 7\n  2:\n    number: 8\n\nNow answer.";
        let (outcome, rest) = Outcome::of_lines(text).unwrap();
        let bills = json!([{ "number": "7" }, { "number": "8" }]);
        assert_eq!(*outcome.data(), json!({ "today": "Monday: fine", "bills": bills }));
        assert_eq!((&*outcome.tool, rest), ("list", "Now answer."));
        let (failed, _) = Outcome::of_lines("Here is what list answered:\nerror: closed").unwrap();
        assert_eq!((failed.success(), failed.error()), (false, "closed"));
    }

    #[test]
    fn other_text_is_no_result() {
        for text in
            ["Here is what I want: tea", "here is what list found:\na: b", "`list` returned: 1"]
        {
            assert!(
                Outcome::of_lines(text).is_none() && Outcome::of_line(text).is_none(),
                "{text}"
            );
        }
    }
}
