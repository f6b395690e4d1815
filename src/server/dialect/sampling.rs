//! How tokens are sampled, in every dialect: the bounds of the fields, and those that are passed on.

use serde_json::{Map, Value};

use crate::limits::config::TEMPERATURE_MAX;
use crate::limits::server::{EXTRA_SAMPLING_BYTES_MAX, STOP_STRING_CHARS_MAX, STOP_STRINGS_MAX};
use crate::server::refusal::Refusal;
use crate::text::json_len;
use crate::upstream::{ExtraSampling, Sampling};

/// What an API calls the fields.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) temperature: &'static str,
    pub(super) top_p: &'static str,
    pub(super) max_tokens: &'static str,
    pub(super) stop: &'static str,
}

/// The usual names.
pub(super) const NAMES: Names =
    Names { temperature: "temperature", top_p: "top_p", max_tokens: "max_tokens", stop: "stop" };

/// Checks that all fields are within their bounds.
pub(super) fn check(sampling: &Sampling, names: &Names) -> Result<(), Refusal> {
    let wrong = |param: &'static str, expected: &str| {
        Err(Refusal::invalid(param, format!("{param} must be {expected}")))
    };
    if sampling.temperature.is_some_and(|it| !(0.0..=TEMPERATURE_MAX).contains(&it)) {
        return wrong(names.temperature, &format!("a number from 0 to {TEMPERATURE_MAX}"));
    }
    if sampling.top_p.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
        return wrong(names.top_p, "a number from 0 to 1");
    }
    if sampling.max_tokens == Some(0) {
        return wrong(names.max_tokens, "at least 1");
    }
    let stop = &sampling.stop;
    let is_long = |text: &String| text.chars().nth(STOP_STRING_CHARS_MAX).is_some();
    if stop.len() > STOP_STRINGS_MAX || stop.iter().any(is_long) {
        let expected = format!(
            "at most {STOP_STRINGS_MAX} strings of at most {STOP_STRING_CHARS_MAX} characters each"
        );
        return wrong(names.stop, &expected);
    }
    Ok(())
}

/// The fields that are passed on to the model server, which may or may not know them.
pub(super) fn passed_on(
    fields: impl IntoIterator<Item = (&'static str, Option<Value>)>,
) -> Result<ExtraSampling, Refusal> {
    let mut bytes = 0;
    let mut passed = Map::new();
    for (name, value) in fields {
        let Some(value) = value else { continue };
        bytes += json_len(&value);
        if bytes > EXTRA_SAMPLING_BYTES_MAX {
            let most = format!(
                "{name} is too long: the fields that are passed on to the model server may take \
                 {EXTRA_SAMPLING_BYTES_MAX} bytes of JSON together"
            );
            return Err(Refusal::invalid(name, most));
        }
        passed.insert(name.to_owned(), value);
    }
    Ok(ExtraSampling::new(passed))
}
