//! The messages about a bad file, word for word.

use std::collections::BTreeSet;

use super::*;

/// Checks that the file has one mistake with exactly this message.
#[track_caller]
pub(super) fn check(text: &str, message: &str) {
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
        "1:12: sessions.colour: unknown key, expected `embedded`, `redis`, `store` or `ttl_sec`",
    );
    check(
        "sessions: {<<: {store: memory}}",
        "1:12: sessions.<<: unknown key, expected `embedded`, `redis`, `store` or `ttl_sec`",
    );
    check(
        "sessions: {\"a\\nb\": 1}",
        "1:12: sessions.a\\nb: unknown key, expected `embedded`, `redis`, `store` or `ttl_sec`",
    );
}

/// Keys of the other kind of entry would be refused.
#[test]
fn only_keys_that_have_a_meaning_are_expected() {
    let expected = |entry: &str| {
        let text = format!("tools: {{mcp: [{{name: x, {entry}, something: 1}}]}}");
        let message = load(&text).unwrap_err().to_string();
        let expected = message.split_once("unknown key, expected ").expect("one mistake").1;
        let keys = expected.split([',', ' ']).filter(|key| key.starts_with('`'));
        keys.map(|key| key.trim_matches('`').to_owned()).collect::<Vec<_>>()
    };
    let (of_program, of_url) =
        (expected("command: [echo]"), expected("url: \"https://a.test/mcp\""));
    for keys in [&of_program, &of_url] {
        let once: BTreeSet<_> = keys.iter().collect();
        assert_eq!(once.len(), keys.len(), "{keys:?}");
    }
    for (key, is_of_program, is_of_url) in [
        ("env", true, false),
        ("sandbox", true, false),
        ("headers", false, true),
        ("auth", false, true),
        ("prefix", true, true),
    ] {
        let has = |keys: &[String]| keys.iter().any(|known| known == key);
        assert_eq!((has(&of_program), has(&of_url)), (is_of_program, is_of_url), "{key}");
    }
}

#[test]
fn of_many_mistakes_the_first_are_shown_and_the_rest_counted() {
    let most = tether::limits::config::MISTAKES_SHOWN_MAX;
    for (mistakes, more) in
        [(most, None), (most + 1, Some("  and 1 more")), (9999, Some("  and 9949 more"))]
    {
        let keys: Vec<String> = (0..mistakes).map(|key| format!("key_{key}: 1\n")).collect();
        let told = load(&keys.concat()).unwrap_err().to_string();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], format!("{mistakes} errors in the configuration"));
        assert!(lines[most].contains(&format!("key_{}: unknown key", most - 1)), "{}", lines[most]);
        assert_eq!(lines.get(most + 1).copied(), more);
    }
}

#[test]
fn duplicate_keys_name_the_first() {
    check(
        "sessions:\n  ttl_sec: 5\n\n  ttl_sec: 6\n",
        "4:3: sessions.ttl_sec: duplicate key, first used on line 2",
    );
    check("model: {}\nmodel: {}\n", "2:1: model: duplicate key, first used on line 1");
    check(
        "tools:\n  command:\n  - {name: a, description: b, command: [a], env: {X: a, X: b}}\n",
        "3:57: tools.command[0].env.X: duplicate key, first used on line 3",
    );
    check(
        "tools: {http: [{name: a, description: b, url: \"http://h\", parameters: {a: 1, a: 2}}]}",
        "1:71: tools.http[0].parameters: found the key `a` twice, expected each key once",
    );
}

#[test]
fn wrong_types_say_what_was_found_and_what_was_expected() {
    check("server: 5", "1:9: server: found a number, expected a mapping");
    check("server: [a]", "1:9: server: found a list, expected a mapping");
    check("[]", "1:1: found a list, expected a mapping");
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
        "1:24: model.system_prompt: found `5`, expected text (put it in quotes)",
    );
    check("model: {system_prompt: [a]}", "1:24: model.system_prompt: found a list, expected text");
    check("upstreams: {a: 1}", "1:12: upstreams: found a mapping, expected a list");
    check("upstreams:\n", "1:10: upstreams: found nothing, expected a list");
    check("upstreams: [a]", "1:13: upstreams[0]: found text, expected a mapping");
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
fn the_login_of_a_server_of_sessions_is_kept_apart() {
    for (url, shown) in [
        ("redis://ada:hunter2@h/1", "redis://h/1"),
        ("unix:///run/r?user=ada&pass=hunter2", "unix:///run/r"),
        ("unix:///run/r?db=2&user=ada&pass=hunter%32", "unix:///run/r?db=2"),
    ] {
        let config = load(&format!("sessions: {{redis: {{url: \"{url}\"}}}}")).unwrap();
        let redis = &config.sessions.redis;
        let password = redis.password.as_ref().map(Secret::reveal);
        assert_eq!(
            (redis.url.as_str(), redis.user.as_str(), password),
            (shown, "ada", Some("hunter2"))
        );
    }
}

