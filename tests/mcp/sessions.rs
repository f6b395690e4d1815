//! Servers with a process for each session.

use tether::limits::mcp::{OWN_CONNECTION_AGE, OWN_CONNECTION_CHECK};

use super::*;

fn start(behaviour: &str) -> Bad {
    start_with(behaviour, |_| {})
}

fn start_with(behaviour: &str, change: impl FnOnce(&mut McpOptions)) -> Bad {
    Bad::start_with(behaviour, |options| {
        options.connections = Connections::PerSession;
        change(options);
    })
}

async fn call(tool: &Arc<dyn Tool>, session: &str) -> Result<ToolResult, ToolFault> {
    let context = CallContext { session: session.into(), ..CallContext::first("call") };
    within(tool.call(json!({ "text": "x" }), context)).await
}

#[tokio::test]
async fn each_session_may_have_a_process_of_its_own() {
    let mut bad = start("plain");
    let echo = bad.tool("echo").await;
    for session in ["a", "b", "a"] {
        call(&echo, session).await.unwrap();
    }
    assert_eq!(bad.starts(), 3, "one lists, and one for each session");
}

#[tokio::test]
async fn calls_that_begin_together_share_the_process_of_their_session() {
    let mut bad = start("plain");
    let echo = bad.tool("echo").await;
    let (one, other) = tokio::join!(call(&echo, "a"), call(&echo, "a"));
    assert!(one.unwrap().success && other.unwrap().success);
    assert_eq!(bad.starts(), 2);
}

#[tokio::test]
async fn a_list_that_changes_leaves_sessions_their_processes() {
    let mut bad = start("all_change");
    let odd = bad.tool("odd").await;
    call(&odd, "a").await.unwrap();
    // Only the session's own process has announced it.
    let changed = bad.until(|offering| offering.tools.len() == 2).await;
    for name in ["new", "echo"] {
        let result = call(&tool(changed.clone(), name), "a").await.unwrap();
        assert!(result.success, "{name}: {result:?}");
    }
    assert_eq!(bad.starts(), 2);
}

#[tokio::test]
async fn the_process_of_a_session_must_have_the_pinned_tools() {
    let directory = tempfile::tempdir().unwrap();
    let _events = events(&directory);
    let options = server::options("plain", Some(directory.path()));
    let (pin, _) = McpServer::new(options).pin().await.unwrap();
    let mut bad = start_with("later_differs", |options| options.pin = Some(pin));
    let act = bad.tool("act").await;
    let fault = call(&act, "a").await.unwrap_err();
    assert_eq!(fault.message, NOT_PINNED);
    assert!(!fault.transient && fault.delivery == Delivery::Unsent, "{fault:?}");
}

#[tokio::test]
async fn a_tool_that_is_another_one_in_the_process_of_a_session_is_not_called() {
    let mut bad = start("later_differs");
    let (echo, act) = (bad.tool("echo").await, bad.tool("act").await);
    assert!(call(&echo, "a").await.unwrap().success);
    let result = call(&act, "a").await.unwrap();
    assert!(
        result.error.as_deref().unwrap().contains("has another tool of this name"),
        "{result:?}"
    );
}

#[tokio::test]
async fn the_process_of_a_session_ends_with_it() {
    let mut bad = start("plain");
    let echo = bad.tool("echo").await;
    call(&echo, "a").await.unwrap();
    echo.forget("b");
    call(&echo, "a").await.unwrap();
    echo.forget("a");
    bad.hears("ended").await;
    call(&echo, "a").await.unwrap();
    assert_eq!(bad.starts(), 3);
}

/// A message is stuck in its input.
#[tokio::test]
async fn the_process_of_a_session_ends_with_it_though_it_does_not_read() {
    let mut bad = start("stops_reading");
    let odd = bad.tool("odd").await;
    let begin = || {
        let context = CallContext { session: "a".into(), ..CallContext::first("call") };
        tokio::spawn(odd.call(json!({ "text": "x".repeat(200_000) }), context))
    };
    let first = begin();
    bad.hears("stopped").await;
    let second = begin();
    tokio::task::yield_now().await;
    odd.forget("a");
    first.abort();
    second.abort();
    bad.closes().await;
}

#[tokio::test]
async fn a_process_that_no_call_uses_ends_after_a_while() {
    let mut bad = start("plain");
    let echo = bad.tool("echo").await;
    call(&echo, "a").await.unwrap();
    tokio::time::pause();
    tokio::time::advance(OWN_CONNECTION_AGE + OWN_CONNECTION_CHECK).await;
    tokio::time::resume();
    bad.hears("ended").await;
}
