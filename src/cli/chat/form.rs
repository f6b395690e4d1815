//! A form, filled in field by field.
//!
//! Forms are flat: texts, numbers, booleans, choices, and lists of these. `tools::form` checks the
//! whole, as the gateway does.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::slice;

use serde_json::{Map, Value, json};

use super::clean;
use crate::limits::chat::{ARGUMENT_CHARS_MAX, TITLE_CHARS_MAX};
use crate::tools::form;
use crate::tools::schema::Violation;

/// A form, and what has been filled in.
#[derive(Debug)]
pub(super) struct Form {
    schema: Value,
    fields: Vec<Field>,
    at: usize,
    content: Map<String, Value>,
}

/// What follows from a typed line.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// This is the whole answer.
    Answer(Value),
    /// Ask again, or ask for the next field, after this was shown.
    Ask(String),
}

#[derive(Debug)]
struct Field {
    name: String,
    title: String,
    description: String,
    kind: Kind,
    default: Option<Value>,
    is_required: bool,
}

/// A choice's values with their titles.
type Choices = Vec<(Value, String)>;

#[derive(Debug)]
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Choice(Choices),
    List(Box<Self>),
}

impl Form {
    pub(super) fn new(schema: &Value) -> Self {
        let required = schema["required"].as_array();
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
        let properties = schema["properties"].as_object().into_iter().flatten();
        let fields = properties.map(|(name, field)| Field::new(name, field, is_required(name)));
        Self { schema: schema.clone(), fields: fields.collect(), at: 0, content: Map::new() }
    }

    /// The prompt for the next line.
    pub(super) fn prompt(&self) -> String {
        self.fields.get(self.at).map_or_else(|| "? ".to_owned(), Field::prompt)
    }

    /// What is to be read about the next field.
    pub(super) fn shown(&self) -> String {
        self.fields.get(self.at).map(Field::shown).unwrap_or_default()
    }

    /// Takes the line for the next field.
    pub(super) fn take(&mut self, typed: &str) -> Step {
        if let Some(field) = self.fields.get(self.at) {
            match field.read(typed) {
                Ok(value) => {
                    let violations =
                        value.as_ref().and_then(|value| self.violations_of(field, value));
                    if let Some(violations) = violations {
                        return Step::Ask(violation_lines(&violations));
                    }
                    self.at += 1;
                    self.content.extend(value.map(|value| (field.name.clone(), value)));
                }
                Err(expected) => return Step::Ask(format!("  {expected}\n")),
            }
        }
        if self.at < self.fields.len() {
            return Step::Ask(self.shown());
        }
        let content = Value::Object(std::mem::take(&mut self.content));
        form::fill(&self.schema, content).map_or_else(
            |violations| {
                self.at = 0;
                let again = "  This does not fit the form; please fill it in again:\n";
                Step::Ask(format!("{again}{}{}", violation_lines(&violations), self.shown()))
            },
            Step::Answer,
        )
    }

    /// Checks a field's value on its own, so that it can be corrected at once.
    fn violations_of(&self, field: &Field, value: &Value) -> Option<Vec<Violation>> {
        let name = &field.name;
        let schema =
            json!({"type": "object", "properties": { name: self.schema["properties"][name] }});
        form::fill(&schema, json!({ name: value })).err()
    }
}

/// One line for each violation.
fn violation_lines(violations: &[Violation]) -> String {
    let mut lines = String::new();
    for violation in violations {
        let line = clean::line(&violation.of("form"), ARGUMENT_CHARS_MAX);
        let _ = writeln!(lines, "    {}", line.strip_prefix("form.").unwrap_or(&line));
    }
    lines
}

impl Field {
    fn new(name: &str, field: &Value, is_required: bool) -> Self {
        let text = |key: &str| field[key].as_str().unwrap_or_default();
        let title = if text("title").is_empty() { name } else { text("title") };
        Self {
            name: name.to_owned(),
            title: clean::line(title, TITLE_CHARS_MAX),
            description: clean::line(text("description"), ARGUMENT_CHARS_MAX),
            kind: Kind::of(field),
            default: field.get("default").cloned(),
            is_required,
        }
    }

    fn prompt(&self) -> String {
        let of = |value: &Value| match value {
            Value::String(text) => clean::line(text, TITLE_CHARS_MAX),
            other => clean::json(&other.to_string(), TITLE_CHARS_MAX),
        };
        match (&self.default, self.is_required) {
            (Some(default), _) => format!("{} [{}]: ", self.title, of(default)),
            (None, true) => format!("{}: ", self.title),
            (None, false) => format!("{} (optional): ", self.title),
        }
    }

