//! A request as an operator writes it, checked against the tool's parameters.

use serde_json::{Map, Value};
use url::{Position, Url};

use super::Method;
use super::encode::{self, Objects, Style};
use super::request::{BodyTemplate, Field, Header, RequestTemplate, Segment, is_visible};
use super::template::{JsonTemplate, Template};
use crate::tools::keys::Keys;

/// A request as an operator writes it.
///
/// Texts may have placeholders, such as `{city}`, for the tool's parameters. All other braces stand
/// for themselves; `{{city}}` is the text `{city}`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WrittenRequest {
    /// `GET`, `HEAD`, `OPTIONS`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// An absolute URL. Only its path may have placeholders.
    pub url: String,
    /// The fields of the query: text, numbers, booleans, or lists of these. A list, or an argument
    /// that is one, repeats its field.
    pub query: Vec<(String, Value)>,
    /// The header fields.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<WrittenBody>,
    /// The header field that gets the call's idempotency key, which is the same in all attempts of
    /// a call. Calls may then be retried.
    pub idempotency_header: Option<String>,
}

/// A body as an operator writes it.
#[derive(Debug, Clone, PartialEq)]
pub enum WrittenBody {
    /// JSON. The string `"{x}"` is the argument `x` with its type.
    Json(Value),
    /// URL-encoded fields, as in a query.
    Form(Vec<(String, Value)>),
    /// Text.
    Text(String),
}

/// A mistake in a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct Mistake {
    /// The key below the tool's entry: `url`, `query.units`, `headers.X-Key`, `body`.
    pub key: String,
    /// What is wrong, and what to do: lower case, no full stop.
    pub message: String,
}

/// Fields that belong to the connection, not to the request (RFC 9110, section 7.6.1), and those
/// that the client writes.
const FORBIDDEN_HEADERS: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl RequestTemplate {
    /// Reads a request whose placeholders are properties of `parameters`, a JSON Schema.
    ///
    /// # Errors
    /// All mistakes, in the order of the keys.
    pub fn read(written: &WrittenRequest, parameters: &Value) -> Result<Self, Vec<Mistake>> {
        let mut reader = Reader { schema: Properties::of(parameters), mistakes: Vec::new() };
        let method = reader.method(&written.method);
        let (origin, path, fixed_query) = reader.url(&written.url);
        let query = reader.fields("query", &written.query);
        let headers = reader.headers(&written.headers);
        let body = written.body.as_ref().map(|body| reader.body(body));
        if method == Method::Head && body.is_some() {
            reader.mistake("body", "a HEAD request has no body");
        }
        let idempotency_header = written
            .idempotency_header
            .as_ref()
            .map(|name| reader.header_name("idempotency_header", name, &headers));
        let keys = keys(&headers, &query, &fixed_query);
        let request = Self {
            method,
            origin,
            path,
            fixed_query,
            query,
            headers,
            body,
            idempotency_header,
            keys,
        };
        reader.unused(&request);
        if reader.mistakes.is_empty() { Ok(request) } else { Err(reader.mistakes) }
    }
}

/// The keys that an operator has written into a request.
fn keys(headers: &[Header], query: &[Field], fixed_query: &str) -> Keys {
    let mut keys = Keys::default();
    for Header { name, value, .. } in headers {
        value.as_text().into_iter().for_each(|value| keys.note_header(name, value));
    }
    for Field { name, value, .. } in query {
        value.as_text().into_iter().for_each(|value| keys.note_field(name, value));
    }
    for (name, value) in form_urlencoded::parse(fixed_query.as_bytes()) {
        keys.note_field(&name, &value);
    }
    keys
}

