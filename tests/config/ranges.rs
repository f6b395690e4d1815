//! Each number at its limits and one step beyond.

use super::*;

/// Checks that the minimum and maximum are accepted, and that one step beyond is rejected.
#[track_caller]
fn check(key: &str, [under, least, most, over]: [&str; 4]) {
    // Makes room for the largest payload and for the smallest turn.
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
fn each_number_has_a_minimum_and_a_maximum() {
    check("server.max_body_bytes", ["1023", "1024", "1073741824", "1073741825"]);
    check("server.max_concurrent_turns", ["0", "1", "1000000", "1000001"]);
    check("server.limits.connections_per_address", ["0", "1", "1000000", "1000001"]);
    check("server.limits.head_rate_per_address", ["0", "1", "1000000", "1000001"]);
    check("server.limits.head_rate_per_key", ["0", "1", "1000000", "1000001"]);
    check("server.limits.turns_per_address", ["0", "1", "1000000", "1000001"]);
    check("server.limits.turns_per_key", ["0", "1", "1000000", "1000001"]);
    check("server.limits.reserved_turns_percent", ["-1", "0", "100", "101"]);
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
    check("telemetry.otlp.sample_ratio", ["-0.1", "0", "1", "1.01"]);
    check("telemetry.otlp.metrics_interval_sec", ["0", "0.001", "86400", "86401"]);
    check("sessions.ttl_sec", ["0", "0.001", "31622400", "31622401"]);
}

#[test]
fn numbers_beyond_every_type_are_refused() {
    for number in ["99999999999999999999999", "-9223372036854775808", "1e300", ".nan"] {
        let text = format!("tools: {{max_parallel: {number}}}\nsessions: {{ttl_sec: {number}}}");
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
fn a_limit_can_be_switched_off() {
    let limits = load("server: {limits: {connections_per_address: null}}").unwrap().server.limits;
    assert_eq!(limits.connections_per_address, None);
    let error = load("server: {limits: {turns_per_key: none}}").unwrap_err();
    assert_eq!(
        error.mistakes[0].message,
        "found the text `none`, expected a whole number of turns from 1 to 1000000, or `null` for \
         no limit"
    );
}

#[test]
fn tls_has_a_certificate_and_a_key() {
    let tls = |text: &str| load(&format!("server: {{tls: {text}}}"));
    assert_eq!(tls("null").unwrap().server.tls, None);
    assert!(tls("{cert: c.pem, key: k.pem}").unwrap().server.tls.is_some());
    for (wrong, keys) in [
        ("{cert: c.pem}", &["server.tls.key"][..]),
        ("{}", &["server.tls.cert", "server.tls.key"]),
        ("{cert: \"\", key: 5}", &["server.tls.cert", "server.tls.key"]),
        ("{cert: c.pem, key: k.pem, ca: x}", &["server.tls.ca"]),
        ("true", &["server.tls", "server.tls.cert", "server.tls.key"]),
    ] {
        let error = tls(wrong).unwrap_err();
        let found: Vec<_> = error.mistakes.iter().map(|mistake| &*mistake.key).collect();
        assert_eq!(found, keys, "{wrong}: {error}");
    }
}

#[test]
fn ranges_of_addresses_are_counted_and_checked() {
    let load = |ranges: &str| load(&format!("server: {{trusted_proxies: [{ranges}]}}"));
    assert_eq!(load(&["10.0.0.1"; 64].join(", ")).unwrap().server.trusted_proxies.len(), 64);
    assert!(load(&["10.0.0.1"; 65].join(", ")).is_err());
    for wrong in ["proxy.example.org", "10.0.0.1/8", "10.0.0.0/33", "\"::1%lo\"", "\"\"", "7"] {
        let error = load(wrong).unwrap_err();
        assert_eq!(error.mistakes[0].key, "server.trusted_proxies[0]", "{error}");
    }
    for (wrong, expected) in [
        (
            "10.0.0.1/8",
            "found the text `10.0.0.1/8`, expected `10.0.0.0/8`, or the address alone: it has bits set after the \
             first 8, so it is not clear which is meant",
        ),
        (
            "10.0.0.0/33",
            "found the text `10.0.0.0/33`, expected a length of at most 32 after the slash",
        ),
    ] {
        assert_eq!(load(wrong).unwrap_err().mistakes[0].message, expected);
    }
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
