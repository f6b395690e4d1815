//! Access control: keys, host names, web pages.

use serde_json::json;
use tether::config::Secret;

use crate::support::client::{post, request};
use crate::support::gateway::{CANCEL, STREAM};
use crate::support::{Gateway, Model};

const PAGE: &str = "https://chat.example.org";

async fn gateway(keys: &[&str], origins: &[&str]) -> (Model, Gateway) {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.config.server.api_keys =
            keys.iter().map(|key| Secret::new((*key).to_owned())).collect();
        setup.config.server.cors_origins = origins.iter().map(|&origin| origin.into()).collect();
    })
    .await;
    (model, gateway)
}

async fn get(gateway: &Gateway, path: &str, headers: &[&str]) -> u16 {
    gateway.exchange(request("GET", path, headers, "")).await.status()
}

/// The status of a request, with these headers, to begin a turn.
async fn begin(gateway: &Gateway, headers: &[&str]) -> u16 {
    let mut client = gateway.client().await;
    client.send(post(STREAM, headers, &json!({"prompt": "Hello?"}).to_string())).await;
    client.head().await.status
}

#[tokio::test]
async fn any_of_the_keys_opens_in_either_header() {
    let (_model, gateway) = gateway(&["first", "second"], &[]).await;
    for key in ["first", "second"] {
        for header in [
            format!("Authorization: Bearer {key}"),
            format!("authorization: bearer {key}"),
            format!("X-Api-Key: {key}"),
        ] {
            assert_eq!(get(&gateway, "/api/v1/tools", &[&header]).await, 200, "{header}");
            assert_eq!(begin(&gateway, &[&header]).await, 200, "{header}");
        }
    }
}

