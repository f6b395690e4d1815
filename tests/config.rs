//! The configuration from outside: the values in files, and the messages about bad ones.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use tether::config::{
    self, Config, ConfigError, Constrain, EmbeddedConfig, ModelServerConfig, Overrides, Secret,
    Store, UpstreamConfig, UpstreamKind,
};
use tether::upstream::History;
use tether::upstream::dialect::Kind;

fn load_with(
    text: &str,
    overrides: &Overrides,
    variables: &[(&str, &str)],
) -> Result<Config, ConfigError> {
    let environment = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    config::load_text("t.yml", text, overrides, &environment)
}

fn load(text: &str) -> Result<Config, ConfigError> {
    load_with(text, &Overrides::default(), &[])
}

/// The only upstream of a configuration, a model server.
#[track_caller]
fn model_server(config: &Config) -> &ModelServerConfig {
    match config.upstreams.as_slice() {
        [UpstreamConfig { kind: UpstreamKind::Server(server), .. }] => server,
        other => panic!("expected one model server, found {other:?}"),
    }
}

fn config_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config")
}

fn default_yml() -> String {
    std::fs::read_to_string(config_directory().join("default.yml")).unwrap()
}

mod defaults {
    use super::*;

    #[test]
    fn an_empty_file_is_the_default() {
        for text in ["", "\n", "# only a comment\n", "---\n", "{}", "server:\nstream:\n  parser:\n"]
        {
            assert_eq!(load(text), Ok(Config::default()), "{text:?}");
        }
    }

    #[test]
    fn the_default_needs_no_server_and_stays_local() {
        let config = Config::default();
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(config.upstreams, [UpstreamConfig::embedded()]);
        assert_eq!(config.tools.builtin, ["get_current_time", "calculate"]);
        assert_eq!(config.warnings(), Vec::<String>::new());
    }

    /// Compares trees, so a key that is in only one of them fails the test.
    #[test]
    fn default_yml_lists_every_key_with_its_default_and_no_other() {
        let written: Value = serde_yaml::from_str(&default_yml()).unwrap();
        assert_eq!(written, serde_json::to_value(Config::default()).unwrap());
        assert_eq!(load(&default_yml()), Ok(Config::default()));
    }

    /// The entry of a model server is commented out by a `#` in the first column, before the
    /// entry's own indentation.
    #[test]
    fn default_yml_lists_every_key_of_a_model_server() {
        let uncomment = |line: &str| {
            let entry = line.starts_with("#  - ") || line.starts_with("#    ");
            line.strip_prefix('#').filter(|_| entry).unwrap_or(line).to_owned()
        };
        let text = default_yml().lines().map(uncomment).collect::<Vec<_>>().join("\n");
        let text = text.replace("${UPSTREAM_API_KEY:-}", "\"\"");
        let upstreams = vec![UpstreamConfig::embedded(), UpstreamConfig::openai_chat()];
        let both = Config { upstreams, ..Config::default() };

        let written: Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(written, serde_json::to_value(&both).unwrap());
        assert_eq!(load(&text), Ok(both));
    }

    #[test]
    fn a_server_of_the_responses_api_has_the_same_defaults() {
        let text = "upstreams: [{kind: openai_responses, name: r}]";
        let config =
            load_with(text, &Overrides { model: Some("m".into()), ..Overrides::default() }, &[])
                .unwrap();
        let server = ModelServerConfig {
            model: "m".into(),
            ..ModelServerConfig::new(Kind::OpenaiResponses)
        };
        let kind = UpstreamKind::Server(server);
        assert_eq!(
            config.upstreams,
            [UpstreamConfig { name: "r".into(), call_contract: None, kind }]
        );
        assert_eq!(load(&config.to_yaml().unwrap()), Ok(config));
    }

    /// This includes a server from the command line, which replaces those of the file.
    #[test]
    fn with_native_calls_the_history_is_native() {
        let text = "tools: {call_contract: native}";
        let url = "http://h/v1".parse().unwrap();
        let overrides = Overrides { upstream: Some(url), ..Overrides::default() };
        let config = load_with(text, &overrides, &[]).unwrap();
        assert_eq!(model_server(&config).history, History::Native);
        let config = load(&format!("{text}\nupstreams: [{{}}]")).unwrap();
        assert_eq!(model_server(&config).history, History::Native);
        assert_eq!(model_server(&load("upstreams: [{}]").unwrap()).history, History::Text);
    }

    #[test]
    fn an_entry_of_upstreams_is_a_model_server_unless_it_says_otherwise() {
        let upstreams = |text| load(text).unwrap().upstreams;
        assert_eq!(upstreams("upstreams: [{}]"), [UpstreamConfig::openai_chat()]);
        assert_eq!(upstreams("upstreams: [{kind: embedded}]"), [UpstreamConfig::embedded()]);
    }
}

