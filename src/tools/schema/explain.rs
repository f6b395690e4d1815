//! Turns a validator's errors into [`Violation`]s.

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use jsonschema::{JsonType, ValidationError};
use serde_json::{Map, Value};

use super::Violation;
use crate::limits::tools::{
    FEEDBACK_NAMES_MAX, QUOTED_BYTES_MAX, SCHEMA_LINE_BYTES_MAX, VIOLATIONS_MAX,
};
use crate::text::{cut, describe, quote};
use crate::tools::clean;

/// The name of the arguments as a whole.
pub(super) const ROOT: &str = "arguments";

/// How many `$ref`s are followed in a row: enough for any schema written by hand, and an end to
/// circular ones.
const REFERENCES_MAX: usize = 8;

pub(super) fn not_an_object(arguments: &Value) -> Violation {
    Violation {
        path: ROOT.to_owned(),
        expected: "an object".to_owned(),
        received: describe(arguments),
        schema_line: None,
    }
}

pub(super) fn unexplained(arguments: &Value) -> Violation {
    let expected = "a value that its schema accepts; it is too complex to say what is wrong";
    Violation { expected: expected.to_owned(), ..not_an_object(arguments) }
}

pub(super) fn too_much(arguments: &Value) -> Violation {
    let expected = "a smaller value: its schema cannot be checked in time";
    Violation { expected: expected.to_owned(), ..not_an_object(arguments) }
}

/// The violations in one error: several if an object has several unexpected properties.
pub(super) fn violations(
    error: &ValidationError<'_>,
    arguments: &Value,
    parameters: &Value,
) -> Vec<Violation> {
    let segments: Vec<LocationSegment<'_>> = error.instance_path().into_iter().collect();
    let mut place = Place::new(&segments, parameters);
    let instance = error.instance();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            place.enter(name);
            let expected = match place.schema.and_then(|schema| schema.get("type")) {
                Some(declared) => format!("{} (it is required)", type_words(declared)),
                None => "a value (it is required)".to_owned(),
            };
            vec![place.violation(expected, "nothing".to_owned())]
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            unexpected.iter().map(|name| place.unexpected(name, instance)).collect()
        }
        // If an object may have no properties at all, the validator reports only the first one, at
        // that property's own place.
        ValidationErrorKind::FalseSchema
            if error.schema_path().as_str().ends_with("/additionalProperties") =>
        {
            let path = error.instance_path().as_str();
            let holder_path = path.rsplit_once('/').map_or("", |(holder, _)| holder);
            let Some(holder) = arguments.pointer(holder_path) else { return Vec::new() };
            let place = Place::new(&segments[..segments.len().saturating_sub(1)], parameters);
            let names = holder.as_object().into_iter().flat_map(Map::keys).take(VIOLATIONS_MAX);
            names.map(|name| place.unexpected(name, holder)).collect()
        }
        ValidationErrorKind::PropertyNames { error: name_error } => {
            let expected = expectation(name_error, place.schema);
            vec![place.violation(
                format!("property names that are {expected}"),
                describe(name_error.instance()),
            )]
        }
        _ => vec![place.violation(expectation(error, place.schema), describe(instance))],
    }
}

/// What the value should have been.
fn expectation(error: &ValidationError<'_>, schema: Option<&Value>) -> String {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(one) } => type_word(one.as_str()).to_owned(),
        Kind::Type { kind: TypeKind::Multiple(set) } => {
            join_or(set.iter().map(JsonType::as_str).map(type_word))
        }
        Kind::Enum { options } => {
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            let shown = options.iter().take(FEEDBACK_NAMES_MAX).map(ToString::to_string);
            let more = options.len().saturating_sub(FEEDBACK_NAMES_MAX);
            let mut text = format!("one of {}", shown.collect::<Vec<_>>().join(", "));
            if more > 0 {
                // Writing into a string cannot fail.
                let _ = write!(text, " and {more} more");
            }
            text
        }
        Kind::Constant { expected_value } => format!("exactly {expected_value}"),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("a string of at least {limit} characters"),
        Kind::MaxLength { limit } => format!("a string of at most {limit} characters"),
        Kind::Pattern { pattern } => {
            format!("a string that matches the pattern {}", quote(pattern))
        }
        Kind::Format { format } => format!("a string in the format {}", quote(format)),
        Kind::MinItems { limit } => format!("an array of at least {limit} items"),
        Kind::MaxItems { limit } => format!("an array of at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("an array of at most {limit} items"),
        Kind::FalseSchema => "nothing: it must be left out".to_owned(),
        Kind::UniqueItems => "an array without repeated items".to_owned(),
        Kind::MinProperties { limit } => format!("an object with at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("an object with at most {limit} properties"),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            alternatives(schema, error.kind().keyword())
        }
        Kind::OneOfMultipleValid { .. } => "a value that fits exactly one of the forms".to_owned(),
        _ => format!(
            "what the schema says ({})",
            cut(&error.masked().to_string(), SCHEMA_LINE_BYTES_MAX)
        ),
    }
}

