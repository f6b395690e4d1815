//! What `tether check --probe` says of what cannot be used.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use socket2::{Domain, Socket, Type};

use crate::{check, file, path};

/// A server that answers everything with a web page, for as long as the test runs.
fn page_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            // Whole, because closing a socket with unread bytes resets it.
            let mut request = Vec::new();
            let mut part = [0; 4096];
            while !is_whole(&request)
                && let Ok(read @ 1..) = socket.read(&mut part)
            {
                request.extend_from_slice(&part[..read]);
            }
            let page = "<html>Welcome</html>";
            let length = page.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
            // Whoever asked may have left.
            let _ = write!(socket, "{head}\r\nContent-Length: {length}\r\n\r\n{page}");
        }
    });
    address
}

/// Whether this is a request with all of its body.
fn is_whole(request: &[u8]) -> bool {
    let request = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.split("content-length: ").nth(1).and_then(|it| it.lines().next());
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// What a probe of this configuration says, and whether it ends with this status.
fn probed(config: &str, status: i32) -> String {
    let config = file(config);
    check(&["check", "--probe", "--config", path(&config)], status).1
}

fn with_model_server(address: SocketAddr, more: &str) -> String {
    format!(
        "tools: {{builtin: []}}\nsessions: {{store: memory}}\nupstreams:\n  \
         - {{name: local, kind: openai_chat, base_url: \"http://{address}/v1\"{more}}}\n"
    )
}

#[test]
fn a_model_server_that_is_none_is_an_error() {
    let page = page_server();
    let told = probed(&with_model_server(page, ""), 1);
    assert!(told.contains("error: local: the model server answered GET /models with "), "{told}");

    let told = probed(&with_model_server(page, ", model: m, constrain: auto"), 1);
    assert!(told.contains("none could be tried (the model server answ"), "{told}");
    assert!(told.contains("error: local: test question \"What is 12.5 * 8?"), "{told}");
    assert!(!told.contains("is ignored"), "nothing has answered: {told}");
}

#[test]
fn a_model_server_that_is_down_is_an_error() {
    // Bound, so that no other test gets the port, but not listening.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let told = probed(&with_model_server(address, ""), 1);
    assert!(told.contains("error: local: "), "{told}");
}

#[test]
fn a_source_of_tools_that_is_missing_is_an_error_if_it_is_required() {
    let config = |required: bool| {
        format!(
            "sessions: {{store: memory}}\ntools: {{builtin: [], mcp: [{{name: files, command: \
             [no-such-program], required: {required}}}]}}\n"
        )
    };
    let told = probed(&config(true), 1);
    assert!(
        told.contains("error: mcp files: it is `required`, so no turn can begin without it"),
        "{told}"
    );
    let told = probed(&config(false), 0);
    assert!(told.contains("warning: mcp files: ") && !told.contains("error: "), "{told}");
}

#[test]
fn names_of_tools_that_nothing_offers_are_reported() {
    let config = |entry: &str| {
        let config = format!(
            "sessions: {{store: memory}}\ntools:\n  builtin: [calculate]\n  \
             select: {{always: [calculat, \"get_*\", files__read]}}\n  mcp: [{entry}]\n\
             chat:\n  models: [{{name: sums, tools: [calculate, calcs, files__read]}}]\n"
        );
        let config = file(&config);
        check(&["check", "--config", path(&config)], 0).1
    };
    let told = config("");
    let typo =
        "`tools.select.always` names `calculat`, but there is no such tool; did you mean `calcul";
    assert!(told.contains(typo), "{told}");
    assert!(told.contains("`chat.models[0].tools` names `calcs`, but there is no such"), "{told}");
    assert_eq!(told.matches("names `files__read`").count(), 2, "{told}");
    assert_eq!(told.matches("names `").count(), 4, "{told}");

    let told = config("{name: files, command: [no-such-program]}");
    assert!(!told.contains("names `files__read`"), "the server may have it: {told}");
}