mod examples {
    use super::*;

    #[track_caller]
    fn check(name: &str, base_url: &str) {
        let path = config_directory().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let config = load(&text).unwrap();
        let server = model_server(&config);
        assert_eq!(server.base_url, base_url);
        assert!(text.contains(&format!("--config config/{name}")), "says how to start");
        assert_eq!(config.server, Config::default().server);
    }

    #[test]
    fn each_loads_and_names_its_server() {
        check("llama-cpp.yml", "http://127.0.0.1:8081/v1");
        check("vllm.yml", "http://127.0.0.1:8000/v1");
        check("ollama.yml", "http://127.0.0.1:11434/v1");
        check("mlc.yml", "http://127.0.0.1:8000/v1");
        check("lm-studio.yml", "http://127.0.0.1:1234/v1");
        check("sglang.yml", "http://127.0.0.1:30000/v1");
    }

    #[test]
    fn they_restrict_models_as_far_as_the_server_is_known_to() {
        for file in std::fs::read_dir(config_directory()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yml") {
                continue;
            }
            let config = load(&std::fs::read_to_string(&path).unwrap()).unwrap();
            for upstream in &config.upstreams {
                if let UpstreamKind::Server(server) = &upstream.kind {
                    assert_eq!(server.constrain, Some(Constrain::Auto), "{}", path.display());
                }
            }
        }
    }
}

#[path = "config/clients.rs"]
mod clients;

#[path = "config/imports.rs"]
mod imports;

#[path = "config/mistakes.rs"]
mod mistakes;

#[path = "config/ranges.rs"]
mod ranges;

#[path = "config/tools.rs"]
mod tools;

#[path = "config/upstreams.rs"]
mod upstreams;

#[path = "config/environment.rs"]
mod environment;

mod overrides {
    use super::*;

    fn upstream(url: &str) -> Overrides {
        Overrides {
            upstream: Some(config::base_url_with_version(url).unwrap()),
            ..Overrides::default()
        }
    }

    #[test]
    fn a_file_of_sessions_is_used_if_it_is_named() {
        let store = |text: &str, state: Option<&str>| {
            let overrides = Overrides { state: state.map(PathBuf::from), ..Overrides::default() };
            let sessions = load_with(text, &overrides, &[]).unwrap().sessions;
            (sessions.store, sessions.embedded.path.display().to_string())
        };
        for (text, state, expected) in [
            ("", None, (Store::Memory, "tether.db")),
            ("sessions: {store: embedded}", None, (Store::Embedded, "tether.db")),
            ("sessions: {embedded: {path: a.db}}", None, (Store::Embedded, "a.db")),
            ("sessions: {store: memory, embedded: {path: a.db}}", None, (Store::Memory, "a.db")),
            ("sessions: {embedded: {path: a.db}}", Some("/d"), (Store::Embedded, "/d/tether.db")),
        ] {
            let (kind, path) = store(text, state);
            assert_eq!((kind, &*path), expected, "{text}, {state:?}");
        }
    }

    #[test]
    fn a_server_of_sessions_is_used_if_it_is_named() {
        let config = |text: &str| load_with(text, &Overrides::default(), &[]).unwrap();
        let named = config("sessions: {redis: {url: \"redis://ann:p%40ss@h:7/2\", lease_sec: 4}}");
        let redis = &named.sessions.redis;
        assert_eq!(named.sessions.store, Store::Redis);
        assert_eq!((&*redis.url, &*redis.user), ("redis://h:7/2", "ann"));
        assert_eq!(redis.password.as_ref().unwrap().reveal(), "p@ss");
        assert_eq!(redis.wait.as_secs(), 2, "half of the lease");
        let yaml = named.to_yaml().unwrap();
        assert!(!yaml.contains("p@ss") && yaml.contains("password: \"[redacted]\""), "{yaml}");
        assert_eq!(config(&yaml).sessions.redis.user, "ann");

        let besides = config(
            "sessions: {store: redis, redis: {url: \"unix:///tmp/r\", user: bob, password: x, wait_sec: 1}}",
        );
        let redis = &besides.sessions.redis;
        assert_eq!((&*redis.url, &*redis.user), ("unix:///tmp/r", "bob"));
        assert_eq!(redis.wait.as_secs(), 1);

        let cluster =
            config("sessions: {redis: {url: \"rediss+cluster://ann:p%40ss@a:7,[::1]:8,c/\"}}");
        let redis = &cluster.sessions.redis;
        assert_eq!((&*redis.url, &*redis.user), ("rediss+cluster://a:7,[::1]:8,c", "ann"));
        assert_eq!(redis.password.as_ref().unwrap().reveal(), "p@ss");
        assert_eq!(config(&cluster.to_yaml().unwrap()).sessions.redis.url, redis.url);
        let primary = config("sessions: {redis: {url: \"redis+sentinel://:p@a,b:7/main/2\"}}");
        assert_eq!(primary.sessions.redis.url, "redis+sentinel://a,b:7/main/2");

        let asked = config(
            "sessions: {redis: {url: \"redis+sentinel://a/main\", sentinel_user: ann, sentinel_password: s3}}",
        );
        let redis = &asked.sessions.redis;
        assert_eq!(redis.sentinel_user, "ann");
        assert_eq!(redis.sentinel_password.as_ref().unwrap().reveal(), "s3");
        let yaml = asked.to_yaml().unwrap();
        assert!(!yaml.contains("s3") && yaml.contains("sentinel_user: ann"), "{yaml}");
    }

