//! An entry's rules: which of its tools are offered, under which names, and how they are treated.

use std::sync::Arc;

use serde_json::Value;

use super::unmatched::unmatched;
use super::{Glob, Source, SourceKind, names, told};
use crate::limits::tools::{DESCRIPTION_CHARS_MAX, SCHEMA_BYTES_MAX, TOLD_SCHEMA_BYTES_MAX};
use crate::text::json_len;
use crate::tools::{Policy, PolicyPatch, ToolSpec, clean};

/// A tool as its source describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// The source's own name for it.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// A JSON Schema of the arguments.
    pub parameters: Value,
    /// What is known about its effects.
    pub effects: Effects,
}

/// What is known about a tool's effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effects {
    /// What its source says.
    Hinted(Hints),
    /// What follows from what it is, such as a request's method.
    Known(Policy),
}

/// What a source says about a tool's effects (MCP, `ToolAnnotations`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It deals with things outside of its own data, such as the web.
    pub open_world: Option<bool>,
}

/// How an entry's tools are named and treated.
#[derive(Debug, Clone)]
pub struct EntryRules {
    /// The entry.
    pub source: Source,
    /// Comes before every name.
    pub prefix: String,
    /// Only tools that one of these matches are offered,
    pub allow: Vec<Glob>,
    /// except those that one of these matches.
    pub deny: Vec<Glob>,
    /// The operator's changes to policies. The last pattern that matches counts.
    pub policy: Vec<(Glob, PolicyPatch)>,
    /// Whether hints may loosen a policy. Without trust, they can only tighten it.
    pub is_trusted: bool,
}

impl EntryRules {
    /// The rules of an entry without any options.
    #[must_use]
    pub fn new(source: Source) -> Self {
        let prefix = format!("{}__", source.name);
        let allow = vec![Glob::new("*")];
        Self { source, prefix, allow, deny: Vec::new(), policy: Vec::new(), is_trusted: false }
    }

    /// The rules of an entry that is one tool, which the operator wrote: it has the entry's name,
    /// and its parameters may be long, because nobody else can have made them so.
    #[must_use]
    pub fn of_one(source: Source) -> Self {
        let allow = vec![Glob::new(&*source.name)];
        Self { prefix: String::new(), allow, ..Self::new(source) }
    }

    /// The spec under which a tool is offered.
    ///
    /// # Errors
    /// Why it is not offered: lower case, no full stop.
    pub fn spec(&self, declared: Declared) -> Result<ToolSpec, String> {
        let Declared { name, title, description, parameters, effects } = declared;
        self.check_name(&name)?;
        let bytes = json_len(&parameters);
        if bytes > SCHEMA_BYTES_MAX {
            return Err(format!("its schema takes {bytes} bytes; the limit is {SCHEMA_BYTES_MAX}"));
        }
        let told = told::schema(&name, &parameters);
        let bytes = json_len(told.as_ref().unwrap_or(&parameters));
        if bytes > TOLD_SCHEMA_BYTES_MAX && !self.allow.iter().any(|glob| glob.is_name(&name)) {
            return Err(format!(
                "its schema would take {bytes} bytes of every prompt, {TOLD_SCHEMA_BYTES_MAX} at \
                 most; to offer it all the same, name it in `{}`",
                self.key_of_names()
            ));
        }
        let title = title.map(|title| clean::text(&title, DESCRIPTION_CHARS_MAX));
        let title = title.filter(|title| !title.is_empty());
        Ok(ToolSpec {
            name: names::told(&self.prefix, &name),
            description: clean::text(&description, DESCRIPTION_CHARS_MAX),
            waiting_hint: waiting_hint(title.as_deref(), &name),
            title,
            parameters,
            told,
            policy: self.policy(&name, effects),
            source: self.source.clone(),
            source_name: Some(name),
            ..ToolSpec::default()
        })
    }

    /// Warnings about names in this entry that match none of `known`, the source's tools.
    #[must_use]
    pub(crate) fn unmatched(&self, known: &[impl AsRef<str>]) -> Vec<String> {
        let allow = unmatched("allow", "tool", &self.allow, known);
        let deny = unmatched("deny", "tool", &self.deny, known);
        let policy = unmatched("policy", "tool", self.policy.iter().map(|(glob, _)| glob), known);
        [allow, deny, policy].concat()
    }

