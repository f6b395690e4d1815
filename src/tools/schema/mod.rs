//! Checks arguments against a tool's JSON Schema, and says what is wrong in words that a model can
//! act on.
//!
//! Nothing is fetched: a schema must contain everything it refers to.

mod client;
mod defaults;
mod effort;
mod explain;
mod nulls;
pub(crate) mod parts;
mod patterns;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ReferencingError, Validator};
use serde_json::Value;

pub use self::effort::Unsupported;
pub(crate) use self::effort::references;
use self::effort::{Effort, Work};
use self::parts::values;
pub(crate) use self::patterns::PatternsLeft;
use self::patterns::{patterns, weights};
use crate::limits::tools::{
    CHECKS_MAX, MATCH_NS_MAX, PATTERN_BYTES_MAX, PATTERN_STEPS_MAX, PATTERN_WEIGHT_MAX,
    PATTERNS_MAX, VIOLATIONS_MAX,
};
use crate::tools::clean;

/// A tool's parameters, ready to check arguments against.
#[derive(Debug)]
pub(crate) struct Schema {
    /// As models know them.
    parameters: Arc<Value>,
    effort: Effort,
    validator: Validator,
    /// Whether arguments that cannot be checked in time are left to the tool's client.
    is_of_client: bool,
}

/// Why a tool's parameters are not usable as a schema.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum SchemaError {
    /// The parameters are not a schema of type `object`, which arguments always are.
    #[error("the parameters must be a JSON Schema of type \"object\", not {0}")]
    NotAnObject(String),
    /// The schema refers to another document; nothing is fetched.
    #[error(
        "it refers to {uri:?}, which is not part of the schema; define it under $defs (remote \
         references are not supported)"
    )]
    RemoteReference {
        /// The reference.
        uri: String,
    },
    /// It uses what cannot be followed.
    #[error("it uses {0}, which is not supported")]
    Unsupported(Unsupported),
    /// It has too many patterns, or too long ones.
    #[error(
        "its patterns take too much time and memory: there are more than {PATTERNS_MAX}, or they are too long or have \
         too many classes such as \\d"
    )]
    Patterns,
    /// It is not valid JSON Schema.
    #[error("not a valid JSON Schema: {message} (at {path:?})")]
    Invalid {
        /// A JSON pointer into the schema.
        path: String,
        /// What is wrong there.
        message: String,
    },
}

/// One thing wrong with a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The place: `arguments.stops[0].city`.
    pub(crate) path: String,
    /// What is allowed there.
    pub(crate) expected: String,
    /// What was there.
    pub(crate) received: String,
    /// The parameter and its schema, as declared by the tool, if there is one.
    pub(crate) schema_line: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, schema_line, .. } = self;
        f.write_str(&self.sentence(path))?;
        if let Some(line) = schema_line {
            write!(f, "; its schema is {line}")?;
        }
        Ok(())
    }
}

impl Violation {
    /// The same in words, for something that is not called `arguments`.
    pub(crate) fn of(&self, root: &str) -> String {
        let inside = self.path.strip_prefix(explain::ROOT).unwrap_or(&self.path);
        self.sentence(&format!("{root}{inside}"))
    }

    /// Values and names are quoted as JSON, with escapes for what nobody would see.
    fn sentence(&self, place: &str) -> String {
        let Self { expected, received, .. } = self;
        clean::json(&format!("{place}: expected {expected}; received {received}")).into_owned()
    }
}

/// Why a value is not known to fit a schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// What is wrong with it.
    Violations(Vec<Violation>),
    /// It cannot be checked in time.
    Unchecked,
}

/// How much a schema may take.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// Bytes of a pattern that is ready for use.
    pattern_bytes: usize,
    /// Parts that may be looked at to check a value.
    checks: usize,
    /// Nanoseconds that patterns may take to check a value.
    match_ns: usize,
    /// Whether a client has sent it. Then patterns that only backtracking can match are no patterns.
    is_of_client: bool,
}

impl Schema {
    /// Compiles a tool's parameters.
    ///
    /// The standard's formats are checked, because a tool that declares a `format` relies on it.
    pub(crate) fn compile(parameters: &Value) -> Result<Self, SchemaError> {
        let room = Room {
            pattern_bytes: PATTERN_BYTES_MAX,
            checks: CHECKS_MAX,
            match_ns: MATCH_NS_MAX,
            is_of_client: false,
        };
        Self::compile_in(parameters, room)
    }

