//! A server's list of models, which also reveals the kind of server.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

/// What a server says about itself in its answer to `GET /v1/models`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Models {
    /// The kind of server.
    pub(crate) flavour: Flavour,
    /// The name of its first model.
    pub(crate) first: Option<String>,
    /// The names of all of its models.
    pub(crate) names: Arc<[String]>,
    /// Where that was loaded from, if the server says so.
    pub(crate) root: Option<String>,
    /// How many parameters it has, if the server says so.
    pub(crate) parameters: Option<u64>,
    /// How many tokens its context has, if the server says so.
    pub(crate) context: Option<u64>,
}

/// The kind of server, as far as requests depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// llama.cpp.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// Any other server.
    #[default]
    Other,
}

impl Models {
    /// Reads a list of models; `None` if the body is something else. `model` is the one that is asked for, if it has a
    /// name: the root is its own, or that of the model which it adapts.
    #[must_use]
    pub(crate) fn read(body: &str, model: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct List {
            // Some servers write an empty list as `null`. Without the field, it is no list.
            #[serde(deserialize_with = "Option::deserialize")]
            data: Option<Vec<Model>>,
        }
        #[derive(Deserialize)]
        struct Model {
            id: Option<String>,
            owned_by: Option<String>,
            // What is good to know must not cost the name.
            #[serde(flatten)]
            more: Map<String, Value>,
        }
        impl Model {
            fn number(&self, of: &str, key: &str) -> Option<u64> {
                self.more.get(of)?.get(key)?.as_u64()
            }

            fn context(&self) -> Option<u64> {
                let told = self.more.get("max_model_len").and_then(Value::as_u64);
                told.or_else(|| self.number("meta", "n_ctx")).filter(|tokens| *tokens > 0)
            }
        }
        // serde would also take a list of the fields.
        if !body.trim_start().starts_with('{') {
            return None;
        }
        let list = serde_json::from_str::<List>(body).ok()?.data.unwrap_or_default();
        let named = list.iter().find(|listed| listed.id.as_deref() == Some(model));
        let parent = named.and_then(|named| named.more.get("parent")?.as_str());
        let of_id = |id: &str| list.iter().find(|listed| listed.id.as_deref() == Some(id));
        // An adapter's own root is where it lies. Without an entry, the name is another for the first model.
        let root = match (parent, named) {
            (Some(parent), _) => of_id(parent).or_else(|| list.first()),
            (None, named) => named.or_else(|| list.first()),
        };
        let root = root.and_then(|listed| listed.more.get("root")?.as_str()).map(str::to_owned);
        // Of the model that is asked. Some servers take any name for the only one.
        let asked = named.or_else(|| list.first().filter(|_| model.is_empty() || list.len() == 1));
        let parent = parent.and_then(of_id);
        let context = asked.and_then(Model::context).or_else(|| parent.and_then(Model::context));
        let all = list.iter().filter_map(|listed| listed.id.clone()).collect();
        let Some(first) = list.into_iter().next() else { return Some(Self::default()) };
        // Servers put their own name there; Ollama, where its models come from.
        let flavour = match first.owned_by.as_deref() {
            Some("vllm") => Flavour::Vllm,
            Some("sglang") => Flavour::Sglang,
            Some("llamacpp") => Flavour::LlamaCpp,
            Some("library") => Flavour::Ollama,
            _ => Flavour::Other,
        };
        let parameters = first.number("meta", "n_params");
        Some(Self { flavour, first: first.id, names: all, root, parameters, context })
    }

    /// Whether this may be another model than before. Which others a server has does not matter.
    pub(crate) fn may_replace(&self, before: &Self) -> bool {
        Self { names: Arc::clone(&before.names), ..self.clone() } != *before
    }
}

impl Flavour {
    /// Whether the server takes `skip_special_tokens: false`, and then leaves special tokens in its
    /// text. A marker may be one.
    pub(in crate::upstream) const fn keeps_special_tokens_if_asked(self) -> bool {
        match self {
            Self::Vllm | Self::Sglang => true,
            Self::LlamaCpp | Self::Ollama | Self::Other => false,
        }
    }

    /// Whether it lets a model go on with a message that is not finished, if that comes last.
    pub(in crate::upstream) const fn prefills(self) -> bool {
        match self {
            Self::Vllm | Self::Sglang | Self::LlamaCpp => true,
            Self::Ollama | Self::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, flavour: Flavour, first: Option<&str>) {
        let found = Models::read(body, "").unwrap();
        let (first, names) = (first.map(str::to_owned), Arc::clone(&found.names));
        let expected = Models { flavour, first, names, ..Models::default() };
        assert_eq!(found, expected, "{body}");
    }

    #[test]
    fn servers_are_recognised_by_what_they_report() {
        for (owner, flavour) in [
            ("llamacpp", Flavour::LlamaCpp),
            ("vllm", Flavour::Vllm),
            ("sglang", Flavour::Sglang),
            ("library", Flavour::Ollama),
        ] {
            let body = format!(r#"{{"object":"list","data":[{{"id":"m","owned_by":"{owner}"}}]}}"#);
            check(&body, flavour, Some("m"));
        }
    }

    #[test]
    fn missing_fields_are_unknown() {
        check(r#"{"object":"list","data":[{"id":"m"},{"id":"n"}]}"#, Flavour::Other, Some("m"));
        check(r#"{"data":[{"id":null,"owned_by":null}]}"#, Flavour::Other, None);
        check(r#"{"data":[{"owned_by":"vllm"}]}"#, Flavour::Vllm, None);
        check(r#"{"object":"list","data":[]}"#, Flavour::Other, None);
        let body = r#"{"data":[{"id":"m","meta":{"n_params":494032768,"n_vocab":1}}]}"#;
        assert_eq!(Models::read(body, "").unwrap().parameters, Some(494_032_768));
        for odd in ["\"8B\"", "-1", "1e9", "null", "[]"] {
            let body = format!(
                r#"{{"data":[{{"id":"m","root":{odd},"meta":{odd},"max_model_len":{odd}}}]}}"#
            );
            assert_eq!(Models::read(&body, "").unwrap().first.as_deref(), Some("m"), "{odd}");
        }
        let body = r#"{"data":[{"id":"m","owned_by":"vllm","root":"Qwen/Qwen3-8B","max_model_len":4096}]}"#;
        let models = Models::read(body, "").unwrap();
        assert_eq!((models.root.as_deref(), models.context), (Some("Qwen/Qwen3-8B"), Some(4096)));
        check(r#"{"data":null}"#, Flavour::Other, None);
    }

    #[test]
    fn what_is_no_list_is_not_read_as_an_empty_one() {
        for other in
            ["not found", "", "<!doctype html>", "{}", "[[]]", r#"{"error":{}}"#, r#"{"data":1}"#]
        {
            assert_eq!(Models::read(other, "m"), None, "{other}");
        }
    }

    #[test]
    fn the_root_is_that_of_the_model_that_is_asked_for() {
        let list = r#"{"data":[{"id":"a","root":"Qwen/Qwen3-8B"},{"id":"b","root":"B/B"},
            {"id":"c"},{"id":"adapter","root":"/adapters/1","parent":"b"}]}"#;
        for (model, root) in [
            ("", Some("Qwen/Qwen3-8B")),
            ("a", Some("Qwen/Qwen3-8B")),
            ("another name", Some("Qwen/Qwen3-8B")),
            ("b", Some("B/B")),
            ("c", None),
            ("adapter", Some("B/B")),
        ] {
            assert_eq!(Models::read(list, model).unwrap().root.as_deref(), root, "{model}");
        }
    }
}
