//! A request with placeholders, and the request of one call.
//!
//! ```text
//!   https://api.example.org:8443 /v1/{city}/now ?units={units}   X-Key: ..   {"to": "{to}"}
//!   '---------- fixed ---------' '-- segments -' '-- fields --'  '-fields-'  '--- body ----'
//! ```
//! Arguments fill values. They cannot change the scheme, the host, the port, the number of
//! segments, or the name of a field. They cannot add a field either, except for the members of an
//! object that an `OpenAPI` document spreads, and those never repeat another field.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Method;
use super::encode::{self, Objects, Style};
use super::template::{JsonTemplate, Piece, Template};
use crate::tools::Policy;
use crate::tools::keys::Keys;

/// A request with placeholders.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTemplate {
    /// The method.
    pub method: Method,
    /// Scheme, host and port: `https://api.example.org`.
    pub(super) origin: String,
    pub(super) path: Vec<Segment>,
    /// The encoded query that precedes the fields.
    pub(super) fixed_query: String,
    pub(super) query: Vec<Field>,
    pub(super) headers: Vec<Header>,
    pub(super) body: Option<BodyTemplate>,
    /// The header field that gets the call's idempotency key, in lower case.
    pub(super) idempotency_header: Option<String>,
    /// Keys in it that only the service may see.
    pub(super) keys: Keys,
}

/// A segment of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Segment {
    pub(super) value: Template,
    pub(super) objects: Objects,
}

/// A field of a query or form. It vanishes if an argument in it is absent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: Template,
    pub(super) style: Style,
}

/// A header field. It vanishes if an argument in it is absent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    /// In lower case.
    pub(super) name: String,
    pub(super) value: Template,
    /// How an array or object is written, as JSON or in the style `simple`.
    pub(super) is_json: bool,
    /// How an object is written in the style `simple`.
    pub(super) objects: Objects,
}

impl Header {
    /// A header field without placeholders. Its name is in lower case.
    pub(super) fn constant(name: String, value: String) -> Self {
        let value = Template::text(value);
        Self { name, value, is_json: false, objects: Objects::Refused }
    }
}

/// A body with placeholders.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BodyTemplate {
    /// JSON, with its media type.
    Json(String, JsonTemplate),
    /// Fields, URL-encoded.
    Form(Vec<Field>),
    /// One argument, whose members are the fields. Those that the document knows have a style;
    /// others have [`Style::Repeat`].
    FormOf(String, Vec<(String, Style)>),
    /// Text.
    Text(Template),
}

/// The request of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) url: String,
    /// The fields, with names in lower case. Their values are visible ASCII.
    pub(super) headers: Vec<(String, String)>,
    /// The body with its media type.
    pub(super) body: Option<(String, Vec<u8>)>,
}

/// Why arguments cannot be filled in, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FillError {
    #[error("`{0}` is part of the address, so it must be there")]
    Absent(String),
    #[error("`{0}` is part of the address, so it must not be empty")]
    Empty(String),
    #[error("`{0}` is part of the address, so `.` and `..` cannot be names in it")]
    Dots(String),
    #[error("`{0}` must be text or a number, or a list or object of these")]
    Nested(String),
    #[error("`{0}` must be text or a number, or a list of these")]
    NotPlain(String),
    #[error("`{0}` must be text or a number")]
    NotScalar(String),
    #[error("`{0}` is sent in a header, so it may have only ASCII letters, digits and punctuation")]
    NotAscii(String),
    #[error("`{0}` must not have the member `{1}`, because the request has such a field already")]
    Clash(String, String),
}

impl RequestTemplate {
    /// What it asks, and whom: the method and the address, without values, which may be keys.
    pub(super) fn target(&self) -> String {
        let mut target = format!("{} {}", self.method.name(), self.origin);
        for segment in &self.path {
            target.push('/');
            for piece in segment.value.pieces() {
                match piece {
                    Piece::Text(text) => target.push_str(text),
                    Piece::Argument(name) => target.extend(["{", name, "}"]),
                }
            }
        }
        target
    }

