//! A call whose name and arguments arrive separately, from a server that parses calls itself.

use serde_json::value::RawValue;

use super::arguments::Refused;
use super::call::{Fault, read_string};
use super::repair::{self, Repair};
use super::segment::{self, ErrorCode, ParseError, ParsedCall};
use super::{Arguments, Settings};

/// Reads a call from a name and the text of its arguments, by the rules for payloads: nothing is
/// guessed. Blank arguments count as `{}`. With [`strict_balancing`](Settings::strict_balancing) off,
/// the arguments are repaired if it is obvious what was meant.
///
/// `index` is the call's own, from 0 in its stream. The error's offset is 0.
///
/// # Errors
/// If it is not a call: the name is missing, or the arguments are not a JSON object, repeat a key,
/// are cut off ([`ErrorCode::IncompletePayload`]) or longer than
/// [`max_payload_bytes`](Settings::max_payload_bytes).
pub fn read_call(
    index: u32,
    name: &str,
    arguments: &str,
    settings: &Settings,
) -> Result<ParsedCall, ParseError> {
    let mut repaired = Vec::new();
    match read(name, arguments, settings, &mut repaired) {
        Ok(arguments) => Ok(ParsedCall { index, name: name.to_owned(), arguments, repaired }),
        Err(fault) => Err(error(index, arguments, fault)),
    }
}

/// A native call that breaks off before its arguments, with its message. They may be empty, or the `{}` that some
/// servers send first.
#[must_use]
pub fn cut_call(index: u32, arguments: &str) -> ParseError {
    let message = "the message ends before the arguments";
    error(index, arguments, Fault::new(ErrorCode::IncompletePayload, message))
}

/// A native call that has no arguments and should have some: they may have got lost.
#[must_use]
pub fn lost_arguments(index: u32) -> ParseError {
    let message = "none of its arguments arrived, and it needs at least one";
    error(index, "", Fault::new(ErrorCode::InvalidCall, message))
}

/// A native call that its server announced and did not send.
#[must_use]
pub fn lost_call() -> ParseError {
    let message = "the model server could not read the call";
    ParseError { index: None, ..error(0, "", Fault::new(ErrorCode::InvalidJson, message)) }
}

fn error(index: u32, arguments: &str, Fault { code, message }: Fault) -> ParseError {
    let raw = segment::quote(arguments.as_bytes());
    ParseError { code, message, offset: 0, raw, index: Some(index), at_line_start: true }
}

fn read(
    name: &str,
    text: &str,
    settings: &Settings,
    repaired: &mut Vec<Repair>,
) -> Result<Arguments, Fault> {
    if text.len() > settings.max_payload_bytes {
        let message = format!("longer than {} bytes", settings.max_payload_bytes);
        return Err(Fault::new(ErrorCode::PayloadTooLarge, message));
    }
    if name.is_empty() {
        return Err(Fault::new(ErrorCode::InvalidCall, "the name is missing"));
    }
    // Of a call without arguments, several servers stream none, whatever its model wrote.
    let text = if text.trim().is_empty() { "{}" } else { text };
    match object(text) {
        Err(Fault { code: ErrorCode::InvalidJson | ErrorCode::IncompletePayload, .. })
            if !settings.strict_balancing =>
        {
            let mended = repair::mend(text, repaired);
            // If the repair fails, the error is about the original.
            object(&mended).or_else(|_| object(text))
        }
        outcome => outcome,
    }
}