#[tokio::test]
async fn nothing_else_opens() {
    let (model, gateway) = gateway(&["first", "second"], &[]).await;
    for headers in [
        &[][..],
        &["Authorization: Bearer third"],
        &["Authorization: Bearer firs"],
        &["Authorization: Bearer firstt"],
        &["Authorization: Bearer FIRST"],
        &["Authorization: Bearer"],
        &["Authorization: Bearer "],
        &["Authorization: first"],
        &["Authorization: Basic first"],
        &["X-Api-Key: third"],
        &["X-Api-Key: "],
        &["Cookie: first"],
    ] {
        for (method, path) in [
            ("GET", "/api/v1/tools"),
            ("GET", "/metrics"),
            ("GET", "/api/v1/sessions/s"),
            ("DELETE", "/api/v1/sessions/s"),
            ("GET", "/api/v1/chat/stream?session_id=s"),
            ("GET", "/nowhere"),
        ] {
            let reply = gateway.exchange(request(method, path, headers, "")).await;
            assert_eq!(reply.refusal().0, 401, "{method} {path} {headers:?}");
            assert_eq!(reply.head.header("www-authenticate"), Some("Bearer"));
        }
        assert_eq!(begin(&gateway, headers).await, 401, "{headers:?}");
        let cancel = post(CANCEL, headers, r#"{"session_id":"s"}"#);
        assert_eq!(gateway.exchange(cancel).await.status(), 401);
    }
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn probes_and_the_page_are_open() {
    let (_model, gateway) = gateway(&["first"], &[]).await;
    for path in ["/healthz", "/readyz", "/"] {
        assert_eq!(get(&gateway, path, &[]).await, 200, "{path}");
    }
}

/// The address of an upstream is not revealed without a key.
#[tokio::test]
async fn upstream_failures_are_shown_only_with_a_key() {
    let (model, gateway) = gateway(&["first"], &[]).await;
    let _model = model.stop().await;
    for (headers, is_told) in [(&[][..], false), (&["Authorization: Bearer first"][..], true)] {
        let reply = gateway.exchange(request("GET", "/readyz", headers, "")).await;
        let message = &reply.json()["message"];
        assert_eq!((reply.status(), message.is_string()), (503, is_told), "{message}");
    }
}

/// The body of an unauthorised request is not read.
#[tokio::test]
async fn the_key_is_checked_before_the_body() {
    let (_model, gateway) = gateway(&["first"], &[]).await;
    let reply = gateway.exchange(request("POST", STREAM, &["Content-Length: 100"], "")).await;
    assert_eq!(reply.status(), 401);
    assert_eq!(reply.head.header("x-should-retry"), Some("false"), "or some ask again for minutes");
}

#[tokio::test]
async fn this_machines_names_are_served() {
    let (_model, gateway) = gateway(&[], &[]).await;
    let port = gateway.address.port();
    for host in [
        "localhost".to_owned(),
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        "127.1.2.3".to_owned(),
        format!("[::1]:{port}"),
        "[::1]".to_owned(),
        "LocalHost".to_owned(),
    ] {
        assert_eq!(get(&gateway, "/healthz", &[&format!("Host: {host}")]).await, 200, "{host}");
    }
}

/// A page can bypass the browser's same-origin policy with a foreign name that resolves to this
/// machine.
#[tokio::test]
async fn foreign_names_are_not_served() {
    let (model, gateway) = gateway(&[], &[]).await;
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example", ""]
    {
        let host = format!("Host: {host}");
        assert_eq!(get(&gateway, "/healthz", &[&host]).await, 421, "{host}");
        assert_eq!(begin(&gateway, &[&host]).await, 421, "{host}");
    }
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn a_request_without_a_host_is_refused() {
    let (_model, gateway) = gateway(&[], &[]).await;
    let mut client = gateway.client().await;
    client.send("GET /healthz HTTP/1.1\r\n\r\n").await;
    assert!(matches!(client.head().await.status, 400 | 421));
    let mut client = gateway.client().await;
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n").await;
    let reply = client.reply().await;
    assert!(matches!(reply.head.status, 400 | 421), "nor is one with two");
    assert_eq!(
        reply.message(),
        "the Host header is missing, empty or not unique; send exactly one"
    );
}

#[tokio::test]
async fn with_keys_any_name_is_served() {
    let (_model, gateway) = gateway(&["first"], &[]).await;
    let headers = ["Host: tether.example.org", "X-Api-Key: first"];
    assert_eq!(get(&gateway, "/api/v1/tools", &headers).await, 200);
}

#[tokio::test]
async fn foreign_pages_change_nothing() {
    let (model, gateway) = gateway(&[], &[PAGE]).await;
    for origin in [
        "https://evil.example",
        "https://chat.example.org.evil.example",
        "http://chat.example.org",
        "https://chat.example.org:444",
        "https://CHAT.example.org",
        "null",
        "",
    ] {
        let origin = format!("Origin: {origin}");
        assert_eq!(begin(&gateway, &[&origin]).await, 403, "{origin}");
        let cancel = post(CANCEL, &[&origin], r#"{"session_id":"s"}"#);
        assert_eq!(gateway.exchange(cancel).await.status(), 403, "{origin}");
        let delete = request("DELETE", "/api/v1/sessions/s", &[&origin], "");
        assert_eq!(gateway.exchange(delete).await.status(), 403, "{origin}");
        // The browser hides the response from the page.
        let reply = gateway.exchange(request("GET", "/api/v1/tools", &[&origin], "")).await;
        assert_eq!(reply.head.header("access-control-allow-origin"), None, "{origin}");
    }
    // Whichever of two a proxy looks at.
    let [page, evil] = [PAGE, "https://evil.example"].map(|origin| format!("Origin: {origin}"));
    for origins in [[&*page, &evil], [&*evil, &page]] {
        assert_eq!(begin(&gateway, &origins).await, 403, "{origins:?}");
    }
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn own_and_configured_pages_are_served() {
    let (_model, gateway) = gateway(&[], &[PAGE]).await;
    let own = format!("http://localhost:{}", gateway.address.port());
    let host = format!("Host: localhost:{}", gateway.address.port());
    assert_eq!(begin(&gateway, &[&host, &format!("Origin: {own}")]).await, 200);
    assert_eq!(begin(&gateway, &[&format!("Origin: {PAGE}")]).await, 200);
    let mut client = gateway.client().await;
    client.send(request("GET", "/api/v1/tools", &[&format!("Origin: {PAGE}")], "")).await;
    let head = client.head().await;
    assert_eq!(head.header("access-control-allow-origin"), Some(PAGE));
    let exposed = head.header("access-control-expose-headers").unwrap().to_ascii_lowercase();
    for name in ["x-request-id", "location"] {
        assert!(exposed.contains(name), "{exposed}");
    }
}

/// To a page, a refusal that it cannot read looks like a network failure.
#[tokio::test]
async fn a_page_can_read_why_it_was_refused() {
    let (_model, gateway) = gateway(&["first"], &[PAGE]).await;
    let origin = format!("Origin: {PAGE}");
    let reply = gateway.exchange(request("GET", "/api/v1/tools", &[&origin], "")).await;
    assert_eq!(reply.status(), 401);
    assert_eq!(reply.head.header("access-control-allow-origin"), Some(PAGE));
}

/// What a page sends in `fetch`, and what browser SDKs add by themselves.
const SENT: &[&str] = &[
    "authorization",
    "content-type",
    "last-event-id",
    "idempotency-key",
    "x-api-key",
    "x-request-id",
    "x-session-id",
    "user-agent",
    "openai-organization",
    "openai-project",
    "openai-beta",
    "anthropic-version",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "x-stainless-arch",
    "x-stainless-helper-method",
    "x-stainless-lang",
    "x-stainless-os",
    "x-stainless-package-version",
    "x-stainless-retry-count",
    "x-stainless-runtime",
    "x-stainless-runtime-version",
    "x-stainless-timeout",
];

#[tokio::test]
async fn a_preflight_allows_what_pages_and_their_sdks_send() {
    let (_model, gateway) = gateway(&["first"], &[PAGE]).await;
    let preflight = |origin: &str, path: &str| {
        request(
            "OPTIONS",
            path,
            &[
                &format!("Origin: {origin}"),
                "Access-Control-Request-Method: POST",
                &format!("Access-Control-Request-Headers: {}", SENT.join(",")),
            ],
            "",
        )
    };
    for path in [STREAM, "/v1/chat/completions", "/v1/messages"] {
        let reply = gateway.exchange(preflight(PAGE, path)).await;
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.head.header("access-control-allow-origin"), Some(PAGE));
        let methods = reply.head.header("access-control-allow-methods").unwrap();
        for method in ["GET", "POST", "DELETE"] {
            assert!(methods.contains(method), "{methods}");
        }
        let headers = reply.head.header("access-control-allow-headers").unwrap();
        let allowed: Vec<_> = headers.split(',').map(|it| it.trim().to_ascii_lowercase()).collect();
        for name in SENT {
            assert!(allowed.iter().any(|it| it == name), "{name}: {headers}");
        }
        let reply = gateway.exchange(preflight("https://evil.example", path)).await;
        assert_eq!(reply.head.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn a_page_reads_what_sdks_look_at() {
    let (_model, gateway) = gateway(&[], &[PAGE]).await;
    let origin = format!("Origin: {PAGE}");
    let reply = gateway.exchange(request("GET", "/v1/models", &[&origin], "")).await;
    let exposed = reply.head.header("access-control-expose-headers").unwrap();
    for name in ["x-request-id", "location", "retry-after", "x-should-retry"] {
        assert!(exposed.contains(name), "{exposed}");
    }
}

/// A form on a foreign page can send text, but cannot send JSON without permission.
#[tokio::test]
async fn a_page_sends_json_as_json() {
    let (_model, gateway) = gateway(&[], &[PAGE]).await;
    let body = json!({"prompt": "Hello?"}).to_string();
    let length = format!("Content-Length: {}", body.len());
    let send = async |headers: &[&str]| {
        let mut client = gateway.client().await;
        client.send(request("POST", STREAM, &[headers, &[&*length]].concat(), &body)).await;
        client.head().await.status
    };
    let page = format!("Origin: {PAGE}");
    for (media_type, from_page) in [
        ("Content-Type: application/json", 200),
        ("Content-Type: application/json; charset=utf-8", 200),
        ("content-type: Application/JSON", 200),
        ("Content-Type: text/plain", 415),
        ("Content-Type: application/x-www-form-urlencoded", 415),
        ("Content-Type: application/jsonp", 415),
        ("X: y", 415),
    ] {
        assert_eq!(send(&[&page, media_type]).await, from_page, "{media_type}");
        // In a shell, `curl -d` sends the media type of a form.
        assert_eq!(send(&[media_type]).await, 200, "{media_type}");
    }
}

/// Two people may choose the same name for a session.
#[tokio::test]
async fn a_session_belongs_to_the_key_that_began_it() {
    let (mut model, gateway) = gateway(&["first", "second"], &[]).await;
    let mine = "Authorization: Bearer first";
    let theirs = "Authorization: Bearer second";
    let body = json!({"prompt": "The word is plum.", "session_id": "s"}).to_string();
    let mut client = gateway.client().await;
    client.send(post(STREAM, &[mine], &body)).await;
    let round = model.round().await;
    for (method, path) in [
        ("GET", "/api/v1/sessions/s"),
        ("DELETE", "/api/v1/sessions/s"),
        ("GET", "/api/v1/chat/stream?session_id=s"),
    ] {
        let theirs = gateway.exchange(request(method, path, &[theirs], "")).await;
        assert_eq!(theirs.refusal().0, 404, "{method} {path}");
    }
    let cancel = post(CANCEL, &[theirs], r#"{"session_id":"s"}"#);
    assert_eq!(gateway.exchange(cancel).await.refusal().0, 404);
    round.answer("Noted.").await;
    let body = json!({"prompt": "Which word?", "session_id": "s"}).to_string();
    let mut client = gateway.client().await;
    client.send(post(STREAM, &[theirs], &body)).await;
    assert_eq!(client.head().await.status, 200, "a session of its own");
    let round = model.round().await;
    assert!(!round.request.contents().contains("plum"));
    assert_eq!(get(&gateway, "/api/v1/sessions/s", &[mine]).await, 200);
}
