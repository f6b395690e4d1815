//! What a gateway's tools are, without the tools themselves: names, schemas, policies.
//!
//! A catalog is enough to decide about a call, but cannot run one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::ToolSpec;
use super::schema::{Schema, Violation};
use crate::limits::tools::{FEEDBACK_NAMES_MAX, NAME_BYTES_MAX};
use crate::text::quote;

/// The specs of some tools, in configuration order. Copying it is cheap.
#[derive(Debug, Clone)]
pub struct Catalog(Arc<Entries>);

/// Empty. All of these are one: most turns have several.
impl Default for Catalog {
    fn default() -> Self {
        static EMPTY: LazyLock<Arc<Entries>> = LazyLock::new(Arc::default);
        Self(Arc::clone(&EMPTY))
    }
}

#[derive(Debug, Clone, Default)]
struct Entries {
    listed: Vec<Arc<Listed>>,
    /// Positions in `listed`.
    by_name: HashMap<String, usize>,
}

/// A tool's spec, and its schema ready to check arguments with.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) spec: Arc<ToolSpec>,
    pub(super) schema: Schema,
    /// How long its description to a model is, in bytes.
    pub(super) told_bytes: usize,
}

impl Listed {
    pub(super) fn new(spec: Arc<ToolSpec>, schema: Schema) -> Self {
        let parameters = spec.told_parameters().to_string();
        let told_bytes = spec.name.len() + spec.description.len() + parameters.len();
        Self { spec, schema, told_bytes }
    }
}

/// Why a call is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidCall {
    /// There is no such tool, or this turn does not offer it.
    NotFound {
        /// The name that the model wrote.
        name: String,
        /// Similar names, the most similar first.
        closest: Vec<String>,
        /// Other names, in order. Together there are at most [`FEEDBACK_NAMES_MAX`].
        available: Vec<String>,
    },
    /// The arguments break the tool's schema.
    Invalid {
        /// What is wrong; never empty.
        violations: Vec<Violation>,
    },
}

impl fmt::Display for InvalidCall {
    /// Tells the model, in sentences, what was wrong and what is allowed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { name, closest, available } => {
                write!(f, "There is no tool called {}.", quote(name))?;
                if !closest.is_empty() {
                    write!(f, " Did you mean {}?", closest.join(" or "))?;
                }
                match (closest.is_empty(), available.is_empty()) {
                    (true, true) => {
                        return f.write_str(" No tools are available: answer in words.");
                    }
                    (_, true) => {}
                    (true, false) => write!(f, " Available: {}.", available.join(", "))?,
                    (false, false) => write!(f, " Also available: {}.", available.join(", "))?,
                }
                f.write_str(" Call one of these, or answer in words.")
            }
            Self::Invalid { violations } => {
                f.write_str("The arguments are not valid.")?;
                for violation in violations {
                    write!(f, "\n- {violation}")?;
                }
                Ok(())
            }
        }
    }
}

