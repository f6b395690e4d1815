//! A JSON Schema as rules.
//!
//! Every rule accepts whatever the schema accepts, in the form that models write: properties in
//! the schema's order, at most one space between tokens. It may accept more; the complete call
//! is validated anyway.

use serde_json::{Map, Value};

use super::notation::Notation;
use super::rules::Rules;
use crate::limits::upstream::{
    GRAMMAR_BEGINNINGS_MAX, GRAMMAR_ITEMS_MAX, GRAMMAR_SCHEMA_DEPTH_MAX, GRAMMAR_TOOL_BYTES_MAX,
};

/// Pushes the rules of a tool's arguments, with names that start with `prefix`. Returns the
/// main rule.
///
/// A schema whose rules would be too long is ignored: any object is accepted.
pub(super) fn push_arguments(
    rules: &mut Rules,
    prefix: &str,
    schema: &Value,
    notation: Notation,
) -> String {
    // Arguments are an object, even if a careless schema allows other values.
    match push(rules, prefix, schema, notation) {
        rule if rule == "value" => "object".to_owned(),
        rule => rule,
    }
}

/// The same for any value. A schema whose rules would be too long allows all of them.
pub(super) fn push(rules: &mut Rules, prefix: &str, schema: &Value, notation: Notation) -> String {
    let start = rules.len();
    let mut writer = Writer::new(rules, prefix, schema, notation);
    let rule = writer.visit(schema, None, 0);
    if writer.gives_up {
        rules.truncate(start);
        return "value".to_owned();
    }
    rule
}

