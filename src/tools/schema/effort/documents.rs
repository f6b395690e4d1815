//! The documents of a schema, and what references in them mean (JSON Schema 2020-12, sections 8.2
//! and 9; URIs as in RFC 3986).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::Url;

use crate::limits::tools::REFERENCE_BYTES_MAX;
use crate::tools::schema::parts::{schemas, values};

/// The URI of a schema that does not say what its own is.
const ROOT: &str = "json-schema:///";

/// The documents in a schema: itself, and parts with an `$id`.
#[derive(Debug, Default)]
pub(super) struct Documents {
    draft: Draft,
    /// Their URIs; the first is the root's.
    uris: Vec<Url>,
    /// Where each is, by its URI. `None` if two have the same.
    places: HashMap<String, Option<(usize, String)>>,
    /// Where anchors are, by document and name.
    anchors: HashMap<(usize, String), Option<String>>,
}

/// How a schema says what its documents are. The keywords are those of its draft alone, because a
/// validator does not see others.
#[derive(Debug, Clone, Copy)]
struct Draft {
    id: &'static str,
    /// Whether nothing beside a `$ref` counts.
    is_ref_alone: bool,
}

impl Default for Draft {
    fn default() -> Self {
        Self { id: "$id", is_ref_alone: false }
    }
}

impl Draft {
    fn of(schema: &Value) -> Self {
        let named = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let is = |draft: &str| named.contains(draft);
        Self {
            id: if is("draft-03") || is("draft-04") { "id" } else { "$id" },
            is_ref_alone: ["draft-03", "draft-04", "draft-06", "draft-07"].into_iter().any(is),
        }
    }

    /// The URI of a part that is a document, in which `#` is its own beginning.
    fn document_id(self, part: &Value) -> Option<&str> {
        let id = part.get(self.id)?.as_str()?;
        let is_other = self.is_ref_alone && (part.get("$ref").is_some() || id.starts_with('#'));
        (!is_other).then_some(id)
    }

    /// The names of a part within its document. A `$ref` beside them does not hide them.
    fn anchors(self, part: &Value) -> impl Iterator<Item = &str> {
        let by_id = part.get(self.id).filter(|_| self.is_ref_alone).and_then(Value::as_str);
        let named = ["$anchor", "$dynamicAnchor"].map(|key| part.get(key)?.as_str());
        named.into_iter().flatten().chain(by_id.and_then(|id| id.strip_prefix('#')))
    }
}

impl Documents {
    pub(super) fn of(schema: &Value) -> Self {
        let mut documents = Self { draft: Draft::of(schema), ..Self::default() };
        if let Ok(root) = Url::parse(ROOT) {
            documents.add(root, "");
            documents.collect(schema, "", 0);
        }
        documents
    }

    /// The root's.
    #[expect(clippy::unused_self, reason = "which document is the first is this type's business")]
    pub(super) const fn root(&self) -> usize {
        0
    }

    fn add(&mut self, uri: Url, at: &str) -> usize {
        let place = (self.uris.len(), at.to_owned());
        let known = self.places.entry(uri.as_str().to_owned());
        known.and_modify(|known| *known = None).or_insert(Some(place));
        self.uris.push(uri);
        self.uris.len() - 1
    }

    /// Collects the documents and anchors of a part: only where a schema is, not in its values.
    fn collect(&mut self, part: &Value, at: &str, mut base: usize) {
        let Value::Object(keywords) = part else { return };
        if let Some(uri) = self.draft.document_id(part).and_then(|id| self.uri(base, id)) {
            base = self.add(uri, at);
        }
        for name in self.draft.anchors(part) {
            let known = self.anchors.entry((base, name.to_owned()));
            known.and_modify(|known| *known = None).or_insert_with(|| Some(at.to_owned()));
        }
        for (keyword, name, part) in schemas(keywords) {
            let name = name.map(|name| name.replace('~', "~0").replace('/', "~1"));
            let name = name.map_or_else(String::new, |name| format!("/{name}"));
            self.collect(part, &format!("{at}/{keyword}{name}"), base);
        }
    }

    /// A URI in a document, without its fragment.
    fn uri(&self, base: usize, name: &str) -> Option<Url> {
        if name.len() > REFERENCE_BYTES_MAX {
            return None;
        }
        let mut uri = self.uris.get(base)?.join(name).ok()?;
        uri.set_fragment(None);
        Some(uri)
    }

    fn place(&self, uri: &Url) -> Option<&(usize, String)> {
        self.places.get(uri.as_str())?.as_ref()
    }

    /// The document that things in a part are in: the part, if it has an `$id`, or `base`.
    pub(super) fn inside(&self, base: usize, part: &Value) -> Option<usize> {
        match self.draft.document_id(part) {
            Some(id) => Some(self.place(&self.uri(base, id)?)?.0),
            None => Some(base),
        }
    }