impl Catalog {
    /// The tool with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.entry(name).map(|entry| &*entry.spec)
    }

    /// All specs, in order.
    #[must_use]
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &ToolSpec> {
        self.0.listed.iter().map(|entry| &*entry.spec)
    }

    /// All names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.specs().map(|spec| spec.name.clone()).collect()
    }

    /// Whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.listed.is_empty()
    }

    /// How long the description of the tool at this position is to a model, in bytes: its name,
    /// what it does, and its told parameters as JSON.
    #[must_use]
    pub fn told_bytes(&self, position: usize) -> usize {
        self.0.listed[position].told_bytes
    }

    /// Checks whether a call may run: its tool exists and its arguments are valid.
    ///
    /// # Errors
    /// The reason not to run it.
    pub fn check(&self, name: &str, arguments: &Value) -> Result<(), InvalidCall> {
        self.check_knowing(name, arguments, self)
    }

    /// The same for a model that knows only these tools well. If there is no such tool, they are
    /// listed for it.
    ///
    /// # Errors
    /// The reason not to run it.
    pub fn check_knowing(
        &self,
        name: &str,
        arguments: &Value,
        known: &Self,
    ) -> Result<(), InvalidCall> {
        let Some(entry) = self.entry(name) else { return Err(self.not_found(name, known)) };
        let valid = entry.schema.validate(arguments);
        valid.map_err(|violations| InvalidCall::Invalid { violations })
    }

    /// The arguments of a call without optional properties that are `null` although the tool's
    /// schema refuses that: they count as absent. Missing required properties have their defaults.
    #[must_use]
    pub fn completed(&self, name: &str, arguments: Value) -> Value {
        match self.entry(name) {
            Some(entry) => {
                entry.schema.with_defaults(entry.schema.without_refused_nulls(arguments))
            }
            None => arguments,
        }
    }

    /// Adds a tool after the others. Its name must be new.
    pub(super) fn push(&mut self, listed: Arc<Listed>) {
        let entries = Arc::make_mut(&mut self.0);
        entries.by_name.insert(listed.spec.name.clone(), entries.listed.len());
        entries.listed.push(listed);
    }

    /// Adds a tool after the others, or in place of the one with its name.
    pub(super) fn put(&mut self, listed: Arc<Listed>) {
        match self.position(&listed.spec.name) {
            Some(position) => Arc::make_mut(&mut self.0).listed[position] = listed,
            None => self.push(listed),
        }
    }

    /// The position of the tool with this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.by_name.get(name).copied()
    }

    /// The spec of the tool at this position.
    #[must_use]
    pub fn at(&self, position: usize) -> &ToolSpec {
        &self.0.listed[position].spec
    }

    /// The tools at these positions, in this order.
    #[must_use]
    pub fn select(&self, positions: &[usize]) -> Self {
        let mut selected = Self::default();
        for position in positions {
            selected.push(Arc::clone(&self.0.listed[*position]));
        }
        selected
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Arc<Listed>> {
        self.position(name).map(|position| &self.0.listed[position])
    }

    fn not_found(&self, name: &str, known: &Self) -> InvalidCall {
        let mut alike: Vec<(f64, &str)> =
            self.specs().map(|spec| (closeness(name, &spec.name), spec.name.as_str())).collect();
        alike.retain(|(likeness, _)| *likeness >= ALIKE);
        // The sort is stable: equally similar names keep their order.
        alike.sort_by(|a, b| b.0.total_cmp(&a.0));
        alike.truncate(CLOSEST_MAX);
        let closest: Vec<String> = alike.into_iter().map(|(_, name)| name.to_owned()).collect();
        let listed = known.specs().map(|spec| spec.name.as_str());
        let others = listed.filter(|name| !closest.iter().any(|close| close == name));
        let available =
            others.take(FEEDBACK_NAMES_MAX - closest.len()).map(str::to_owned).collect();
        InvalidCall::NotFound { name: name.to_owned(), closest, available }
    }
}

/// How many names to suggest as what the model meant. With more, it would have to guess again.
const CLOSEST_MAX: usize = 3;

/// From here on two names are similar: half of their letters match, as in `get_time` and
/// `get_current_time`.
const ALIKE: f64 = 0.5;

/// The similarity of a name to a known one, 0 to 1: as written, or without what models add to
/// names (`functions.calculate:0`).
fn closeness(name: &str, known: &str) -> f64 {
    let bare = name.strip_prefix("functions.").unwrap_or(name);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let bare = match bare.rsplit_once(':') {
        Some((bare, number)) if is_number(number) => bare,
        _ => bare,
    };
    likeness(name, known).max(likeness(bare, known))
}

