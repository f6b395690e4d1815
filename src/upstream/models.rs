//! A server's list of models, which also reveals the kind of server.

use serde::Deserialize;

/// What a server says about itself in its answer to `GET /v1/models`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Models {
    /// The kind of server.
    pub(crate) flavour: Flavour,
    /// The name of its first model.
    pub(crate) first: Option<String>,
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
    /// Any other server. Like the two before, it is sent nothing beyond the standard.
    #[default]
    Other,
}

impl Models {
    /// Reads a list of models. Any other input gives the default.
    #[must_use]
    pub(crate) fn read(body: &str) -> Self {
        #[derive(Deserialize)]
        struct List {
            data: Vec<Model>,
        }
        #[derive(Deserialize)]
        struct Model {
            id: Option<String>,
            owned_by: Option<String>,
            root: Option<String>,
            meta: Option<Meta>,
            max_model_len: Option<u64>,
        }
        #[derive(Deserialize)]
        struct Meta {
            n_params: Option<u64>,
            n_ctx: Option<u64>,
        }
        let list = serde_json::from_str::<List>(body).ok();
        let Some(first) = list.and_then(|list| list.data.into_iter().next()) else {
            return Self::default();
        };
        // Servers put their own name there; Ollama, where its models come from.
        let flavour = match first.owned_by.as_deref() {
            Some("vllm") => Flavour::Vllm,
            Some("sglang") => Flavour::Sglang,
            Some("llamacpp") => Flavour::LlamaCpp,
            Some("library") => Flavour::Ollama,
            _ => Flavour::Other,
        };
        let Model { id, root, meta, max_model_len, .. } = first;
        let (parameters, context) =
            meta.map(|meta| (meta.n_params, meta.n_ctx)).unwrap_or_default();
        Self { flavour, first: id, root, parameters, context: max_model_len.or(context) }
    }
}

impl Flavour {
    /// Whether the server removes special tokens from its text unless asked not to. A marker
    /// may be one.
    pub(in crate::upstream) const fn skips_special_tokens(self) -> bool {
        match self {
            Self::Vllm | Self::Sglang => true,
            Self::LlamaCpp | Self::Ollama | Self::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, flavour: Flavour, first: Option<&str>) {
        let expected = Models { flavour, first: first.map(str::to_owned), ..Models::default() };
        assert_eq!(Models::read(body), expected, "{body}");
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
        assert_eq!(Models::read(body).parameters, Some(494_032_768));
        check(r#"{"data":null}"#, Flavour::Other, None);
        check("not found", Flavour::Other, None);
    }
}