struct Reader<'a> {
    schema: Properties<'a>,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn mistake(&mut self, key: &str, message: impl Into<String>) {
        self.mistakes.push(Mistake { key: key.to_owned(), message: message.into() });
    }

    fn method(&mut self, written: &str) -> Method {
        Method::named(written).unwrap_or_else(|| {
            let names = Method::ALL.map(Method::name).join(", ");
            self.mistake("method", format!("expected one of {names}, not {written:?}"));
            Method::Get
        })
    }

    /// Origin, segments and query.
    fn url(&mut self, written: &str) -> (String, Vec<Segment>, String) {
        match read_url(written) {
            Ok((origin, path, query)) => {
                for segment in &path {
                    self.check_names("url", &segment.value, Place::Path);
                }
                (origin, path, query)
            }
            Err(message) => {
                self.mistake("url", message);
                (String::new(), Vec::new(), String::new())
            }
        }
    }

    fn fields(&mut self, key: &str, written: &[(String, Value)]) -> Vec<Field> {
        let mut fields = Vec::new();
        for (name, value) in written {
            let key = format!("{key}.{name}");
            let values = match value {
                Value::Array(items) => items.iter().collect(),
                value => vec![value],
            };
            for value in values {
                let value = match value {
                    Value::String(text) => Template::parse(text),
                    Value::Number(_) | Value::Bool(_) => Template::text(value.to_string()),
                    _ => {
                        self.mistake(
                            &key,
                            "expected text, a number, a boolean, or a list of these",
                        );
                        continue;
                    }
                };
                self.check_names(&key, &value, Place::Text);
                fields.push(Field { name: name.clone(), value, style: Style::Plain });
            }
        }
        fields
    }

    fn headers(&mut self, written: &[(String, String)]) -> Vec<Header> {
        let mut headers: Vec<Header> = Vec::new();
        for (written_name, value) in written {
            let key = format!("headers.{written_name}");
            let name = self.header_name(&key, written_name, &headers);
            if !is_visible(value) {
                self.mistake(
                    &key,
                    "a header has only ASCII letters, digits and punctuation, on one line",
                );
            }
            let value = Template::parse(value);
            self.check_names(&key, &value, Place::Text);
            let objects = Objects::Refused;
            headers.push(Header { name, value, is_json: false, objects });
        }
        headers
    }

    /// A header's name in lower case.
    fn header_name(&mut self, key: &str, written: &str, others: &[Header]) -> String {
        let name = written.to_ascii_lowercase();
        if !is_token(&name) {
            self.mistake(key, "this is not the name of a header, and names have no placeholders");
        } else if is_forbidden_header(&name) {
            self.mistake(key, "the gateway writes this header itself, or never sends it");
        } else if others.iter().any(|header| header.name == name) {
            self.mistake(key, "this header is already there");
        }
        name
    }

    fn body(&mut self, written: &WrittenBody) -> BodyTemplate {
        match written {
            WrittenBody::Json(value) => {
                let template = JsonTemplate::parse(value);
                let mut names = Vec::new();
                template.visit_names(&mut |name| names.push(name));
                for name in names {
                    self.check_name("body", name, Place::Json);
                }
                BodyTemplate::Json("application/json".to_owned(), template)
            }
            WrittenBody::Form(fields) => BodyTemplate::Form(self.fields("body", fields)),
            WrittenBody::Text(text) => {
                let template = Template::parse(text);
                let is_alone = template.alone().is_some();
                let place = if is_alone { Place::Text } else { Place::WholeText };
                self.check_names("body", &template, place);
                BodyTemplate::Text(template)
            }
        }
    }

    fn check_names(&mut self, key: &str, template: &Template, place: Place) {
        let is_part = template.alone().is_none();
        for name in template.names() {
            self.check_name(key, name, place);
            if is_part && self.schema.has_type(name, "array") && place != Place::Path {
                let message = format!("`{name}` can be a list, so it has to be {{{name}}} alone");
                self.mistake(key, message);
            }
        }
    }

    fn check_name(&mut self, key: &str, name: &str, place: Place) {
        if self.schema.get(name).is_none() {
            let nearest = self.schema.nearest(name);
            let nearest = nearest.map(|nearest| format!("; did you mean `{nearest}`?"));
            let advice =
                nearest.unwrap_or_else(|| format!("; write {{{{{name}}}}} for plain text"));
            self.mistake(key, format!("there is no parameter `{name}`{advice}"));
            return;
        }
        if place != Place::Json && self.schema.has_type(name, "object") {
            self.mistake(
                key,
                format!("`{name}` can be an object, which only a JSON body can hold"),
            );
        }
        let is_needed = matches!(place, Place::Path | Place::WholeText);
        if is_needed && !self.schema.is_required(name) {
            let whole = if place == Place::Path { "the path" } else { "a text" };
            self.mistake(key, format!("`{name}` is part of {whole}, so it has to be required"));
        }
    }

    fn unused(&mut self, request: &RequestTemplate) {
        // A mistake elsewhere may be why it is not used.
        if !self.mistakes.is_empty() {
            return;
        }
        let mut used = Vec::new();
        request.visit_names(&mut |name| used.push(name));
        let unused: Vec<_> = self.schema.names().filter(|name| !used.contains(name)).collect();
        for name in unused {
            let message = format!("no placeholder uses {{{name}}}, so the request never has it");
            self.mistake(&format!("parameters.properties.{name}"), message);
        }
    }
}

