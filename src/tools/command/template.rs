//! Argument templates: what a call's arguments become on a program's command line.
//!
//! There is no shell, so nothing in a value is ever interpreted by one. What remains is a value that
//! begins with `-` and would be taken for an option: it is refused unless `--` comes before it, or
//! it is part of a longer element.
//!
//! ```text
//! [grep, -rn, [--max-count, "{limit}"], "--include={glob}", --, "{pattern}", "{paths}"]
//!              └ left out if `limit` is    └ one element       └ any text     └ a list alone:
//!                absent                                                         one element each
//! ```
//! Not every `--` ends the options of the program that gets the values:
//!
//! ```text
//! [bwrap, --unshare-all, --, tar, -cf, "{file}"]   it ends those of a wrapper: text follows it
//! [tar, --exclude, "{skip}", --, "{files}"]        without `skip`, it is the value of --exclude
//! ```

use serde::Serialize;
use serde_json::{Map, Value};

use crate::limits::command::ARGUMENTS_BYTES_MAX;

/// The arguments of a command, checked against the parameters of its tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// An element as an operator writes it: text, or a group of texts that is optional as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Element {
    /// One argument.
    One(String),
    /// Arguments that are left out together if a value in them is absent.
    Group(Vec<String>),
}

impl Element {
    /// Its arguments as they are written, with placeholders.
    pub(crate) fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Group(texts) => texts,
        }
    }
}

/// Whether an argument as it is written has a placeholder.
pub(crate) fn has_placeholder(text: &str) -> bool {
    cut(text).iter().any(|(is_name, _)| *is_name)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    One(Pieces),
    Group(Vec<Pieces>),
}

/// An element, cut at its placeholders.
type Pieces = Vec<Piece>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `--` before a value.
    EndOfOptions,
    /// The value of a parameter.
    Value(String),
}

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A placeholder names no parameter.
    #[error("{{{name}}} names no parameter; {}", list(known))]
    UnknownParameter {
        /// The name in the braces.
        name: String,
        /// The tool's parameters.
        known: Vec<String>,
    },
    /// A value that must be there may be absent.
    #[error(
        "{{{0}}} may be absent, because it is not required; put the element into a list of its own, \
         which is then left out, or require the parameter"
    )]
    MayBeAbsent(String),
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        return "the tool has no parameters".to_owned();
    }
    format!("parameters: {}", known.join(", "))
}

impl Template {
    /// Checks a template against a tool's parameters, a JSON Schema.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn new(elements: &[Element], parameters: &Value) -> Result<Self, TemplateError> {
        let known: Vec<String> =
            parameters["properties"].as_object().into_iter().flat_map(Map::keys).cloned().collect();
        let required = |name: &str| {
            let names = parameters["required"].as_array().into_iter().flatten();
            names.filter_map(Value::as_str).any(|required| required == name)
        };
        let parts = elements.iter().map(|element| match element {
            Element::One(text) => {
                let pieces = pieces(text, &known)?;
                // An element that is nothing but a value is left out with it.
                if let [_, _, ..] = pieces.as_slice()
                    && let Some(name) = names(&pieces).find(|name| !required(name))
                {
                    return Err(TemplateError::MayBeAbsent(name.to_owned()));
                }
                Ok(Part::One(pieces))
            }
            Element::Group(texts) => texts
                .iter()
                .map(|text| pieces(text, &known))
                .collect::<Result<_, _>>()
                .map(Part::Group),
        });
        let mut parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        mark_ends_of_options(&mut parts);
        Ok(Self { parts })
    }

    /// The arguments for a call.
    ///
    /// # Errors
    /// Which value cannot be passed on, and why, for the model.
    pub fn fill(&self, values: &Value) -> Result<Vec<String>, String> {
        let mut filled = Filled::new(values);
        for part in &self.parts {
            match part {
                Part::One(pieces) => filled.push(pieces)?,
                Part::Group(group) => {
                    if group.iter().all(|pieces| filled.has(pieces)) {
                        group.iter().try_for_each(|pieces| filled.push(pieces))?;
                    } else if !group.first().is_some_and(|first| is_option(first)) {
                        filled.leave_out_value();
                    }
                }
            }
        }
        Ok(filled.arguments)
    }
}