/// The similarity of two names, 0 to 1, by edit distance, ignoring case and word separators.
fn likeness(a: &str, b: &str) -> f64 {
    let plain = |name: &str| -> String {
        let name = name.chars().take(NAME_BYTES_MAX);
        name.map(
            |char| if matches!(char, '-' | '.' | ' ') { '_' } else { char.to_ascii_lowercase() },
        )
        .collect()
    };
    strsim::normalized_damerau_levenshtein(&plain(a), &plain(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn catalog(names: &[&str]) -> Catalog {
        let mut catalog = Catalog::default();
        for name in names {
            push(&mut catalog, name, json!({"type": "object"}));
        }
        catalog
    }

    fn push(catalog: &mut Catalog, name: &str, parameters: Value) {
        let schema = Schema::compile(&parameters).unwrap();
        let spec = ToolSpec { name: name.into(), parameters, ..ToolSpec::default() };
        catalog.push(Arc::new(Listed::new(Arc::new(spec), schema)));
    }

    #[track_caller]
    fn check_not_found(catalog: &Catalog, name: &str, told: &str) {
        assert_eq!(catalog.check(name, &json!({})).unwrap_err().to_string(), told);
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_closest_names_first() {
        let catalog = catalog(&["calculate", "get_current_time", "get_weather", "send_message"]);
        check_not_found(
            &catalog,
            "get_time",
            "There is no tool called \"get_time\". Did you mean get_current_time? \
             Also available: calculate, get_weather, send_message. Call one of these, or \
             answer in words.",
        );
        check_not_found(
            &catalog,
            "Get-Wether",
            "There is no tool called \"Get-Wether\". Did you mean get_weather? \
             Also available: calculate, get_current_time, send_message. Call one of these, or \
             answer in words.",
        );
        for name in ["functions.calculate:0", "functions.calculate", "calculate:12"] {
            check_not_found(
                &catalog,
                name,
                &format!(
                    "There is no tool called \"{name}\". Did you mean calculate? \
                     Also available: get_current_time, get_weather, send_message. \
                     Call one of these, or answer in words."
                ),
            );
        }
        let weather = self::catalog(&["get_weather_map", "get_weather"]);
        check_not_found(
            &weather,
            "get_wether",
            "There is no tool called \"get_wether\". Did you mean get_weather or get_weather_map? \
             Call one of these, or answer in words.",
        );
        check_not_found(
            &catalog,
            "xyz",
            "There is no tool called \"xyz\". \
             Available: calculate, get_current_time, get_weather, send_message. \
             Call one of these, or answer in words.",
        );
        check_not_found(
            &Catalog::default(),
            "xyz",
            "There is no tool called \"xyz\". No tools are available: answer in words.",
        );
    }

    #[test]
    fn listed_names_are_bounded() {
        let many: Vec<String> = (0..FEEDBACK_NAMES_MAX * 2).map(|n| format!("tool_{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let Err(InvalidCall::NotFound { closest, available, .. }) =
            catalog(&many).check("tool_x", &json!({}))
        else {
            panic!("there is no such tool")
        };
        assert_eq!(closest.len(), CLOSEST_MAX);
        assert_eq!(closest.len() + available.len(), FEEDBACK_NAMES_MAX);
    }

    #[test]
    fn arguments_are_checked_before_anything_runs() {
        let mut catalog = Catalog::default();
        push(&mut catalog, "t", json!({"properties": {"n": {"type": "integer"}}}));
        assert_eq!(catalog.check("t", &json!({"n": 1})), Ok(()));
        assert_eq!(
            catalog.check("t", &json!({"n": "1"})).unwrap_err().to_string(),
            "The arguments are not valid.\n- arguments.n: expected an integer; \
             received a string: \"1\"; its schema is \"n\": {\"type\":\"integer\"}"
        );
        let refusal = catalog.check("t", &json!([])).unwrap_err().to_string();
        assert!(refusal.contains("expected an object"));
    }

    proptest! {
        #[test]
        fn any_call_is_answered(name in any::<String>()) {
            let catalog = catalog(&["get_current_time"]);
            let refusal = catalog.check(&name, &json!({})).unwrap_err();
            prop_assert!(!refusal.to_string().is_empty());
        }
    }
}