    #[test]
    fn listen_overrides_the_file() {
        let overrides =
            Overrides { listen: Some("[::1]:9".parse().unwrap()), ..Overrides::default() };
        let config = load_with("server: {listen: \"127.0.0.1:1\"}", &overrides, &[]).unwrap();
        assert_eq!(config.server.listen.to_string(), "[::1]:9");
    }

    #[test]
    fn an_upstream_replaces_the_embedded_model() {
        let config = load_with("", &upstream("http://h:1"), &[]).unwrap();
        assert_eq!(config.upstreams[0].name, "local");
        let server = model_server(&config);
        assert_eq!(server.base_url, "http://h:1/v1");
        assert_eq!(server.model, "");
    }

    #[test]
    fn an_upstream_takes_the_options_of_the_files_first_server() {
        let text = "upstreams:\n  - kind: embedded\n  - {name: a, model: m}\n  - {name: b}\n";
        let config = load_with(text, &upstream("http://h:1/api/"), &[]).unwrap();
        assert_eq!(config.upstreams[0].name, "a");
        let server = model_server(&config);
        assert_eq!(server.base_url, "http://h:1/api");
        assert_eq!(server.model, "m");
    }

    #[test]
    fn a_model_applies_to_the_first_upstream() {
        let overrides = Overrides { model: Some("m".to_owned()), ..upstream("http://h") };
        assert_eq!(model_server(&load_with("", &overrides, &[]).unwrap()).model, "m");
    }

    #[test]
    fn the_embedded_model_has_no_other_model() {
        let overrides = Overrides { model: Some("m".to_owned()), ..Overrides::default() };
        let error = load_with("", &overrides, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.yml: --model: the first upstream is the embedded model, which has no other models; \
             choose a model server with --upstream URL"
        );
    }