fn names(pieces: &[Piece]) -> impl Iterator<Item = &str> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Value(name) => Some(name.as_str()),
        Piece::Text(_) | Piece::EndOfOptions => None,
    })
}

fn is_option(pieces: &[Piece]) -> bool {
    matches!(pieces, [Piece::Text(text), ..] if text.starts_with('-'))
}

/// Finds each `--` with a value right after it. Text right after it is a wrapper's program.
fn mark_ends_of_options(parts: &mut [Part]) {
    let mut comes_before_value = false;
    let elements = parts.iter_mut().flat_map(|part| match part {
        Part::One(pieces) => std::slice::from_mut(pieces),
        Part::Group(group) => group.as_mut_slice(),
    });
    for pieces in elements.rev() {
        if comes_before_value && *pieces == [Piece::Text("--".to_owned())] {
            *pieces = vec![Piece::EndOfOptions];
        }
        comes_before_value = names(pieces).next().is_some();
    }
}

/// Cuts an element at its placeholders: a name in braces. Other braces are text, because scripts are
/// full of them, and `{{name}}` is the text `{name}`.
pub(super) fn cut(element: &str) -> Vec<(bool, String)> {
    let (mut pieces, mut text, mut rest) = (Vec::new(), String::new(), element);
    while let Some(at) = rest.find('{') {
        let (before, brace) = rest.split_at(at);
        text.push_str(before);
        let quoted =
            brace.strip_prefix("{{").and_then(name_in).filter(|(_, after)| after.starts_with('}'));
        if let Some((name, after)) = quoted {
            text.extend(["{", name, "}"]);
            rest = &after[1..];
        } else if let Some((name, after)) = brace.strip_prefix('{').and_then(name_in) {
            if !text.is_empty() {
                pieces.push((false, std::mem::take(&mut text)));
            }
            pieces.push((true, name.to_owned()));
            rest = after;
        } else {
            text.push('{');
            rest = &brace[1..];
        }
    }
    text.push_str(rest);
    if !text.is_empty() || pieces.is_empty() {
        pieces.push((false, text));
    }
    pieces
}

/// A parameter's name up to the closing brace, and what follows.
fn name_in(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.split_once('}')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let begins = name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_');
    (begins && name.bytes().all(is_name)).then_some((name, after))
}

fn pieces(element: &str, known: &[String]) -> Result<Pieces, TemplateError> {
    let piece = |(is_value, text): (bool, String)| match is_value {
        false => Ok(Piece::Text(text)),
        true if known.contains(&text) => Ok(Piece::Value(text)),
        true => Err(TemplateError::UnknownParameter { name: text, known: known.to_vec() }),
    };
    cut(element).into_iter().map(piece).collect()
}

/// The arguments so far.
struct Filled<'v> {
    values: &'v Value,
    arguments: Vec<String>,
    /// Whether `--` was among them: what follows is never an option.
    options_ended: bool,
    /// Whether the last argument is an option that may have lost its value, so that it takes the
    /// next argument instead, even `--`.
    wants_value: bool,
    bytes: usize,
}

impl<'v> Filled<'v> {
    const fn new(values: &'v Value) -> Self {
        Self { values, arguments: Vec::new(), options_ended: false, wants_value: false, bytes: 0 }
    }

