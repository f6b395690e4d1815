//! `tools.http[]`: tools that are HTTP requests, written out or taken from an `OpenAPI` document.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use url::Url;

use super::address::{has_login, range, ranges};
use super::auth::{self, AuthConfig};
use super::policy::{by_glob, policies, policy};
use super::shown::{Shown, as_written, shown, shown_as_written};
use super::values::{as_map, parameters, some_seconds, tool_name, words};
use crate::config::Secret;
use crate::config::raw::Node;
use crate::config::reader::{Keys, Refused, integer, text, wait};
use crate::config::values::{entry_name, secret_text};
use crate::limits::config as bounds;
use crate::limits::outbound::REDIRECTS_MAX;
use crate::tools::PolicyPatch;
use crate::tools::http::openapi::Select;
use crate::tools::http::{Method, RequestTemplate, ResultOptions, WrittenBody, WrittenRequest};
use crate::tools::outbound::Cidr;
use crate::tools::source::Glob;

/// An entry of `tools.http`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum HttpConfig {
    /// A request.
    Request(Box<RequestConfig>),
    /// A document that describes requests.
    OpenApi(Box<OpenApiConfig>),
}

/// A tool that is a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestConfig {
    /// The tool's name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The method.
    pub method: Method,
    /// The URL, with placeholders in its path.
    pub url: Shown<String>,
    /// The fields of the query.
    #[serde(serialize_with = "as_map")]
    pub query: Vec<(String, Shown)>,
    /// The header fields.
    #[serde(serialize_with = "as_map")]
    pub headers: Vec<(String, Secret)>,
    /// The body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyConfig>,
    /// A JSON Schema of the call's arguments.
    pub parameters: Value,
    /// Which part of an answer is the result.
    pub result: ResultConfig,
    /// How connections are made.
    #[serde(flatten)]
    pub access: AccessConfig,
    /// Changes to its policy, which follows from the method.
    pub policy: PolicyPatch,
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyConfig {
    /// JSON.
    Json(Shown),
    /// URL-encoded fields.
    #[serde(serialize_with = "as_map")]
    Form(Vec<(String, Shown)>),
    /// Text.
    Text(Shown),
}

/// Which part of an answer is the result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ResultConfig {
    /// A JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The members to keep.
    pub fields: Vec<String>,
}

/// How the requests of an entry are sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccessConfig {
    /// Private addresses that may be reached.
    #[serde(serialize_with = "ranges")]
    pub allow_private: Vec<Cidr>,
    /// How many redirects of a GET to follow.
    pub redirects: usize,
    /// The header field that gets the call's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_header: Option<String>,
    /// The longest call, if not `limits.tool_timeout_sec`.
    #[serde(
        rename = "timeout_sec",
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_seconds"
    )]
    pub timeout: Option<Duration>,
}

/// Tools that an `OpenAPI` document describes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenApiConfig {
    /// The entry's name.
    pub name: String,
    /// Where the document is.
    pub openapi: DocumentAt,
    /// Where its paths begin.
    pub base_url: Shown<Url>,
    /// The operations to offer; all if empty.
    pub include: Vec<Select>,
    /// The operations not to offer.
    pub exclude: Vec<Select>,
    /// Keys for the document's security schemes.
    #[serde(serialize_with = "as_map")]
    pub auth: Vec<(String, CredentialConfig)>,
    /// What comes before the names of the tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How connections are made.
    #[serde(flatten)]
    pub access: AccessConfig,
    /// Changes to policies, by patterns for the names of operations.
    #[serde(serialize_with = "by_glob")]
    pub policy: Vec<(Glob, PolicyPatch)>,
}

/// The operator's credential for a security scheme.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum CredentialConfig {
    /// A key.
    Key(Secret),
    /// Client credentials, which get tokens.
    Client(Box<AuthConfig>),
}

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentAt {
    /// In a file.
    File(PathBuf),
    /// On the web, over https.
    Web(Shown<Url>),
}

impl Serialize for DocumentAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::File(path) => path.serialize(serializer),
            Self::Web(url) => url.serialize(serializer),
        }
    }
}

impl RequestConfig {
    /// The request, with its placeholders checked.
    ///
    /// # Errors
    /// All mistakes.
    pub fn request(&self) -> Result<RequestTemplate, Vec<crate::tools::http::Mistake>> {
        let revealed = |fields: &[(String, Shown)]| {
            fields.iter().map(|(name, value)| (name.clone(), value.reveal().clone())).collect()
        };
        let body = self.body.as_ref().map(|body| match body {
            BodyConfig::Json(value) => WrittenBody::Json(value.reveal().clone()),
            BodyConfig::Form(fields) => WrittenBody::Form(revealed(fields)),
            BodyConfig::Text(text) => {
                WrittenBody::Text(text.reveal().as_str().unwrap_or_default().to_owned())
            }
        });
        let headers =
            self.headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        let written = WrittenRequest {
            method: self.method.name().to_owned(),
            url: self.url.reveal().clone(),
            query: revealed(&self.query),
            headers: headers.collect(),
            body,
            idempotency_header: self.access.idempotency_header.clone(),
        };
        RequestTemplate::read(&written, &self.parameters)
    }

    /// Which part of an answer is the result.
    #[must_use]
    pub fn result(&self) -> ResultOptions {
        let ResultConfig { pointer, fields } = self.result.clone();
        ResultOptions { pointer, fields }
    }
}

/// Reads an entry.
pub(super) fn read(keys: Keys<'_, '_>) -> HttpConfig {
    if keys.has("openapi") {
        HttpConfig::OpenApi(Box::new(read_openapi(keys)))
    } else {
        HttpConfig::Request(Box::new(read_request(keys)))
    }
}

