//! Text and JSON with placeholders for a call's arguments.
//!
//! `{name}` is a placeholder if the name consists of letters, digits, `_`, `-` and `.` and does not
//! start with a digit. All other braces stand for themselves, as in `query { user { id } }`, and
//! `{{name}}` is the text `{name}`.

use serde_json::{Map, Value};

/// Text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text as it is.
    Text(String),
    /// The argument of this name.
    Argument(String),
}

impl Template {
    /// The text, if there are no placeholders in it.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self.pieces() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Reads a text as an operator writes it.
    #[must_use]
    pub(super) fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            literal.push_str(before);
            if let Some((name, after)) = after.strip_prefix('{').and_then(placeholder)
                && let Some(after) = after.strip_prefix('}')
            {
                literal.push('{');
                literal.push_str(name);
                literal.push('}');
                rest = after;
            } else if let Some((name, after)) = placeholder(after) {
                if !literal.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Argument(name.to_owned()));
                rest = after;
            } else {
                literal.push('{');
                rest = after;
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Self { pieces }
    }

    /// The argument of this name and nothing else. The name may have any form.
    #[must_use]
    pub(super) fn argument(name: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Argument(name.into())] }
    }

    /// Text without placeholders, whatever braces it has.
    #[must_use]
    pub(super) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let piece = (!text.is_empty()).then_some(Piece::Text(text));
        Self { pieces: piece.into_iter().collect() }
    }

    /// Templates one after the other.
    #[must_use]
    pub(super) fn concat(templates: impl IntoIterator<Item = Self>) -> Self {
        Self { pieces: templates.into_iter().flat_map(|template| template.pieces).collect() }
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The name of the argument, if the template is a single placeholder.
    pub(super) fn alone(&self) -> Option<&str> {
        match &*self.pieces {
            [Piece::Argument(name)] => Some(name),
            _ => None,
        }
    }

    /// The names of its placeholders.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Argument(name) => Some(&**name),
            Piece::Text(_) => None,
        })
    }

    /// The text, if there are no placeholders.
    pub(super) fn constant(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// The name of the placeholder whose opening brace has just been read, and the text after it.
fn placeholder(after_brace: &str) -> Option<(&str, &str)> {
    let (name, after) = after_brace.split_once('}')?;
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    let begins = name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_');
    (begins && name.chars().all(is_part)).then_some((name, after))
}

/// JSON with placeholders in its strings.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JsonTemplate {
    /// A value without placeholders.
    Value(Value),
    /// An argument, with its own type.
    Argument(String),
    /// A string with placeholders in it.
    Text(Template),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(Vec<(String, Self)>),
    /// An object that vanishes if all its members are absent.
    Members(Vec<(String, Self)>),
}

impl JsonTemplate {
    /// Reads a value as an operator writes it. The string `"{x}"` is the argument `x` with its
    /// type; keys have no placeholders.
    #[must_use]
    pub(super) fn parse(value: &Value) -> Self {
        match value {
            Value::String(text) => {
                let template = Template::parse(text);
                match (template.alone(), template.constant()) {
                    (Some(name), _) => Self::Argument(name.to_owned()),
                    (_, Some(constant)) => Self::Value(constant.into()),
                    _ => Self::Text(template),
                }
            }
            Value::Array(items) => Self::Array(items.iter().map(Self::parse).collect()),
            Value::Object(members) => {
                let parse = |(key, value): (&String, &Value)| (key.clone(), Self::parse(value));
                Self::Object(members.iter().map(parse).collect())
            }
            other => Self::Value(other.clone()),
        }
    }

