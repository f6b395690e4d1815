//! An answer as a tool's result.

use bytes::Bytes;
use encoding_rs::{Encoding, UTF_8};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Mistake, html};
use crate::http;
use crate::limits::http_tools::{DETAIL_BYTES_MAX, MEDIA_TYPE_BYTES_MAX};
use crate::text::cut;
use crate::tools::{ToolFault, ToolFile, ToolResult, half_characters};

/// Which part of a JSON answer is the result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultOptions {
    /// A JSON pointer (RFC 6901) to the part; all of it if there is none.
    pub pointer: Option<String>,
    /// The members to keep of the object there, or of each object in the array there; all if the
    /// list is empty.
    pub fields: Vec<String>,
}

impl ResultOptions {
    /// What is wrong with them.
    #[must_use]
    pub fn mistake(&self) -> Option<Mistake> {
        let pointer = self.pointer.as_ref()?;
        let is_pointer = pointer.is_empty() || pointer.starts_with('/');
        (!is_pointer).then(|| Mistake {
            key: "result.pointer".to_owned(),
            message: format!("a JSON pointer begins with a slash: expected \"/{pointer}\""),
        })
    }
}

/// An answer.
pub(super) struct Answer<'a> {
    /// Who answered.
    pub(super) host: &'a str,
    pub(super) status: u16,
    /// Whether it is the answer to a HEAD request.
    pub(super) is_head: bool,
    /// The value of a header field.
    pub(super) header: &'a dyn Fn(&str) -> Option<&'a str>,
    pub(super) body: Bytes,
}

/// Reads an answer at the time `now`.
///
/// # Errors
/// If the server failed, or does not serve us.
pub(super) fn read(
    answer: &Answer<'_>,
    options: &ResultOptions,
    now: Timestamp,
) -> Result<ToolResult, ToolFault> {
    let Answer { host, status, .. } = *answer;
    if let Some(coding) = answer.coding() {
        let coding = cut(coding, MEDIA_TYPE_BYTES_MAX);
        let message = format!("{host} compressed its answer ({coding}) unasked");
        return match status {
            200..=299 => Ok(ToolResult::unread(message)),
            _ => Err(ToolFault::permanent(message)),
        };
    }
    match status {
        200..=299 => Ok(answer.success(options)),
        300..=399 => {
            let message = format!("{host} answered with a redirect (HTTP status {status})");
            let fault = ToolFault::permanent(message);
            // Many a form sends whoever has filled it in to another page (RFC 9110, section 15.4.4).
            Err(if matches!(status, 301..=303) { fault.after_sending() } else { fault })
        }
        401 | 403 => {
            let message = format!("not authorized by {host} (HTTP status {status})");
            Err(ToolFault::permanent(message))
        }
        _ if http::is_transient(status) || status >= 500 => {
            let retry_after = (answer.header)("retry-after");
            let mut fault = ToolFault::from_status(host, status, retry_after, now);
            if !fault.transient {
                fault.message.push_str(&answer.detail());
            }
            Err(fault)
        }
        _ => {
            let detail = answer.detail();
            let message = format!("{host} answered with HTTP status {status}{detail}");
            Ok(ToolResult::error(message))
        }
    }
}

impl Answer<'_> {
    fn coding(&self) -> Option<&str> {
        http::unknown_coding((self.header)("content-encoding"), "identity")
    }

    fn success(&self, options: &ResultOptions) -> ToolResult {
        if self.is_head {
            let fields = ["content-type", "content-length", "last-modified", "etag"];
            let fields = fields.iter().filter_map(|name| {
                let value = (self.header)(name)?;
                Some(((*name).to_owned(), Value::from(value)))
            });
            let headers: Map<String, Value> = fields.collect();
            let data = json!({ "status": self.status, "headers": headers });
            return ToolResult::data(data);
        }
        if self.body.is_empty() {
            return ToolResult::data(json!({ "status": self.status }));
        }
        let content_type = (self.header)("content-type").unwrap_or_default();
        let kind = Kind::of(content_type, &self.body);
        match kind {
            Kind::Json => self.json(options),
            // A part of JSON cannot be chosen from anything else.
            _ if options.pointer.is_some() => {
                let kind = describe(content_type);
                ToolResult::unread(format!("{} answered with {kind} instead of JSON", self.host))
            }
            Kind::Text => text_result(&decode(content_type, &self.body)),
            Kind::Html => text_result(&html::text(&decode(content_type, &self.body))),
            Kind::File => {
                let mime_type = media_type(content_type);
                let file = ToolFile { name: None, mime_type, bytes: self.body.clone() };
                ToolResult::data(json!({})).with_files(vec![file])
            }
        }
    }

    fn json(&self, options: &ResultOptions) -> ToolResult {
        let mut value = match parse(&self.body) {
            Ok(value) => value,
            Err(error) => {
                let host = self.host;
                return ToolResult::unread(format!("{host} answered with invalid JSON: {error}"));
            }
        };
        if let Some(pointer) = &options.pointer {
            let Some(part) = value.pointer_mut(pointer) else {
                let message =
                    format!("{} has no {pointer} in its answer{}", self.host, self.detail());
                // Some report errors with a status of success (GraphQL over HTTP, Slack).
                let told = if says_failed(&value) { ToolResult::error } else { ToolResult::unread };
                return told(message);
            };
            value = part.take();
        }
        keep_fields(&mut value, &options.fields);
        ToolResult::data(match value {
            Value::Object(_) => value,
            Value::Array(_) => json!({ "items": value }),
            Value::String(text) => json!({ "text": text }),
            scalar => json!({ "value": scalar }),
        })
    }

    /// What an answer says about its error, after a colon: title, detail and more of a problem
    /// (RFC 9457), or the beginning of its text.
    fn detail(&self) -> String {
        let content_type = (self.header)("content-type").unwrap_or_default();
        let kind = Kind::of(content_type, &self.body);
        let text = match kind {
            Kind::File => return String::new(),
            Kind::Html => html::text(&decode(content_type, &self.body)),
            Kind::Json => problem(&self.body).unwrap_or_else(|| decode(content_type, &self.body)),
            Kind::Text => decode(content_type, &self.body),
        };
        // On one line: the rest of the message follows it.
        let words: Vec<&str> =
            text.split(|char: char| char.is_whitespace() || char.is_control()).collect();
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            return String::new();
        }
        format!(": {}", cut(&words.join(" "), DETAIL_BYTES_MAX))
    }
}

