//! The variable parts of a request's address.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The value of `name` in a query, percent-decoded; the first one if there are several.
pub(super) fn value<'a>(query: Option<&'a str>, name: &str) -> Option<Cow<'a, str>> {
    form_urlencoded::parse(query?.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// A segment of a path, percent-decoded.
pub(super) fn decode(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment).decode_utf8_lossy()
}

/// Percent-encodes the characters of `value` that have a meaning in a query.
pub(super) fn encode(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}
