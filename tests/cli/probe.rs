//! What `tether check --probe` says of what cannot be used.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use crate::{check, file, path};

/// A server that answers everything with a web page, for as long as the test runs.
fn page_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 4096];
            if socket.read(&mut request).unwrap() == 0 {
                continue;
            }
            let page = "<html>Welcome</html>";
            let length = page.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
            write!(socket, "{head}\r\nContent-Length: {length}\r\n\r\n{page}").unwrap();
        }
    });
    address
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
    assert!(told.contains("llama_grammar could not be tried (the model server answ"), "{told}");
    assert!(told.contains("error: local: test question \"What is 12.5 * 8?"), "{told}");
    assert!(!told.contains("is ignored"), "nothing has answered: {told}");
}

#[test]
fn a_model_server_that_is_down_is_an_error() {
    // Nobody listens there any more.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
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
    assert!(told.contains("error: mcp files: no turn begins without it: it is `requi"), "{told}");
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
