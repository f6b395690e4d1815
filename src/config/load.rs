//! Loads a configuration from the file's text, the environment and the command line. Only this
//! module and [`raw`](super::raw) know YAML; only this module reads the environment.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hyper::Uri;

use super::check::{check, check_whole};
use super::mistake::{ConfigError, Mistake};
use super::raw::{Node, Place, Value};
use super::surroundings::{Environment, Surroundings};
use super::{Config, ModelServerConfig, STORE_FILE, Secret, Store, UpstreamConfig, UpstreamKind};
use crate::limits::config::{DEPTH_MAX, FILE_BYTES_MAX};
use crate::tools::process;
use crate::upstream::dialect::Kind;

/// Command-line options that override the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--listen`
    pub listen: Option<SocketAddr>,
    /// `--upstream`: the only upstream to use. Its other options come from the file's first
    /// model server.
    pub upstream: Option<Uri>,
    /// `--model`: the model's name on the first upstream.
    pub model: Option<String>,
    /// `--state`: the folder in which sessions are kept in a file.
    pub state: Option<PathBuf>,
}

/// Reads a file, or the built-in defaults if there is none.
///
/// # Errors
/// All mistakes in the file and in `overrides`, together.
pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigError> {
    let Some(path) = file else {
        return load_text("built-in defaults", "", overrides, &environment);
    };
    let name = path.display().to_string();
    let text =
        read_text(path).map_err(|message| ConfigError::new(&name, vec![whole_file(message)]))?;
    let mut config = load_text(&name, &text, overrides, &environment)?;
    let around = Surroundings {
        folder: path.parent().unwrap_or_else(|| Path::new("")),
        environment: &environment,
        read: &read_text,
    };
    config.tools.resolve(&around);
    if overrides.state.is_none() {
        let file = &mut config.sessions.embedded.path;
        *file = around.path(file);
    }
    if let Some(tls) = &mut config.server.tls {
        (tls.cert, tls.key) = (around.path(&tls.cert), around.path(&tls.key));
    }
    let redis = &mut config.sessions.redis;
    for file in [&mut redis.ca_file, &mut redis.cert_file, &mut redis.key_file] {
        *file = file.take().map(|file| around.path(&file));
    }
    Ok(config)
}

/// The environment of a program: the usual variables of this process, those in `inherit`, and
/// those in `set`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn process_environment(
    inherit: &[String],
    set: &[(String, Secret)],
) -> Vec<(OsString, OsString)> {
    let set: Vec<_> =
        set.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect();
    process::environment(std::env::vars_os(), inherit, &set)
}

/// A variable of this process, if it is set, and text.
pub(crate) fn text_variable(name: &str) -> Option<String> {
    environment(name)?.into_string().ok()
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Reads the text of a file named `source_name`.
///
/// # Errors
/// As [`load`].
pub fn load_text(
    source_name: &str,
    text: &str,
    overrides: &Overrides,
    environment: Environment<'_>,
) -> Result<Config, ConfigError> {
    let mut root = parse(text).map_err(|mistake| ConfigError::new(source_name, vec![mistake]))?;
    let mut mistakes = Vec::new();
    substitute(&mut root, "", environment, &mut mistakes);
    let mut config = check(&root, &mut mistakes);
    apply(overrides, &mut config, &mut mistakes);
    check_whole(&root, &config, &mut mistakes);
    if mistakes.is_empty() { Ok(config) } else { Err(ConfigError::new(source_name, mistakes)) }
}

fn read_text(path: &Path) -> Result<String, String> {
    let bytes = read_bounded(path).map_err(|error| format!("cannot read the file: {error}"))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("the file is longer than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        format!("invalid UTF-8 at byte {valid}")
    })
}

/// Reads one byte more than allowed, to tell a file that is too long from one that just fits.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

const fn whole_file(message: String) -> Mistake {
    Mistake { place: None, key: String::new(), message }
}

fn parse(text: &str) -> Result<Node, Mistake> {
    let options = serde_yaml::options! {
        // `check` reports both, together with all other mistakes.
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: serde_yaml::NonFiniteFloatPolicy::PassThrough,
        // `<<` is an unknown key like any other.
        merge_keys: serde_yaml::MergeKeyPolicy::AsOrdinary,
        // `yes` and `off` are text, as in YAML 1.2.
        strict_booleans: true,
        // A snippet could quote a secret.
        with_snippet: false,
        budget: serde_yaml::budget! { max_depth: DEPTH_MAX },
    };
    match serde_yaml::from_str_with_options::<Option<Node>>(text, options) {
        Ok(node) => Ok(node.unwrap_or_else(Node::empty)),
        Err(error) => Err(not_yaml(error.without_snippet(), text)),
    }
}