#[test]
fn a_server_of_sessions_is_described_as_it_can_be_used() {
    let expected = "expected `redis://HOST:PORT/DATABASE`, `rediss://` for TLS, `unix:///PATH`, \
                    `redis+cluster://HOST:PORT,HOST:PORT`, or `redis+sentinel://HOST:PORT,HOST:PORT/NAME`";
    for url in [
        "127.0.0.1:6379",
        "http://h/",
        "redis:///0",
        "redis://h/name",
        "redis://h/0?protocol=resp3",
        "rediss://h/#insecure",
        "redis://user:secret@h/x",
        "unix://",
        "redis+cluster://",
        "redis+cluster://a,,b",
        "redis+cluster://user:secret@a:7/1",
        "redis+cluster://a:x",
        "unix+cluster://a",
        "redis+sentinel://user:secret@a,b",
        "redis+sentinel://a/main/x",
        "redis+sentinel:///main",
    ] {
        let error = load(&format!("sessions: {{redis: {{url: \"{url}\"}}}}")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("sessions.redis.url: found text, "), "{error}");
        assert!(error.contains(expected) && !error.contains("secret"), "{error}");
    }
    check(
        "sessions: {redis: {url: \"redis://h\", ca_file: a.pem}}",
        "1:47: sessions.redis.ca_file: expected nothing, or `rediss://` in `url`: there is no TLS otherwise",
    );
    check(
        "sessions: {redis: {url: \"rediss://h\", cert_file: a.pem}}",
        "1:50: sessions.redis.cert_file: expected `cert_file` and `key_file`, or neither",
    );
    check(
        "sessions: {redis: {url: \"redis://h\", sentinel_password: x}}",
        "1:57: sessions.redis.sentinel_password: expected nothing, or `redis+sentinel://` in `url`: there are no \
         Sentinels otherwise",
    );
    check(
        "sessions: {redis: {lease_sec: 4, wait_sec: 3.5}}",
        "1:44: sessions.redis.wait_sec: found 3.5s, expected at most 3s, three quarters of `lease_sec`: no turn \
         waits for longer than it has its session",
    );
    check(
        "sessions: {redis: {prefix: \"a{b\"}}",
        "1:28: sessions.redis.prefix: found the text `a{b`, expected 1 to 128 visible ASCII characters without \
         `{` and `}`",
    );
    check(
        "sessions: {redis: {url: \"redis://h\"}, embedded: {path: a.db}}",
        "1:11: sessions.store: expected `embedded` or `redis`: both are described, and one of them is used",
    );
}

#[test]
fn unsupported_values_are_named() {
    check(
        "upstreams: [{kind: ollama}]",
        "1:20: upstreams[0].kind: found the text `ollama`, expected `openai_chat`, \
         `openai_responses`, `llama_completion` or `embedded`; this build does not support `ollama`",
    );
    check("tools: {mcp: [{name: x}]}", "1:15: tools.mcp[0]: expected either `command` or `url`");
    check(
        "tools: {call_contract: herms}",
        "1:24: tools.call_contract: found the text `herms`, expected `marker_json`, `hermes`, \
         `longcat`, `tool_calls`, `toolcall`, `granite3`, `granite20b`, `cohere`, `mistral_array`, \
         `internlm`, `gigachat3`, `gigachat31`, `ernie45`, `apertus`, `cohere_r_plus`, \
         `inkling`, `llama3`, `xlam`, `functools`, `mistral_args`, `mistral_args_id`, \
         `deepseek_v3`, `deepseek_v31`, `kimi_k2`, `functionary_v31`, `plamo3`, `qwen3_coder`, `mimo`, `seed_oss`, `minimax_m2`, `dsml_v32`, \
         `dsml_v4`, `gcml`, `dsml_v41`, `glm45`, `glm47`, `step3`, `step5`, `hunyuan`, \
         `hunyuan_opensource`, `k2_horizon`, `kimi_k3`, `dots`, `minicpm5`, \
         `minimax_m3`, `cohere_xml`, `pythonic`, `lfm2`, `olmo3`, `gemma4`, `functiongemma`, `harmony`, \
         `beam`, `muse`, `functionary_v32`, `native` or `auto`",
    );
    check(
        "tools: {execution: lazy}",
        "1:20: tools.execution: found the text `lazy`, expected `eager` or `after_turn`",
    );
}

