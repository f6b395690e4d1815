//! Values with a format or a range of their own: an address, an origin, a key, a marker, a size, a wait.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderName;
use url::Url;

use super::Secret;
use super::raw::Node;
use super::reader::{self, Keys, Refused, integer, shorten, text, wait};
use super::upstream::{ServerKind, base_url_of};
use crate::call_format::{ContractSetting, ROWS};
use crate::limits::config::{self as bounds, ENTRY_NAME_BYTES_MAX, NAME_BYTES_MAX};
use crate::limits::parser::MARKER_BYTES_MAX;
use crate::server::NO_TOOLS;

pub(super) fn address(node: &Node) -> Result<SocketAddr, Refused> {
    let expected = "an address with a port such as `127.0.0.1:8080` or `[::1]:8080`";
    let text = text(node).map_err(|_| Refused::new(node, expected))?;
    text.parse().map_err(|_| Refused::new(node, expected))
}

/// Reads a server's URL. One with an `@` or a query may contain a secret, so it is not quoted.
pub(super) fn server_url(kind: &ServerKind) -> impl Fn(&Node) -> Result<Uri, Refused> {
    |node| {
        let text = text(node)?;
        base_url_of(kind, text).map_err(|expected| {
            if text.contains(['@', '?', '#']) {
                Refused::hidden(node, expected)
            } else {
                Refused::new(node, expected)
            }
        })
    }
}

/// Reads an origin. It is compared byte by byte with what browsers send, so it must be spelled
/// their way (WHATWG URL, serialization of an origin): scheme, host, and the port unless it is the
/// scheme's default.
pub(super) fn origin(node: &Node) -> Result<String, Refused> {
    const EXPECTED: &str = "an exact origin such as `https://app.example.org`";
    let refused = || Refused::new(node, EXPECTED);
    let text = text(node)?;
    let url = Url::parse(text).map_err(|_| refused())?;
    let is_web = matches!(url.scheme(), "http" | "https");
    if !is_web || !url.host_str().is_some_and(is_hostname) {
        return Err(refused());
    }
    let origin = url.origin().ascii_serialization();
    if text == origin {
        return Ok(origin);
    }
    if text.contains('@') {
        // It may contain a password.
        return Err(Refused::hidden(node, EXPECTED));
    }
    Err(Refused::new(node, format!("the origin as browsers send it: `{origin}`")))
}

/// Whether a name has neither a `*` nor an empty label, as in `a..b`. The URL standard allows both.
fn is_hostname(host: &str) -> bool {
    !host.contains('*')
        && host.strip_suffix('.').unwrap_or(host).split('.').all(|it| !it.is_empty())
}

/// Reads a key. `None` for the empty text that `${KEY:-}` gives.
pub(super) fn secret(node: &Node) -> Result<Option<Secret>, Refused> {
    let hidden = |expected: &str| Refused::hidden(node, expected);
    let text = text(node).map_err(|_| hidden("a key as text (put it in quotes)"))?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(hidden("a key of visible ASCII characters, without spaces"));
    }
    Ok(Some(text).filter(|text| !text.is_empty()).map(|text| Secret::new(text.to_owned())))
}

/// Reads a text that is a secret, whatever it consists of.
pub(super) fn secret_text(node: &Node) -> Result<Secret, Refused> {
    let text = text(node).map_err(|_| Refused::hidden(node, "text (put it in quotes)"))?;
    Ok(Secret::new(text.to_owned()))
}

/// Reads the `headers` of requests. A value may be a key.
pub(super) fn headers(keys: &mut Keys<'_, '_>) -> Vec<(String, Secret)> {
    let headers = keys.pairs("headers", |node| {
        let expected = "a header's value: text of visible ASCII characters and spaces";
        let text = text(node).map_err(|_| Refused::hidden(node, expected))?;
        let fits = is_header_value(text).then(|| Secret::new(text.to_owned()));
        fits.ok_or_else(|| Refused::hidden(node, expected))
    });
    for (name, _) in &headers {
        if !is_header_name(name) {
            let key = format!("headers.{}", shorten(name));
            keys.refuse(&key, "expected the name of a header".to_owned());
        }
    }
    headers
}

