//! The arguments of an operation's tool: one flat object for its parameters and its body.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::names::Names;
use super::reference;
use super::schema::Converter;
use crate::limits::openapi::{PARAMETER_NAME_BYTES_MAX, PARAMETERS_MAX};
use crate::tools::http::encode::{Objects, Separator, Style, is_dot_segment};
use crate::tools::http::request::{Field, Header, Segment};
use crate::tools::http::template::Template;
use crate::tools::http::written::{is_forbidden_header, is_token};

/// The arguments of a tool, while they are collected.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    names: Names,
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<Value>,
}

/// The parts of a request that parameters fill.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The names in the path, each with its argument.
    pub(super) path: Vec<(String, Segment)>,
    pub(super) query: Vec<Field>,
    pub(super) headers: Vec<Header>,
}

/// A parameter of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter<'d> {
    pub(super) place: &'d str,
    pub(super) name: &'d str,
    object: &'d Value,
}

impl Arguments {
    /// Removes arguments, which models no longer see.
    pub(super) fn remove<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for name in names {
            self.properties.shift_remove(name);
            self.required.retain(|required| required != name);
        }
    }

    /// Whether there is an argument for this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.properties.contains_key(&plain(name))
    }

    /// Adds an argument and returns its name. If the name is taken, it is prefixed with the
    /// place.
    pub(super) fn add(&mut self, place: &str, name: &str, schema: Value, required: bool) -> String {
        let plain = plain(name);
        let is_taken = self.properties.contains_key(&plain);
        let key = self.names.give(if is_taken { format!("{place}_{plain}") } else { plain });
        self.properties.insert(key.clone(), schema);
        if required {
            self.required.push(key.clone().into());
        }
        key
    }
}

/// A name that model servers accept for an argument: `filter[name]` becomes `filter_name`.
pub(super) fn plain(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    let mut plain = String::new();
    for char in name.chars().take(PARAMETER_NAME_BYTES_MAX) {
        if is_plain(char) {
            plain.push(char);
        } else if !plain.is_empty() && !plain.ends_with('_') {
            plain.push('_');
        }
    }
    if !name.ends_with('_') && plain.ends_with('_') {
        plain.pop();
    }
    if plain.is_empty() { "value".to_owned() } else { plain }
}

/// The parameters of an operation. Its own replace those of its path, whose own replace those of
/// the item that it refers to.
pub(super) fn of_operation<'d>(
    root: &'d Value,
    items: &[&'d Value],
    operation: &'d Value,
) -> Result<Vec<Parameter<'d>>, String> {
    let mut parameters: Vec<Parameter<'d>> = Vec::new();
    for object in items.iter().rev().chain([&operation]) {
        let list = object.get("parameters").and_then(Value::as_array);
        if list.is_some_and(|list| list.len() > PARAMETERS_MAX) {
            return Err(format!("it has more than {PARAMETERS_MAX} parameters"));
        }
        for written in list.into_iter().flatten() {
            let object = reference::resolve(root, written)?;
            let text = |key| object.get(key).and_then(Value::as_str);
            let (Some(place), Some(name)) = (text("in"), text("name")) else {
                return Err("one of its parameters has no `name` or no `in`".to_owned());
            };
            let parameter = Parameter { place, name, object };
            let same = |other: &&mut Parameter<'d>| (other.place, other.name) == (place, name);
            match parameters.iter_mut().find(same) {
                Some(replaced) => *replaced = parameter,
                None => parameters.push(parameter),
            }
        }
    }
    // If names clash, those in the path keep theirs.
    parameters.sort_by_key(|parameter| match parameter.place {
        "path" => 0,
        "query" => 1,
        _ => 2,
    });
    Ok(parameters)
}