/// What a body is.
#[derive(Clone, Copy)]
enum Kind {
    Json,
    Text,
    Html,
    File,
}

impl Kind {
    fn of(content_type: &str, body: &[u8]) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim_ascii();
        let essence = essence.to_ascii_lowercase();
        let (_, subtype) = essence.split_once('/').unwrap_or_default();
        match &*essence {
            "" => match without_mark(body).trim_ascii_start().first() {
                Some(b'{' | b'[') => Self::Json,
                _ if simdutf8::basic::from_utf8(body).is_ok() => Self::Text,
                _ => Self::File,
            },
            "application/json" | "text/json" => Self::Json,
            "text/html" | "application/xhtml+xml" => Self::Html,
            "application/xml"
            | "application/yaml"
            | "application/x-yaml"
            | "application/toml"
            | "application/javascript"
            | "application/graphql"
            | "application/x-ndjson"
            | "application/jsonl"
            | "application/jsonlines"
            | "application/x-www-form-urlencoded" => Self::Text,
            essence if essence.starts_with("text/") => Self::Text,
            _ if subtype.ends_with("+json") => Self::Json,
            _ if subtype.ends_with("+xml") && !essence.starts_with("image/") => Self::Text,
            _ if subtype.ends_with("+yaml") => Self::Text,
            _ => Self::File,
        }
    }
}

fn text_result(text: &str) -> ToolResult {
    ToolResult::data(json!({ "text": text }))
}

/// Whether an answer says that the request failed.
fn says_failed(answer: &Value) -> bool {
    let says = |key: &str| answer.get(key)?.as_bool();
    let has = |key: &str| answer.get(key).is_some_and(|error| !is_nothing(error));
    let has_worked = says("ok").or_else(|| says("success"));
    has_worked.map_or_else(|| has("errors") || has("error"), |has_worked| !has_worked)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// The media type for people and models.
fn describe(content_type: &str) -> String {
    if content_type.is_empty() { "text".to_owned() } else { media_type(content_type) }
}

fn media_type(content_type: &str) -> String {
    let essence = content_type.split(';').next().unwrap_or_default().trim_ascii();
    let essence = if essence.is_empty() { "application/octet-stream" } else { essence };
    cut(&essence.to_ascii_lowercase(), MEDIA_TYPE_BYTES_MAX)
}

/// A body as text: in UTF-8, unless a byte order mark or else the type says otherwise. Charsets have
/// the names that the web gives them, so `latin1` is windows-1252. Bytes that are no text are
/// replaced.
fn decode(content_type: &str, body: &[u8]) -> String {
    let charset = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim_ascii().eq_ignore_ascii_case("charset").then_some(value.trim_ascii())
    });
    let charset = charset.unwrap_or_default().trim_matches('"');
    let encoding = Encoding::for_label(charset.as_bytes()).unwrap_or(UTF_8);
    encoding.decode(body).0.into_owned()
}

fn parse(body: &[u8]) -> Result<Value, serde_json::Error> {
    let json = without_mark(body);
    match std::str::from_utf8(json) {
        Ok(json) => half_characters::read(json),
        // Says where.
        Err(_) => serde_json::from_slice(json),
    }
}

/// JSON without the byte order mark that some servers put in front of it. Readers may ignore it
/// (RFC 8259, section 8.1).
fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json)
}

/// Keeps these members of an object, or of each object in an array.
fn keep_fields(value: &mut Value, fields: &[String]) {
    if fields.is_empty() {
        return;
    }
    match value {
        Value::Object(members) => members.retain(|key, _| fields.contains(key)),
        Value::Array(items) => {
            for item in items {
                if let Value::Object(members) = item {
                    members.retain(|key, _| fields.contains(key));
                }
            }
        }
        _ => {}
    }
}

/// What a problem (RFC 9457) says: title, detail, and the members of its own kind, such as which
/// parameters are wrong.
fn problem(body: &[u8]) -> Option<String> {
    let Ok(Value::Object(mut members)) = parse(body) else { return None };
    let title = members.shift_remove("title");
    let detail = members.shift_remove("detail");
    let texts = [&title, &detail].map(|text| text.as_ref().and_then(Value::as_str));
    let mut said: Vec<String> = texts.into_iter().flatten().map(str::to_owned).collect();
    if said.is_empty() {
        return None;
    }
    members.retain(|key, _| !matches!(&**key, "type" | "status" | "instance" | "traceId"));
    if !members.is_empty() {
        said.push(Value::Object(members).to_string());
    }
    Some(said.join(": "))
}