/// Writes the rules of one tool.
pub(super) struct Writer<'a> {
    rules: &'a mut Rules,
    root: &'a Value,
    prefix: &'a str,
    notation: Notation,
    start: usize,
    /// The number of rules named so far.
    count: usize,
    /// The rule of each `$ref` seen, finished or not.
    references: Vec<(&'a str, String)>,
    /// The references whose values may begin with a value of another one, and that one.
    beginnings: Vec<(&'a str, &'a str)>,
    /// How often one was looked for.
    followed: usize,
    /// Whether there can be no rules for the schema: they are too long, or it says too little.
    pub(super) gives_up: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        rules: &'a mut Rules,
        prefix: &'a str,
        root: &'a Value,
        notation: Notation,
    ) -> Self {
        let (start, references, beginnings) = (rules.len(), Vec::new(), Vec::new());
        let (count, followed, gives_up) = (0, 0, false);
        Self {
            rules,
            root,
            prefix,
            notation,
            start,
            count,
            references,
            beginnings,
            followed,
            gives_up,
        }
    }

    /// The target of a `$ref`, the only member of `allOf`, or the members of `anyOf` and `oneOf`: a value fits one of
    /// these.
    pub(super) fn alternatives_of(&self, schema: &'a Value) -> Vec<&'a Value> {
        let pointer = schema.get("$ref").and_then(Value::as_str);
        let target = pointer.and_then(|pointer| pointer.strip_prefix('#'));
        if let Some(target) = target.and_then(|target| self.root.pointer(target)) {
            return vec![target];
        }
        if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice)
            && schema.get("type").is_none()
        {
            return vec![only];
        }
        let combined = ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
        combined.flatten().collect()
    }

    /// The expression for the value of an argument.
    pub(super) fn value(&mut self, schema: &'a Value) -> String {
        self.visit(schema, None, 1)
    }

    /// The expression for a schema: the name of a rule or a literal.
    ///
    /// `open` is the reference that is being followed, if the grammar has not had to read a character since.
    fn visit(&mut self, schema: &'a Value, open: Option<&'a str>, depth: usize) -> String {
        let Value::Object(keywords) = schema else { return "value".to_owned() };
        if depth >= GRAMMAR_SCHEMA_DEPTH_MAX || self.gives_up {
            return "value".to_owned();
        }
        if let Some(pointer) = keywords.get("$ref").and_then(Value::as_str)
            && !keywords.contains_key("properties")
        {
            return self.visit_reference(pointer, open, depth);
        }
        if let Some(value) = keywords.get("const") {
            return self.notation.constant(value);
        }
        if let Some(values) = keywords.get("enum").and_then(Value::as_array) {
            let literals: Vec<_> =
                values.iter().map(|value| self.notation.constant(value)).collect();
            return self.alternatives(&literals);
        }
        if let Some(rule) = self.visit_combined(keywords, open, depth) {
            return rule;
        }
        match keywords.get("type") {
            Some(Value::String(kind)) => self.visit_type(kind, keywords, depth),
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                let rules: Vec<_> =
                    kinds.map(|kind| self.visit_type(kind, keywords, depth)).collect();
                self.alternatives(&rules)
            }
            _ if keywords.contains_key("properties") => self.visit_object(keywords, depth),
            _ if keywords.contains_key("items") => self.visit_array(keywords, depth),
            _ => "value".to_owned(),
        }
    }

    /// `anyOf`, `oneOf` and `allOf`, if they decide what may be written.
    fn visit_combined(
        &mut self,
        keywords: &'a Map<String, Value>,
        open: Option<&'a str>,
        depth: usize,
    ) -> Option<String> {
        let (key, schemas) = ["anyOf", "oneOf", "allOf"]
            .into_iter()
            .find_map(|key| Some((key, keywords.get(key)?.as_array()?)))?;
        if keywords.contains_key("properties") {
            // They say which properties belong together. That is left to validation.
            return None;
        }
        match (key, schemas.as_slice()) {
            ("allOf", [schema]) => Some(self.visit(schema, open, depth + 1)),
            ("allOf", _) => Some("value".to_owned()),
            _ => {
                let rules: Vec<_> =
                    schemas.iter().map(|schema| self.visit(schema, open, depth + 1)).collect();
                Some(self.alternatives(&rules))
            }
        }
    }

    fn visit_reference(&mut self, pointer: &'a str, open: Option<&'a str>, depth: usize) -> String {
        let Some(schema) = pointer.strip_prefix('#').and_then(|path| self.root.pointer(path))
        else {
            return "value".to_owned();
        };
        if let Some(open) = open {
            self.followed += 1;
            let is_enough = self.followed > GRAMMAR_BEGINNINGS_MAX;
            if is_enough || self.begins_with(pointer, open) {
                return "value".to_owned();
            }
            self.beginnings.push((open, pointer));
        }
        if let Some((_, rule)) = self.references.iter().find(|(known, _)| *known == pointer) {
            return rule.clone();
        }
        let rule = self.name();
        self.references.push((pointer, rule.clone()));
        let body = self.visit(schema, Some(pointer), depth + 1);
        self.push(&rule, &body);
        rule
    }

    /// Whether a value of this reference may begin with one of the `other`. If that one began with it as well, the
    /// grammar would be left-recursive, which llama.cpp rejects.
    fn begins_with(&self, pointer: &'a str, other: &'a str) -> bool {
        let mut reached = vec![pointer];
        let mut at = 0;
        while let Some(&from) = reached.get(at) {
            let more = self.beginnings.iter().filter(|(before, _)| *before == from);
            for (_, to) in more {
                if !reached.contains(to) {
                    reached.push(to);
                }
            }
            at += 1;
        }
        reached.contains(&other)
    }

    fn visit_type(&mut self, kind: &str, keywords: &'a Map<String, Value>, depth: usize) -> String {
        match kind {
            "object" => self.visit_object(keywords, depth),
            "array" => self.visit_array(keywords, depth),
            "string" => self.visit_string(keywords),
            "integer" | "number" | "boolean" | "null" => kind.to_owned(),
            _ => "value".to_owned(),
        }
    }

    /// Properties in order; those that are not required may be left out.
    ///
    /// Each property has two rules, for when it comes first and for when a comma precedes it.
    /// Each rule leads to the next property's, or past it.
    fn visit_object(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> String {
        if may_have_more_properties(keywords) {
            return "object".to_owned();
        }
        let Some(properties) = keywords.get("properties").and_then(Value::as_object) else {
            return match self.extra_members(keywords, depth) {
                Some(member) => {
                    self.named(&format!("\"{{\" s ({member} (s \",\" s {member})*)? s \"}}\""))
                }
                None if keywords.get("additionalProperties") == Some(&Value::Bool(false)) => {
                    "\"{}\"".to_owned()
                }
                None => "object".to_owned(),
            };
        };
        let required: Vec<&str> = keywords
            .get("required")
            .and_then(Value::as_array)
            .map(|keys| keys.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        // A required key without a description may hold any value.
        let mut members: Vec<(&str, &Value)> =
            properties.iter().map(|(key, schema)| (key.as_str(), schema)).collect();
        members.extend(
            required
                .iter()
                .filter(|key| !properties.contains_key(**key))
                .map(|key| (*key, &Value::Null)),
        );

        let extra = self.extra_members(keywords, depth);
        let mut after_first = extra
            .as_ref()
            .map_or_else(String::new, |member| format!("({member} (s \",\" s {member})*)?"));
        let mut after_other =
            extra.map_or_else(String::new, |member| format!("(s \",\" s {member})*"));
        // From last to first, because each rule names the next.
        for (key, schema) in members.into_iter().rev() {
            let value = self.visit(schema, None, depth + 1);
            let member = self.named(&format!("{} s {value}", self.notation.key(key)));
            let mut first = format!("{member} {after_other}");
            let mut other = format!("s \",\" s {member} {after_other}");
            if !required.contains(&key) {
                first = format!("{first} | {}", or_nothing(&after_first));
                other = format!("{other} | {}", or_nothing(&after_other));
            }
            after_first = self.named(&first);
            after_other = self.named(&other);
        }
        self.named(&format!("\"{{\" s {after_first} s \"}}\""))
    }

    /// A member that the schema does not name, if it allows such members explicitly. If it says
    /// nothing, there are none: a model would invent them.
    fn extra_members(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Option<String> {
        if keywords.contains_key("patternProperties") {
            return Some("member".to_owned());
        }
        match keywords.get("additionalProperties")? {
            Value::Bool(false) => None,
            Value::Bool(true) => Some("member".to_owned()),
            schema => {
                let value = self.visit(schema, None, depth + 1);
                Some(format!("{} \":\" s {value}", self.notation.any_key()))
            }
        }
    }

    fn visit_array(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> String {
        let item = match keywords.get("items") {
            Some(schema) if !keywords.contains_key("prefixItems") => {
                self.visit(schema, None, depth + 1)
            }
            _ => "value".to_owned(),
        };
        let (min, max) = bounds(keywords, "minItems", "maxItems");
        if max == Some(0) {
            return "\"[]\"".to_owned();
        }
        // The first item is separate, because no comma precedes it.
        let more_min = min.saturating_sub(1);
        let more_max =
            max.map_or_else(String::new, |max| max.saturating_sub(1).max(more_min).to_string());
        let items = format!("{item} (s \",\" s {item}){{{more_min},{more_max}}}");
        let items = if min == 0 { format!("({items})?") } else { items };
        self.named(&format!("\"[\" s {items} s \"]\""))
    }

    fn visit_string(&mut self, keywords: &Map<String, Value>) -> String {
        let (min, max) = bounds(keywords, "minLength", "maxLength");
        match max {
            _ if !self.notation.counts_characters() => "string".to_owned(),
            None if min == 0 => "string".to_owned(),
            None => self.named(&format!("\"\\\"\" char{{{min},}} \"\\\"\"")),
            Some(max) => self.named(&format!("\"\\\"\" char{{{min},{}}} \"\\\"\"", max.max(min))),
        }
    }

    /// One of several. An empty list is a schema that accepts nothing. A grammar cannot express
    /// that; validation will catch it.
    fn alternatives(&mut self, rules: &[String]) -> String {
        match rules {
            [] => "value".to_owned(),
            [rule] => rule.clone(),
            _ => self.named(&rules.join(" | ")),
        }
    }

    pub(super) fn named(&mut self, body: &str) -> String {
        let name = self.name();
        self.push(&name, body);
        name
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.prefix, self.count)
    }

    fn push(&mut self, name: &str, body: &str) {
        self.rules.push(name, body);
        self.gives_up |= self.rules.len() - self.start > GRAMMAR_TOOL_BYTES_MAX;
    }
}

/// Whether other keywords of a schema may allow properties that its `properties` does not name. Most only say which
/// of these belong together, which is left to validation.
pub(super) fn may_have_more_properties(keywords: &Map<String, Value>) -> bool {
    let Some(named) = keywords.get("properties").and_then(Value::as_object) else { return false };
    let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false))
        && !keywords.contains_key("patternProperties");
    keywords.contains_key("$ref") || (!is_closed && names_another(keywords, named))
}