    /// The policy of a tool that sends it.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.method.policy(self.idempotency_header.is_some())
    }

    /// The request for these arguments.
    pub(super) fn fill(&self, arguments: &Map<String, Value>) -> Result<Filled, FillError> {
        let mut url = self.origin.clone();
        for segment in &self.path {
            url.push('/');
            url.push_str(&segment.fill(arguments)?);
        }
        let mut fields = Vec::new();
        if !self.fixed_query.is_empty() {
            fields.push(self.fixed_query.clone());
        }
        check_clashes(&self.query, &self.fixed_query, arguments)?;
        for field in &self.query {
            field.fill(arguments, &mut fields)?;
        }
        if !fields.is_empty() {
            url.push('?');
            url.push_str(&fields.join("&"));
        }
        let mut headers = Vec::with_capacity(self.headers.len());
        for header in &self.headers {
            if let Some(value) = header.fill(arguments)? {
                headers.push((header.name.clone(), value));
            }
        }
        let body = match &self.body {
            Some(body) => body.fill(arguments)?,
            None => None,
        };
        Ok(Filled { url, headers, body })
    }

    /// Calls `visit` with the name of each placeholder.
    pub(super) fn visit_names<'t>(&'t self, visit: &mut impl FnMut(&'t str)) {
        self.path.iter().flat_map(|segment| segment.value.names()).for_each(&mut *visit);
        self.query.iter().flat_map(|field| field.value.names()).for_each(&mut *visit);
        self.headers.iter().flat_map(|header| header.value.names()).for_each(&mut *visit);
        match &self.body {
            Some(BodyTemplate::Json(_, json)) => json.visit_names(visit),
            Some(BodyTemplate::Form(fields)) => {
                fields.iter().flat_map(|field| field.value.names()).for_each(visit);
            }
            Some(BodyTemplate::FormOf(name, _)) => visit(name),
            Some(BodyTemplate::Text(text)) => text.names().for_each(visit),
            None => {}
        }
    }
}

/// Refuses an object whose members would be fields that the query or form already has, such as the
/// one with its key. Fields that are absent count too: their values would not be checked.
fn check_clashes(
    fields: &[Field],
    fixed: &str,
    arguments: &Map<String, Value>,
) -> Result<(), FillError> {
    let mut taken: HashSet<Cow<'_, str>> =
        form_urlencoded::parse(fixed.as_bytes()).map(|(name, _)| name).collect();
    taken.extend(fields.iter().map(|field| Cow::from(&*field.name)));
    for field in fields {
        let Some(name) = field.value.alone() else { continue };
        let Some(Value::Object(members)) = arguments.get(name) else { continue };
        for key in members.keys() {
            let spread = match field.style {
                Style::Repeat => Cow::from(&**key),
                Style::Deep => encode::deep_name(&field.name, key).into(),
                // The members are not fields.
                Style::Plain | Style::Join(_) | Style::Json => break,
            };
            // Two objects that spread the same member clash as well.
            if !taken.insert(spread) {
                return Err(FillError::Clash(name.to_owned(), key.clone()));
            }
        }
    }
    Ok(())
}

impl Segment {
    /// The encoded segment. Arguments never make it empty, or a dot segment.
    fn fill(&self, arguments: &Map<String, Value>) -> Result<String, FillError> {
        let mut filled = String::new();
        let mut last = "";
        for piece in self.value.pieces() {
            match piece {
                Piece::Text(text) => filled.push_str(&encode::path(text)),
                Piece::Argument(name) => {
                    last = name;
                    let value = present(arguments, name);
                    let value = value.ok_or_else(|| FillError::Absent(name.clone()))?;
                    if has_dots(value) {
                        return Err(FillError::Dots(name.clone()));
                    }
                    let encode = |text: &str| encode::strict(text).into_owned();
                    let text = encode::simple(value, self.objects, encode);
                    let text = text.ok_or_else(|| self.objects.refusal(name))?;
                    if text.is_empty() {
                        return Err(FillError::Empty(name.clone()));
                    }
                    filled.push_str(&text);
                }
            }
        }
        if !last.is_empty() && encode::is_dot_segment(&filled) {
            return Err(FillError::Dots(last.to_owned()));
        }
        Ok(filled)
    }
}

impl Objects {
    /// Why a value cannot be written.
    fn refusal(self, name: &str) -> FillError {
        match self {
            Self::Refused => FillError::NotPlain(name.to_owned()),
            Self::Joined | Self::Exploded => FillError::Nested(name.to_owned()),
        }
    }
}

