//! One operation of a document, as a tool.

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use serde_json::{Value, json};

use super::parameters::{self, Arguments, Parts};
use super::schema::Schemas;
use super::{
    Declared, OpenApiOptions, Operation, answers, body, is_true, reference, security, text,
};
use crate::text::quote;
use crate::tools::http::{Method, RequestTemplate};
use crate::tools::keys::Keys;
use crate::tools::source::Effects;

/// An operation as the document describes it.
#[derive(Debug, Clone)]
pub(super) struct Described<'d> {
    path: &'d str,
    /// As it is written: in lower case, if it is one.
    method: &'d str,
    /// What all operations of the path share: the path's item, and those that it refers to.
    items: Rc<[&'d Value]>,
    object: &'d Value,
}

/// What a document has under its paths.
#[derive(Debug, Default)]
pub(super) struct Paths<'d> {
    /// All operations, in the order of the document.
    pub(super) operations: Vec<Described<'d>>,
    /// The paths of which a part cannot be read, and why.
    pub(super) broken: Vec<(&'d str, String)>,
}

/// The members of a path's item that are not operations.
const SHARED: &[&str] = &["$ref", "description", "parameters", "servers", "summary"];

/// Everything under a document's paths.
pub(super) fn all(root: &Value) -> Paths<'_> {
    let mut paths = Paths::default();
    for (path, item) in root.get("paths").and_then(Value::as_object).into_iter().flatten() {
        // Keys such as `x-internal` stand beside the paths.
        if path.starts_with("x-") {
            continue;
        }
        let (items, broken) = reference::chain(root, item);
        paths.broken.extend(broken.map(|reason| (path.as_str(), reason)));
        let items: Rc<[&Value]> = items.into();
        let mut seen = HashSet::new();
        // An item's own members come before those of what it refers to: OpenAPI leaves open which
        // count, and who writes both means to change some.
        for (key, object) in items.iter().filter_map(|item| item.as_object()).flatten() {
            let is_operation = !SHARED.contains(&key.as_str()) && !key.starts_with("x-");
            if is_operation && seen.insert(key) {
                let items = Rc::clone(&items);
                paths.operations.push(Described { path, method: key, items, object });
            }
        }
    }
    paths
}

impl<'d> Described<'d> {
    /// Its id, or one made of its method and path: `get_pet_by_petId`.
    pub(super) fn name(&self) -> Cow<'d, str> {
        if let Some(id) = text(self.object, "operationId") {
            return id.into();
        }
        let mut name = self.method.to_ascii_lowercase();
        for segment in self.path.split('/').filter(|segment| !segment.is_empty()) {
            match segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) {
                Some(parameter) => name.extend(["_by_", parameter]),
                None => name.extend(["_", segment]),
            }
        }
        name.into()
    }

    fn method(&self) -> Result<Method, String> {
        let method = Method::named(self.method).filter(|method| method.name() != self.method);
        method.ok_or_else(|| {
            let names = Method::ALL.map(|method| method.name().to_ascii_lowercase()).join(", ");
            format!("its method is {}, not one of {names}", quote(self.method))
        })
    }

    /// Whether an entry chooses it.
    pub(super) fn is_chosen(&self, options: &OpenApiOptions) -> bool {
        let is_meant = |select| self.is_meant_by(select);
        (options.include.is_empty() || options.include.iter().any(is_meant))
            && !options.exclude.iter().any(is_meant)
    }

    /// Whether this choice means it.
    pub(super) fn is_meant_by(&self, select: &super::Select) -> bool {
        select.means(&self.name(), self.tags(), &self.method.to_ascii_uppercase(), self.path)
    }

    /// It, as a choice of this kind would name it.
    pub(super) fn names_for(&self, select: &super::Select) -> Vec<String> {
        select.names_of(&self.name(), self.tags(), &self.method.to_ascii_uppercase(), self.path)
    }

    fn tags(&self) -> impl Iterator<Item = &'d str> {
        let tags = self.object.get("tags").and_then(Value::as_array).into_iter().flatten();
        tags.filter_map(Value::as_str)
    }

    /// The operation as a tool.
    ///
    /// # Errors
    /// Why it cannot be one: lower case, no full stop.
    pub(super) fn operation(
        &self,
        schemas: &mut Schemas<'d>,
        options: &OpenApiOptions,
    ) -> Result<Operation, String> {
        let Self { object, .. } = *self;
        let method = self.method()?;
        if !object.is_object() {
            return Err("it is not an object".to_owned());
        }
        if is_true(object, "deprecated") {
            return Err("it is deprecated".to_owned());
        }
        let root = schemas.root;
        let mut converter = schemas.operation();
        let (mut arguments, mut parts) = (Arguments::default(), Parts::default());
        for parameter in parameters::of_operation(root, &self.items, object)? {
            parameter.add(&mut converter, &mut arguments, &mut parts)?;
        }
        let body = body::of_operation(object, &mut converter, &mut arguments)?;
        let mut path = options.base_path();
        path.extend(parameters::segments(self.path, &parts)?);
        let Parts { query, mut headers, .. } = parts;
        headers.extend(answers::accept(root, object));
        let mut request = RequestTemplate {
            method,
            origin: options.origin(),
            path,
            fixed_query: String::new(),
            query,
            headers,
            body,
            idempotency_header: options.idempotency_header.clone(),
            keys: Keys::default(),
        };
        let keys = &options.credentials;
        let bearer = security::secure(keys, root, object, &mut request, &mut arguments)?;
        let definitions = converter.finish()?;
        let mut parameters = json!({ "type": "object", "properties": arguments.properties });
        if !arguments.required.is_empty() {
            parameters["required"] = arguments.required.into();
        }
        if !definitions.is_empty() {
            parameters["$defs"] = definitions.into();
        }
        let declared = Declared {
            name: self.name().into_owned(),
            title: text(object, "summary").map(str::to_owned),
            description: self.description(),
            parameters,
            effects: Effects::Known(request.policy()),
        };
        Ok(Operation { declared, request, bearer })
    }

    /// Its summary and its description, whichever say something of their own.
    fn description(&self) -> String {
        let own = |object| [text(object, "summary"), text(object, "description")];
        let mut said: Vec<&str> = own(self.object).into_iter().flatten().collect();
        if said.is_empty() {
            said = self.items.iter().flat_map(|item| own(item)).flatten().collect();
        }
        let mut seen = HashSet::new();
        said.retain(|text| seen.insert(text.trim_end_matches('.').to_lowercase()));
        match said[..] {
            [] => format!("{} {}", self.method.to_ascii_uppercase(), self.path),
            [summary, description] if !description.starts_with(summary) => {
                format!("{}. {description}", summary.trim_end_matches('.'))
            }
            [.., description] => description.to_owned(),
        }
    }
}
