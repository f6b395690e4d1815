//! What is variable in a request's address.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The value of `name` in a query, percent-decoded; the first where it stands
/// more than once.
pub(super) fn value<'a>(query: Option<&'a str>, name: &str) -> Option<Cow<'a, str>> {
    form_urlencoded::parse(query?.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// A segment of a path, percent-decoded.
pub(super) fn decode(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment).decode_utf8_lossy()
}

/// `value` with what has a meaning in a query percent-encoded.
pub(super) fn encode(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}