    /// The key under which an operator names the tools to offer.
    const fn key_of_names(&self) -> &'static str {
        match self.source.kind {
            SourceKind::Http => "include",
            _ => "allow",
        }
    }

    fn check_name(&self, name: &str) -> Result<(), String> {
        if name.is_empty() {
            return Err("it has no name".to_owned());
        }
        if !self.allow.iter().any(|glob| glob.matches(name)) {
            return Err("`allow` does not name it".to_owned());
        }
        match self.deny.iter().find(|glob| glob.matches(name)) {
            Some(glob) => Err(format!("`deny` names it ({glob})")),
            None => Ok(()),
        }
    }

    /// What the orchestrator may do with calls of a tool.
    fn policy(&self, name: &str, effects: Effects) -> Policy {
        let usual = match effects {
            Effects::Hinted(hints) => hinted(hints, self.is_trusted),
            Effects::Known(policy) => policy,
        };
        let patch = self.policy.iter().rev().find(|(glob, _)| glob.matches(name));
        match patch {
            Some((_, patch)) => patch.apply(usual),
            None => usual,
        }
    }
}

/// The policy that hints lead to. Hints of a server that is not trusted can only tighten it.
fn hinted(hints: Hints, is_trusted: bool) -> Policy {
    let says = |hint: Option<bool>| hint == Some(true);
    let open_world = !is_trusted || hints.open_world != Some(false);
    let careful = Policy { mutates: true, open_world, ..Policy::NONE };
    if says(hints.destructive) {
        return Policy { destructive: true, ..careful };
    }
    if is_trusted && says(hints.read_only) {
        return Policy { mutates: false, ..careful };
    }
    let idempotent = is_trusted && says(hints.idempotent) && hints.destructive == Some(false);
    Policy { idempotent, ..careful }
}

/// What the user sees while the tool runs.
fn waiting_hint(title: Option<&str>, name: &str) -> String {
    let shown = title.map_or_else(|| name.replace(['_', '-', '.'], " "), str::to_owned);
    let cleaned = clean::text(&shown, DESCRIPTION_CHARS_MAX);
    // Hints are parts of one sentence.
    let words: Vec<&str> = cleaned.split_whitespace().collect();
    format!("using {}", words.join(" ").trim_end_matches(['.', '!', '?', '…']))
}

