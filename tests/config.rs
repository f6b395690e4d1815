//! The configuration from outside: what files say, and what is said of bad ones.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use tether::config::{
    self, Config, ConfigError, Constrain, EmbeddedConfig, OpenaiChatConfig, Overrides,
    UpstreamConfig, UpstreamKind,
};

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
fn model_server(config: &Config) -> &OpenaiChatConfig {
    match config.upstreams.as_slice() {
        [UpstreamConfig { kind: UpstreamKind::OpenaiChat(server), .. }] => server,
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
    fn nothing_written_is_the_default() {
        for text in ["", "\n", "# only a comment\n", "---\n", "{}", "server:\nstream:\n  parser:\n"]
        {
            assert_eq!(load(text), Ok(Config::default()), "{text:?}");
        }
    }

    #[test]
    fn the_default_needs_nothing_and_reaches_nobody() {
        let config = Config::default();
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(config.upstreams, [UpstreamConfig::embedded()]);
        assert_eq!(config.tools.builtin, ["get_current_time", "calculate"]);
        assert_eq!(config.warnings(), Vec::<String>::new());
    }

    /// Compares trees, so that a key that stands in only one of the two fails.
    #[test]
    fn default_yml_says_every_key_with_its_default_and_no_other() {
        let written: Value = serde_yaml::from_str(&default_yml()).unwrap();
        assert_eq!(written, serde_json::to_value(Config::default()).unwrap());
        assert_eq!(load(&default_yml()), Ok(Config::default()));
    }

    /// The entry of a model server is commented out: a `#` in the first column
    /// with the entry's own indentation behind it.
    #[test]
    fn default_yml_says_every_key_of_a_model_server() {
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
    fn only_llama_cpp_is_sent_a_grammar() {
        for file in std::fs::read_dir(config_directory()).unwrap() {
            let path = file.unwrap().path();
            let config = load(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let constrained = config.upstreams.iter().any(|upstream| {
                let UpstreamKind::OpenaiChat(server) = &upstream.kind else { return false };
                server.constrain == Constrain::LlamaGrammar
            });
            assert_eq!(constrained, path.ends_with("llama-cpp.yml"), "{}", path.display());
        }
    }
}

mod mistakes {
    use super::*;

    /// One mistake in the file, said in exactly these words.
    #[track_caller]
    fn check(text: &str, message: &str) {
        assert_eq!(load(text).unwrap_err().to_string(), format!("t.yml:{message}"));
    }

    #[test]
    fn unknown_keys_name_the_closest_known_one() {
        check("servr: {}", "1:1: servr: unknown key, did you mean `server`?");
        check("server:\n  lisen: x\n", "2:3: server.lisen: unknown key, did you mean `listen`?");
        check(
            "upstreams:\n  - name: a\n    base-url: x\n",
            "3:5: upstreams[0].base-url: unknown key, did you mean `base_url`?",
        );
        check(
            "stream: {parser: {markr: x}}",
            "1:19: stream.parser.markr: unknown key, did you mean `marker`?",
        );
        check(
            "sessions: {colour: x}",
            "1:12: sessions.colour: unknown key, expected one of `store` or `ttl_sec`",
        );
        check(
            "sessions: {<<: {store: memory}}",
            "1:12: sessions.<<: unknown key, expected one of `store` or `ttl_sec`",
        );
        check(
            "sessions: {\"a\\nb\": 1}",
            "1:12: sessions.a\\nb: unknown key, expected one of `store` or `ttl_sec`",
        );
    }

    #[test]
    fn repeated_keys_name_the_first() {
        check(
            "sessions:\n  ttl_sec: 5\n\n  ttl_sec: 6\n",
            "4:3: sessions.ttl_sec: repeated key, the first stands in line 2",
        );
        check("model: {}\nmodel: {}\n", "2:1: model: repeated key, the first stands in line 1");
    }

    #[test]
    fn wrong_types_say_what_was_found_and_what_was_expected() {
        check("server: 5", "1:9: server: found `5`, expected a section of keys");
        check("server: [a]", "1:9: server: found a list, expected a section of keys");
        check("[]", "1:1: found a list, expected a section of keys");
        check(
            "tools: {demo: yes}",
            "1:15: tools.demo: found the text `yes`, expected `true` or `false`",
        );
        check("tools: {demo: }", "1:13: tools.demo: found nothing, expected `true` or `false`");
        check(
            "tools: {max_parallel: \"8\"}",
            "1:23: tools.max_parallel: found the text `8`, expected a whole number of calls from 1 \
             to 1024",
        );
        check(
            "tools: {max_parallel: 1.5}",
            "1:23: tools.max_parallel: found `1.5`, expected a whole number of calls from 1 to 1024",
        );
        check(
            "model: {system_prompt: 5}",
            "1:24: model.system_prompt: found `5`, expected text (in quotes)",
        );
        check(
            "model: {system_prompt: [a]}",
            "1:24: model.system_prompt: found a list, expected text",
        );
        check("upstreams: {a: 1}", "1:12: upstreams: found a section of keys, expected a list");
        check("upstreams:\n", "1:10: upstreams: found nothing, expected a list");
        check(
            "upstreams: [a]",
            "1:13: upstreams[0]: found the text `a`, expected a section of keys",
        );
        check(
            "feedback: {temperature_step: .inf}",
            "1:30: feedback.temperature_step: found `inf`, expected a number from 0 to 2",
        );
        check(
            "server: {listen: localhost}",
            "1:18: server.listen: found the text `localhost`, expected an address with a port such \
             as `127.0.0.1:8080` or `[::1]:8080`",
        );
        check(
            &format!("server: {{listen: {}}}", "x".repeat(61)),
            &format!(
                "1:18: server.listen: found the text `{}...`, expected an address with a port such \
                 as `127.0.0.1:8080` or `[::1]:8080`",
                "x".repeat(60)
            ),
        );
    }

    #[test]
    fn what_this_build_does_not_have_is_said() {
        check(
            "sessions: {store: redis}",
            "1:19: sessions.store: found the text `redis`, expected `memory`: this build does not \
             have `redis`",
        );
        check(
            "upstreams: [{kind: ollama}]",
            "1:20: upstreams[0].kind: found the text `ollama`, expected `openai_chat` or \
             `embedded`: this build does not have `ollama`",
        );
        check(
            "upstreams: [{constrain: structural_tag}]",
            "1:25: upstreams[0].constrain: found the text `structural_tag`, expected `none` or \
             `llama_grammar`: this build does not have `structural_tag`",
        );
        check(
            "tools: {mcp: [{command: x}]}",
            "1:15: tools.mcp[0]: found a section of keys, expected an empty list: this build has \
             built-in tools only",
        );
        check(
            "tools: {call_contract: hermes}",
            "1:24: tools.call_contract: found the text `hermes`, expected `marker_json`",
        );
        check(
            "tools: {execution: lazy}",
            "1:20: tools.execution: found the text `lazy`, expected `eager` or `after_turn`",
        );
    }

    #[test]
    fn impossible_combinations_are_refused() {
        check(
            "upstreams:\n  - name: a\n  - {name: b}\n  - name: a\n",
            "4:11: upstreams[2].name: found `a`, expected a name that no upstream before it has",
        );
        check(
            "upstreams: []",
            "1:12: upstreams: found an empty list, expected at least one upstream (without the \
             key, the embedded model answers)",
        );
        check(
            "upstreams: [{kind: embedded, base_url: \"http://h/v1\"}]",
            "1:30: upstreams[0].base_url: has no meaning for kind `embedded`",
        );
        check(
            "upstreams: [{tokens_per_sec: 5}]",
            "1:14: upstreams[0].tokens_per_sec: has a meaning for kind `embedded` alone",
        );
        check(
            "limits: {max_turn_bytes: 65535}\nstream:\n  parser: {max_payload_bytes: 65536}\n",
            "3:31: stream.parser.max_payload_bytes: a call of 65536 bytes does not fit into \
             limits.max_turn_bytes, 65535",
        );
        check(
            "tools: {builtin: [calculate, calculate]}",
            "1:18: tools.builtin: found `calculate` twice, expected each name once",
        );
        check(
            "tools: {builtin: [calculater]}",
            "1:19: tools.builtin[0]: found the text `calculater`, expected a built-in tool, did \
             you mean `calculate`?",
        );
    }

    #[test]
    fn kinds_and_their_options_must_fit_even_where_the_kind_is_not_built() {
        let error = load(
            "upstreams:\n  - kind: ollama\n    constrain: llama_grammar\n  - name: b\n    kind: \
             llama_completion\n    history: native\n",
        )
        .unwrap_err();
        let messages: Vec<_> =
            error.mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
        assert_eq!(messages.len(), 4, "{error}");
        assert_eq!(
            messages[1],
            "`llama_grammar` goes with kind `openai_chat` or `llama_completion` alone"
        );
        assert_eq!(
            messages[3],
            "`native` goes with kind `openai_chat`, `openai_responses` or `ollama` alone"
        );
    }

    #[test]
    fn base_urls_that_lead_nowhere_are_refused() {
        let expected = "a URL such as `http://127.0.0.1:8081/v1`";
        for (url, expected) in [
            ("https:///v1", expected),
            ("http://", expected),
            ("127.0.0.1:8081", expected),
            ("ftp://host/v1", expected),
            ("", expected),
            ("http://host:0/v1", "a URL whose port is a number from 1 to 65535"),
            ("http://host:65536/v1", "a URL whose port is a number from 1 to 65535"),
            ("http://host:/v1", "a URL whose port is a number from 1 to 65535"),
            ("http://host/v1?key=1", "a URL without query and fragment: paths are appended to it"),
        ] {
            check(
                &format!("upstreams: [{{base_url: \"{url}\"}}]"),
                &format!(
                    "1:24: upstreams[0].base_url: found the text `{url}`, expected {expected}"
                ),
            );
        }
    }

    #[test]
    fn a_password_in_a_url_is_not_quoted() {
        check(
            "upstreams: [{base_url: \"http://me:pw@host/v1\"}]",
            "1:24: upstreams[0].base_url: found text, expected a URL without a user: the key \
             belongs in `api_key`",
        );
    }

    #[test]
    fn markers_that_cannot_work_are_refused() {
        let long = "x".repeat(65);
        for (marker, shown, expected) in [
            ("", "", "a marker of 1 to 64 bytes (this one has 0)"),
            (long.as_str(), "", "a marker of 1 to 64 bytes (this one has 65)"),
            (" \\t", " \\t", "a marker that is not only white space"),
            ("a\\nb", "a\\nb", "a marker on one line"),
            ("<think>", "<think>", "a marker that is no reasoning tag"),
        ] {
            let shown =
                if marker.len() > 60 { format!("{}...", "x".repeat(60)) } else { shown.into() };
            check(
                &format!("stream: {{parser: {{marker: \"{marker}\"}}}}"),
                &format!(
                    "1:27: stream.parser.marker: found the text `{shown}`, expected {expected}"
                ),
            );
        }
        let longest = "x".repeat(64);
        let config = load(&format!("stream: {{parser: {{marker: {longest}}}}}")).unwrap();
        assert_eq!(config.stream.parser.marker, longest);
    }

    #[test]
    fn origins_must_be_spelled_as_browsers_do() {
        for origin in [
            "*",
            "null",
            "example.org",
            "https://example.org/",
            "https://Example.org",
            "https://*.a.b",
        ] {
            check(
                &format!("server: {{cors_origins: [\"{origin}\"]}}"),
                &format!(
                    "1:25: server.cors_origins[0]: found the text `{origin}`, expected an exact \
                     origin such as `https://app.example.org`"
                ),
            );
        }
        let config = load("server: {cors_origins: [\"http://localhost:5173\"]}").unwrap();
        assert_eq!(config.server.cors_origins, ["http://localhost:5173"]);
    }

    #[test]
    fn text_that_is_no_yaml_names_the_place() {
        check("server: [1\nmodel: {", "2:6: not YAML: illegal placement of ':' indicator");
        check(
            "a: 1\n---\nb: 2\n",
            "3:1: not YAML: only single YAML document expected but multiple found",
        );
        check("server: *nowhere\n", "1:9: not YAML: reference to unknown value");
    }

    #[test]
    fn three_mistakes_are_reported_in_one_message() {
        let text = "server:\n  listn: 1\nsessions:\n  ttl_sec: soon\n  store: redis\n";
        assert_eq!(
            load(text).unwrap_err().to_string(),
            "3 mistakes in the configuration\n  \
             t.yml:2:3: server.listn: unknown key, did you mean `listen`?\n  \
             t.yml:4:12: sessions.ttl_sec: found the text `soon`, expected a number of seconds from \
             0.001 to 31622400\n  \
             t.yml:5:10: sessions.store: found the text `redis`, expected `memory`: this build does \
             not have `redis`"
        );
    }

    #[test]
    fn secrets_are_not_quoted() {
        for text in [
            "server: {api_keys: [1234567890]}",
            "server: {api_keys: [\"12345 67890\"]}",
            "upstreams: [{api_key: 1234567890}]",
            "upstreams: [{api_key: \"12345 67890\"}]",
            "upstreams: [{api_key: [1234567890]}]",
        ] {
            let message = load(text).unwrap_err().to_string();
            assert!(!message.contains("12345"), "{message}");
        }
    }
}

mod ranges {
    use super::*;

    /// The least and the most are taken; one step beyond either is refused.
    #[track_caller]
    fn check(key: &str, [under, least, most, over]: [&str; 4]) {
        // Room for the largest payload, and for the smallest turn.
        let room = match key.split_once('.') {
            Some(("stream", _)) => "limits: {max_turn_bytes: 1073741824}",
            _ => "stream: {parser: {max_payload_bytes: 1024}}",
        };
        let attempt = |value: &str| {
            let mut text = value.to_owned();
            for part in key.rsplit('.') {
                text = match part.strip_suffix("[]") {
                    Some(list) => format!("{{{list}: [{text}]}}"),
                    None => format!("{{{part}: {text}}}"),
                };
            }
            load(&format!("{room}\n{}", &text[1..text.len() - 1]))
        };
        for value in [least, most] {
            assert!(attempt(value).is_ok(), "{key}: {value}: {}", attempt(value).unwrap_err());
        }
        for value in [under, over] {
            let error = attempt(value).unwrap_err();
            assert_eq!(error.mistakes.len(), 1, "{key}: {value}: {error}");
            assert_eq!(error.mistakes[0].key, key.replace("[]", "[0]"), "{error}");
        }
    }

    #[test]
    fn each_number_has_a_least_and_a_most() {
        check("server.max_body_bytes", ["1023", "1024", "1073741824", "1073741825"]);
        check("server.max_concurrent_turns", ["0", "1", "1000000", "1000001"]);
        check("server.drain_timeout_sec", ["-0.001", "0", "86400", "86400.001"]);
        check("upstreams[].connect_timeout_sec", ["0", "0.001", "86400", "86401"]);
        check("upstreams[].idle_timeout_sec", ["0", "0.001", "86400", "86401"]);
        check("model.context_budget_tokens", ["255", "256", "100000000", "100000001"]);
        check("tools.max_parallel", ["0", "1", "1024", "1025"]);
        check("feedback.max_attempts", ["-1", "0", "1000", "1001"]);
        check("feedback.temperature_step", ["-0.1", "0", "2", "2.01"]);
        check("limits.max_tool_loops", ["0", "1", "1000", "1001"]);
        check("limits.tool_timeout_sec", ["0", "0.001", "86400", "86401"]);
        check("limits.max_calls_per_turn", ["0", "1", "1000", "1001"]);
        check("limits.max_turn_bytes", ["1023", "1024", "1073741824", "1073741825"]);
        check("stream.keep_alive_sec", ["0", "0.001", "86400", "86401"]);
        check("stream.disconnect_grace_sec", ["-1", "0", "86400", "86401"]);
        check("stream.parser.max_payload_bytes", ["1023", "1024", "1073741824", "1073741825"]);
        check("sessions.ttl_sec", ["0", "0.001", "31622400", "31622401"]);
    }

    #[test]
    fn numbers_that_no_type_holds_are_refused_like_others() {
        for number in ["99999999999999999999999", "-9223372036854775808", "1e300", ".nan"] {
            let text =
                format!("tools: {{max_parallel: {number}}}\nsessions: {{ttl_sec: {number}}}");
            assert_eq!(load(&text).unwrap_err().mistakes.len(), 2, "{number}");
        }
    }

    #[test]
    fn the_embedded_model_has_a_pace() {
        let pace = |value: &str| {
            load(&format!("upstreams: [{{kind: embedded, tokens_per_sec: {value}}}]"))
                .map(|config| config.upstreams[0].kind.clone())
        };
        let embedded = |tokens_per_sec| UpstreamKind::Embedded(EmbeddedConfig { tokens_per_sec });
        assert_eq!(pace("1"), Ok(embedded(1)));
        assert_eq!(pace("100000"), Ok(embedded(100_000)));
        assert!(pace("0").is_err());
        assert!(pace("100001").is_err());
    }

    #[test]
    fn names_have_a_length() {
        let named = |name: &str| load(&format!("upstreams: [{{name: \"{name}\"}}]"));
        assert_eq!(named(&"n".repeat(128)).unwrap().upstreams[0].name.len(), 128);
        assert!(named(&"n".repeat(129)).is_err());
        assert!(named("").is_err());
        assert!(named("two words").is_err());
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        let config = load("stream: {keep_alive_sec: 0.25}").unwrap();
        assert_eq!(config.stream.keep_alive, Duration::from_millis(250));
    }
}

mod environment {
    use super::*;

    const VARIABLES: [(&str, &str); 4] =
        [("NAME", "value"), ("EMPTY", ""), ("NUMBER", "7"), ("DOLLAR", "${NAME}")];

    #[track_caller]
    fn check(written: &str, read: &str) {
        let text = format!("model: {{system_prompt: \"{written}\"}}");
        let config = load_with(&text, &Overrides::default(), &VARIABLES).unwrap();
        assert_eq!(config.model.system_prompt, read);
    }

    #[track_caller]
    fn check_refused(written: &str, message: &str) {
        let text = format!("model: {{system_prompt: \"{written}\"}}");
        let error = load_with(&text, &Overrides::default(), &VARIABLES).unwrap_err();
        assert_eq!(error.to_string(), format!("t.yml:1:24: model.system_prompt: {message}"));
    }

    #[test]
    fn variables_are_put_in() {
        check("${NAME}", "value");
        check("a ${NAME} b ${NUMBER} c", "a value b 7 c");
        check("${NAME}${NAME}", "valuevalue");
        check("${EMPTY}", "");
        check("${NAME:-other}", "value");
        check("${EMPTY:-other}", "other");
        check("${UNSET:-other}", "other");
        check("${UNSET:-}", "");
        check("${UNSET:-a:-b}", "a:-b");
    }

    #[test]
    fn a_dollar_is_itself_where_no_brace_follows() {
        check("$", "$");
        check("$NAME costs $5", "$NAME costs $5");
        check("$$", "$");
        check("$${NAME}", "${NAME}");
        check("$$${NAME}", "$value");
        check("a } b", "a } b");
    }

    #[test]
    fn a_value_is_not_looked_at_again() {
        check("${DOLLAR}", "${NAME}");
    }

    #[test]
    fn what_cannot_be_put_in_is_a_mistake() {
        check_refused(
            "${UNSET}",
            "the environment variable UNSET is not set (`${UNSET:-default}` gives it a default)",
        );
        check_refused("a ${NAME", "`${` without its `}` (`$$` stands for one `$`)");
        check_refused("${A:-${NAME}}", "the default of `${A}` cannot hold another `${`");
        let name =
            "expected `${NAME}` or `${NAME:-default}` with a name of letters, digits and `_`";
        check_refused("${}", name);
        check_refused("${1A}", name);
        check_refused("${A-b}", name);
        check_refused("${ NAME }", name);
    }

    #[test]
    fn a_variable_may_be_a_number_or_a_truth_value() {
        let text = "tools: {max_parallel: \"${NUMBER}\", demo: \"${ON:-true}\"}\n\
                    stream: {keep_alive_sec: \"${NUMBER}.5\"}";
        let config = load_with(text, &Overrides::default(), &VARIABLES).unwrap();
        assert_eq!(config.tools.max_parallel, 7);
        assert!(config.tools.demo);
        assert_eq!(config.stream.keep_alive, Duration::from_millis(7500));
    }

    #[test]
    fn keys_are_not_substituted() {
        let error = load_with("\"${NAME}\": 1", &Overrides::default(), &[("NAME", "server")]);
        assert!(error.unwrap_err().to_string().contains("${NAME}: unknown key"));
    }

    #[test]
    fn a_variables_value_is_never_shown() {
        let text = "tools: {max_parallel: \"${NAME}\"}";
        let error = load_with(text, &Overrides::default(), &VARIABLES).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.yml:1:23: tools.max_parallel: found `${NAME}` (the variable's value is not shown), \
             expected a whole number of calls from 1 to 1024"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_no_utf_8_is_a_mistake() {
        use std::os::unix::ffi::OsStringExt as _;

        let environment = |_: &str| Some(OsString::from_vec(vec![0xff]));
        let text = "model: {system_prompt: \"${X}\"}";
        let error =
            config::load_text("t.yml", text, &Overrides::default(), &environment).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.yml:1:24: model.system_prompt: the environment variable X is no UTF-8"
        );
    }

    proptest! {
        /// Whatever a variable holds, it is that text and nothing else.
        #[test]
        fn a_value_cannot_inject_yaml(value in "(?s).{0,40}") {
            let text = "model:\n  system_prompt: ${V}\nlimits: {max_tool_loops: 3}\n";
            let config = load_with(text, &Overrides::default(), &[("V", value.as_str())]).unwrap();
            prop_assert_eq!(&config.model.system_prompt, &value);
            let mut default = Config::default();
            default.model.system_prompt = value;
            default.limits.max_tool_loops = 3;
            prop_assert_eq!(config, default);
        }
    }
}

mod overrides {
    use super::*;

    fn upstream(url: &str) -> Overrides {
        Overrides {
            upstream: Some(config::base_url_with_version(url).unwrap()),
            ..Overrides::default()
        }
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
    fn a_model_is_asked_of_the_first_upstream() {
        let overrides = Overrides { model: Some("m".to_owned()), ..upstream("http://h") };
        assert_eq!(model_server(&load_with("", &overrides, &[]).unwrap()).model, "m");
    }

    #[test]
    fn the_embedded_model_has_no_other_model() {
        let overrides = Overrides { model: Some("m".to_owned()), ..Overrides::default() };
        let error = load_with("", &overrides, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.yml: --model: the first upstream is the embedded model, which has no other; name a \
             model server with --upstream URL"
        );
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
    fn an_open_gateway_is_warned_of() {
        let warnings = |text| load(text).unwrap().warnings().len();
        assert_eq!(warnings("server: {listen: \"0.0.0.0:8080\"}"), 1);
        assert_eq!(warnings("server: {listen: \"[::]:8080\"}"), 1);
        assert_eq!(warnings("server: {listen: \"0.0.0.0:8080\", api_keys: [k]}"), 0);
        assert_eq!(warnings("server: {listen: \"127.0.0.2:8080\"}"), 0);
        assert_eq!(warnings("server: {listen: \"[::1]:8080\"}"), 0);
    }
}

proptest! {
    /// Either a configuration or an error with at least one mistake, and never
    /// a panic, whatever stands in the file.
    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
        if let Err(error) = load(&text) {
            prop_assert!(!error.mistakes.is_empty());
        }
    }

    /// The same near the mark: lines of a real file, mixed.
    #[test]
    fn any_mix_of_lines_is_read_or_refused(
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..6), 0..30)
    ) {
        let file = default_yml();
        let lines: Vec<&str> = file.lines().filter(|line| !line.contains('#')).collect();
        let text: String = picks
            .iter()
            .map(|(index, indent)| format!("{}{}\n", " ".repeat(*indent), lines[index.index(lines.len())].trim()))
            .collect();
        if let Err(error) = load(&text) {
            prop_assert!(!error.mistakes.is_empty());
        }
    }
}