fn not_yaml(error: &serde_yaml::Error, text: &str) -> Mistake {
    let place: Option<Place> = error.location().as_ref().map(Place::from);
    let line = place.and_then(|place| {
        let before = usize::try_from(place.line).ok()?.checked_sub(1)?;
        text.lines().nth(before)
    });
    let is_of_variable = line.is_some_and(|line| line.contains("${"));
    let advice = if is_of_variable { "; within [ ] and { }, a `${...}` needs quotes" } else { "" };
    let message = error.render_with_formatter(&serde_yaml::UserMessageFormatter);
    // Our messages already start with the place.
    let message = message.split(" at line ").next().unwrap_or_default();
    Mistake { place, key: String::new(), message: format!("invalid YAML: {message}{advice}") }
}

/// Substitutes environment variables in text scalars, after YAML parsing: a value can become
/// text, but never a key or a section.
fn substitute(
    node: &mut Node,
    path: &str,
    environment: Environment<'_>,
    mistakes: &mut Vec<Mistake>,
) {
    match &mut node.value {
        Value::Text(written) if written.contains('$') => match expand(written, environment) {
            Ok(text) if text == *written => {}
            Ok(text) => {
                let written = std::mem::take(written);
                node.value = Value::Substituted { written, text };
            }
            Err(message) => {
                mistakes.push(Mistake { place: Some(node.place), key: path.to_owned(), message });
                node.value = Value::Unreadable;
            }
        },
        Value::List(nodes) => {
            for (index, node) in nodes.iter_mut().enumerate() {
                substitute(node, &format!("{path}[{index}]"), environment, mistakes);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{}", entry.key);
                substitute(&mut entry.node, &path, environment, mistakes);
            }
        }
        _ => {}
    }
}

/// Expands `${NAME}`, `${NAME:-default}` (also used if the variable is empty) and `$$`. Any
/// other `$` is literal. The value of a variable is not expanded again.
fn expand(written: &str, environment: Environment<'_>) -> Result<String, String> {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            text.push('$');
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let (reference, after) = after
                .split_once('}')
                .ok_or("`${` without a closing `}` (write `$$` for a literal `$`)")?;
            text.push_str(&variable(reference, environment)?);
            rest = after;
        } else {
            text.push('$');
            rest = after;
        }
    }
    text.push_str(rest);
    Ok(text)
}

fn variable(reference: &str, environment: Environment<'_>) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let mut bytes = name.bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !begins || !bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(
            "expected `${NAME}` or `${NAME:-default}`, with a name of letters, digits and `_` that \
             does not start with a digit"
                .to_owned(),
        );
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(format!("the default of `${{{name}}}` cannot contain another `${{`"));
    }
    let value = environment(name)
        .map(OsString::into_string)
        .transpose()
        .map_err(|_| format!("environment variable {name} is not valid UTF-8"))?;
    match (value, default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!(
            "environment variable {name} is not set (write `${{{name}:-default}}` to give it a \
             default)"
        )),
    }
}

fn apply(overrides: &Overrides, config: &mut Config, mistakes: &mut Vec<Mistake>) {
    if let Some(listen) = overrides.listen {
        config.server.listen = listen;
    }
    if let Some(folder) = &overrides.state {
        if config.sessions.store == Store::Redis {
            mistakes.push(Mistake {
                place: None,
                key: "--state".to_owned(),
                message: "the configuration keeps sessions in Redis, where other gateways reach them, and \
                          --state would keep them in a file; leave one of them out"
                    .to_owned(),
            });
        }
        config.sessions.store = Store::Embedded;
        config.sessions.embedded.path = folder.join(STORE_FILE);
    }
    if let Some(url) = &overrides.upstream {
        let written =
            |upstream: &&UpstreamConfig| !matches!(upstream.kind, UpstreamKind::Embedded(_));
        let found = config.upstreams.iter().find(written).cloned();
        let mut upstream = found.unwrap_or_else(|| {
            let history =
                UpstreamConfig::usual_history(Kind::default(), config.tools.call_contract);
            let server = ModelServerConfig { history, ..ModelServerConfig::default() };
            UpstreamConfig { kind: UpstreamKind::Server(server), ..UpstreamConfig::openai_chat() }
        });
        if let Some(server) = upstream.kind.server_mut() {
            server.base_url.clone_from(url);
        }
        config.upstreams = vec![upstream];
    }
    if let Some(model) = &overrides.model {
        match config.upstreams.first_mut().map(|upstream| upstream.kind.server_mut()) {
            Some(Some(server)) => server.model.clone_from(model),
            Some(None) => mistakes.push(Mistake {
                place: None,
                key: "--model".to_owned(),
                message: "the first upstream is the embedded model, which has no other models; \
                          choose a model server with --upstream URL"
                    .to_owned(),
            }),
            // An empty list of upstreams has already been reported.
            None => {}
        }
    }
}