    /// Whether a reference means nothing in this schema, not even something unclear.
    pub(super) fn is_elsewhere(&self, base: usize, name: &str) -> bool {
        self.uri(base, name).is_some_and(|uri| !self.places.contains_key(uri.as_str()))
    }

    /// Whether a reference means nothing in a document of this schema: it has a typo.
    pub(super) fn is_nothing(&self, schema: &Value, base: usize, name: &str) -> bool {
        let Some((start, _, fragment)) = self.start(schema, base, name) else { return false };
        if fragment.is_empty() || fragment.starts_with('/') {
            return start.pointer(&fragment).is_none();
        }
        // Validators differ on where names are.
        let is_named = |part: &Value, keyword: &str| {
            let named = part.get(keyword).and_then(Value::as_str);
            named.is_some_and(|named| named.trim_start_matches('#') == fragment)
        };
        let keywords = ["$anchor", "$dynamicAnchor", "$id", "id"];
        !values(schema).any(|part| keywords.iter().any(|keyword| is_named(part, keyword)))
    }

    /// Whether a reference leads, or may lead, to what is not where a schema is.
    pub(super) fn leads_into_values(&self, schema: &Value) -> bool {
        let (mut places, mut targets) = (HashSet::new(), Vec::new());
        let mut open = vec![(schema, Some(self.root()))];
        while let Some((part, base)) = open.pop() {
            places.insert(std::ptr::from_ref(part));
            let Value::Object(keywords) = part else { continue };
            let base = base.and_then(|base| self.inside(base, part));
            if let Some(name) = keywords.get("$ref").and_then(Value::as_str) {
                let Some(base) = base else { return true };
                match self.find(schema, base, name) {
                    Some((target, _)) => targets.push(std::ptr::from_ref(target)),
                    None if self.is_elsewhere(base, name) => {}
                    None => return true,
                }
            }
            open.extend(schemas(keywords).map(|(_, _, part)| (part, base)));
        }
        targets.into_iter().any(|target| !places.contains(&target))
    }

    /// Whether a reference means a schema of the standard's own, which is not in this one.
    pub(super) fn is_standard(&self, base: usize, name: &str) -> bool {
        let rest = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"));
        rest.is_some_and(|rest| rest.starts_with("json-schema.org/"))
            && self.is_elsewhere(base, name)
    }

    /// The part that a reference in the document `base` means, and the document that it is in.
    pub(super) fn find<'s>(
        &self,
        schema: &'s Value,
        base: usize,
        name: &str,
    ) -> Option<(&'s Value, usize)> {
        let (start, document, fragment) = self.start(schema, base, name)?;
        if fragment.is_empty() {
            return Some((start, document));
        }
        if !fragment.starts_with('/') {
            let place = self.anchors.get(&(document, fragment.into_owned()))?.as_ref()?;
            return Some((schema.pointer(place)?, document));
        }
        self.follow(start, document, &fragment)
    }

    /// The beginning of the document that a reference means, the document, and the fragment.
    fn start<'s, 'n>(
        &self,
        schema: &'s Value,
        base: usize,
        name: &'n str,
    ) -> Option<(&'s Value, usize, Cow<'n, str>)> {
        let (address, fragment) = name.split_once('#').unwrap_or((name, ""));
        // Validators differ on these.
        if address.contains('%') || fragment.contains('#') {
            return None;
        }
        let (document, place) = self.place(&self.uri(base, name)?)?;
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
        Some((schema.pointer(place)?, *document, fragment))
    }

    /// The references of all schemas in a schema, and whether each means something in it wherever it
    /// is.
    pub(super) fn references(&self, schema: &Value) -> BTreeMap<String, bool> {
        let mut references = BTreeMap::new();
        let mut open = vec![(schema, Some(self.root()))];
        while let Some((part, base)) = open.pop() {
            let Value::Object(keywords) = part else { continue };
            let base = base.and_then(|base| self.inside(base, part));
            if let Some(name) = keywords.get("$ref").and_then(Value::as_str) {
                let resolves = base.is_some_and(|base| self.find(schema, base, name).is_some());
                *references.entry(name.to_owned()).or_insert(true) &= resolves;
            }
            open.extend(schemas(keywords).map(|(_, _, part)| (part, base)));
        }
        references
    }

    /// Follows a JSON pointer. Documents on the way are the base of what is in them.
    fn follow<'s>(
        &self,
        start: &'s Value,
        document: usize,
        pointer: &str,
    ) -> Option<(&'s Value, usize)> {
        let (mut part, mut base) = (start, document);
        for (at, token) in pointer.split('/').enumerate().skip(1) {
            if at > 1 {
                base = self.inside(base, part)?;
            }
            let token = token.replace("~1", "/").replace("~0", "~");
            part = match part {
                Value::Object(members) => members.get(&token)?,
                Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some((part, base))
    }
}