/// Where a placeholder is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Text,
    /// A text that cannot vanish.
    WholeText,
    Json,
}

/// What a schema says about its properties.
struct Properties<'a> {
    properties: Option<&'a Map<String, Value>>,
    required: &'a [Value],
}

impl<'a> Properties<'a> {
    fn of(schema: &'a Value) -> Self {
        let required = schema.get("required").and_then(Value::as_array);
        Self {
            properties: schema.get("properties").and_then(Value::as_object),
            required: required.map_or(&[], Vec::as_slice),
        }
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.properties.into_iter().flat_map(Map::keys).map(String::as_str)
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.properties?.get(name)
    }

    fn is_required(&self, name: &str) -> bool {
        self.required.iter().any(|required| required == name)
    }

    /// Whether this is its type or among its types. A property may be of the type without saying
    /// so: what it is in a call is looked at when the request is filled in.
    fn has_type(&self, name: &str, wanted: &str) -> bool {
        match self.get(name).and_then(|schema| schema.get("type")) {
            Some(Value::Array(types)) => types.iter().any(|kind| kind == wanted),
            declared => declared.is_some_and(|kind| kind == wanted),
        }
    }

    fn nearest(&self, name: &str) -> Option<&'a str> {
        let near = self.names().map(|key| (strsim::jaro_winkler(key, name), key));
        let near = near.filter(|(likeness, _)| *likeness > 0.8);
        near.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, key)| key)
    }
}

/// Origin, segments and query of a URL with placeholders in its path.
fn read_url(written: &str) -> Result<(String, Vec<Segment>, String), String> {
    let (scheme, rest) = written.split_once("://").ok_or("expected an absolute URL")?;
    if rest.contains('\\') {
        return Err("write / instead of \\".to_owned());
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if !fragment.is_empty() {
        return Err("a fragment (#..) is never sent".to_owned());
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if Template::parse(query).constant().is_none() {
        return Err("put placeholders for the query under `query`".to_owned());
    }
    if Template::parse(scheme).constant().is_none()
        || Template::parse(authority).constant().is_none()
    {
        return Err("scheme, host and port cannot have placeholders".to_owned());
    }
    let url = Url::parse(&format!("{scheme}://{authority}/?{query}"))
        .map_err(|error| format!("not a valid URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the scheme must be http or https".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("write user and password as an Authorization header".to_owned());
    }
    let segments = path.split('/').map(Template::parse);
    let objects = Objects::Refused;
    let segments: Vec<_> = segments.map(|value| Segment { value, objects }).collect();
    let is_dots = |text: &str| encode::is_dot_segment(text);
    if segments.iter().filter_map(|segment| segment.value.constant()).any(is_dots) {
        return Err("the path must not have . or .. as a name".to_owned());
    }
    let origin = url[..Position::BeforePath].to_owned();
    Ok((origin, segments, url.query().unwrap_or_default().to_owned()))
}

/// Whether a header field, its name in lower case, belongs to the connection or to the client.
pub(super) fn is_forbidden_header(name: &str) -> bool {
    FORBIDDEN_HEADERS.contains(&name)
}

/// Whether a text can be the name of a header field (RFC 9110, section 5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}