#[test]
fn settings_that_conflict_with_native_calls_are_refused() {
    check(
        "tools: {call_contract: native}\nupstreams: [{history: text}]",
        "2:23: upstreams[0].history: found `text`, expected `native` because \
         call_contract is `native`",
    );
    check(
        "tools: {call_contract: native}\nupstreams: [{constrain: llama_grammar}]",
        "2:25: upstreams[0].constrain: found a constraint, expected `auto` or `none`: with \
         call_contract `native`, the server itself ensures that calls are valid",
    );
    for text in ["", "upstreams: [{}, {kind: embedded}]\n"] {
        let text = format!("{text}tools: {{call_contract: native}}");
        let message = load(&text).unwrap_err().to_string();
        assert_eq!(
            message,
            "t.yml: tools.call_contract: found `native`, expected a call format in text: upstream \
             `embedded` is the embedded model, which only writes calls as text"
        );
    }
}

#[test]
fn a_format_with_an_opener_of_its_own_takes_no_marker() {
    let file = |parser: &str| {
        format!("tools: {{call_contract: hermes}}\nstream: {{parser: {{{parser}}}}}")
    };
    assert!(load(&file("")).is_ok());
    for (parser, mistake) in [
        ("marker: '[call]'", "marker: found \"[call]\""),
        ("marker_nonce: true", "marker_nonce: found true"),
    ] {
        assert_eq!(
            load(&file(parser)).unwrap_err().to_string(),
            format!(
                "t.yml: stream.parser.{mistake}, but with call_contract `hermes` calls \
                 always begin with <tool_call>; remove this key"
            )
        );
    }
}

#[test]
fn a_nonce_needs_room_in_the_marker() {
    let file = |length: usize| {
        let marker = "m".repeat(length);
        format!("stream: {{parser: {{marker: {marker}, marker_nonce: true}}}}")
    };
    assert!(load(&file(55)).is_ok());
    assert_eq!(
        load(&file(56)).unwrap_err().to_string(),
        "t.yml: stream.parser.marker: found 56 bytes, expected at most 55 with \
         marker_nonce"
    );
}

#[test]
fn impossible_combinations_are_refused() {
    check(
        "upstreams:\n  - name: a\n  - {name: b}\n  - name: a\n",
        "4:11: upstreams[2].name: found `a`, expected a unique name",
    );
    check(
        "upstreams: [{name: \"a:no-tools\"}]",
        "1:20: upstreams[0].name: found the text `a:no-tools`, expected a name without `:no-tools`, which clients \
         append to it",
    );
    check(
        "chat: {models: [{name: \"b:no-tools\"}]}",
        "1:24: chat.models[0].name: found the text `b:no-tools`, expected a name without `:no-tools`, which clients \
         append to it",
    );
    check(
        "limits: {max_calls_per_turn: 1.0}",
        "1:30: limits.max_calls_per_turn: found `1.0`, expected a whole number of calls from 1 to 1000",
    );
    check(
        "upstreams:\n  - model: a\n  - model: b\n",
        "3:5: upstreams[1].name: another upstream is `local`, as those without a name are; give \
         each its own",
    );
    check(
        "upstreams: []",
        "1:12: upstreams: found an empty list, expected at least one upstream (remove the key to \
         use the embedded model)",
    );
    check(
        "upstreams: [{kind: embedded, base_url: \"http://h/v1\"}]",
        "1:30: upstreams[0].base_url: does not apply to kind `embedded`",
    );
    check(
        "upstreams: [{tokens_per_sec: 5}]",
        "1:14: upstreams[0].tokens_per_sec: only applies to kind `embedded`",
    );
    check(
        "limits: {max_turn_bytes: 65535}\nstream:\n  parser: {max_payload_bytes: 65536}\n",
        "3:31: stream.parser.max_payload_bytes: found 65536, expected at most 65535, which is \
         limits.max_turn_bytes",
    );
    let small = load("limits: {max_turn_bytes: 32768}").unwrap();
    assert_eq!(small.stream.parser.max_payload_bytes, 32768, "a call fits into its turn");
    check(
        "tools: {builtin: [calculate, calculate]}",
        "1:18: tools.builtin: found `calculate` twice, expected each name once",
    );
    check(
        "tools: {builtin: [calculater]}",
        "1:19: tools.builtin[0]: found the text `calculater`, expected a built-in tool; did you \
         mean `calculate`?",
    );
}