    #[test]
    fn a_file_of_sessions_takes_no_gateway_out_of_its_cluster() {
        let overrides = Overrides { state: Some("/d".into()), ..Overrides::default() };
        for text in ["sessions: {store: redis}", "sessions: {redis: {url: \"redis://h\"}}"] {
            let error = load_with(text, &overrides, &[]).unwrap_err().to_string();
            assert!(
                error.contains("--state: the configuration keeps sessions in Redis"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_url_without_a_path_gets_the_version() {
        let url = |text| config::base_url_with_version(text).unwrap().to_string();
        assert_eq!(url("http://h"), "http://h/v1");
        assert_eq!(url("http://h:8/"), "http://h:8/v1");
        assert_eq!(url("https://h/openai/v1"), "https://h/openai/v1");
        assert_eq!(url("http://[::1]:8"), "http://[::1]:8/v1");
    }
}

mod parser_settings {
    use tether::parser::Settings;

    use super::*;

    #[test]
    fn the_default_is_the_parsers_own() {
        assert_eq!(Config::default().stream.parser_settings(), Settings::default());
    }

    #[test]
    fn every_key_arrives() {
        let text = "stream:\n  emit_arguments_delta: true\n  parser:\n    strict_balancing: false\n    max_payload_bytes: 2048\n    \
                    tools_in_reasoning: true\n";
        let expected = Settings {
            strict_balancing: false,
            max_payload_bytes: 2048,
            tools_in_reasoning: true,
            argument_deltas: true,
            ..Settings::default()
        };
        assert_eq!(load(text).unwrap().stream.parser_settings(), expected);
    }
}

mod printing {
    use super::*;

    #[test]
    fn the_effective_configuration_loads_to_the_same() {
        let text = "server: {listen: \"[::1]:9\", cors_origins: [\"https://a.b\"]}\n\
                    upstreams:\n  - {base_url: \"http://h\", model: \"yes\", idle_timeout_sec: 0.5}\n  \
                    - {kind: embedded}\n\
                    model: {system_prompt: \"a: b\\n  # c\\n\"}\n\
                    stream: {parser: {marker: \"- x\"}}\n\
                    tools: {builtin: [], execution: after_turn}\n";
        let config = load(text).unwrap();
        let yaml = config.to_yaml().unwrap();
        assert_eq!(load(&yaml).as_ref(), Ok(&config), "{yaml}");
        assert_eq!(load(&Config::default().to_yaml().unwrap()), Ok(Config::default()));
    }

    #[test]
    fn secrets_are_redacted() {
        let text = "server: {api_keys: [sesame1]}\nupstreams: [{api_key: sesame2}]";
        let config = load(text).unwrap();
        assert_eq!(config.server.api_keys[0].reveal(), "sesame1");
        assert_eq!(model_server(&config).api_key.as_ref().unwrap().reveal(), "sesame2");
        let (yaml, debug) = (config.to_yaml().unwrap(), format!("{config:?}"));
        for shown in [yaml, debug] {
            assert!(!shown.contains("sesame"), "{shown}");
            assert_eq!(shown.matches("[redacted]").count(), 2, "{shown}");
        }
    }

    #[test]
    fn an_open_gateway_gets_a_warning() {
        let warnings = |text| load(text).unwrap().warnings().len();
        assert_eq!(warnings("server: {listen: \"0.0.0.0:8080\"}"), 1);
        assert_eq!(warnings("server: {listen: \"[::]:8080\"}"), 1);
        assert_eq!(warnings("server: {listen: \"0.0.0.0:8080\", api_keys: [k]}"), 0);
        assert_eq!(warnings("server: {listen: \"127.0.0.2:8080\"}"), 0);
        assert_eq!(warnings("server: {listen: \"[::1]:8080\"}"), 0);
    }

    #[test]
    fn scripts_that_the_model_fills_in_get_a_warning() {
        for (command, warns) in [
            (r#"[sh, -c, "echo {w}"]"#, true),
            (r#"[/bin/bash, -euc, "echo {w}"]"#, true),
            (r#"[node, --eval, "{w}"]"#, true),
            (r#"[perl, -w, -ne, "print {w}"]"#, true),
            (r#"[sh, -c, "wc -w < \"$1\"", --, "{w}"]"#, false),
            (r#"[sh, -c, "echo {{w}}"]"#, false),
            (r#"[python3, search.py, -e, "{w}"]"#, false),
            (r#"[grep, -e, "{w}"]"#, false),
            (r#"[bash, --norc, -euo, pipefail, -c, "echo {w}"]"#, true),
            (r#"[/usr/bin/env, bash, -c, "{w}"]"#, true),
        ] {
            let text = format!(
                "tools: {{command: [{{name: x, description: X., command: {command}, parameters: \
                 {{type: object, properties: {{w: {{type: string}}}}, required: [w]}}}}]}}"
            );
            assert_eq!(load(&text).unwrap().warnings().len(), usize::from(warns), "{command}");
        }
    }

    #[test]
    fn limits_of_keys_without_keys_get_a_warning_each() {
        let limits = "limits: {turns_per_key: 5, head_rate_per_key: 3}";
        let warnings = load(&format!("server: {{{limits}}}")).unwrap().warnings();
        let limits_nobody = "limits nobody: server.api_keys is empty, so no client has a key";
        assert_eq!(
            warnings,
            [
                format!("server.limits.head_rate_per_key {limits_nobody}"),
                format!("server.limits.turns_per_key {limits_nobody}"),
            ]
        );
        let with_keys = load(&format!("server: {{api_keys: [k], {limits}}}")).unwrap();
        assert_eq!(with_keys.warnings(), Vec::<String>::new());
    }
}

proptest! {
    /// The result is a configuration or an error with at least one mistake, and never a panic,
    /// whatever the file contains.
    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
        if let Err(error) = load(&text) {
            prop_assert!(!error.mistakes.is_empty());
        }
    }

    /// The same for almost valid files: lines of a real file, mixed.
    #[test]
    fn any_mix_of_lines_is_read_or_refused(
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..6), 0..30)
    ) {
        let file = default_yml();
        let lines: Vec<&str> = file.lines().filter(|line| !line.contains('#')).collect();
        let mut text = String::new();
        for (index, indent) in picks {
            let line = lines[index.index(lines.len())].trim();
            text.extend([" ".repeat(indent).as_str(), line, "\n"]);
        }
        if let Err(error) = load(&text) {
            prop_assert!(!error.mistakes.is_empty());
        }
    }
}
