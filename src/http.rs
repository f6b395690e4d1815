//! Rules of HTTP for media types, codings, connections and retries: which failures may pass, and
//! how long a server asks to wait.
//!
//! Pure. Whether a request may be repeated at all is up to the caller.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::TimeZone;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// Everything but unreserved characters (RFC 3986, section 2.3), for fields of queries.
pub(crate) const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whether a `Content-Type` field has this media type, ignoring parameters. Types are
/// case-insensitive (RFC 9110, section 8.3.1).
#[must_use]
pub(crate) fn is_media_type(field: &str, media_type: &str) -> bool {
    let named = field.split_once(';').map_or(field, |(named, _)| named);
    named.trim_ascii().eq_ignore_ascii_case(media_type)
}

/// The elements of a comma-separated list in one or more fields, without empty ones (RFC 9110, section 5.6.1).
pub(crate) fn elements<'f>(
    fields: impl IntoIterator<Item = &'f str>,
) -> impl Iterator<Item = &'f str> {
    let elements = fields.into_iter().flat_map(|field| field.split(',')).map(str::trim_ascii);
    elements.filter(|element| !element.is_empty())
}

/// Whether `Connection` fields have this option, which is case-insensitive (RFC 9110, section 7.6.1).
#[must_use]
pub(crate) fn has_connection_option<'f>(
    fields: impl IntoIterator<Item = &'f str>,
    option: &str,
) -> bool {
    elements(fields).any(|found| found.eq_ignore_ascii_case(option))
}

/// The first coding in `Transfer-Encoding` or `Content-Encoding` fields that is not `known`.
/// Names are case-insensitive (RFC 9112, section 7; RFC 9110, section 8.4.1).
#[must_use]
pub(crate) fn unknown_coding<'f>(
    fields: impl IntoIterator<Item = &'f str>,
    known: &str,
) -> Option<&'f str> {
    elements(fields).find(|coding| !coding.eq_ignore_ascii_case(known))
}

/// Whether this status describes the moment rather than the request, so that the same request
/// may succeed a little later: too many requests (429, RFC 6585 section 4), or a server that is
/// temporarily unavailable (502, 503, 504; RFC 9110 sections 15.6.3 to 15.6.5).
#[must_use]
pub(crate) const fn is_transient(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

/// The wait that a `Retry-After` field asks for (RFC 9110, section 10.2.3): seconds or a date.
/// Zero for a date in the past; `None` for a field that cannot be parsed.
#[must_use]
pub(crate) fn retry_after(field: &str, now: Timestamp) -> Option<Duration> {
    let field = field.trim();
    if !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than a `u64` holds mean never.
        return Some(Duration::from_secs(field.parse().unwrap_or(u64::MAX)));
    }
    Some(Duration::try_from(date(field)?.duration_since(now)).unwrap_or_default())
}

/// Parses a date in one of the three formats that a recipient must accept (RFC 9110, section
/// 5.6.7): the current one, RFC 850's, and that of C's `asctime`.
fn date(field: &str) -> Option<Timestamp> {
    if let Ok(date) = rfc2822::parse(field) {
        return Some(date.timestamp());
    }
    let read = |form: &str| strtime::parse(form, field).and_then(|parts| parts.to_datetime());
    let date: DateTime =
        read("%A, %d-%b-%y %H:%M:%S GMT").or_else(|_| read("%a %b %e %H:%M:%S %Y")).ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// The media type in `offered` that an `Accept` field prefers (RFC 9110, section 12.5.1), the
/// first of equals; `None` if it names none of them. Wildcards do not count.
#[must_use]
pub(crate) fn preferred<'o>(accept: &str, offered: &[&'o str]) -> Option<&'o str> {
    let mut best: Option<(&'o str, f32)> = None;
    for range in accept.split(',') {
        let quality = range.split(';').skip(1).find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().ok())?
        });
        let quality = quality.unwrap_or(1.0);
        let Some(named) = offered.iter().find(|offered| is_media_type(range, offered)) else {
            continue;
        };
        if quality > best.map_or(0.0, |(_, quality)| quality) {
            best = Some((named, quality));
        }
    }
    best.map(|(named, _)| named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        for field in
            ["text/event-stream", "Text/Event-Stream; Charset=UTF-8", " text/EVENT-stream ;x"]
        {
            assert!(is_media_type(field, "text/event-stream"), "{field}");
        }
        for field in ["", "text/event-streams", "application/json; text/event-stream"] {
            assert!(!is_media_type(field, "text/event-stream"), "{field}");
        }
    }

    #[test]
    fn codings_are_listed_over_fields() {
        for (fields, expected) in [
            (&[][..], None),
            (&[""], None),
            (&["chunked"], None),
            (&["Chunked", " , CHUNKED"], None),
            (&["gzip, chunked"], Some("gzip")),
            (&["gzip", "chunked"], Some("gzip")),
            (&["chunked , br;q=1"], Some("br;q=1")),
        ] {
            assert_eq!(unknown_coding(fields.iter().copied(), "chunked"), expected, "{fields:?}");
        }
    }

    #[test]
    fn connection_options_are_found_in_any_field_and_case() {
        for (fields, closes) in [
            (&["close"][..], true),
            (&["x, Close"], true),
            (&["keep-alive", "CLOSE ,y"], true),
            (&["x-close", "\"close\""], false),
            (&[], false),
        ] {
            let found = has_connection_option(fields.iter().copied(), "close");
            assert_eq!(found, closes, "{fields:?}");
        }
    }

    #[test]
    fn four_statuses_are_transient() {
        let found: Vec<u16> = (100..600).filter(|status| is_transient(*status)).collect();
        assert_eq!(found, [429, 502, 503, 504]);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:37Z".parse().unwrap();
        for (field, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:38 GMT", Some(1)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sunday, 06-Nov-94 08:49:39 GMT", Some(2)),
            ("Sun Nov  6 08:49:40 1994", Some(3)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("Sun, 06 Nov 1994", None),
        ] {
            assert_eq!(retry_after(field, now).map(|wait| wait.as_secs()), seconds, "{field:?}");
        }
    }

    #[test]
    fn the_preferred_media_type_wins() {
        let offered = ["text/event-stream", "application/x-ndjson"];
        for (accept, expected) in [
            ("", None),
            ("*/*", None),
            ("text/html", None),
            ("text/event-stream", Some(offered[0])),
            ("Application/X-NDJSON; charset=utf-8", Some(offered[1])),
            ("application/x-ndjson, text/event-stream", Some(offered[1])),
            ("text/event-stream;q=0.5, application/x-ndjson", Some(offered[1])),
            ("application/x-ndjson; Q=0.5, text/event-stream ;q=0.6", Some(offered[0])),
            ("application/x-ndjson;q=0", None),
            ("application/x-ndjson;q=much", Some(offered[1])),
        ] {
            assert_eq!(preferred(accept, &offered), expected, "{accept}");
        }
    }
}