/// Whether a value would have `.` or `..` between slashes for a server that decodes the path
/// before it splits it.
fn has_dots(value: &Value) -> bool {
    let is_dots = |part: &str| matches!(part, "." | "..");
    match value {
        Value::String(text) => text.split(['/', '\\']).any(is_dots),
        Value::Array(items) => items.iter().any(has_dots),
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| key.split(['/', '\\']).any(is_dots) || has_dots(value)),
        _ => false,
    }
}

impl Field {
    fn fill(
        &self,
        arguments: &Map<String, Value>,
        fields: &mut Vec<String>,
    ) -> Result<(), FillError> {
        let Some(name) = self.value.alone() else {
            if let Some(text) = text(&self.value, arguments)? {
                encode::add_fields(fields, &self.name, &text.into(), Style::Plain);
            }
            return Ok(());
        };
        let Some(value) = present(arguments, name) else { return Ok(()) };
        match (encode::add_fields(fields, &self.name, value, self.style), self.style) {
            (true, _) => Ok(()),
            (false, Style::Plain) => Err(FillError::NotPlain(name.to_owned())),
            (false, _) => Err(FillError::Nested(name.to_owned())),
        }
    }
}

impl Header {
    fn fill(&self, arguments: &Map<String, Value>) -> Result<Option<String>, FillError> {
        let mut filled = String::new();
        for piece in self.value.pieces() {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Argument(name) => {
                    let Some(value) = present(arguments, name) else { return Ok(None) };
                    let text = if self.is_json {
                        Some(value.to_string())
                    } else {
                        encode::simple(value, self.objects, str::to_owned)
                    };
                    let text = text.ok_or_else(|| self.objects.refusal(name))?;
                    if !is_visible(&text) {
                        return Err(FillError::NotAscii(name.clone()));
                    }
                    filled.push_str(&text);
                }
            }
        }
        Ok(Some(filled))
    }
}

/// Whether a text can be the value of a header field.
pub(super) fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

impl BodyTemplate {
    /// The body with its media type; `None` if all of it is absent.
    fn fill(&self, arguments: &Map<String, Value>) -> Result<Option<(String, Vec<u8>)>, FillError> {
        const FORM: &str = "application/x-www-form-urlencoded";
        Ok(match self {
            Self::Json(media_type, template) => {
                let value = template.fill(arguments, &|template| text(template, arguments))?;
                value.map(|value| (media_type.clone(), value.to_string().into_bytes()))
            }
            Self::Form(form) => {
                let mut fields = Vec::new();
                check_clashes(form, "", arguments)?;
                form.iter().try_for_each(|field| field.fill(arguments, &mut fields))?;
                Some((FORM.to_owned(), fields.join("&").into_bytes()))
            }
            Self::FormOf(name, styles) => {
                let Some(value) = present(arguments, name) else { return Ok(None) };
                let members = value.as_object().ok_or_else(|| FillError::Nested(name.clone()))?;
                let others = members.keys().filter(|key| styles.iter().all(|(it, _)| it != *key));
                let others = others.map(|key| (key, Style::Repeat));
                let known = styles.iter().map(|(key, style)| (key, *style));
                let field = |(key, style): (&String, Style)| Field {
                    name: key.clone(),
                    value: Template::argument(key),
                    style,
                };
                Self::Form(known.chain(others).map(field).collect()).fill(members)?
            }
            Self::Text(template) => {
                let text = text(template, arguments)?;
                text.map(|text| ("text/plain; charset=utf-8".to_owned(), text.into_bytes()))
            }
        })
    }
}

/// A text with its arguments; `None` if one of them is absent.
fn text(template: &Template, arguments: &Map<String, Value>) -> Result<Option<String>, FillError> {
    let mut filled = String::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Argument(name) => {
                let Some(value) = present(arguments, name) else { return Ok(None) };
                let text = encode::scalar(value);
                filled.push_str(&text.ok_or_else(|| FillError::NotScalar(name.clone()))?);
            }
        }
    }
    Ok(Some(filled))
}

/// An argument; `null` counts as absent wherever there is only text.
fn present<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    arguments.get(name).filter(|value| !value.is_null())
}
