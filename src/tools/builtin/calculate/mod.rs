//! Arithmetic, exact if possible.

mod expression;
#[cfg(test)]
mod tests;

use std::future;
use std::sync::Arc;

use nanoexpr::{Error, ErrorKind, Evaluator, Exact, Math, Number as _};
use serde_json::{Value, json};

use crate::limits::tools::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX};
use crate::text;
use crate::text::quote;
use crate::tools::{CallContext, Example, Policy, Source, Tool, ToolFuture, ToolResult, ToolSpec};

/// The tool `calculate`.
///
/// Numbers are 64-bit fractions. If these cannot hold the result, they become decimals of 18
/// digits, and the result says so. Nothing is allocated, looked up or repeated without a bound, so
/// no expression can take long.
#[derive(Debug)]
pub struct Calculate {
    spec: Arc<ToolSpec>,
}

impl Calculate {
    /// The tool; it has no settings.
    #[must_use]
    pub fn new() -> Self {
        Self { spec: Arc::new(spec()) }
    }
}

impl Default for Calculate {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for Calculate {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
        let expression = arguments["expression"].as_str().unwrap_or_default();
        Box::pin(future::ready(Ok(calculate(expression))))
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "calculate".to_owned(),
        description: "Calculates an arithmetic expression. Use it for every sum, even for easy \
                      ones. Knows + - * / ^ ( ) % (remainder, or percent as in 15% of 80), n!, pi, \
                      e and functions such as sqrt, round and sin (radians)."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "expression": {
                    "type": "string",
                    "description": "For example \"(17 + 4) * 2.5\".",
                    "minLength": 1,
                    "maxLength": EXPRESSION_BYTES_MAX
                }
            },
            "required": ["expression"],
            "additionalProperties": false
        }),
        waiting_hint: "doing the sum".to_owned(),
        example: Some(Example {
            question: "what is the square root of 81?".to_owned(),
            arguments: json!({ "expression": "sqrt(81)" }),
            result: json!({ "expression": "sqrt(81)", "result": "9", "exact": true }),
            answer: "The square root of 81 is 9.".to_owned(),
        }),
        policy: Policy::default(),
        source: Source::builtin(),
        ..ToolSpec::default()
    }
}

/// Digits kept in calculations, so that the ones shown are correct.
const DIGITS: u32 = 18;
/// Digits shown of a result that is not exact.
const DIGITS_SHOWN: usize = 15;
/// The largest power of ten, the same as in floating point. A factorial takes time in proportion
/// to its digits; with this limit, the most expensive expression takes milliseconds.
const EXPONENT_MAX: i32 = 308;

type Number = Exact<DIGITS, EXPONENT_MAX>;

fn calculate(written: &str) -> ToolResult {
    if written.len() > EXPRESSION_BYTES_MAX {
        return ToolResult::error(format!(
            "the expression has {} bytes, {EXPRESSION_BYTES_MAX} are allowed; calculate it in parts",
            written.len()
        ));
    }
    let plain = match expression::plain(written) {
        Ok(plain) => plain,
        Err(error) => return ToolResult::error(error),
    };
    let evaluator = Evaluator::<_, 16>::new(&Math).max_depth(EXPRESSION_DEPTH_MAX);
    match evaluator.evaluate::<Number>(&plain) {
        // The last digits of an inexact number are unknown.
        Ok(number) if number.as_fraction().is_none() && has_remainder(&plain) => ToolResult::error(
            "a remainder needs exact numbers, and these are too long or irrational",
        ),
        Ok(number) => ToolResult::data(data(written, number)),
        Err(error) => ToolResult::error(explain(&plain, error)),
    }
}

fn has_remainder(plain: &str) -> bool {
    plain.contains('%')
        || text::find_whole(plain, "mod", |char| char.is_ascii_alphanumeric()).next().is_some()
}

fn data(expression: &str, number: Number) -> Value {
    let short = |number: Number| format!("{:.DIGITS_SHOWN$}", number.to_decimal());
    let Some(fraction) = number.as_fraction().map(|fraction| fraction.to_string()) else {
        return json!({"expression": expression, "result": short(number), "exact": false});
    };
    if !fraction.contains('/') {
        return json!({"expression": expression, "result": fraction, "exact": true});
    }
    let decimal = number.to_decimal().to_string();
    // Parsed back without its sign, a terminating decimal gives the same fraction again.
    let magnitude = |text: &str| text.trim_start_matches('-').to_owned();
    let back = Number::parse(&magnitude(&decimal)).and_then(Number::as_fraction);
    if back.is_some_and(|back| back.to_string() == magnitude(&fraction)) {
        return json!({"expression": expression, "result": decimal, "exact": true});
    }
    json!({"expression": expression, "result": short(number), "exact": false, "fraction": fraction})
}

/// Says what is wrong with an expression, where, and what to write instead.
fn explain(expression: &str, error: Error) -> String {
    let place = expression.get(error.span.start..error.span.end).unwrap_or_default().trim();
    let what = error.kind.description();
    let hint = match error.kind {
        ErrorKind::UnknownVariable => "only numbers and the constants pi, e and tau can be used",
        ErrorKind::UnknownFunction => {
            "the functions are sqrt, cbrt, abs, round, floor, ceil, min, max, exp, ln, log10, \
             log2, sin, cos and tan"
        }
        ErrorKind::UnexpectedToken | ErrorKind::UnexpectedEnd | ErrorKind::UnclosedParenthesis => {
            "write every multiplication as * and close every parenthesis"
        }
        ErrorKind::Overflow | ErrorKind::InvalidNumber => "the largest number is 1e308",
        ErrorKind::TooDeep => "calculate it in parts",
        _ => "",
    };
    let place = if place.is_empty() { String::new() } else { format!(" at {}", quote(place)) };
    let colon = if hint.is_empty() { "" } else { ": " };
    format!("{what}{place}{colon}{hint}")
}