impl Parameter<'_> {
    fn is_required(&self) -> bool {
        self.place == "path" || self.object.get("required") == Some(&Value::Bool(true))
    }

    /// Whether the gateway writes this header, or never sends it.
    fn is_ours(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        matches!(&*name, "accept" | "content-type" | "authorization") || is_forbidden_header(&name)
    }

    /// Adds the parameter to the arguments and to the request.
    ///
    /// # Errors
    /// Why the operation cannot be offered with it.
    pub(super) fn add(
        &self,
        converter: &mut Converter<'_, '_>,
        arguments: &mut Arguments,
        parts: &mut Parts,
    ) -> Result<(), String> {
        let Self { place, name, .. } = *self;
        match place {
            "cookie" if self.is_required() => {
                return Err(format!("its parameter `{name}` is a cookie"));
            }
            "cookie" => return Ok(()),
            "header" if self.is_ours() => return Ok(()),
            "header" if !is_token(name) => {
                return Err(format!("its parameter `{name}` cannot be a header"));
            }
            "path" | "query" | "header" => {}
            other => return Err(format!("its parameter `{name}` is in `{other}`")),
        }
        let (schema, is_json) = self.schema(converter)?;
        let styled = if is_json { Ok((Style::Json, Objects::Joined)) } else { self.style() };
        let (style, objects) = styled?;
        if place == "path" && is_json {
            return Err(format!("its parameter `{name}` is JSON in a path"));
        }
        let key = arguments.add(place, name, schema, self.is_required());
        let value = Template::argument(key);
        match place {
            "path" => parts.path.push((name.to_owned(), Segment { value, objects })),
            "query" => parts.query.push(Field { name: name.to_owned(), value, style }),
            _ => {
                let name = name.to_ascii_lowercase();
                parts.headers.push(Header { name, value, is_json, objects });
            }
        }
        Ok(())
    }

    /// The schema of the value, and whether the value is written as JSON.
    fn schema(&self, converter: &mut Converter<'_, '_>) -> Result<(Value, bool), String> {
        let name = self.name;
        let content = self.object.get("content").and_then(Value::as_object);
        let (schema, is_json) = match content.and_then(|content| content.iter().next()) {
            Some((media_type, content)) if is_json(media_type) => (content.get("schema"), true),
            Some((media_type, _)) => {
                return Err(format!("its parameter `{name}` is {media_type}"));
            }
            None => (self.object.get("schema"), false),
        };
        let schema = schema.map_or_else(|| Ok(json!({})), |schema| converter.convert(schema))?;
        let description = self.object.get("description").and_then(Value::as_str);
        Ok((described(schema, description), is_json))
    }

    /// The style in queries, and how an object is written in paths and headers.
    fn style(&self) -> Result<(Style, Objects), String> {
        let style = self.object.get("style").and_then(Value::as_str);
        let explode = self.object.get("explode").and_then(Value::as_bool);
        let usual = if self.place == "query" { "form" } else { "simple" };
        let style = style.unwrap_or(usual);
        match self.place {
            "query" => query_style(style, explode).map(|style| (style, Objects::Joined)),
            _ if style != "simple" => None,
            _ if explode == Some(true) => Some((Style::Repeat, Objects::Exploded)),
            _ => Some((Style::Repeat, Objects::Joined)),
        }
        .ok_or_else(|| format!("its parameter `{}` has the style `{style}`", self.name))
    }
}

/// The style of a field in a query or form.
pub(super) fn query_style(style: &str, explode: Option<bool>) -> Option<Style> {
    let is_exploded = explode.unwrap_or(style == "form");
    let separator = match style {
        "form" => Separator::Comma,
        "spaceDelimited" => Separator::Space,
        "pipeDelimited" => Separator::Pipe,
        "deepObject" => return Some(Style::Deep),
        _ => return None,
    };
    Some(if is_exploded { Style::Repeat } else { Style::Join(separator) })
}

/// The schema, with this description if it has none of its own.
pub(super) fn described(mut schema: Value, description: Option<&str>) -> Value {
    if let (Some(keywords), Some(description)) = (schema.as_object_mut(), description)
        && !description.trim().is_empty()
        && !keywords.contains_key("description")
    {
        keywords.insert("description".to_owned(), description.trim().into());
    }
    schema
}

/// Whether a media type is JSON, or may be.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(&*essence, "application/json" | "text/json" | "application/*" | "*/*")
        || essence.ends_with("+json")
}

/// The segments of a path, with the arguments in them.
///
/// # Errors
/// Why the path cannot be used.
pub(super) fn segments(path: &str, parts: &Parts) -> Result<Vec<Segment>, String> {
    let rest = path.strip_prefix('/').ok_or("its path does not begin with a slash")?;
    if rest.contains(['?', '#', '\\']) {
        return Err("its path has a query, a fragment or a backslash".to_owned());
    }
    let mut used = BTreeSet::new();
    let mut segments = Vec::new();
    for written in rest.split('/') {
        let segment = segment(written, parts, &mut used)?;
        segments.push(segment);
    }
    Ok(segments)
}

fn segment<'p>(
    written: &'p str,
    parts: &Parts,
    used: &mut BTreeSet<&'p str>,
) -> Result<Segment, String> {
    let mut pieces = Vec::new();
    let mut objects = Objects::Refused;
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or("its path has an unclosed brace")?;
        let found = parts.path.iter().find(|(known, _)| known == name);
        let (_, known) = found
            .ok_or_else(|| format!("its path has {{{name}}}, which no parameter describes"))?;
        used.insert(name);
        pieces.push(Template::text(before));
        pieces.push(known.value.clone());
        objects = known.objects;
        rest = after;
    }
    pieces.push(Template::text(rest));
    let segment = Segment { value: Template::concat(pieces), objects };
    if segment.value.constant().is_some_and(is_dot_segment) {
        return Err("its path has . or .. as a name".to_owned());
    }
    Ok(segment)
}
