//! Checks whether a result has the standard shape, and finds every violation.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Clarification, ClarificationOption, NextAction, ToolResult};
use crate::limits::tools::{DATA_DEPTH_MAX, VIOLATIONS_MAX};
use crate::text::{kind, quote};

/// Everything wrong with a result, in the order found.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Vec<String>,
    /// Whether the tool says that it has failed, and why.
    failed: bool,
    error: Option<String>,
}

impl Problems {
    pub(super) fn into_result(self) -> ToolResult {
        let mut message = "the tool's result breaks the standard shape: ".to_owned();
        let named = self.found.len().min(VIOLATIONS_MAX);
        message.push_str(&self.found[..named].join("; "));
        if self.found.len() > named {
            // Writing into a string cannot fail.
            let _ = write!(message, "; and {} more", self.found.len() - named);
        }
        if !self.failed {
            return ToolResult::unread(message);
        }
        if let Some(error) = self.error {
            let _ = write!(message, "; it says {}", quote(&error));
        }
        ToolResult::error(message)
    }

    fn add(&mut self, problem: impl Into<String>) {
        self.found.push(problem.into());
    }
}

/// What tells the standard shape from data.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    success: bool,
    next_action: NextAction,
}

/// The claim of an object that should have the standard shape.
pub(super) fn claim(value: &Value) -> Option<Claim> {
    let success = value.get("success")?.as_bool()?;
    let next_action = match value.get("next_action")?.as_str()? {
        "continue" => NextAction::Continue,
        "clarification_needed" => NextAction::ClarificationNeeded,
        "complete" => NextAction::Complete,
        "error" => NextAction::Error,
        _ => return None,
    };
    Some(Claim { success, next_action })
}

/// Reads an object with this claim.
pub(super) fn read(claim: Claim, mut fields: Map<String, Value>) -> Result<ToolResult, Problems> {
    let Claim { success, next_action } = claim;
    fields.shift_remove("success");
    fields.shift_remove("next_action");
    let mut problems = Problems::default();
    let data = fields.shift_remove("data");
    let clarification = take(&mut fields, "clarification")
        .map(|clarification| read_clarification(clarification, &mut problems));
    let error = optional_text(&mut fields, "", "error", &mut problems);
    let instruction_for_ai = optional_text(&mut fields, "", "instruction_for_ai", &mut problems);
    refuse_the_rest(&fields, "", &mut problems);
    check_rules(claim, clarification.as_ref(), error.as_deref(), &mut problems);
    if !problems.found.is_empty() {
        let error = error.filter(|error| error != UNREAD && !error.trim().is_empty());
        return Err(Problems { failed: !success, error, ..problems });
    }
    Ok(ToolResult {
        success,
        data,
        next_action,
        clarification,
        error,
        instruction_for_ai,
        files: Vec::new(),
        artifacts: Vec::new(),
        for_user: Vec::new(),
        uncertain: false,
    })
}

/// Checks the rules that types cannot express.
pub(super) fn check(result: &ToolResult) -> Result<(), Problems> {
    let mut problems = Problems::default();
    let claim = Claim { success: result.success, next_action: result.next_action };
    let (clarification, error) = (result.clarification.as_ref(), result.error.as_deref());
    check_rules(claim, clarification, error, &mut problems);
    if result.data.as_ref().is_some_and(|data| is_deeper(data, DATA_DEPTH_MAX)) {
        problems.add(format!("`data` is nested deeper than {DATA_DEPTH_MAX}"));
    }
    if problems.found.is_empty() {
        return Ok(());
    }
    Err(Problems { failed: !result.success, error: result.error.clone(), ..problems })
}

fn check_rules(
    claim: Claim,
    clarification: Option<&Clarification>,
    error: Option<&str>,
    problems: &mut Problems,
) {
    let asks = claim.next_action == NextAction::ClarificationNeeded;
    match (asks, clarification.is_some()) {
        (true, false) => {
            problems.add("`clarification` is missing, `next_action` is \"clarification_needed\"");
        }
        (false, true) => problems
            .add("`clarification` is only allowed if `next_action` is \"clarification_needed\""),
        _ => {}
    }
    let fails = claim.next_action == NextAction::Error;
    match (fails, error.is_some()) {
        (true, false) => problems.add("`error` is missing, `next_action` is \"error\""),
        (false, true) => problems.add("`error` is only allowed if `next_action` is \"error\""),
        _ => {}
    }
    if fails && claim.success {
        problems.add("`success` is true, `next_action` is \"error\"");
    }
    if error.is_some_and(|error| error.trim().is_empty()) {
        problems.add("`error` is empty");
    }
    if let Some(clarification) = clarification {
        check_clarification(clarification, problems);
    }
}

/// Whether a value is nested deeper than this. Does not look any deeper.
fn is_deeper(value: &Value, depth_max: usize) -> bool {
    let Some(left) = depth_max.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, left)),
        Value::Object(members) => members.values().any(|member| is_deeper(member, left)),
        _ => false,
    }
}

