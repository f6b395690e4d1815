//! A form, filled in field by field.
//!
//! Forms are flat: texts, numbers, booleans, choices and lists of choices. `tools::form` checks
//! the whole, as the gateway does.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::clean;
use crate::limits::chat::{ARGUMENT_CHARS_MAX, TITLE_CHARS_MAX};
use crate::tools::form;

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
    One(Choices),
    Many(Choices),
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
            |wrong| {
                self.at = 0;
                let mut again =
                    "  This does not fit the form; please fill it in again:\n".to_owned();
                for violation in wrong {
                    let told = clean::line(&violation.of("form"), ARGUMENT_CHARS_MAX);
                    let _ = writeln!(again, "    {told}");
                }
                Step::Ask(again + &self.shown())
            },
            Step::Answer,
        )
    }
}

impl Field {
    fn new(name: &str, field: &Value, is_required: bool) -> Self {
        let text = |key: &str| field[key].as_str().unwrap_or_default();
        let title = if text("title").is_empty() { name } else { text("title") };
        let kind = match (text("type"), choices(field)) {
            ("array", _) => Kind::Many(choices(&field["items"])),
            ("boolean", _) => Kind::Boolean,
            (_, choices) if !choices.is_empty() => Kind::One(choices),
            ("integer", _) => Kind::Integer,
            ("number", _) => Kind::Number,
            _ => Kind::Text,
        };
        Self {
            name: name.to_owned(),
            title: clean::line(title, TITLE_CHARS_MAX),
            description: clean::line(text("description"), ARGUMENT_CHARS_MAX),
            kind,
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
        if let Kind::One(choices) | Kind::Many(choices) = &self.kind {
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
        let value = match &self.kind {
            Kind::Text => Some(json!(typed)),
            Kind::Integer => typed.parse::<i64>().ok().map(Value::from),
            Kind::Number => typed.parse::<f64>().ok().filter(|it| it.is_finite()).map(Value::from),
            Kind::Boolean => match typed.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Some(json!(true)),
                "n" | "no" | "false" => Some(json!(false)),
                _ => None,
            },
            Kind::One(choices) => chosen(choices, typed),
            Kind::Many(choices) => {
                typed.split(',').map(|one| chosen(choices, one.trim())).collect::<Option<_>>()
            }
        };
        value.map(Some).ok_or_else(|| format!("Please write {}.", self.expected()))
    }

    const fn expected(&self) -> &'static str {
        match self.kind {
            Kind::Text => "a text",
            Kind::Integer => "a whole number",
            Kind::Number => "a number",
            Kind::Boolean => "yes or no",
            Kind::One(_) => "one of the numbers",
            Kind::Many(_) => "some of the numbers, separated by commas",
        }
    }
}

/// The values of a choice, with titles if it has any.
fn choices(field: &Value) -> Choices {
    let clean = |title: &str| clean::line(title, TITLE_CHARS_MAX);
    let plain = |value: &Value| match value {
        Value::String(text) => clean(text),
        other => other.to_string(),
    };
    if let Some(titled) = field["oneOf"].as_array().or_else(|| field["anyOf"].as_array()) {
        let values = titled.iter().filter_map(|choice| Some((choice, choice.get("const")?)));
        let titles = values.map(|(choice, value)| {
            (value.clone(), choice["title"].as_str().map_or_else(|| plain(value), clean))
        });
        return titles.collect();
    }
    let values = field["enum"].as_array().into_iter().flatten().enumerate();
    let titles = values.map(|(at, value)| {
        let title = field["enumNames"].get(at).and_then(Value::as_str);
        (value.clone(), title.map_or_else(|| plain(value), clean))
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
    fn what_breaks_the_schema_is_filled_in_again() {
        let mut form = order();
        for line in ["Ada", "s", "0", "", ""] {
            form.take(line);
        }
        let Step::Ask(again) = form.take("") else { panic!("0 is below the minimum") };
        assert!(again.contains("form.count"), "{again}");
        assert_eq!(form.prompt(), "Your name: ");
    }
}