    /// The value for a call. `None` if it is an argument that is absent, or a text with one. Such
    /// members of an object and elements of an array vanish.
    ///
    /// # Errors
    /// Whatever `fill` returns for a text.
    pub(super) fn fill<E>(
        &self,
        arguments: &Map<String, Value>,
        fill: &impl Fn(&Template) -> Result<Option<String>, E>,
    ) -> Result<Option<Value>, E> {
        Ok(match self {
            Self::Value(value) => Some(value.clone()),
            Self::Argument(name) => arguments.get(name).cloned(),
            Self::Text(template) => fill(template)?.map(Value::String),
            Self::Array(items) => {
                let items = items.iter().map(|item| item.fill(arguments, fill));
                let items: Result<Vec<_>, E> = items.filter_map(Result::transpose).collect();
                Some(Value::Array(items?))
            }
            Self::Object(members) | Self::Members(members) => {
                let mut filled = Map::new();
                for (key, member) in members {
                    if let Some(value) = member.fill(arguments, fill)? {
                        filled.insert(key.clone(), value);
                    }
                }
                let is_absent = filled.is_empty() && matches!(self, Self::Members(_));
                (!is_absent).then_some(Value::Object(filled))
            }
        })
    }

    /// Calls `visit` with the name of each placeholder.
    pub(super) fn visit_names<'t>(&'t self, visit: &mut impl FnMut(&'t str)) {
        match self {
            Self::Value(_) => {}
            Self::Argument(name) => visit(name),
            Self::Text(template) => template.names().for_each(visit),
            Self::Array(items) => items.iter().for_each(|item| item.visit_names(visit)),
            Self::Object(members) | Self::Members(members) => {
                for (_, member) in members {
                    member.visit_names(visit);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A template with its placeholders in angle brackets.
    fn shown(template: &Template) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Argument(name) => format!("<{name}>"),
        };
        template.pieces().iter().map(piece).collect()
    }

    #[test]
    fn names_in_braces_are_placeholders_and_other_braces_are_text() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{x}", "<x>"),
            ("a{x}b{y-1.z}c", "a<x>b<y-1.z>c"),
            ("{x}{y}", "<x><y>"),
            ("{_a}", "<_a>"),
            ("{1a}{}{ x }{x y}{ö}", "{1a}{}{ x }{x y}{ö}"),
            ("query { user { id } }", "query { user { id } }"),
            ("{{x}}", "{x}"),
            ("{{{x}}}", "{{x}}"),
            ("{{x}", "{<x>"),
            ("{\"a\":{x}}", "{\"a\":<x>}"),
            ("{", "{"),
            ("}{", "}{"),
            ("{x", "{x"),
        ] {
            assert_eq!(shown(&Template::parse(text)), expected, "{text}");
        }
    }

    #[test]
    fn a_placeholder_alone_is_told_from_text_with_placeholders() {
        assert_eq!(Template::parse("{x}").alone(), Some("x"));
        assert_eq!(Template::parse("{x} ").alone(), None);
        assert_eq!(Template::argument("a b").alone(), Some("a b"));
        assert_eq!(Template::parse("a{{x}}").constant(), Some("a{x}"));
        assert_eq!(Template::text("{x}").constant(), Some("{x}"));
    }

    #[track_caller]
    fn check_json(template: &Value, arguments: &Value, expected: impl Into<Option<Value>>) {
        let arguments = arguments.as_object().unwrap();
        let fill = |template: &Template| {
            let values: Option<Vec<_>> =
                template.names().map(|name| arguments.get(name)?.as_str()).collect();
            Ok::<_, ()>(values.map(|values| values.join("+")))
        };
        assert_eq!(JsonTemplate::parse(template).fill(arguments, &fill).unwrap(), expected.into());
    }

    #[test]
    fn json_takes_arguments_with_their_type() {
        let all = json!({"a": 1, "b": [true], "c": {"d": null}, "e": null, "s": "x"});
        check_json(&json!("{a}"), &all, Some(json!(1)));
        check_json(
            &json!({"n": "{a}", "l": ["{b}", "{c}"], "z": "{e}", "{a}": 5, "t": "{s} {s}"}),
            &all,
            Some(json!({"n": 1, "l": [[true], {"d": null}], "z": null, "{a}": 5, "t": "x+x"})),
        );
    }

    #[test]
    fn what_is_absent_vanishes_from_json() {
        let none = json!({});
        check_json(&json!("{a}"), &none, None);
        check_json(
            &json!({"a": "{a}", "b": ["{a}", 1], "c": {"d": "{a}"}, "t": "say {a}"}),
            &none,
            Some(json!({"b": [1], "c": {}})),
        );
    }
}