fn object(text: &str) -> Result<Arguments, Fault> {
    let value: &RawValue = serde_json::from_str(text).map_err(|error| {
        let code =
            if error.is_eof() { ErrorCode::IncompletePayload } else { ErrorCode::InvalidJson };
        Fault::new(code, format!("not JSON: {error}"))
    })?;
    let arguments = match value.get().as_bytes().first() {
        Some(b'{') => Some(Arguments::new(value)),
        // Some servers encode them twice.
        Some(b'"') => read_string(value.get()),
        _ => None,
    };
    let Some(arguments) = arguments else {
        return Err(Fault::new(ErrorCode::InvalidCall, "the arguments are not an object"));
    };
    arguments.map_err(|refused| match refused {
        Refused::Unreadable(error) => {
            Fault::new(ErrorCode::InvalidJson, format!("not JSON: {error}"))
        }
        twice @ Refused::Twice(_) => twice.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, arguments: &str, settings: &Settings, expected: Result<&str, ErrorCode>) {
        let outcome = read_call(3, name, arguments, settings);
        let short = outcome.as_ref().map(|call| call.arguments.as_str()).map_err(|e| e.code);
        assert_eq!(short, expected, "{arguments}");
        match outcome {
            Ok(call) => assert_eq!((call.index, call.name.as_str()), (3, name)),
            Err(error) => assert_eq!((error.index, error.raw.as_str()), (Some(3), arguments)),
        }
    }

    #[test]
    fn arguments_are_an_object_and_keep_their_text() {
        let strict = Settings::default();
        check("f", r#"{"a": 1.00}"#, &strict, Ok(r#"{"a": 1.00}"#));
        check("f", "{}", &strict, Ok("{}"));
        check("f", "", &strict, Ok("{}"));
        check("f", " \n", &strict, Ok("{}"));
        check("f", r#" {"a":"<<function_call>>"} "#, &strict, Ok(r#"{"a":"<<function_call>>"}"#));
        // Encoded twice, as some servers do.
        check("f", r#""{\"a\": 1.00}""#, &strict, Ok(r#"{"a": 1.00}"#));
        for (arguments, code) in [
            ("null", ErrorCode::InvalidCall),
            ("[1]", ErrorCode::InvalidCall),
            (r#""[1]""#, ErrorCode::InvalidCall),
            (r#""\"{}\"""#, ErrorCode::InvalidCall),
            (r#"{"a":1,"a":1}"#, ErrorCode::InvalidCall),
            (r#"{"a":[{"b":{"c":1,"\u0063":2}}]}"#, ErrorCode::InvalidCall),
            (r#"{"a":"#, ErrorCode::IncompletePayload),
            (r#"{"a":"x"#, ErrorCode::IncompletePayload),
            (r#"{"a":1}}"#, ErrorCode::InvalidJson),
            (r#"{"a":1}{"b":2}"#, ErrorCode::InvalidJson),
            (r#"{"a":1e999}"#, ErrorCode::InvalidJson),
            ("{a}", ErrorCode::InvalidJson),
            ("{'a':1}", ErrorCode::InvalidJson),
        ] {
            check("f", arguments, &strict, Err(code));
        }
        check("", "{}", &strict, Err(ErrorCode::InvalidCall));
    }

    #[test]
    fn a_key_that_stands_twice_is_named() {
        let error = read_call(0, "f", r#"{"to":"a","to":"b"}"#, &Settings::default()).unwrap_err();
        assert_eq!(error.message, "the key `to` occurs twice");
    }

    #[test]
    fn what_was_plainly_meant_is_mended_where_that_is_allowed() {
        let lenient = Settings { strict_balancing: false, ..Settings::default() };
        check("f", r#"{"a": True,}"#, &lenient, Ok(r#"{"a": true}"#));
        let cut = read_call(0, "f", r#"{"a": [1"#, &lenient).unwrap();
        assert_eq!(cut.arguments.as_str(), r#"{"a": [1]}"#);
        assert_eq!(cut.repaired, [Repair::OpenBracket]);
        check("f", "{a b}", &lenient, Err(ErrorCode::InvalidJson));
    }

    #[test]
    fn arguments_are_bounded() {
        let settings = Settings { max_payload_bytes: 8, ..Settings::default() };
        check("f", r#"{"a": 1}"#, &settings, Ok(r#"{"a": 1}"#));
        check("f", r#"{"a": 10}"#, &settings, Err(ErrorCode::PayloadTooLarge));
    }
}