/// A documented value that this build does not support is not reported as a misspelling.
#[test]
fn reserved_values_are_not_called_misspellings() {
    check(
        "upstreams: [{kind: ollama}]",
        &format!(
            "1:20: upstreams[0].kind: found the text `ollama`, expected {KINDS}; this build does not support \
             `ollama`"
        ),
    );
}

const KINDS: &str = "`openai_chat`, `openai_responses`, `llama_completion` or `embedded`";

/// That is one mistake; the rest of the entry is read as if it had the default kind.
#[test]
fn an_entry_of_an_unsupported_kind_is_read_to_its_end() {
    let error =
        load("upstreams: [{kind: ollama, constrain: llama_grammar, modle: m}]").unwrap_err();
    let keys: Vec<_> = error.mistakes.iter().map(|mistake| mistake.key.as_str()).collect();
    assert_eq!(keys, ["upstreams[0].kind", "upstreams[0].modle"], "{error}");
}

#[test]
fn unusable_base_urls_are_refused() {
    let expected = "a URL such as `http://127.0.0.1:8081/v1`";
    for (url, expected) in [
        ("https:///v1", expected),
        ("http://", expected),
        ("127.0.0.1:8081", expected),
        ("ftp://host/v1", expected),
        ("", expected),
        ("http://host:0/v1", "a URL with a port from 1 to 65535"),
        ("http://host:65536/v1", "a URL with a port from 1 to 65535"),
        ("http://host:/v1", "a URL with a port from 1 to 65535"),
        (
            "http://host/v1/chat/completions",
            "`http://host/v1`, because `/chat/completions` is appended to it",
        ),
        ("http://host/v1/responses/", "`http://host/v1`, because `/responses` is appended to it"),
        ("http://host/completion", "`http://host`, because `/completion` is appended to it"),
    ] {
        check(
            &format!("upstreams: [{{base_url: \"{url}\"}}]"),
            &format!("1:24: upstreams[0].base_url: found the text `{url}`, expected {expected}"),
        );
    }
    check(
        "upstreams: [{base_url: \"http://host/v1?key=1\"}]",
        "1:24: upstreams[0].base_url: found text, expected a URL without a query or fragment, because \
         paths are appended to it",
    );
}

#[test]
fn unusable_addresses_of_collectors_are_refused() {
    for (url, expected) in [
        ("127.0.0.1:4318", "a URL such as `http://127.0.0.1:4318`"),
        (
            "http://host:4318/v1/traces",
            "`http://host:4318`, because `/v1/traces` is appended to it",
        ),
        (
            "http://host/otlp/v1/metrics/",
            "`http://host/otlp`, because `/v1/metrics` is appended to it",
        ),
    ] {
        check(
            &format!("telemetry: {{otlp: {{endpoint: \"{url}\"}}}}"),
            &format!("1:30: telemetry.otlp.endpoint: found the text `{url}`, expected {expected}"),
        );
    }
    check(
        "telemetry: {otlp: {endpoint: \"http://me:pw@host\"}}",
        "1:30: telemetry.otlp.endpoint: found text, expected a URL without credentials (put them in `headers`)",
    );
}

#[test]
fn names_of_headers_for_collectors_are_checked() {
    check(
        "telemetry: {otlp: {headers: {\"Bad Name\": x}}}",
        "1:29: telemetry.otlp.headers.Bad Name: expected the name of a header",
    );
}

#[test]
fn a_password_in_a_url_is_not_quoted() {
    check(
        "upstreams: [{base_url: \"http://me:pw@host/v1\"}]",
        "1:24: upstreams[0].base_url: found text, expected a URL without credentials (put the key \
         in `api_key`)",
    );
}

#[test]
fn markers_that_cannot_work_are_refused() {
    let long = "x".repeat(65);
    for (marker, shown, expected) in [
        ("", "", "a marker of 1 to 64 bytes (this one has 0)"),
        (long.as_str(), "", "a marker of 1 to 64 bytes (this one has 65)"),
        (" \\t", " \\t", "a marker that is not just whitespace"),
        ("a\\nb", "a\\nb", "a marker without line breaks"),
        ("<think>", "<think>", "a marker that is not a reasoning tag"),
    ] {
        let shown = if marker.len() > 60 { format!("{}...", "x".repeat(60)) } else { shown.into() };
        check(
            &format!("stream: {{parser: {{marker: \"{marker}\"}}}}"),
            &format!("1:27: stream.parser.marker: found the text `{shown}`, expected {expected}"),
        );
    }
    let longest = "x".repeat(64);
    let config = load(&format!("stream: {{parser: {{marker: {longest}}}}}")).unwrap();
    assert_eq!(config.stream.parser.marker, longest);
}