fn read_request(mut keys: Keys<'_, '_>) -> RequestConfig {
    let no_parameters = json!({ "type": "object", "properties": {} });
    let config = RequestConfig {
        name: keys.required("name", String::new(), tool_name),
        description: keys.required("description", String::new(), words),
        method: keys.read("method", Method::Get, method),
        url: shown_as_written(&mut keys, "url", |keys| {
            keys.required("url", String::new(), |node| text(node).map(str::to_owned))
        }),
        query: keys.pairs("query", shown),
        headers: keys.pairs("headers", secret_text),
        body: body(&mut keys),
        parameters: keys.read("parameters", no_parameters, parameters),
        result: result(keys.section("result")),
        access: access(&mut keys),
        policy: policy(keys.section("policy")),
    };
    if !config.url.reveal().is_empty()
        && let Err(mistakes) = config.request()
    {
        for mistake in mistakes {
            keys.refuse(&mistake.key, mistake.message);
        }
    }
    if let Some(mistake) = config.result().mistake() {
        keys.refuse(&mistake.key, mistake.message);
    }
    keys.finish();
    config
}

fn read_openapi(mut keys: Keys<'_, '_>) -> OpenApiConfig {
    let nowhere = DocumentAt::File(PathBuf::new());
    let no_base = Url::parse("https://localhost/").expect("this is a URL");
    let config = OpenApiConfig {
        name: keys.required("name", String::new(), entry_name),
        openapi: keys.required("openapi", nowhere, document_at),
        base_url: shown_as_written(&mut keys, "base_url", |keys| {
            keys.required("base_url", no_base, base_url)
        }),
        include: keys.list("include", Vec::new(), select),
        exclude: keys.list("exclude", Vec::new(), select),
        auth: keys.pairs_or_sections(
            "auth",
            |node| secret_text(node).map(CredentialConfig::Key),
            |keys| CredentialConfig::Client(Box::new(auth::of_http(keys))),
        ),
        prefix: keys.read("prefix", None, |node| text(node).map(|text| Some(text.to_owned()))),
        access: access(&mut keys),
        policy: policies(&mut keys),
    };
    keys.finish();
    config
}

fn access(keys: &mut Keys<'_, '_>) -> AccessConfig {
    let timeout = wait(bounds::WAIT_MIN..=bounds::WAIT_MAX);
    let name = |node: &Node| text(node).map(|name| Some(name.to_owned()));
    AccessConfig {
        allow_private: keys.list("allow_private", Vec::new(), range),
        redirects: keys.read("redirects", 0, integer(0..=REDIRECTS_MAX, "redirects")),
        idempotency_header: keys.read("idempotency_header", None, name),
        timeout: keys.read("timeout_sec", None, |node| timeout(node).map(Some)),
    }
}

fn body(keys: &mut Keys<'_, '_>) -> Option<BodyConfig> {
    let is_absent = !keys.has("body");
    let mut body = keys.section("body");
    if is_absent {
        return None;
    }
    let is_there = ["json", "form", "text"].map(|kind| body.has(kind));
    let json = body.read("json", None, |node| shown(node).map(Some));
    let form = body.pairs("form", shown);
    let words = body.read("text", None, |node| text(node).and_then(|_| shown(node).map(Some)));
    let read = match is_there {
        [true, false, false] => json.map(BodyConfig::Json),
        [false, true, false] => Some(BodyConfig::Form(form)),
        [false, false, true] => words.map(BodyConfig::Text),
        _ => {
            body.refuse_whole("expected one of `json`, `form` or `text`".to_owned());
            None
        }
    };
    body.finish();
    read
}

fn result(mut keys: Keys<'_, '_>) -> ResultConfig {
    let one = |node: &Node| text(node).map(str::to_owned);
    let result = ResultConfig {
        pointer: keys.read("pointer", None, |node| one(node).map(Some)),
        fields: keys.list("fields", Vec::new(), one),
    };
    keys.finish();
    result
}

fn method(node: &Node) -> Result<Method, Refused> {
    let names = Method::ALL.map(Method::name).join(", ");
    Method::named(text(node)?).ok_or_else(|| Refused::new(node, format!("one of {names}")))
}

fn select(node: &Node) -> Result<Select, Refused> {
    text(node).map(Select::parse)
}

/// Reads where a document's paths begin.
fn base_url(node: &Node) -> Result<Url, Refused> {
    let expected = "an http or https URL without a user, query or fragment";
    let url = Url::parse(text(node)?).map_err(|_| Refused::hidden(node, expected))?;
    let is_plain = !has_login(&url) && url.query().is_none() && url.fragment().is_none();
    if matches!(url.scheme(), "http" | "https") && is_plain {
        return Ok(url);
    }
    Err(Refused::hidden(node, expected))
}

fn document_at(node: &Node) -> Result<DocumentAt, Refused> {
    const EXPECTED: &str = "an https URL or a file";
    let text = text(node)?;
    match Url::parse(text) {
        // It would be refused when it is fetched.
        Ok(url) if has_login(&url) => {
            Err(Refused::hidden(node, "an https URL without a user, or a file"))
        }
        Ok(url) if url.scheme() == "https" => {
            Ok(DocumentAt::Web(Shown::new(url, as_written(node))))
        }
        Ok(url) if url.scheme() == "http" => Err(Refused::new(node, EXPECTED)),
        _ if text.is_empty() => Err(Refused::new(node, EXPECTED)),
        _ => Ok(DocumentAt::File(PathBuf::from(text))),
    }
}
