//! Documents as JSON values, whether they are written in JSON or YAML.

use serde_json::Value;

use super::OpenApiError;
use crate::limits::openapi::{DEPTH_MAX, DOCUMENT_BYTES_MAX, YAML_EVENTS_MAX};

/// Reads a document.
///
/// # Errors
/// If it is too long, or neither JSON nor YAML.
pub(super) fn value(document: &[u8]) -> Result<Value, OpenApiError> {
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(OpenApiError::TooLarge);
    }
    let text = simdutf8::compat::from_utf8(document);
    let text = text.map_err(|error| OpenApiError::NotText(error.valid_up_to()))?;
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with(['{', '[']) {
        return serde_json::from_str(text).map_err(|error| OpenApiError::Json(error.to_string()));
    }
    let options = serde_yaml::options! {
        // As in JSON.
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::LastWins,
        // `yes` and `off` are text, as in YAML 1.2.
        strict_booleans: true,
        with_snippet: false,
        budget: serde_yaml::budget! {
            max_depth: DEPTH_MAX,
            max_events: YAML_EVENTS_MAX,
            max_nodes: YAML_EVENTS_MAX,
        },
    };
    serde_yaml::from_str_with_options(text, options)
        .map_err(|error| OpenApiError::Yaml(error.without_snippet().to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_and_yaml_are_the_same() {
        let json = br#"{"openapi": "3.1.0", "paths": {"/a": {"get": {"responses": {"200": {}}}}}, "x": [1, 1.5, true, null, "no"]}"#;
        let yaml = b"\xef\xbb\xbfopenapi: 3.1.0\npaths:\n  /a:\n    get:\n      responses:\n        200: {}\nx: [1, 1.5, true, ~, no]\n";
        assert_eq!(value(json).unwrap(), value(yaml).unwrap());
        assert_eq!(value(b"a: 1\na: 2").unwrap(), json!({"a": 2}));
        assert_eq!(value(b"a: &x {b: 1}\nc: *x").unwrap(), json!({"a": {"b": 1}, "c": {"b": 1}}));
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        for (document, says) in [
            (&b"{\"a\": }"[..], "line 1 column 7"),
            (b"a: [1\nb: 2", "line 2"),
            (b"a: \xff", "byte 3"),
            (b"a: *nothing", "line 1"),
        ] {
            let error = value(document).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_document_is_bounded() {
        let longest = format!("\"{}\"", "x".repeat(DOCUMENT_BYTES_MAX - 2));
        assert!(value(longest.as_bytes()).is_ok());
        let longer = format!("{longest} ");
        assert!(matches!(value(longer.as_bytes()), Err(OpenApiError::TooLarge)));
        for (open, close, most) in [("[", "]", 127), ("- ", "", DEPTH_MAX)] {
            let nested = |depth: usize| open.repeat(depth) + "1" + &close.repeat(depth);
            assert!(value(nested(most).as_bytes()).is_ok(), "{open}");
            assert!(value(nested(most + 1).as_bytes()).is_err(), "{open}");
        }
        // Ten lists of ten, nine times over.
        let mut bomb = "l0: &l0 [lol]\n".to_owned();
        for level in 1..10 {
            let list = vec![format!("*l{}", level - 1); 10].join(",");
            bomb.push_str(
                &["l", &level.to_string(), ": &l", &level.to_string(), " [", &list, "]\n"].concat(),
            );
        }
        assert!(value(bomb.as_bytes()).is_err());
    }
}