pub(super) fn is_header_name(name: &str) -> bool {
    HeaderName::try_from(name).is_ok()
}

pub(super) fn is_header_value(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

pub(super) fn name(node: &Node) -> Result<String, Refused> {
    let text = text(node)?;
    let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
    if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    let most = NAME_BYTES_MAX;
    Err(Refused::new(node, format!("a name of 1 to {most} visible ASCII characters")))
}

/// Reads a name under which clients ask for a model.
pub(super) fn model_name(node: &Node) -> Result<String, Refused> {
    let name = name(node)?;
    if name.ends_with(NO_TOOLS) {
        return Err(Refused::new(
            node,
            format!("a name without `{NO_TOOLS}`, which clients append to it"),
        ));
    }
    Ok(name)
}

/// Reads the name of an entry, which comes before the names of its tools.
pub(super) fn entry_name(node: &Node) -> Result<String, Refused> {
    let name = text(node)?;
    if is_entry_name(name) {
        return Ok(name.to_owned());
    }
    let most = ENTRY_NAME_BYTES_MAX;
    Err(Refused::new(
        node,
        format!(
            "a name of 1 to {most} characters from a-z 0-9 _ - that starts with a letter or digit"
        ),
    ))
}

pub(super) fn is_entry_name(name: &str) -> bool {
    let is_begin = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_rest = |byte: u8| is_begin(&byte) || matches!(byte, b'_' | b'-');
    (1..=ENTRY_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().next().as_ref().is_some_and(is_begin)
        && name.bytes().all(is_rest)
}

/// Reads a marker, except one that the parser could never find, or would find everywhere.
pub(super) fn marker(node: &Node) -> Result<String, Refused> {
    let text = text(node)?;
    let expected = if !(1..=MARKER_BYTES_MAX).contains(&text.len()) {
        format!("a marker of 1 to {MARKER_BYTES_MAX} bytes (this one has {})", text.len())
    } else if text.trim().is_empty() {
        "a marker that is not just whitespace".to_owned()
    } else if text.contains(['\n', '\r']) {
        "a marker without line breaks".to_owned()
    } else if ROWS.iter().any(|row| row.reasoning_tags().any(|tag| tag == text)) {
        "a marker that is not a reasoning tag".to_owned()
    } else {
        return Ok(text.to_owned());
    };
    Err(Refused::new(node, expected))
}

/// The values of `call_contract`.
pub(super) static CONTRACTS: LazyLock<Vec<(&str, ContractSetting)>> =
    LazyLock::new(|| ContractSetting::all().collect());

/// Reserved values that this build does not have, by key.
const LATER: &[(&str, &[&str])] = &[("kind", &["ollama"])];

/// Reads one of the names in `choices`. A name in [`LATER`] gets a message of its own.
pub(super) fn choice<T: Copy>(
    key: &str,
    choices: &[(&'static str, T)],
) -> impl Fn(&Node) -> Result<T, Refused> {
    let later = LATER.iter().find(|(known, _)| *known == key).map_or(&[][..], |(_, names)| names);
    move |node| reader::choice(choices, later)(node)
}

/// Reads a size in bytes.
pub(super) fn size() -> impl Fn(&Node) -> Result<usize, Refused> {
    integer(bounds::SIZE_MIN..=bounds::SIZE_MAX, "bytes")
}

/// Reads a wait in seconds.
pub(super) fn wait_some() -> impl Fn(&Node) -> Result<Duration, Refused> {
    wait(bounds::WAIT_MIN..=bounds::WAIT_MAX)
}

/// Reads a wait in seconds; 0 is no wait.
pub(super) fn wait_or_none() -> impl Fn(&Node) -> Result<Duration, Refused> {
    wait(Duration::ZERO..=bounds::WAIT_MAX)
}
