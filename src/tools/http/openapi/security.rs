//! Keys for the security schemes of a document. They are never arguments: models do not see them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::Value;

use super::{reference, text};
use crate::tools::http::RequestTemplate;
use crate::tools::http::encode;
use crate::tools::http::request::{Header, is_visible};
use crate::tools::http::template::Template;

/// What the operator has for the schemes of a document, by their names.
pub type Credentials = Vec<(String, Credential)>;

/// A key for one security scheme.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(pub String);

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// Adds the keys that an operation wants to its request: those of the first alternative whose
/// schemes all have one.
///
/// # Errors
/// Which schemes have none.
pub(super) fn secure(
    credentials: &Credentials,
    root: &Value,
    operation: &Value,
    request: &mut RequestTemplate,
) -> Result<(), String> {
    let security = operation.get("security").or_else(|| root.get("security"));
    let alternatives = security.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut missing = Vec::new();
    for alternative in alternatives {
        let names: Vec<&str> =
            alternative.as_object().into_iter().flatten().map(|(name, _)| &**name).collect();
        match parts(credentials, root, &names) {
            Ok(parts) => {
                for part in parts {
                    part.add(request);
                }
                return Ok(());
            }
            Err(reason) => missing.push(reason),
        }
    }
    match missing.as_slice() {
        [] => Ok(()),
        reasons => Err(reasons.join(", or ")),
    }
}

/// A part of a request that has a key.
#[derive(Debug)]
enum Part {
    Header(String, String),
    Query(String, String),
}

impl Part {
    fn add(self, request: &mut RequestTemplate) {
        match self {
            Self::Header(name, value) => {
                // A parameter of this name would be a second one.
                request.headers.retain(|header| header.name != name);
                let value = Template::text(value);
                request.headers.push(Header { name, value, is_json: false, explode: false });
            }
            Self::Query(name, value) => {
                request.query.retain(|field| field.name != name);
                if !request.fixed_query.is_empty() {
                    request.fixed_query.push('&');
                }
                let field = format!("{}={}", encode::strict(&name), encode::strict(&value));
                request.fixed_query.push_str(&field);
            }
        }
    }
}

/// The keys of one alternative, all of whose schemes are needed.
fn parts(credentials: &Credentials, root: &Value, names: &[&str]) -> Result<Vec<Part>, String> {
    let schemes = root.pointer("/components/securitySchemes");
    let part = |name: &&str| {
        let credential = credentials.iter().find(|(known, _)| known == name);
        let Some((_, Credential(key))) = credential else {
            return Err(format!("it needs a key for `{name}` in `auth`"));
        };
        let scheme = schemes.and_then(|schemes| schemes.get(*name));
        let scheme = scheme.ok_or_else(|| format!("the document has no scheme `{name}`"))?;
        let part = part(reference::resolve(root, scheme)?, key);
        part.ok_or_else(|| format!("the kind of its security scheme `{name}` is not supported"))
    };
    let parts: Vec<Part> = names.iter().map(part).collect::<Result<_, _>>()?;
    let is_twice = |(at, part): (usize, &Part)| {
        let Part::Header(name, _) = part else { return false };
        let before = parts.iter().take(at);
        before.into_iter().any(|part| matches!(part, Part::Header(other, _) if other == name))
    };
    if parts.iter().enumerate().any(is_twice) {
        let names = names.join("` and `");
        return Err(format!("its security schemes `{names}` want the same header"));
    }
    Ok(parts)
}

/// Where a key goes; `None` for kinds that are not supported, cookies among them.
fn part(scheme: &Value, key: &str) -> Option<Part> {
    let header =
        |value: String| is_visible(&value).then(|| Part::Header("authorization".to_owned(), value));
    match text(scheme, "type")? {
        "apiKey" => match (text(scheme, "in")?, text(scheme, "name")?) {
            ("header", name) if is_visible(key) => {
                Some(Part::Header(name.to_ascii_lowercase(), key.to_owned()))
            }
            ("query", name) => Some(Part::Query(name.to_owned(), key.to_owned())),
            _ => None,
        },
        "http" => match &*text(scheme, "scheme")?.to_ascii_lowercase() {
            "bearer" => header(format!("Bearer {key}")),
            "basic" => header(format!("Basic {}", BASE64.encode(key))),
            _ => None,
        },
        "oauth2" | "openIdConnect" => header(format!("Bearer {key}")),
        _ => None,
    }
}