    fn shown(&self) -> String {
        let mut shown = String::new();
        if !self.description.is_empty() {
            let _ = writeln!(shown, "  {}", self.description);
        }
        let kind = if let Kind::List(items) = &self.kind { items } else { &self.kind };
        if let Kind::Choice(choices) = kind {
            for (number, (_, title)) in (1..).zip(choices) {
                let _ = writeln!(shown, "  {number:>2}  {title}");
            }
        }
        shown
    }

    /// The value of a typed line, or a line that says what is expected. `None` leaves the field out.
    fn read(&self, typed: &str) -> Result<Option<Value>, String> {
        if typed.is_empty() {
            // The form's own defaults are filled in at the end.
            return if self.is_required && self.default.is_none() {
                Err("This field is required.".to_owned())
            } else {
                Ok(None)
            };
        }
        let value = self.kind.read(typed);
        value.map(Some).ok_or_else(|| format!("Please write {}.", self.kind.expected()))
    }
}

impl Kind {
    fn of(field: &Value) -> Self {
        let field = plain(field);
        let choices = choices(&field);
        match kind_name(&field) {
            "array" => Self::List(Box::new(Self::of(&field["items"]))),
            "boolean" => Self::Boolean,
            _ if !choices.is_empty() => Self::Choice(choices),
            "integer" => Self::Integer,
            "number" => Self::Number,
            _ => Self::Text,
        }
    }

    fn read(&self, typed: &str) -> Option<Value> {
        match self {
            Self::Text => Some(json!(typed)),
            Self::Integer => typed.parse::<i64>().ok().map(Value::from),
            Self::Number => typed.parse::<f64>().ok().filter(|it| it.is_finite()).map(Value::from),
            Self::Boolean => match typed.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Some(json!(true)),
                "n" | "no" | "false" => Some(json!(false)),
                _ => None,
            },
            Self::Choice(choices) => chosen(choices, typed),
            Self::List(items) => typed.split(',').map(|one| items.read(one.trim())).collect(),
        }
    }

    fn expected(&self) -> Cow<'static, str> {
        let expected = match self {
            Self::Text => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "yes or no",
            Self::Choice(_) => "one of the numbers",
            Self::List(items) => {
                let several = match **items {
                    Self::Text | Self::List(_) => "texts",
                    Self::Integer => "whole numbers",
                    Self::Number => "numbers",
                    Self::Boolean => "yes or no",
                    Self::Choice(_) => "some of the numbers",
                };
                return format!("{several}, separated by commas").into();
            }
        };
        expected.into()
    }
}

/// A field without the alternative to be null: generators describe a field that may be left out
/// as its type or null. Other alternatives stay; they are written as text.
fn plain(field: &Value) -> Cow<'_, Value> {
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| field[key].as_array());
    let mut others = alternatives.into_iter().flatten().filter(|it| it["type"] != "null");
    match (others.next(), others.next(), field) {
        (Some(only @ Value::Object(members)), None, Value::Object(field))
            if !members.contains_key("const") =>
        {
            let mut whole = field.clone();
            whole.retain(|key, _| !["oneOf", "anyOf"].contains(&&**key));
            whole.extend(plain(only).as_object().cloned().unwrap_or_default());
            Cow::Owned(Value::Object(whole))
        }
        _ => Cow::Borrowed(field),
    }
}

/// The name of a field's type, other than null; empty if there are several.
fn kind_name(field: &Value) -> &str {
    let kind = &field["type"];
    let names = kind.as_array().map_or_else(|| slice::from_ref(kind), Vec::as_slice);
    let mut names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
    match (names.next(), names.next()) {
        (Some(only), None) => only,
        _ => "",
    }
}

/// The values of a choice, with titles if it has any.
fn choices(field: &Value) -> Choices {
    let clean = |title: &str| clean::line(title, TITLE_CHARS_MAX);
    let shown = |value: &Value| match value {
        Value::String(text) => clean(text),
        other => other.to_string(),
    };
    if let Some(titled) = field["oneOf"].as_array().or_else(|| field["anyOf"].as_array()) {
        let values = titled.iter().filter_map(|choice| Some((choice, choice.get("const")?)));
        let titles = values.map(|(choice, value)| {
            (value.clone(), choice["title"].as_str().map_or_else(|| shown(value), clean))
        });
        return titles.collect();
    }
    let values = field["enum"].as_array().into_iter().flatten().enumerate();
    let titles = values.map(|(at, value)| {
        let title = field["enumNames"].get(at).and_then(Value::as_str);
        (value.clone(), title.map_or_else(|| shown(value), clean))
    });
    titles.collect()
}

