//! The models that clients can ask for, in every dialect: upstreams, and names that the operator
//! has made for an upstream with some of the tools.
//!
//! Every chat page lets its user choose a model, and few can send anything else. So a name also
//! chooses the gateway's tools: with the suffix [`NO_TOOLS`], it means the same without them.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::server_tools::ServerTools;
use crate::gateway::BeginError;
use crate::server::refusal::Refusal;

/// The suffix of a model's name with which none of the gateway's own tools are offered.
pub(crate) const NO_TOOLS: &str = ":no-tools";

/// A name for an upstream with some of the tools: an entry of `chat.models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelAlias {
    /// What clients ask for.
    pub name: String,
    /// The upstream; the default one if absent.
    pub upstream: Option<String>,
    /// The gateway's tools that are offered; all if absent.
    pub tools: Option<Vec<String>>,
    /// What Chat Completions shows of them; as `chat.server_tools` says if absent.
    pub server_tools: Option<ServerTools>,
}

/// See the module docs.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct Models {
    upstreams: Vec<String>,
    aliases: Vec<ModelAlias>,
    any: bool,
}

/// What a model's name means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::server) struct ChosenModel {
    /// The upstream; the default one if absent.
    pub(in crate::server) upstream: Option<String>,
    /// The gateway's tools that may be offered; all if absent.
    pub(in crate::server) tools: Option<Vec<String>>,
    /// What Chat Completions shows of them; as configured if absent.
    pub(in crate::server) server_tools: Option<ServerTools>,
}

impl Models {
    /// These upstreams, the default one first, and these names for them. With `any`, unknown names
    /// mean the default upstream.
    pub(in crate::server) const fn new(
        upstreams: Vec<String>,
        aliases: Vec<ModelAlias>,
        any: bool,
    ) -> Self {
        Self { upstreams, aliases, any }
    }

    /// What this name means.
    ///
    /// # Errors
    /// If there is no such model.
    pub(in crate::server) fn choose(&self, name: &str) -> Result<ChosenModel, Refusal> {
        let default = || self.any.then(|| Self::default_for(name));
        self.known(name).or_else(default).ok_or_else(|| self.unknown(name))
    }

    /// What an unknown name means if it means the default upstream.
    pub(in crate::server) fn default_for(name: &str) -> ChosenModel {
        let tools = without_suffix(name).map(|_| Vec::new());
        ChosenModel { tools, ..ChosenModel::default() }
    }

    /// What this name means, if there is such a model.
    pub(in crate::server) fn known(&self, name: &str) -> Option<ChosenModel> {
        self.named(name).or_else(|| {
            Some(ChosenModel { tools: Some(Vec::new()), ..self.named(without_suffix(name)?)? })
        })
    }

    fn named(&self, name: &str) -> Option<ChosenModel> {
        if let Some(alias) = self.aliases.iter().find(|alias| alias.name == name) {
            let ModelAlias { upstream, tools, server_tools, .. } = alias.clone();
            return Some(ChosenModel { upstream, tools, server_tools });
        }
        let upstream = self.upstreams.iter().find(|upstream| *upstream == name)?;
        Some(ChosenModel { upstream: Some(upstream.clone()), ..ChosenModel::default() })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let aliases = self.aliases.iter().map(|alias| &*alias.name);
        self.upstreams.iter().map(String::as_str).chain(aliases)
    }

    fn unknown(&self, name: &str) -> Refusal {
        let known = self.names().map(str::to_owned).collect();
        Refusal::Begin(BeginError::UnknownModel { name: name.to_owned(), known })
    }

    /// The list of models, for `OpenAI`'s clients and for Anthropic's, whose keys do not collide. Codex insists on
    /// `models`; it would refuse a list of entries that lack any of its many fields, and takes an empty one to say
    /// nothing new.
    pub(in crate::server) fn list(&self, since_sec: u64) -> Value {
        let names = self.names().flat_map(|name| [name.to_owned(), format!("{name}{NO_TOOLS}")]);
        let models: Vec<Value> = names.map(|name| one(&name, since_sec)).collect();
        let id = |model: Option<&Value>| model.map_or(Value::Null, |model| model["id"].clone());
        let (first, last) = (id(models.first()), id(models.last()));
        json!({
            "object": "list", "data": models, "models": [],
            "has_more": false, "first_id": first, "last_id": last,
        })
    }