impl Source {
    /// An entry of the configuration.
    #[must_use]
    pub fn entry(kind: SourceKind, name: impl Into<Arc<str>>) -> Self {
        Self { kind, name: name.into() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::Confirm;

    fn rules() -> EntryRules {
        EntryRules::new(Source::entry(SourceKind::Mcp, "files"))
    }

    fn declared(name: &str) -> Declared {
        Declared {
            name: name.to_owned(),
            title: None,
            description: "Does it.".to_owned(),
            parameters: json!({ "type": "object" }),
            effects: Effects::Hinted(Hints::default()),
        }
    }

    #[test]
    fn a_tools_name_is_prefixed_with_its_entrys() {
        let spec = rules().spec(declared("read.file")).unwrap();
        assert_eq!((&*spec.name, &*spec.waiting_hint), ("files__read_file", "using read file"));
        assert_eq!(spec.source, Source::entry(SourceKind::Mcp, "files"));
        assert_eq!(spec.source_name.as_deref(), Some("read.file"));
        let plain = EntryRules { prefix: String::new(), ..rules() };
        assert_eq!(plain.spec(declared("read")).unwrap().name, "read");
        let titled = Declared { title: Some("Read a file.".into()), ..declared("read") };
        assert_eq!(rules().spec(titled).unwrap().waiting_hint, "using Read a file");
        let hidden = declared("read\u{202e}_\u{1b}file\n");
        assert_eq!(rules().spec(hidden).unwrap().waiting_hint, "using read file");
    }

    #[track_caller]
    fn check_left_out(rules: &EntryRules, tool: Declared, reason: Option<&str>) {
        let found = rules.spec(tool).err();
        assert_eq!(found.is_some(), reason.is_some(), "{found:?}");
        if let (Some(found), Some(reason)) = (found, reason) {
            assert!(found.contains(reason), "{found}");
        }
    }

    #[test]
    fn allow_and_deny_choose_by_the_sources_own_names() {
        let rules = EntryRules {
            allow: vec![Glob::new("read_*"), Glob::new("list")],
            deny: vec![Glob::new("*_secret")],
            ..rules()
        };
        check_left_out(&rules, declared("read_file"), None);
        check_left_out(&rules, declared("list"), None);
        check_left_out(&rules, declared("write"), Some("`allow` does not name it"));
        check_left_out(&rules, declared("read_secret"), Some("`deny` names it (*_secret)"));
        check_left_out(&rules, declared(""), Some("it has no name"));
    }

    #[test]
    fn a_schema_too_long_for_prompts_must_be_allowed_by_name() {
        let with = |bytes: usize| {
            let parameters = json!({ "type": "object", "enum": [] });
            let room = bytes - json_len(&parameters) - 2;
            let parameters = json!({ "type": "object", "enum": ["e".repeat(room)] });
            assert_eq!(json_len(&parameters), bytes);
            Declared { parameters, ..declared("big") }
        };
        check_left_out(&rules(), with(TOLD_SCHEMA_BYTES_MAX), None);
        let over = with(TOLD_SCHEMA_BYTES_MAX + 1);
        check_left_out(&rules(), over.clone(), Some("name it in `allow`"));
        let operations = EntryRules::new(Source::entry(SourceKind::Http, "api"));
        check_left_out(&operations, over.clone(), Some("name it in `include`"));
        let named = EntryRules { allow: vec![Glob::new("big")], ..rules() };
        check_left_out(&named, over, None);
        check_left_out(&named, with(SCHEMA_BYTES_MAX), None);
        check_left_out(&named, with(SCHEMA_BYTES_MAX + 1), Some("its schema takes"));
    }

    #[test]
    fn the_one_tool_of_an_entry_may_be_long() {
        let rules = EntryRules::of_one(Source::entry(SourceKind::Command, "big"));
        let parameters = json!({ "type": "object", "enum": ["e".repeat(TOLD_SCHEMA_BYTES_MAX)] });
        let spec = rules.spec(Declared { parameters, ..declared("big") }).unwrap();
        assert_eq!(spec.name, "big");
    }

    #[track_caller]
    fn check_policy(hints: [Option<bool>; 4], is_trusted: bool, expected: Policy) {
        let [read_only, destructive, idempotent, open_world] = hints;
        let hints = Hints { read_only, destructive, idempotent, open_world };
        assert_eq!(hinted(hints, is_trusted), expected, "{hints:?}, trusted: {is_trusted}");
    }

    #[test]
    fn hints_loosen_a_policy_only_with_trust() {
        const YES: Option<bool> = Some(true);
        const NO: Option<bool> = Some(false);
        let careful = Policy { mutates: true, open_world: true, ..Policy::NONE };
        let reads = Policy { open_world: true, ..Policy::NONE };
        let destroys = Policy { destructive: true, ..careful };
        let repeats = Policy { idempotent: true, ..careful };
        for trusted in [false, true] {
            check_policy([None; 4], trusted, careful);
            check_policy([None, YES, None, None], trusted, destroys);
            check_policy([YES, YES, YES, None], trusted, destroys);
            check_policy([None, None, YES, None], trusted, careful);
        }
        check_policy([YES, None, None, None], true, reads);
        check_policy([YES, None, None, None], false, careful);
        check_policy([NO, NO, YES, None], true, repeats);
        check_policy([NO, NO, YES, None], false, careful);
        check_policy([YES, None, None, NO], true, Policy::NONE);
        check_policy([YES, None, None, NO], false, careful);
    }

    #[test]
    fn the_operators_last_matching_pattern_counts() {
        let reads = PolicyPatch { mutates: Some(false), ..PolicyPatch::default() };
        let asks = PolicyPatch { confirm: Some(Confirm::Always), ..PolicyPatch::default() };
        let policy = vec![(Glob::new("get_*"), reads), (Glob::new("*_all"), asks)];
        let rules = EntryRules { policy, ..rules() };
        let policy = |name: &str| rules.spec(declared(name)).unwrap().policy;
        assert!(!policy("get_one").mutates && policy("set_one").mutates);
        let both = policy("get_all");
        assert!(both.mutates && both.confirm == Some(Confirm::Always));
    }

    #[test]
    fn what_people_and_models_read_is_cleaned_and_cut() {
        let description = "d".repeat(DESCRIPTION_CHARS_MAX);
        let tool = |description: String| {
            let title = Some("T\u{200b}itle".to_owned());
            rules().spec(Declared { title, description, ..declared("t") }).unwrap()
        };
        let spec = tool(format!("\u{e0041}{description}"));
        assert_eq!((spec.description, spec.title.as_deref()), (description.clone(), Some("Title")));
        assert_eq!(tool(format!("{description}d")).description, format!("{description}…"));
    }
}