    /// Whether none of an element's values is absent.
    fn has(&self, pieces: &[Piece]) -> bool {
        let is_alone = pieces.len() == 1;
        names(pieces).all(|name| match self.values.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Array(items)) => !is_alone || !items.is_empty(),
            Some(_) => true,
        })
    }

    /// A value is absent that may have belonged to the argument before it.
    fn leave_out_value(&mut self) {
        let last = self.arguments.last();
        self.wants_value |= last.is_some_and(|last| last.starts_with('-') && !last.contains('='));
    }

    fn push(&mut self, pieces: &[Piece]) -> Result<(), String> {
        if let [Piece::Value(name)] = pieces {
            if !self.has(pieces) {
                self.leave_out_value();
                return Ok(());
            }
            return match &self.values[name] {
                Value::Array(items) => {
                    items.iter().try_for_each(|item| self.push_value(name, item))
                }
                value => self.push_value(name, value),
            };
        }
        let mut argument = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => argument.push_str(text),
                Piece::EndOfOptions => argument.push_str("--"),
                Piece::Value(name) => {
                    argument.push_str(&text(self.values.get(name).unwrap_or(&Value::Null)));
                }
            }
        }
        if let [Piece::Value(name), ..] = pieces {
            self.check_option(name, &argument)?;
        }
        self.options_ended |= pieces == [Piece::EndOfOptions] && !self.wants_value;
        self.push_text(argument)
    }

    /// Adds a value as an element of its own.
    fn push_value(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let argument = text(value);
        self.check_option(name, &argument)?;
        self.push_text(argument)
    }

    fn check_option(&self, name: &str, argument: &str) -> Result<(), String> {
        if argument.starts_with('-') && !self.options_ended {
            return Err(format!("{name} must not begin with \"-\""));
        }
        Ok(())
    }

    fn push_text(&mut self, argument: String) -> Result<(), String> {
        if argument.contains('\0') {
            return Err("an argument must not contain a NUL character".to_owned());
        }
        self.bytes += argument.len() + 1;
        if self.bytes > ARGUMENTS_BYTES_MAX {
            return Err(format!(
                "the arguments are longer than {ARGUMENTS_BYTES_MAX} bytes; send less"
            ));
        }
        self.wants_value = false;
        self.arguments.push(argument);
        Ok(())
    }
}

