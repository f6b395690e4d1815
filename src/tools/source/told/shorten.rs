//! Removes from a schema what a model does not read, without telling the opposite of what it means.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::limits::tools::PARAMETER_DESCRIPTION_CHARS_MAX;
use crate::tools::clean;
use crate::tools::schema::parts::{Holds, holds};

/// All keywords of JSON Schema, of any draft, that restrict, except those that hold schemas.
const RESTRICTIONS: &[&str] = &[
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "const",
    "dependentRequired",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "type",
    "uniqueItems",
];
/// Those that explain, or that references need.
const OTHERS: &[&str] = &[
    "$anchor",
    "$dynamicAnchor",
    "$id",
    "$recursiveAnchor",
    "contentEncoding",
    "contentMediaType",
    "default",
    "deprecated",
    "description",
    "readOnly",
    "title",
    "writeOnly",
];
const REFERENCES: &[&str] = &["$dynamicRef", "$recursiveRef", "$ref"];
const UNEVALUATED: &[&str] = &["unevaluatedItems", "unevaluatedProperties"];

/// What became of a schema, as far as values are concerned that hide nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// It accepts the same.
    Same,
    /// It accepts more.
    Wider,
    /// It accepted none, and accepts some.
    WasNothing,
}

/// References that cannot be told.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// Those whose target is not told.
    pub(super) names: BTreeSet<String>,
    /// Whether the target of any other may have become wider.
    pub(super) is_uncertain: bool,
}

/// Shortens schemas.
#[derive(Debug)]
pub(super) struct Shortening<'b> {
    broken: &'b Broken,
    /// The greatest of all effects, including those on definitions.
    effect: Effect,
}

impl<'b> Shortening<'b> {
    pub(super) const fn new(broken: &'b Broken) -> Self {
        Self { broken, effect: Effect::Same }
    }

    /// Shortens the schema of the tool `name`. Returns the greatest effect on anything in it.
    pub(super) fn run(mut self, schema: &mut Value, name: &str) -> Effect {
        self.shorten(schema, name);
        self.effect
    }

    /// Removes what neither restricts nor explains. `name` is that of its tool or property.
    fn shorten(&mut self, schema: &mut Value, name: &str) -> Effect {
        let Value::Object(keywords) = schema else { return Effect::Same };
        let is_reference = keywords.contains_key("$ref");
        let mut effect = self.remove_plain(keywords, name).max(self.shorten_held(keywords));
        if self.broken.is_uncertain {
            // What counts as evaluated is up to all that is around.
            for keyword in UNEVALUATED {
                if keywords.shift_remove(*keyword).is_some() {
                    effect = effect.max(Effect::Wider);
                }
            }
        }
        if is_reference {
            // Before 2019-09, nothing beside it counts.
            effect = effect.min(Effect::Wider);
        }
        self.effect = self.effect.max(effect);
        effect
    }

    /// Removes keywords that hold no schemas.
    fn remove_plain(&self, keywords: &mut Map<String, Value>, name: &str) -> Effect {
        let mut effect = Effect::Same;
        let is_object = keywords.get("type").is_some_and(|declared| declared == "object");
        let mut lacks_name = false;
        keywords.retain(|keyword, value| {
            let keyword = keyword.as_str();
            let is_told = match keyword {
                "title" => !value.as_str().is_some_and(|title| is_echo(title, name)),
                "description" => true,
                "enum" | "required" => {
                    let before = value.as_array().map(Vec::len);
                    let is_told = !is_emptied(value);
                    if keyword == "required"
                        && (!is_told || value.as_array().map(Vec::len) != before)
                    {
                        lacks_name = true;
                    } else if !is_told {
                        effect = Effect::WasNothing;
                    }
                    is_told
                }
                _ if holds(keyword).is_some() => true,
                _ => {
                    let is_known = RESTRICTIONS.contains(&keyword) || OTHERS.contains(&keyword);
                    is_known && !clean::is_hiding(value) && !self.is_broken(keyword, value)
                }
            };
            if REFERENCES.contains(&keyword) && self.broken.is_uncertain {
                effect = effect.max(Effect::Wider);
            }
            if !is_told && RESTRICTIONS.contains(&keyword) {
                let all = if keyword == "const" { Effect::WasNothing } else { Effect::Wider };
                effect = effect.max(all);
            }
            is_told
        });
        if lacks_name {
            effect = effect.max(if is_object { Effect::WasNothing } else { Effect::Wider });
            for keyword in ["additionalProperties", "unevaluatedProperties"] {
                if keywords.get(keyword).is_some_and(|schema| *schema == Value::Bool(false)) {
                    keywords.shift_remove(keyword);
                }
            }
        }
        for keyword in ["description", "title"] {
            if let Some(Value::String(text)) = keywords.get_mut(keyword) {
                *text = clean::text(text, PARAMETER_DESCRIPTION_CHARS_MAX);
            }
        }
        effect
    }

