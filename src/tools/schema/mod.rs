//! Arguments against a tool's JSON Schema, and what is wrong with them in words
//! that a model can act on.
//!
//! Nothing is fetched: a schema must carry all that it refers to.

mod explain;
#[cfg(test)]
mod tests;

use std::fmt;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ReferencingError, Validator};
use serde_json::Value;

use crate::limits::tools::VIOLATIONS_MAX;

/// A tool's parameters, ready to check arguments against.
#[derive(Debug)]
pub struct Schema {
    parameters: Value,
    validator: Validator,
}

/// Why something is no schema of a tool's parameters.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SchemaError {
    /// Arguments are an object, so their schema is one, of type `object`.
    #[error("the parameters must be a JSON Schema of type \"object\", not {0}")]
    NotAnObject(String),
    /// It refers to a document that is not part of it; nothing is fetched.
    #[error(
        "it refers to {uri:?}, which is not part of it; write it under $defs, remote references are off"
    )]
    RemoteReference {
        /// What it refers to.
        uri: String,
    },
    /// It breaks the rules of JSON Schema.
    #[error("it is no valid JSON Schema: {message} (at {path:?})")]
    Invalid {
        /// JSON pointer into the schema.
        path: String,
        /// What is wrong there.
        message: String,
    },
}

/// One thing that is wrong with a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where: `arguments.stops[0].city`.
    pub path: String,
    /// What may stand there.
    pub expected: String,
    /// What stands there.
    pub received: String,
    /// The parameter with its schema, as the tool declares it, where there is one.
    pub schema_line: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, received, schema_line } = self;
        write!(f, "{path}: expected {expected}; received {received}")?;
        if let Some(line) = schema_line {
            write!(f, "; its schema is {line}")?;
        }
        Ok(())
    }
}

impl Schema {
    /// Prepares a tool's parameters.
    ///
    /// `format` is checked for the formats of the standard, because a tool that
    /// declares one relies on it.
    pub fn compile(parameters: &Value) -> Result<Self, SchemaError> {
        let declared = parameters.as_object().map(|schema| schema.get("type"));
        match declared {
            Some(None) => {}
            Some(Some(Value::String(name))) if name == "object" => {}
            Some(Some(other)) => return Err(SchemaError::NotAnObject(format!("of type {other}"))),
            None => return Err(SchemaError::NotAnObject(crate::text::describe(parameters))),
        }
        let validator = jsonschema::options()
            .offline()
            .should_validate_formats(true)
            .build(parameters)
            .map_err(|error| schema_error(&error))?;
        Ok(Self { parameters: parameters.clone(), validator })
    }

    /// Checks a call's arguments. What comes back is every violation, in the
    /// order of the schema, at most
    /// [`VIOLATIONS_MAX`] of them.
    pub fn validate(&self, arguments: &Value) -> Result<(), Vec<Violation>> {
        if !arguments.is_object() {
            return Err(vec![explain::not_an_object(arguments)]);
        }
        let mut violations = Vec::new();
        for error in self.validator.iter_errors(arguments) {
            violations.extend(explain::violations(&error, arguments, &self.parameters));
            if violations.len() >= VIOLATIONS_MAX {
                break;
            }
        }
        violations.truncate(VIOLATIONS_MAX);
        if violations.is_empty() { Ok(()) } else { Err(violations) }
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