fn check_clarification(clarification: &Clarification, problems: &mut Problems) {
    if clarification.r#type.trim().is_empty() {
        problems.add("`clarification.type` is empty");
    }
    if clarification.question.trim().is_empty() {
        problems.add("`clarification.question` is empty");
    }
    let mut ids = HashSet::new();
    for (index, option) in clarification.options.iter().enumerate() {
        if option.id.is_empty() {
            problems.add(format!("`clarification.options[{index}].id` is empty"));
        } else if !ids.insert(option.id.as_str()) {
            problems.add(format!(
                "`clarification.options[{index}].id` {} was used before",
                quote(&option.id)
            ));
        }
        if option.title.trim().is_empty() {
            problems.add(format!("`clarification.options[{index}].title` is empty"));
        }
        if option.metadata.as_ref().is_some_and(|metadata| is_deeper(metadata, DATA_DEPTH_MAX)) {
            problems.add(format!(
                "`clarification.options[{index}].metadata` is nested deeper than {DATA_DEPTH_MAX}"
            ));
        }
        if option.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            problems.add(format!("`clarification.options[{index}].confidence` is not in 0 to 1"));
        }
    }
}

fn read_clarification(value: Value, problems: &mut Problems) -> Clarification {
    const PATH: &str = "clarification.";
    let Value::Object(mut fields) = value else {
        problems.add(format!("`clarification` is {}, not an object", kind(&value)));
        let (r#type, question) = (UNREAD.to_owned(), UNREAD.to_owned());
        return Clarification { r#type, question, options: Vec::new(), ..Clarification::default() };
    };
    let r#type = text(&mut fields, PATH, "type", problems);
    if Clarification::OWN_TYPES.contains(&&*r#type) {
        problems.add(format!(
            "`clarification.type` {} is for the gateway's own questions: use \"choice\", \"text\" or \"choice_or_text\"",
            quote(&r#type)
        ));
    }
    let question = text(&mut fields, PATH, "question", problems);
    let options = match take(&mut fields, "options") {
        Some(Value::Array(options)) => options,
        Some(other) => {
            problems.add(format!("`clarification.options` is {}, not an array", kind(&other)));
            Vec::new()
        }
        None => Vec::new(),
    };
    let options = options
        .into_iter()
        .enumerate()
        .map(|(index, option)| read_option(option, index, problems))
        .collect();
    refuse_the_rest(&fields, PATH, problems);
    Clarification { r#type, question, options, ..Clarification::default() }
}

fn read_option(value: Value, index: usize, problems: &mut Problems) -> ClarificationOption {
    let path = format!("clarification.options[{index}].");
    let Value::Object(mut fields) = value else {
        problems
            .add(format!("`clarification.options[{index}]` is {}, not an object", kind(&value)));
        return ClarificationOption {
            // The path serves as a unique id, so that two unreadable options do not also count as
            // duplicates.
            id: path,
            title: UNREAD.to_owned(),
            subtitle: None,
            confidence: None,
            metadata: None,
        };
    };
    let known = problems.found.len();
    let mut id = text(&mut fields, &path, "id", problems);
    if problems.found.len() > known {
        id.clone_from(&path);
    }
    let title = text(&mut fields, &path, "title", problems);
    let subtitle = optional_text(&mut fields, &path, "subtitle", problems);
    let confidence = take(&mut fields, "confidence").and_then(|value| {
        if !value.is_number() {
            problems.add(format!("`{path}confidence` is {}, not a number", kind(&value)));
        }
        value.as_f64()
    });
    let metadata = take(&mut fields, "metadata");
    refuse_the_rest(&fields, &path, problems);
    ClarificationOption { id, title, subtitle, confidence, metadata }
}

/// Stands in for unreadable text. It is not empty, so that the text is reported only once.
const UNREAD: &str = "?";

fn text(fields: &mut Map<String, Value>, path: &str, key: &str, problems: &mut Problems) -> String {
    match take(fields, key) {
        Some(Value::String(text)) => return text,
        Some(other) => problems.add(format!("`{path}{key}` is {}, not a string", kind(&other))),
        None => problems.add(format!("`{path}{key}` is missing")),
    }
    UNREAD.to_owned()
}

fn optional_text(
    fields: &mut Map<String, Value>,
    path: &str,
    key: &str,
    problems: &mut Problems,
) -> Option<String> {
    match take(fields, key)? {
        Value::String(text) => Some(text),
        other => {
            problems.add(format!("`{path}{key}` is {}, not a string", kind(&other)));
            Some(UNREAD.to_owned())
        }
    }
}

/// Takes a key out; `null` counts as absent.
fn take(fields: &mut Map<String, Value>, key: &str) -> Option<Value> {
    fields.shift_remove(key).filter(|value| !value.is_null())
}

fn refuse_the_rest(fields: &Map<String, Value>, path: &str, problems: &mut Problems) {
    for key in fields.keys() {
        problems.add(format!("unexpected key {}", quote(&format!("{path}{key}"))));
    }
}