    fn is_broken(&self, keyword: &str, value: &Value) -> bool {
        let Some(reference) = value.as_str().filter(|_| REFERENCES.contains(&keyword)) else {
            return false;
        };
        // Branches of unions may have gone, and others have their numbers.
        let is_numbered = ["/anyOf/", "/oneOf/"].iter().any(|union| reference.contains(union));
        self.broken.names.contains(reference) || self.broken.is_uncertain && is_numbered
    }

    /// Shortens the schemas that keywords hold, and removes those that would tell the opposite.
    fn shorten_held(&mut self, keywords: &mut Map<String, Value>) -> Effect {
        let mut effect = Effect::Same;
        let mut remove: Vec<&str> = Vec::new();
        let required: BTreeSet<String> = required(keywords);
        for (keyword, value) in keywords.iter_mut() {
            let held = match (holds(keyword), value) {
                (Some(Holds::Named), Value::Object(named)) => {
                    self.shorten_named(keyword, named, &required, &mut remove)
                }
                (Some(Holds::List), Value::Array(list)) if is_union(keyword) => {
                    self.shorten_union(list)
                }
                (Some(Holds::List | Holds::SchemaOrList), Value::Array(list)) => {
                    let each = list.iter_mut().map(|schema| self.shorten(schema, ""));
                    each.max().unwrap_or(Effect::Same)
                }
                (Some(Holds::Schema | Holds::SchemaOrList), value) => self.shorten(value, ""),
                _ => continue,
            };
            if held == Effect::Same {
                continue;
            }
            effect = effect.max(match (keyword.as_str(), held) {
                // A `not` refused only what hides something, and definitions say nothing themselves.
                ("not", Effect::WasNothing) | ("$defs" | "definitions", _) => Effect::Same,
                ("allOf" | "anyOf" | "oneOf" | "properties", held) => held,
                _ => Effect::Wider,
            });
            match keyword.as_str() {
                "not" => remove.push("not"),
                "if" => remove.extend(["if", "then", "else"]),
                "contains" => remove.push("maxContains"),
                "anyOf" if held == Effect::WasNothing => remove.push("anyOf"),
                // A value that fits one of the branches may fit two of what they are now.
                "oneOf" => remove.push("oneOf"),
                _ => {}
            }
        }
        let one_of = keywords.get("oneOf").filter(|_| remove.contains(&"oneOf")).cloned();
        for keyword in remove {
            keywords.shift_remove(keyword);
        }
        if let Some(Value::Array(branches)) = one_of
            && !branches.is_empty()
            && !keywords.contains_key("anyOf")
        {
            keywords.insert("anyOf".to_owned(), Value::Array(branches));
        }
        effect
    }

    fn shorten_named(
        &mut self,
        keyword: &str,
        named: &mut Map<String, Value>,
        required: &BTreeSet<String>,
        remove: &mut Vec<&str>,
    ) -> Effect {
        let mut effect = Effect::Same;
        let whole = named.len();
        named.retain(|name, schema| {
            // Before 2019-09, `dependencies` may have names.
            let has_hidden_names = schema.is_array() && clean::is_hiding(schema);
            if has_hidden_names {
                effect = Effect::Wider;
            }
            !has_hidden_names && !clean::is_hiding_text(name)
        });
        if keyword == "patternProperties" && named.len() < whole {
            effect = Effect::Wider;
            // Those that it matched are additional now.
            remove.extend(["additionalProperties", "unevaluatedProperties"]);
        }
        for (name, schema) in named {
            let held = self.shorten(schema, name);
            let is_needed = keyword == "properties" && required.contains(name);
            effect = effect.max(if is_needed { held } else { held.min(Effect::Wider) });
        }
        effect
    }

    /// Removes the branches that fitted nothing. The others may be wider.
    fn shorten_union(&mut self, branches: &mut Vec<Value>) -> Effect {
        let (mut effect, mut had_branches) = (Effect::Same, false);
        branches.retain_mut(|branch| {
            had_branches = true;
            match self.shorten(branch, "") {
                Effect::WasNothing => false,
                held => {
                    effect = effect.max(held);
                    true
                }
            }
        });
        if branches.is_empty() && had_branches { Effect::WasNothing } else { effect }
    }
}

fn is_union(keyword: &str) -> bool {
    matches!(keyword, "anyOf" | "oneOf")
}

/// The properties without which no value fits.
fn required(keywords: &Map<String, Value>) -> BTreeSet<String> {
    if keywords.get("type").is_none_or(|declared| declared != "object") {
        return BTreeSet::new();
    }
    let names = keywords.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Takes from a list what hides something. Whether nothing is left, which would allow nothing.
fn is_emptied(list: &mut Value) -> bool {
    let Value::Array(items) = list else { return clean::is_hiding(list) };
    let whole = items.len();
    items.retain(|item| !clean::is_hiding(item));
    items.is_empty() && whole > 0
}

/// Whether a title only repeats a name: `Max Results` for `max_results` or `maxResults`.
fn is_echo(title: &str, name: &str) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    letters(title) == letters(name)
}