fn chosen(choices: &Choices, typed: &str) -> Option<Value> {
    let by_number =
        typed.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    let is =
        |(value, title): &&(Value, String)| title.eq_ignore_ascii_case(typed) || value == typed;
    by_number.or_else(|| choices.iter().find(is)).map(|(value, _)| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Form {
        Form::new(&json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Your name", "description": "As on the card"},
                "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
                "count": {"type": "integer", "default": 1, "minimum": 1},
                "gift": {"type": "boolean"},
                "extras": {"type": "array", "items": {"anyOf": [{"const": "m", "title": "Milk"}, {"const": "h", "title": "Honey"}]}},
                "tip": {"type": "number"},
            },
            "required": ["name", "size"],
        }))
    }

    #[test]
    fn fields_are_filled_in_one_after_another() {
        let mut form = order();
        assert_eq!(
            (form.prompt().as_str(), form.shown().as_str()),
            ("Your name: ", "  As on the card\n")
        );
        assert_eq!(form.take("Ada"), Step::Ask("   1  Small\n   2  Large\n".to_owned()));
        assert_eq!(form.prompt(), "size: ");
        assert_eq!(form.take("2"), Step::Ask(String::new()));
        assert_eq!(form.prompt(), "count [1]: ");
        form.take("3");
        assert_eq!(form.prompt(), "gift (optional): ");
        form.take("yes");
        form.take("Milk, 2");
        let content = json!({"name": "Ada", "size": "l", "count": 3, "gift": true, "extras": ["m", "h"], "tip": 0.5});
        assert_eq!(form.take("0.5"), Step::Answer(content));
    }

    #[test]
    fn empty_lines_take_defaults_and_leave_optional_fields_out() {
        let mut form = order();
        for line in ["Ada", "small", "", "", ""] {
            form.take(line);
        }
        assert_eq!(form.take(""), Step::Answer(json!({"name": "Ada", "size": "s", "count": 1})));
    }

    #[test]
    fn a_slip_is_asked_again() {
        let mut form = order();
        assert_eq!(form.take(""), Step::Ask("  This field is required.\n".to_owned()));
        form.take("Ada");
        for (slip, good) in [("3", "1"), ("many", "2"), ("maybe", "n"), ("4", "1"), ("NaN", "1")] {
            let Step::Ask(again) = form.take(slip) else { panic!("{slip} was taken") };
            assert!(again.starts_with("  Please write "), "{again}");
            form.take(good);
        }
    }

    #[test]
    fn lists_of_anything_are_written_with_commas() {
        let mut form = Form::new(&json!({
            "type": "object",
            "properties": {
                "tags": {"type": "array", "items": {"type": "string"}},
                "counts": {"type": ["array", "null"], "items": {"type": "integer"}},
                "ratios": {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]},
            },
        }));
        form.take("red, dark blue");
        assert_eq!(
            form.take("1, two"),
            Step::Ask("  Please write whole numbers, separated by commas.\n".to_owned())
        );
        form.take("1,2");
        let content = json!({"tags": ["red", "dark blue"], "counts": [1, 2], "ratios": [0.5]});
        assert_eq!(form.take("0.5"), Step::Answer(content));
    }

    #[test]
    fn fields_that_may_be_null_are_those_of_their_type() {
        let mut form = Form::new(&json!({
            "type": "object",
            "properties": {
                "count": {"anyOf": [{"type": "null"}, {"type": "integer"}], "title": "How many"},
                "gift": {"type": ["null", "boolean"]},
                "size": {"anyOf": [{"enum": ["s", "l"]}, {"type": "null"}]},
                "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "both": {"type": ["integer", "string"]},
            },
        }));
        assert_eq!(form.prompt(), "How many (optional): ");
        form.take("2");
        assert_eq!(form.take("yes"), Step::Ask("   1  s\n   2  l\n".to_owned()));
        form.take("2");
        form.take("abc");
        let content =
            json!({"count": 2, "gift": true, "size": "l", "either": "abc", "both": "def"});
        assert_eq!(form.take("def"), Step::Answer(content));
    }

    #[test]
    fn a_value_that_its_field_does_not_take_is_asked_again_at_once() {
        let mut form = order();
        form.take("Ada");
        form.take("s");
        let Step::Ask(again) = form.take("0") else { panic!("0 is below the minimum") };
        assert!(again.starts_with("    count: expected "), "{again}");
        for line in ["2", "", ""] {
            form.take(line);
        }
        let content = json!({"name": "Ada", "size": "s", "count": 2});
        assert_eq!(form.take(""), Step::Answer(content));
    }

    #[test]
    fn what_breaks_the_form_as_a_whole_is_filled_in_again() {
        let mut form = Form::new(&json!({
            "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "minProperties": 1,
        }));
        form.take("");
        let Step::Ask(again) = form.take("") else { panic!("one field is needed") };
        assert!(again.starts_with("  This does not fit the form"), "{again}");
        assert_eq!(form.prompt(), "a (optional): ");
    }
}
