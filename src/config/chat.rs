//! Reads `chat`, and checks what it says about upstreams.

use hyper::header::HeaderName;

use super::mistake::Mistake;
use super::raw::Node;
use super::reader::{Keys, Refused, boolean, text};
use super::values::{choice, model_name, name as upstream_name};
use super::{ChatConfig, Config};
use crate::limits::config::{MODEL_NAMES_MAX, SESSION_HEADERS_MAX};
use crate::server::{ModelAlias, ServerTools};

pub(super) fn read(mut keys: Keys<'_, '_>) -> ChatConfig {
    let default = ChatConfig::default();
    let chat = ChatConfig {
        server_tools: keys.read(
            "server_tools",
            default.server_tools,
            choice("server_tools", &ServerTools::ALL),
        ),
        models: models(&mut keys),
        session_headers: session_headers(&mut keys),
        any_model: keys.read("any_model", default.any_model, boolean),
    };
    keys.finish();
    chat
}

fn session_headers(keys: &mut Keys<'_, '_>) -> Vec<String> {
    let headers = keys.list("session_headers", Vec::new(), |node| {
        let name = text(node)?;
        match name.parse::<HeaderName>() {
            Ok(_) => Ok(name.to_owned()),
            Err(_) => Err(Refused::new(node, "a header name")),
        }
    });
    if headers.len() > SESSION_HEADERS_MAX {
        let message = format!("expected at most {SESSION_HEADERS_MAX} headers");
        keys.refuse("session_headers", message);
    }
    headers
}

fn models(keys: &mut Keys<'_, '_>) -> Vec<ModelAlias> {
    let models = keys.sections("models", |mut keys| {
        let name = keys.required("name", String::new(), model_name);
        let has_tools = keys.has("tools");
        let upstream = keys.read("upstream", None, |node| upstream_name(node).map(Some));
        let tools = keys.list("tools", Vec::new(), |node| text(node).map(str::to_owned));
        let shown = choice("server_tools", &ServerTools::ALL);
        let server_tools = keys.read("server_tools", None, |node| shown(node).map(Some));
        keys.finish();
        ModelAlias { name, upstream, tools: has_tools.then_some(tools), server_tools }
    });
    let models = models.unwrap_or_default();
    if models.len() > MODEL_NAMES_MAX {
        keys.refuse("models", format!("expected at most {MODEL_NAMES_MAX} names"));
    }
    models
}

/// Checks that each name is new, and that its upstream exists.
pub(super) fn check(file: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    let upstreams: Vec<&str> = config.upstreams.iter().map(|upstream| &*upstream.name).collect();
    let models = &config.chat.models;
    for (at, ModelAlias { name, upstream, .. }) in models.iter().enumerate() {
        let mut refuse = |key: &str, message: String| {
            mistakes.push(Mistake::of_several(format!("chat.models[{at}].{key}"), message));
        };
        let is_taken = upstreams.contains(&&**name)
            || models[..at].iter().any(|earlier| earlier.name == *name);
        if is_taken {
            let name = file.written(name);
            refuse("name", format!("found `{name}`, expected a unique name"));
        }
        if let Some(upstream) = upstream.as_ref().filter(|it| !upstreams.contains(&&***it)) {
            let known: Vec<_> = upstreams.iter().map(|name| file.written(name)).collect();
            let (upstream, known) = (file.written(upstream), known.join("`, `"));
            refuse("upstream", format!("found `{upstream}`, expected an upstream: `{known}`"));
        }
    }
}
