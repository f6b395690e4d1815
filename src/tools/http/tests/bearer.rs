//! Tokens that the gateway gets itself.

use super::*;
use crate::tools::oauth::{ClientCredentials, Proof};
use crate::tools::outbound::tests::server::{Answer as Reply, Server};
use crate::tools::outbound::{Addresses, ClientOptions};

fn token(text: &str, expires_in: u64) -> Reply {
    Reply::json(&json!({ "access_token": text, "expires_in": expires_in }).to_string())
}

fn tool(server: &Server, authority: &Server) -> HttpTool {
    let request = RequestTemplate::read(&get(&server.url("/a")), &parameters(&[])).unwrap();
    let spec = ToolSpec { name: "a".into(), policy: request.policy(), ..ToolSpec::default() };
    let local = || vec!["127.0.0.1".parse().unwrap()];
    let credentials = ClientCredentials {
        issuer: None,
        client_id: "me:1".to_owned(),
        proof: Proof::Secret("s&same".to_owned()),
        scopes: vec!["read".to_owned(), "list".to_owned()],
        allow_private: local(),
    };
    let endpoint = authority.url("/token").parse().unwrap();
    let options = HttpOptions {
        request,
        bearer: Some(Arc::new(Bearer::new(credentials, endpoint))),
        result: ResultOptions::default(),
        client: Client::new(ClientOptions::new(Addresses::In(local()))),
    };
    HttpTool::new(spec, options)
}

async fn call(tool: &HttpTool) -> Result<ToolResult, ToolFault> {
    tool.call(json!({}), CallContext::first("key-1")).await
}

/// The tokens of the requests that a server got.
fn tokens(server: &Server) -> Vec<String> {
    let token = |request: String| {
        let lines = request.lines();
        let mut tokens = lines.filter_map(|line| line.strip_prefix("authorization: Bearer "));
        tokens.next().unwrap_or_default().to_owned()
    };
    server.requests().into_iter().map(token).collect()
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_used_until_it_expires() {
    let server = Server::once((0..3).map(|_| Reply::json("{}"))).await;
    let authority = Server::once([token("one", 300)]).await;
    let tool = tool(&server, &authority);
    for _ in 0..3 {
        assert!(call(&tool).await.unwrap().success);
    }
    assert_eq!(tokens(&server), ["one"; 3]);
    let asked = authority.requests();
    let [asked] = &*asked else { panic!("{asked:?}") };
    assert!(asked.starts_with("POST /token HTTP/1.1\r\n"), "{asked}");
    // `me%3A1:s%26same`, as RFC 6749 section 2.3.1 wants it.
    assert!(asked.contains("\r\nauthorization: Basic bWUlM0ExOnMlMjZzYW1l\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\ngrant_type=client_credentials&scope=read+list"), "{asked}");
}

#[tokio::test]
async fn a_token_that_has_expired_is_replaced_before_the_call() {
    let server = Server::once((0..2).map(|_| Reply::json("{}"))).await;
    let authority = Server::once([token("one", 0), token("two", 300)]).await;
    let tool = tool(&server, &authority);
    for _ in 0..2 {
        call(&tool).await.unwrap();
    }
    assert_eq!(tokens(&server), ["one", "two"]);
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_once() {
    let refused = || Reply::whole("401 Unauthorized", "");
    let server = Server::once([refused(), Reply::json("{}")]).await;
    let authority = Server::once([token("one", 300), token("two", 300)]).await;
    assert!(call(&tool(&server, &authority)).await.unwrap().success);
    assert_eq!(tokens(&server), ["one", "two"]);

    let server = Server::once([refused(), refused()]).await;
    let authority = Server::once([token("one", 300), token("two", 300)]).await;
    let fault = call(&tool(&server, &authority)).await;
    assert!(format!("{fault:?}").contains("not authorized"), "{fault:?}");
    assert_eq!(tokens(&server).len(), 2);
}

/// Some servers repeat what they refuse.
#[tokio::test]
async fn the_clients_secret_is_hidden_in_what_its_server_says() {
    for secret in ["s%26same", "bWUlM0ExOnMlMjZzYW1l"] {
        let told = json!({ "error_description": format!("{secret} is wrong") }).to_string();
        let server = Server::once([]).await;
        let authority = Server::once([Reply::whole("401 Unauthorized", told)]).await;
        let fault = call(&tool(&server, &authority)).await.unwrap_err();
        assert!(fault.message.ends_with("HTTP status 401: [the key] is wrong"), "{fault:?}");
    }
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let wrong = r#"{"error": "invalid_client", "error_description": "who are you?"}"#;
    for (answer, is_transient, told) in [
        (Reply::whole("401 Unauthorized", wrong), false, "HTTP status 401: who are you?"),
        (Reply::whole("503 Busy", ""), true, "HTTP status 503: no reason"),
        (Reply::json("{}"), false, "has no access_token"),
        (Reply::json(r#"{"access_token": "a\r\nb"}"#), false, "cannot be sent in a header"),
        (Reply::json(r#"{"access_token": "a", "token_type": "mac"}"#), false, "not `Bearer`"),
    ] {
        let server = Server::once([]).await;
        let authority = Server::once([answer]).await;
        let fault = call(&tool(&server, &authority)).await.unwrap_err();
        assert_eq!(fault.transient, is_transient, "{fault:?}");
        assert!(fault.message.contains(told), "{fault:?}");
        assert_eq!(server.requests(), [""; 0]);
    }
}