/// Whether what these keywords combine, or want on a condition, has a property that is not among the `named`.
fn names_another(keywords: &Map<String, Value>, named: &Map<String, Value>) -> bool {
    let value = |keyword: &str| keywords.get(keyword);
    let lists =
        ["anyOf", "oneOf", "allOf"].into_iter().filter_map(value).filter_map(Value::as_array);
    let maps = ["dependentSchemas", "dependencies"].into_iter().filter_map(value);
    let maps = maps.filter_map(Value::as_object).flat_map(Map::values);
    let wanted = ["dependentRequired", "dependencies"].into_iter().filter_map(value);
    let wanted = wanted.filter_map(Value::as_object).flat_map(Map::values);
    let mut wanted = wanted.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    if wanted.any(|name| !named.contains_key(name)) {
        return true;
    }
    let conditional =
        ["then", "else"].into_iter().filter_map(value).chain(maps).chain(lists.flatten());
    conditional.filter_map(Value::as_object).any(|schema| {
        let keys =
            schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut all = keys.map(String::as_str).chain(required.filter_map(Value::as_str));
        schema.contains_key("$ref")
            || all.any(|name| !named.contains_key(name))
            || names_another(schema, named)
    })
}

/// The minimum and maximum of a count, if the grammar states them.
fn bounds(keywords: &Map<String, Value>, min: &str, max: &str) -> (usize, Option<usize>) {
    let count = |key: &str| {
        let count = usize::try_from(keywords.get(key)?.as_u64()?).ok()?;
        (count <= GRAMMAR_ITEMS_MAX).then_some(count)
    };
    (count(min).unwrap_or(0), count(max))
}

pub(super) fn or_nothing(body: &str) -> &str {
    if body.is_empty() { "\"\"" } else { body }
}