    /// The same in this much room.
    fn compile_in(parameters: &Value, room: Room) -> Result<Self, SchemaError> {
        let declared = parameters.as_object().map(|schema| schema.get("type"));
        match declared {
            Some(None) => {}
            Some(Some(Value::String(name))) if name == "object" => {}
            Some(Some(other)) => return Err(SchemaError::NotAnObject(format!("of type {other}"))),
            None => return Err(SchemaError::NotAnObject(crate::text::describe(parameters))),
        }
        if patterns(parameters) > PATTERNS_MAX || weights(parameters) > PATTERN_WEIGHT_MAX {
            return Err(SchemaError::Patterns);
        }
        let parameters = Arc::new(parameters.clone());
        let effort = Effort::of(&parameters, room.checks, room.match_ns);
        let effort = effort.map_err(SchemaError::Unsupported)?;
        let options = jsonschema::options().offline().should_validate_formats(true);
        let options = if room.is_of_client {
            options.with_pattern_options(PatternOptions::regex().size_limit(room.pattern_bytes))
        } else {
            let patterns = PatternOptions::fancy_regex().size_limit(room.pattern_bytes);
            options.with_pattern_options(patterns.backtrack_limit(PATTERN_STEPS_MAX))
        };
        let validator = options.build(&parameters).map_err(|error| schema_error(&error))?;
        Ok(Self { parameters, effort, validator, is_of_client: room.is_of_client })
    }

    /// The same, with violations explained by what models are told of the parameters.
    pub(crate) fn explained_by(self, told: &Value) -> Self {
        if *self.parameters == *told {
            self
        } else {
            Self { parameters: Arc::new(told.clone()), ..self }
        }
    }

    /// The arguments without optional properties that are `null` although the schema refuses that:
    /// small models write them for parameters they do not use.
    pub(crate) fn without_refused_nulls(&self, arguments: Value) -> Value {
        // Most calls have none: for them, the check is walked once, by `validate`.
        if !values(&arguments).any(Value::is_null) {
            return arguments;
        }
        // Two find out what is refused; each property that is tried takes one more.
        match self.effort.explanations(&arguments).checked_sub(2) {
            Some(tries) if tries > 0 => nulls::drop_refused(&self.validator, arguments, tries),
            _ => arguments,
        }
    }

    /// The arguments with the defaults of required properties that are missing.
    pub(crate) fn with_defaults(&self, arguments: Value) -> Value {
        defaults::fill_in(&self.parameters, arguments)
    }

    /// Checks a call's arguments. The error lists the violations in schema order, at most
    /// [`VIOLATIONS_MAX`] of them.
    pub(crate) fn validate(&self, arguments: &Value) -> Result<(), Vec<Violation>> {
        match self.check(arguments) {
            Err(Refusal::Violations(violations)) => Err(violations),
            Err(Refusal::Unchecked) if !self.is_of_client => {
                Err(vec![explain::too_much(arguments)])
            }
            Ok(()) | Err(Refusal::Unchecked) => Ok(()),
        }
    }

    /// The same for a value that may be used if it cannot be checked.
    pub(crate) fn check(&self, value: &Value) -> Result<(), Refusal> {
        if !value.is_object() {
            return Err(Refusal::Violations(vec![explain::not_an_object(value)]));
        }
        let violations = match self.effort.of_checking(value) {
            Work::Little => self.violations(value),
            Work::Much if self.validator.is_valid(value) => Vec::new(),
            Work::Much => vec![explain::unexplained(value)],
            Work::TooMuch => return Err(Refusal::Unchecked),
        };
        if violations.is_empty() { Ok(()) } else { Err(Refusal::Violations(violations)) }
    }

    fn violations(&self, value: &Value) -> Vec<Violation> {
        let mut violations = Vec::new();
        for error in self.validator.iter_errors(value) {
            violations.extend(explain::violations(&error, value, &self.parameters));
            if violations.len() >= VIOLATIONS_MAX {
                break;
            }
        }
        violations.truncate(VIOLATIONS_MAX);
        violations
    }
}

fn schema_error(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    let uri = match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => uri,
        ValidationErrorKind::Referencing(ReferencingError::UnknownSpecification {
            specification,
        }) => specification,
        _ => {
            return SchemaError::Invalid {
                path: error.instance_path().to_string(),
                message: error.to_string(),
            };
        }
    };
    SchemaError::RemoteReference { uri: uri.clone() }
}
