//! Tools from a document of `OpenAPI` 3.0 or 3.1: one for each of its operations.
//!
//! ```text
//!   bytes ── read ──> Document ── operations ──> Operation { declared, request }  ┐ one of the two
//!                        │                       LeftOut { name, reason }         ┘ for each chosen
//!                        └─ parameters, body, security: what arguments there are, and where they go
//! ```
//! An operation that cannot be used never affects the others. No other document is ever fetched.

mod answers;
mod body;
#[cfg(test)]
mod choice_tests;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod key_tests;
mod names;
mod operation;
mod parameters;
mod read;
mod reference;
mod schema;
#[cfg(test)]
mod schema_tests;
mod security;
mod select;
#[cfg(test)]
mod tests;

use std::iter;
use std::sync::Arc;

use serde_json::Value;
use url::{Position, Url};

pub use security::{Credential, Credentials};
pub use select::Select;

use self::schema::Schemas;
use super::encode::Objects;
use super::request::Segment;
use super::template::Template;
use super::{Bearer, RequestTemplate};
use crate::limits::openapi::{
    DOCUMENT_BYTES_MAX, DOCUMENT_PATTERNS_MAX, OPERATIONS_MAX, OPERATIONS_USUAL,
};
use crate::tools::schema::PatternsLeft;
use crate::tools::source::unmatched::warning_for;
use crate::tools::source::{Declared, LeftOut};

/// Why a document cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenApiError {
    /// It is too long.
    #[error("the document is longer than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    /// It is not text.
    #[error("the document is not text: invalid UTF-8 at byte {0}")]
    NotText(usize),
    /// It begins as JSON, but is not.
    #[error("the document is not valid JSON: {0}")]
    Json(String),
    /// It is not YAML.
    #[error("the document is not valid YAML: {0}")]
    Yaml(String),
    /// It has another version, or is not an `OpenAPI` document.
    #[error("{0}; OpenAPI 3.0 and 3.1 are supported")]
    Version(String),
    /// It has too many operations.
    #[error("more than {OPERATIONS_MAX} operations are chosen; choose fewer with `include`")]
    TooMany,
}

/// How an entry uses a document.
#[derive(Debug, Clone)]
pub struct OpenApiOptions {
    /// Scheme, host, port and the beginning of every path. The document's own servers are not
    /// trusted.
    pub base_url: Url,
    /// The operations to offer; all if empty.
    pub include: Vec<Select>,
    /// The operations not to offer.
    pub exclude: Vec<Select>,
    /// Keys for the document's security schemes.
    pub credentials: Credentials,
    /// The header field that gets the call's idempotency key.
    pub idempotency_header: Option<String>,
}

/// A document.
#[derive(Debug, Clone)]
pub struct Document {
    root: Value,
    version: String,
}

/// An operation that can be a tool.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Its name, description, parameters and effects.
    pub declared: Declared,
    /// Its request.
    pub request: RequestTemplate,
    /// Gets the tokens of its requests, if they need any.
    pub bearer: Option<Arc<Bearer>>,
}

/// The chosen operations of a document.
#[derive(Debug, Default)]
pub struct Operations {
    /// Those that can be tools, in the order of the document.
    pub tools: Vec<Operation>,
    /// Those that cannot.
    pub left_out: Vec<LeftOut>,
    /// Something that the operator should know.
    pub warning: Option<String>,
    /// Names in the entry that nothing in the document has, and what was probably meant.
    pub unmatched: Vec<String>,
}

impl Document {
    /// Reads a document, in JSON or YAML.
    ///
    /// # Errors
    /// See [`OpenApiError`].
    pub fn read(document: &[u8]) -> Result<Self, OpenApiError> {
        let root = read::value(document)?;
        let version = root.get("openapi").and_then(Value::as_str);
        let version = match version {
            Some(version) if version.starts_with("3.") => version.to_owned(),
            Some(other) => return Err(OpenApiError::Version(format!("this is OpenAPI {other}"))),
            None if root.get("swagger").is_some() => {
                let what = "this is Swagger 2.0, which has to be converted";
                return Err(OpenApiError::Version(what.to_owned()));
            }
            None => {
                let what = "this is not an OpenAPI document: it has no `openapi` at its top";
                return Err(OpenApiError::Version(what.to_owned()));
            }
        };
        Ok(Self { root, version })
    }