    /// A model.
    ///
    /// # Errors
    /// If there is none with this name.
    pub(in crate::server) fn find(&self, name: &str, since_sec: u64) -> Result<Value, Refusal> {
        let found = self.known(name).map(|_| one(name, since_sec));
        found.ok_or_else(|| self.unknown(name))
    }
}

fn without_suffix(name: &str) -> Option<&str> {
    name.strip_suffix(NO_TOOLS)
}

fn one(name: &str, since_sec: u64) -> Value {
    let since = i64::try_from(since_sec).ok().and_then(|sec| Timestamp::from_second(sec).ok());
    json!({
        "id": name, "object": "model", "created": since_sec, "owned_by": "tether",
        "type": "model", "display_name": name, "created_at": since.unwrap_or_default().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(any: bool) -> Models {
        let alias = |name: &str, upstream: Option<&str>, tools: Option<&[&str]>| ModelAlias {
            name: name.to_owned(),
            upstream: upstream.map(str::to_owned),
            tools: tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect()),
            server_tools: None,
        };
        let aliases =
            vec![alias("calc", Some("b"), Some(&["calculate"])), alias("all", None, None)];
        Models::new(vec!["a".to_owned(), "b".to_owned()], aliases, any)
    }

    #[track_caller]
    fn check(any: bool, name: &str, upstream: Option<&str>, tools: Option<&[&str]>) {
        let tools = tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect());
        let upstream = upstream.map(str::to_owned);
        let expected = ChosenModel { upstream, tools, server_tools: None };
        assert_eq!(models(any).choose(name).unwrap(), expected);
    }

    #[test]
    fn a_name_means_an_upstream_and_tools() {
        check(false, "a", Some("a"), None);
        check(false, "b", Some("b"), None);
        check(false, "calc", Some("b"), Some(&["calculate"]));
        check(false, "all", None, None);
    }

    #[test]
    fn a_suffix_takes_the_tools_away() {
        check(false, "b:no-tools", Some("b"), Some(&[]));
        check(false, "calc:no-tools", Some("b"), Some(&[]));
        check(false, "all:no-tools", None, Some(&[]));
        check(true, "gpt-4o:no-tools", None, Some(&[]));
    }

    #[test]
    fn unknown_names_are_refused_unless_any_is_the_default() {
        for name in ["", "c", "a:", "a:no-tools:no-tools", "A", ":no-tools"] {
            let refused = models(false).choose(name).unwrap_err();
            assert!(refused.message().ends_with("available: a, b, calc, all"), "{name}");
        }
        check(true, "gpt-4o", None, None);
        check(true, "b", Some("b"), None);
        assert!(models(true).find("gpt-4o", 0).is_err(), "it is not listed");
    }

    #[test]
    fn all_names_are_listed_each_with_and_without_tools() {
        let list = models(false).list(7);
        let ids: Vec<&str> =
            list["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
        let names = ["a", "b", "calc", "all"];
        let expected = names.map(|name| [name.to_owned(), format!("{name}:no-tools")]).concat();
        assert_eq!(ids, expected);
        assert_eq!(list["models"], json!([]));
        let page = (&list["first_id"], &list["last_id"], &list["has_more"]);
        assert_eq!(page, (&json!("a"), &json!("all:no-tools"), &json!(false)));
        for name in ids {
            let one = json!({
                "id": name, "object": "model", "created": 7, "owned_by": "tether",
                "type": "model", "display_name": name, "created_at": "1970-01-01T00:00:07Z",
            });
            assert_eq!(models(false).find(name, 7).unwrap(), one);
        }
    }
}
