//! Keys for the security schemes of a document. They are never arguments: models do not see them.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::Value;

use super::parameters::Arguments;
use super::{reference, text};
use crate::tools::http::request::{Header, is_visible};
use crate::tools::http::{Bearer, RequestTemplate, encode};

/// The operator's credentials for the schemes of a document, by name.
pub type Credentials = Vec<(String, Credential)>;

/// The operator's credential for one security scheme.
#[derive(Clone)]
pub enum Credential {
    /// A key.
    Key(String),
    /// Client credentials, which get tokens.
    Client(Arc<Bearer>),
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// Adds the keys that an operation needs to its request: those of the first alternative whose
/// schemes all have one. An alternative without schemes counts if no other one has. Parameters that
/// a key replaces are no longer arguments. Returns what gets the operation's tokens.
///
/// # Errors
/// Which schemes have none.
pub(super) fn secure(
    credentials: &Credentials,
    root: &Value,
    operation: &Value,
    request: &mut RequestTemplate,
    arguments: &mut Arguments,
) -> Result<Option<Arc<Bearer>>, String> {
    let security = operation.get("security").or_else(|| root.get("security"));
    let alternatives = security.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (mut missing, mut is_optional) = (Vec::new(), false);
    for alternative in alternatives {
        let names: Vec<&str> =
            alternative.as_object().into_iter().flatten().map(|(name, _)| &**name).collect();
        if names.is_empty() {
            is_optional = true;
            continue;
        }
        match parts(credentials, root, &names) {
            Ok(parts) => {
                for (name, credential) in credentials {
                    if let Credential::Key(key) = credential
                        && names.contains(&&**name)
                    {
                        request.keys.note_credential(key);
                    }
                }
                let add = |part: Part| part.add(request, arguments);
                return Ok(parts.into_iter().filter_map(add).last());
            }
            Err(reason) => missing.push(reason),
        }
    }
    match missing.as_slice() {
        [] => Ok(None),
        _ if is_optional => Ok(None),
        reasons => Err(reasons.join(", or ")),
    }
}

/// A part of a request that has a key.
#[derive(Debug)]
enum Part {
    Header(String, String),
    Query(String, String),
    /// The header `Authorization`, for each request anew.
    Token(Arc<Bearer>),
}

impl Part {
    fn add(self, request: &mut RequestTemplate, arguments: &mut Arguments) -> Option<Arc<Bearer>> {
        match self {
            Self::Header(name, value) => {
                // A parameter of this name would send the header twice.
                for header in request.headers.extract_if(.., |header| header.name == name) {
                    arguments.remove(header.value.names());
                }
                request.headers.push(Header::constant(name, value));
            }
            Self::Query(name, value) => {
                for field in request.query.extract_if(.., |field| field.name == name) {
                    arguments.remove(field.value.names());
                }
                if !request.fixed_query.is_empty() {
                    request.fixed_query.push('&');
                }
                let field = format!("{}={}", encode::strict(&name), encode::strict(&value));
                request.fixed_query.push_str(&field);
            }
            Self::Token(bearer) => return Some(bearer),
        }
        None
    }

    /// The header field that it is in.
    fn header(&self) -> Option<&str> {
        match self {
            Self::Header(name, _) => Some(name),
            Self::Query(..) => None,
            Self::Token(_) => Some("authorization"),
        }
    }
}

/// The keys of one alternative, all of whose schemes are needed.
fn parts(credentials: &Credentials, root: &Value, names: &[&str]) -> Result<Vec<Part>, String> {
    let schemes = root.pointer("/components/securitySchemes");
    let part = |name: &&str| {
        let credential = credentials.iter().find(|(known, _)| known == name);
        let Some((_, credential)) = credential else {
            return Err(format!("it needs a key for `{name}` in `auth`"));
        };
        let scheme = schemes.and_then(|schemes| schemes.get(*name));
        let scheme = scheme.ok_or_else(|| format!("the document has no scheme `{name}`"))?;
        let part = part(reference::resolve(root, scheme)?, credential);
        part.ok_or_else(|| format!("the kind of its security scheme `{name}` is not supported"))
    };
    let parts: Vec<Part> = names.iter().map(part).collect::<Result<_, _>>()?;
    let is_twice = |(at, part): (usize, &Part)| {
        let before = parts.iter().take(at);
        part.header().is_some() && before.into_iter().any(|other| other.header() == part.header())
    };
    if parts.iter().enumerate().any(is_twice) {
        let names = names.join("` and `");
        return Err(format!("its security schemes `{names}` want the same header"));
    }
    Ok(parts)
}

/// Where a credential goes; `None` for kinds that are not supported, cookies among them.
fn part(scheme: &Value, credential: &Credential) -> Option<Part> {
    let kind = text(scheme, "type")?;
    let http = || text(scheme, "scheme").map(str::to_ascii_lowercase);
    let takes_tokens = match kind {
        "oauth2" | "openIdConnect" => true,
        "http" => http()? == "bearer",
        _ => false,
    };
    let key = match credential {
        Credential::Key(key) => key,
        Credential::Client(bearer) => return takes_tokens.then(|| Part::Token(Arc::clone(bearer))),
    };
    let header =
        |value: String| is_visible(&value).then(|| Part::Header("authorization".to_owned(), value));
    match kind {
        _ if takes_tokens => header(format!("Bearer {key}")),
        "http" if http()? == "basic" => header(format!("Basic {}", BASE64.encode(key))),
        "apiKey" => match (text(scheme, "in")?, text(scheme, "name")?) {
            ("header", name) if is_visible(key) => {
                Some(Part::Header(name.to_ascii_lowercase(), key.clone()))
            }
            ("query", name) => Some(Part::Query(name.to_owned(), key.clone())),
            _ => None,
        },
        _ => None,
    }
}