    /// The version of `OpenAPI` that it is written in: `3.0.3`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The operations that an entry chooses.
    ///
    /// # Errors
    /// [`OpenApiError::TooMany`].
    pub fn operations(&self, options: &OpenApiOptions) -> Result<Operations, OpenApiError> {
        let mut schemas = Schemas::new(&self.root, self.version.starts_with("3.0"));
        let mut operations = Operations::default();
        let (mut chosen, mut patterns_left) = (0, PatternsLeft::new(DOCUMENT_PATTERNS_MAX));
        let paths = operation::all(&self.root);
        operations.unmatched = options.unmatched(&self.root, &paths);
        for (path, reason) in paths.broken {
            if !options.excludes(path) {
                operations.left_out.push(LeftOut { name: path.to_owned(), reason });
            }
        }
        for described in paths.operations {
            if !described.is_chosen(options) {
                continue;
            }
            chosen += 1;
            if chosen > OPERATIONS_MAX {
                return Err(OpenApiError::TooMany);
            }
            let operation = described.operation(&mut schemas, options);
            match operation.and_then(|operation| within(&mut patterns_left, operation)) {
                Ok(operation) => operations.tools.push(operation),
                Err(reason) => {
                    let name = described.name().into_owned();
                    operations.left_out.push(LeftOut { name, reason });
                }
            }
        }
        if options.include.is_empty() && chosen > OPERATIONS_USUAL {
            operations.warning = Some(format!(
                "the document has {chosen} operations; choose the ones that matter with `include`, \
                 because models use few tools better than many"
            ));
        }
        Ok(operations)
    }
}

impl OpenApiOptions {
    /// Warnings about operations and security schemes that the entry names and the document does not have.
    fn unmatched(&self, root: &Value, paths: &operation::Paths<'_>) -> Vec<String> {
        let is_broken =
            |select: &Select| paths.broken.iter().any(|(path, _)| select.is_of_path(path));
        let is_unmatched = |select: &Select| {
            let mut operations = paths.operations.iter();
            select.is_plain() && !is_broken(select) && !operations.any(|it| it.is_meant_by(select))
        };
        let mut warnings = Vec::new();
        for (key, selects) in [("include", &self.include), ("exclude", &self.exclude)] {
            for select in selects.iter().filter(|select| is_unmatched(select)) {
                let names = paths.operations.iter().flat_map(|it| it.names_for(select));
                let names: Vec<String> = names.collect();
                warnings.push(warning_for(key, "operation", &select.to_string(), &names));
            }
        }
        let schemes = root.pointer("/components/securitySchemes").and_then(Value::as_object);
        let schemes: Vec<&String> = schemes.into_iter().flatten().map(|(name, _)| name).collect();
        let keys = self.credentials.iter().filter(|(name, _)| !schemes.contains(&name));
        let of_key = |name: &String| warning_for("auth", "security scheme", name, &schemes);
        warnings.extend(keys.map(|(name, _)| of_key(name)));
        warnings
    }

    /// Whether no operation of this path can be chosen.
    fn excludes(&self, path: &str) -> bool {
        self.exclude.iter().any(|select| select.means(path, iter::empty(), "*", path))
    }

    /// Scheme, host and port.
    fn origin(&self) -> String {
        self.base_url[..Position::BeforePath].to_owned()
    }

    /// The segments that come before those of an operation.
    fn base_path(&self) -> Vec<Segment> {
        let path = self.base_url.path().trim_end_matches('/');
        let segments = path.split('/').skip(1);
        let objects = Objects::Refused;
        segments.map(|text| Segment { value: Template::text(text), objects }).collect()
    }
}

/// Whether a value of the document is `true`.
fn is_true(object: &Value, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

/// A text of the document that is not blank.
fn text<'d>(object: &'d Value, key: &str) -> Option<&'d str> {
    object.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

/// The operation, if so many patterns are left for the document as it has.
fn within(patterns_left: &mut PatternsLeft, operation: Operation) -> Result<Operation, String> {
    if patterns_left.take([&operation.declared.parameters]) {
        return Ok(operation);
    }
    Err(format!(
        "the chosen operations have more than {DOCUMENT_PATTERNS_MAX} patterns, which take too much time and \
         memory; leave some out with `exclude`"
    ))
}
