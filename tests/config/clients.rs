//! Who the clients are, and what they get.

use tether::config::StreamDurability;
use tether::limits::config::{MODEL_NAMES_MAX, SESSION_HEADERS_MAX};
use tether::server::ForwardedHeader;

use super::mistakes::check;
use super::*;

/// A client without a key would have it.
#[test]
fn an_empty_key_is_refused() {
    for key in ["", "${UNSET:-}"] {
        check(
            &format!("server: {{api_keys: [\"{key}\"]}}"),
            "1:21: server.api_keys[0]: found text, expected a non-empty key",
        );
    }
}

#[test]
fn as_many_headers_name_a_conversation_as_may_and_one_more() {
    let load_some = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("x-session-{at}")).collect();
        load(&format!("chat: {{session_headers: [{}]}}", names.join(", ")))
    };
    let most = load_some(SESSION_HEADERS_MAX).unwrap();
    assert_eq!(most.chat.session_headers.len(), SESSION_HEADERS_MAX);
    assert_eq!(
        load_some(SESSION_HEADERS_MAX + 1).unwrap_err().to_string(),
        "t.yml:1:25: chat.session_headers: expected at most 16 headers"
    );
    check(
        "chat: {session_headers: [x-session, \"a b\"]}",
        "1:37: chat.session_headers[1]: found the text `a b`, expected a header name",
    );
}

#[test]
fn as_many_models_have_names_as_may_and_one_more() {
    let load_some = |count: usize| {
        let models: Vec<String> = (0..count).map(|at| format!("{{name: m{at}}}")).collect();
        load(&format!("chat: {{models: [{}]}}", models.join(", ")))
    };
    let most = load_some(MODEL_NAMES_MAX).unwrap();
    assert_eq!(most.chat.models.len(), MODEL_NAMES_MAX);
    assert_eq!(
        load_some(MODEL_NAMES_MAX + 1).unwrap_err().to_string(),
        "t.yml:1:16: chat.models: expected at most 256 names"
    );
}

/// Checks that a file with this value loads, and that it is written as it was read.
#[track_caller]
fn loaded(text: &str) -> Config {
    let config = load(text).unwrap();
    assert_eq!(load(&config.to_yaml().unwrap()).as_ref(), Ok(&config), "{text}");
    config
}

#[test]
fn a_stream_is_as_durable_as_the_file_says() {
    let file = |name: &str| format!("stream: {{durability: {name}}}");
    check(
        &file("never"),
        "1:22: stream.durability: found the text `never`, expected `before_send` or `lazy`",
    );
    for (name, durability) in
        [("before_send", StreamDurability::BeforeSend), ("lazy", StreamDurability::Lazy)]
    {
        assert_eq!(loaded(&file(name)).stream.durability, durability, "{name}");
    }
}

#[test]
fn proxies_name_their_clients_in_the_header_of_the_file() {
    let file = |name: &str| format!("server: {{forwarded_header: {name}}}");
    check(
        &file("via"),
        "1:28: server.forwarded_header: found the text `via`, expected `x_forwarded_for` or \
         `forwarded`",
    );
    for (name, header) in [
        ("x_forwarded_for", ForwardedHeader::XForwardedFor),
        ("forwarded", ForwardedHeader::Forwarded),
    ] {
        assert_eq!(loaded(&file(name)).server.forwarded_header, header, "{name}");
    }
}