/// The forms of an `anyOf` or `oneOf`: their types, if every form has one.
fn alternatives(schema: Option<&Value>, keyword: &str) -> String {
    let forms = schema.and_then(|schema| schema.get(keyword)).and_then(Value::as_array);
    let types: Option<Vec<String>> = forms
        .map(|forms| forms.iter().map(|form| form.get("type").map(type_words)).collect())
        .unwrap_or_default();
    match types {
        Some(types) => format!("a value that fits one of the forms: {}", types.join(", ")),
        None => "a value that fits one of the forms in its schema".to_owned(),
    }
}

/// A place in the arguments, and the schema that applies there.
#[derive(Clone)]
struct Place<'s> {
    parameters: &'s Value,
    path: String,
    /// The name shown in the schema line.
    name: String,
    schema: Option<&'s Value>,
}

impl<'s> Place<'s> {
    fn new(segments: &[LocationSegment<'_>], parameters: &'s Value) -> Self {
        let mut place = Self {
            parameters,
            path: ROOT.to_owned(),
            name: ROOT.to_owned(),
            schema: Some(parameters),
        };
        for segment in segments {
            match segment {
                LocationSegment::Property(name) => place.enter(name),
                LocationSegment::Index(index) => place.enter_item(*index),
            }
        }
        place
    }

    fn enter(&mut self, name: &str) {
        let plain = (1..=QUOTED_BYTES_MAX).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        // Writing into a string cannot fail.
        let _ = if plain {
            write!(self.path, ".{name}")
        } else {
            write!(self.path, "[{}]", quote(name))
        };
        name.clone_into(&mut self.name);
        let holder = self.schema;
        self.step(holder.and_then(|schema| {
            let named = schema.get("properties").and_then(|properties| properties.get(name));
            named.or_else(|| schema.get("additionalProperties").filter(|rest| rest.is_object()))
        }));
    }

    fn enter_item(&mut self, index: usize) {
        // Writing into a string cannot fail.
        let _ = write!(self.path, "[{index}]");
        let holder = self.schema;
        self.step(holder.and_then(|schema| {
            let placed = schema.get("prefixItems").and_then(|items| items.get(index));
            placed.or_else(|| schema.get("items").filter(|items| items.is_object()))
        }));
    }

    /// Moves on to a schema, following references within the parameters.
    fn step(&mut self, next: Option<&'s Value>) {
        self.schema = next;
        for _ in 0..REFERENCES_MAX {
            let reference = self.schema.and_then(|schema| schema.get("$ref")?.as_str());
            let Some(pointer) = reference.and_then(|reference| reference.strip_prefix('#')) else {
                return;
            };
            self.schema = self.parameters.pointer(pointer);
        }
    }

    fn property_names(&self) -> String {
        let properties = self.schema.and_then(|schema| schema.get("properties")?.as_object());
        let mut names: Vec<String> =
            properties.into_iter().flat_map(|names| names.keys()).map(|name| quote(name)).collect();
        if names.is_empty() {
            return "no names here".to_owned();
        }
        names.truncate(FEEDBACK_NAMES_MAX);
        format!("only the names {}", names.join(", "))
    }

    /// The violation for an unexpected property of `holder`, the object at this place.
    fn unexpected(&self, name: &str, holder: &Value) -> Violation {
        let mut place = self.clone();
        place.enter(name);
        place.violation(self.property_names(), describe(holder.get(name).unwrap_or(&Value::Null)))
    }

    fn violation(&self, expected: String, received: String) -> Violation {
        // The whole schema is too long to repeat, and the model has already seen it.
        let schema = self.schema.filter(|schema| !std::ptr::eq(*schema, self.parameters));
        let schema_line = schema.map(|schema| {
            let line = format!("{}: {schema}", quote(&self.name));
            cut(&clean::json(&line), SCHEMA_LINE_BYTES_MAX)
        });
        Violation { path: self.path.clone(), expected, received, schema_line }
    }
}

/// The value of a `type` keyword in words.
fn type_words(declared: &Value) -> String {
    match declared {
        Value::String(name) => type_word(name).to_owned(),
        Value::Array(names) => join_or(names.iter().filter_map(Value::as_str).map(type_word)),
        _ => "a value".to_owned(),
    }
}

fn type_word(name: &str) -> &str {
    match name {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "a boolean",
        "array" => "an array",
        "object" => "an object",
        other => other,
    }
}

/// `null` comes last: it is hardly ever what was meant.
fn join_or<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut words: Vec<&str> = words.collect();
    words.sort_by_key(|word| *word == "null");
    words.join(" or ")
}