/// A value as text: strings as they are, anything else as JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string"}, "limit": {"type": "integer"},
                "paths": {"type": "array"}, "deep": {"type": "boolean"},
            },
            "required": ["pattern"],
        })
    }

    fn one(text: &str) -> Element {
        Element::One(text.to_owned())
    }

    fn group(texts: &[&str]) -> Element {
        Element::Group(texts.iter().map(|&text| text.to_owned()).collect())
    }

    #[track_caller]
    fn check(elements: &[Element], values: &Value, expected: Result<&[&str], &str>) {
        let template = Template::new(elements, &parameters()).unwrap();
        let filled = template.fill(values);
        match expected {
            Ok(arguments) => assert_eq!(filled.unwrap(), arguments),
            Err(reason) => assert!(filled.as_ref().unwrap_err().contains(reason), "{filled:?}"),
        }
    }

    #[test]
    fn each_placeholder_becomes_its_value() {
        let grep = [
            one("-rn"),
            group(&["--max-count", "{limit}"]),
            one("--pattern={pattern}"),
            one("--"),
            one("{pattern}"),
            one("{paths}"),
        ];
        check(
            &grep,
            &json!({"pattern": "a b; rm -rf $HOME", "limit": 3, "paths": ["x", "y z"]}),
            Ok(&[
                "-rn",
                "--max-count",
                "3",
                "--pattern=a b; rm -rf $HOME",
                "--",
                "a b; rm -rf $HOME",
                "x",
                "y z",
            ]),
        );
        check(&grep, &json!({"pattern": ""}), Ok(&["-rn", "--pattern=", "--", ""]));
        check(
            &grep,
            &json!({"pattern": "a", "limit": null, "paths": []}),
            Ok(&["-rn", "--pattern=a", "--", "a"]),
        );
    }

    #[test]
    fn values_that_are_not_text_become_json() {
        check(
            &[one("{deep}"), one("{paths}"), one("{pattern}")],
            &json!({"deep": true, "paths": [1.5, {"a": []}, "t"], "pattern": {"b": "c"}}),
            Ok(&["true", "1.5", "{\"a\":[]}", "t", "{\"b\":\"c\"}"]),
        );
    }

    #[test]
    fn a_value_cannot_become_an_option() {
        let refused = Err("must not begin with \"-\"");
        for value in ["-rf", "--exec=sh", "-"] {
            let values = json!({"pattern": value, "paths": ["a", value]});
            check(&[one("{pattern}")], &values, refused);
            check(&[one("{pattern}x")], &values, refused);
            check(&[group(&["{pattern}"])], &values, refused);
            check(&[one("{paths}")], &values, refused);
            check(&[one("{pattern}"), one("--")], &values, refused);
            check(&[one("--"), one("{pattern}")], &values, Ok(&["--", value]));
            check(&[one("-e{pattern}")], &values, Ok(&[&format!("-e{value}")]));
        }
        // A value that says `--` does not end the options.
        let values = json!({"pattern": "-x", "paths": ["--"]});
        check(&[one("{paths}"), one("{pattern}")], &values, refused);
        check(&[one("{deep}")], &json!({"pattern": "", "deep": -7}), refused);
    }

    #[test]
    fn an_option_without_its_value_does_not_take_the_end_of_options_for_it() {
        let refused = Err("must not begin with \"-\"");
        let absent = json!({"pattern": "-x"});
        let empty = json!({"pattern": "-x", "paths": []});
        for values in [&absent, &empty] {
            let (end, pattern) = (one("--"), one("{pattern}"));
            let skip = [one("--exclude"), one("{paths}"), end.clone(), pattern.clone()];
            check(&skip, values, refused);
            let skip = [one("--exclude"), group(&["{paths}"]), end.clone(), pattern.clone()];
            check(&skip, values, refused);
            let skip = [one("-v"), group(&["--exclude", "{paths}"]), end.clone(), pattern.clone()];
            check(&skip, values, Ok(&["-v", "--", "-x"]));
            let whole = [one("--color=auto"), one("{paths}"), end, pattern];
            check(&whole, values, Ok(&["--color=auto", "--", "-x"]));
        }
    }

    #[test]
    fn the_end_of_a_wrappers_options_is_not_that_of_its_programs() {
        let values = json!({"pattern": "-x", "paths": ["-y"]});
        let wrapped = [one("--unshare-all"), one("--"), one("tar"), one("{pattern}")];
        check(&wrapped, &values, Err("must not begin with \"-\""));
        let ended = [one("-u"), one("--"), one("tar"), one("--"), one("{pattern}"), one("x")];
        check(&ended, &values, Ok(&["-u", "--", "tar", "--", "-x", "x"]));
        let grouped = [one("--"), group(&["{paths}"]), one("end"), one("{pattern}")];
        check(&grouped, &values, Ok(&["--", "-y", "end", "-x"]));
    }

    #[test]
    fn what_no_program_can_receive_is_refused() {
        check(&[one("{pattern}")], &json!({"pattern": "a\0b"}), Err("NUL"));
        let longest = "p".repeat(ARGUMENTS_BYTES_MAX - 1);
        check(&[one("{pattern}")], &json!({"pattern": longest}), Ok(&[&longest]));
        check(&[one("{pattern}")], &json!({"pattern": longest + "p"}), Err("longer than"));
    }

    #[track_caller]
    fn check_refused(element: Element, told: &str) {
        let error = Template::new(&[element], &parameters()).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }

    #[test]
    fn mistakes_in_a_template_are_found_before_any_call() {
        check_refused(one("{patern}"), "{patern} names no parameter; parameters: pattern, limit");
        check_refused(one("--max={limit}"), "{limit} may be absent");
        check_refused(one("{{pattern}} {x}"), "{x} names no parameter");
        check_refused(group(&["{y}"]), "{y} names no parameter");
    }

    #[test]
    fn only_names_in_braces_are_placeholders() {
        for text in
            ["{pattern", "pattern}", "{}", "}{", "{print $1}", "{\"n\": 1}", "${{}", "{ x }", ""]
        {
            check(&[one(text)], &json!({}), Ok(&[text]));
        }
        check(&[one("{{pattern}}")], &json!({}), Ok(&["{pattern}"]));
        check(&[one("{{{pattern}}}")], &json!({"pattern": "p"}), Ok(&["{{pattern}}"]));
        check(&[one("${pattern}")], &json!({"pattern": "p"}), Ok(&["$p"]));
    }

    proptest! {
        #[test]
        fn a_value_is_never_more_than_one_argument_and_never_an_option(
            pattern in any::<String>(),
            limit in any::<i64>(),
        ) {
            let elements = [one("-n"), one("{pattern}"), group(&["--limit={limit}"]), one("end")];
            let template = Template::new(&elements, &parameters()).unwrap();
            let values = json!({"pattern": pattern, "limit": limit});
            match template.fill(&values) {
                Ok(arguments) => {
                    let limit = format!("--limit={limit}");
                    prop_assert_eq!(arguments, ["-n", &*pattern, &*limit, "end"]);
                    prop_assert!(!pattern.starts_with('-') && !pattern.contains('\0'));
                }
                Err(_) => prop_assert!(pattern.starts_with('-') || pattern.contains('\0')),
            }
        }
    }
}
