//! The documents of a schema, and what references in them mean (JSON Schema 2020-12, sections 8.2
//! and 9; URIs as in RFC 3986).

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::Url;

use crate::limits::tools::REFERENCE_BYTES_MAX;
use crate::tools::schema::parts::schemas;

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

    /// What a part calls itself: a document, in which `#` is its own beginning, or an anchor.
    fn id(self, part: &Value) -> Option<&str> {
        if self.is_ref_alone && part.get("$ref").is_some() {
            return None;
        }
        part.get(self.id)?.as_str()
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

    /// The `$id` of a part that is a document of its own.
    fn document_id<'s>(&self, part: &'s Value) -> Option<&'s str> {
        self.draft.id(part).filter(|id| !id.starts_with('#'))
    }

    /// Whether a part is a document of its own.
    pub(super) fn is_document(&self, part: &Value) -> bool {
        self.document_id(part).is_some()
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
        if let Some(uri) = self.document_id(part).and_then(|id| self.uri(base, id)) {
            base = self.add(uri, at);
        }
        let anchors = ["$anchor", "$dynamicAnchor"].map(|key| keywords.get(key)?.as_str());
        let by_id = self.draft.id(part).and_then(|id| id.strip_prefix('#'));
        for name in anchors.into_iter().chain([by_id]).flatten() {
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

    /// The document that a part with an `$id` is.
    pub(super) fn within(&self, base: usize, part: &Value) -> Option<usize> {
        Some(self.place(&self.uri(base, self.document_id(part)?)?)?.0)
    }

    /// The part that a reference in the document `base` means, and the document that it is in.
    pub(super) fn find<'s>(
        &self,
        schema: &'s Value,
        base: usize,
        name: &str,
    ) -> Option<(&'s Value, usize)> {
        let (document, place) = self.place(&self.uri(base, name)?)?;
        let fragment = name.split_once('#').map_or("", |(_, fragment)| fragment);
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
        let start = schema.pointer(place)?;
        if fragment.is_empty() {
            return Some((start, *document));
        }
        if !fragment.starts_with('/') {
            let place = self.anchors.get(&(*document, fragment.into_owned()))?.as_ref()?;
            return Some((schema.pointer(place)?, *document));
        }
        self.follow(start, *document, &fragment)
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
            if at > 1 && self.is_document(part) {
                base = self.within(base, part)?;
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