#[test]
fn origins_must_be_spelled_as_browsers_do() {
    let text = |origin: &str| format!("server: {{cors_origins: [\"{origin}\"]}}");
    let check = |origin: &str, expected: &str| {
        let message =
            format!("1:25: server.cors_origins[0]: found the text `{origin}`, expected {expected}");
        check(&text(origin), &message);
    };
    for origin in [
        "*",
        "null",
        "example.org",
        "ws://example.org",
        "https://",
        "https://*.a.b",
        "https://a..b",
        "https://example.org:99999",
    ] {
        check(origin, "an exact origin such as `https://app.example.org`");
    }
    for (origin, spelling) in [
        ("https://example.org/", "https://example.org"),
        ("https://Example.org", "https://example.org"),
        ("https://example.org:443", "https://example.org"),
        ("https://example.org:0443", "https://example.org"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ] {
        check(origin, &format!("the origin as browsers send it: `{spelling}`"));
    }
    for origin in ["http://localhost:5173", "https://example.org", "http://[::1]:3000"] {
        assert_eq!(load(&text(origin)).unwrap().server.cors_origins, [origin]);
    }
    let message = load(&text("https://joe:sesame@a.example")).unwrap_err().to_string();
    assert!(!message.contains("sesame"), "{message}");
}

#[test]
fn invalid_yaml_names_the_place() {
    check("server: [1\nmodel: {", "2:6: invalid YAML: illegal placement of ':' indicator");
    check(
        "a: 1\n---\nb: 2\n",
        "3:1: invalid YAML: only single YAML document expected but multiple found",
    );
    check("server: *nowhere\n", "1:9: invalid YAML: reference to unknown value");
    check(
        "server:\n  api_keys: [${KEY}]\n",
        "2:15: invalid YAML: while parsing a flow sequence, expected ',' or ']'; within [ ] and \
         { }, a `${...}` needs quotes",
    );
}

#[test]
fn three_mistakes_are_reported_in_one_message() {
    let text = "server:\n  listn: 1\nsessions:\n  ttl_sec: soon\n  store: sqlite\n";
    assert_eq!(
        load(text).unwrap_err().to_string(),
        "3 errors in the configuration\n  \
         t.yml:2:3: server.listn: unknown key, did you mean `listen`?\n  \
         t.yml:4:12: sessions.ttl_sec: found the text `soon`, expected a number of seconds from \
         0.001 to 31622400\n  \
         t.yml:5:10: sessions.store: found the text `sqlite`, expected `memory`, `embedded` or `redis`"
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
        "server: {api_keys: 1234567890}",
        "server: {api_keys: \"12345 67890\"}",
        "tools: {mcp: [{name: a, url: \"http://h\", headers: \"X: 12345\"}]}",
        "tools: {mcp: [{name: a, command: [\"a\"], env: \"X=12345\"}]}",
        "tools: {mcp: [{name: a, url: \"http://h\", auth: \"12345\"}]}",
        "upstreams: [{base_url: \"http://h/v1?key=12345\"}]",
        "upstreams: [\"12345\"]",
        "tools: {mcp: [{name: a, url: \"http://h\", headers: {X: \"12345\\u0000\"}}]}",
        "tools: {mcp: [{name: a, url: \"http://h\", headers: {\"X Y\": \"12345\"}}]}",
    ] {
        let message = load(text).unwrap_err().to_string();
        assert!(!message.contains("12345"), "{message}");
    }
}

#[test]
fn a_models_name_is_new_and_its_upstream_exists() {
    let upstream = "upstreams: [{name: a, kind: embedded}]\n";
    let check = |models: &str, message: &str| {
        let error = load(&format!("{upstream}chat: {{models: {models}}}")).unwrap_err();
        assert_eq!(error.to_string(), format!("t.yml: {message}"), "{models}");
    };
    let taken = |at: usize, name: &str| {
        format!("chat.models[{at}].name: found `{name}`, expected a unique name")
    };
    check("[{name: a}]", &taken(0, "a"));
    check("[{name: b}, {name: b}]", &taken(1, "b"));
    check(
        "[{name: b, upstream: c}]",
        "chat.models[0].upstream: found `c`, expected an upstream: `a`",
    );
    let loaded =
        load(&format!("{upstream}chat: {{models: [{{name: b, upstream: a, tools: []}}]}}"));
    assert_eq!(loaded.unwrap().chat.models[0].tools, Some(Vec::new()));
}
