//! Servers over HTTP: answers that break off, sessions that are lost, and servers that are gone.

use std::sync::OnceLock;

use tether::tools::RunLimits;

use super::web::{self, Web, events, whole};
use super::*;

fn follow(web: &Web) -> Offers {
    follow_with(web, |_| {})
}

fn follow_with(web: &Web, change: impl FnOnce(&mut McpOptions)) -> Offers {
    let mut options = web.options();
    change(&mut options);
    Offers(McpServer::new(options).follow())
}

/// A server that answers calls like this.
async fn calls(is_modern: bool, bytes: Vec<u8>) -> (Web, Offers) {
    let answers = move |method: &str| (method == "tools/call").then(|| bytes.clone());
    let web = Web::start(is_modern, answers).await;
    let offers = follow(&web);
    (web, offers)
}

#[tokio::test]
async fn an_answer_that_breaks_off_fails_its_call_at_once() {
    for is_modern in [false, true] {
        let (_web, mut offers) = calls(is_modern, events(": wait\n\n")).await;
        let fault = offers.call("odd", "").await.unwrap_err();
        assert_eq!(fault.message, "the server broke its answer off");
        assert!(fault.transient && fault.delivery == Delivery::Unknown, "it may have taken effect");
    }
}

/// The server was killed and is back: it knows neither the session nor the call.
#[tokio::test]
async fn an_answer_that_cannot_be_resumed_fails_its_call() {
    let (web, mut offers) = calls(false, events("id: 1\nretry: 1\ndata:\n\n")).await;
    let odd = offers.tool("odd").await;
    *web.state.session.lock() += 1;
    let fault = within(odd.call(json!({}), CallContext::first("call"))).await.unwrap_err();
    assert!(fault.delivery == Delivery::Unknown, "{fault:?}");
}

#[tokio::test]
async fn an_answer_over_http_that_is_too_long_fails_its_call_at_once() {
    let long = "x".repeat(tether::limits::mcp::MESSAGE_BYTES_MAX + 1);
    let event = events(&format!("data: {long}\n\n"));
    let body = whole("200 OK\r\ncontent-type: application/json", &long);
    for (is_modern, bytes) in [(true, event.clone()), (false, event), (false, body)] {
        let (_web, mut offers) = calls(is_modern, bytes).await;
        let result = offers.call("odd", "").await.unwrap();
        assert_eq!(result.error.as_deref(), Some("the server answered with more than 4 MiB"));
        assert!(result.uncertain, "the call was made");
    }
}

#[tokio::test]
async fn an_answer_over_http_that_cannot_be_read_is_no_failure_of_the_call() {
    for body in [
        whole("200 OK\r\ncontent-type: text/html", "<p>Done.</p>"),
        whole("200 OK\r\ncontent-type: application/json", "{\"jsonrpc\":"),
    ] {
        let (_web, mut offers) = calls(false, body).await;
        let result = offers.call("odd", "").await.unwrap();
        let error = result.error.unwrap();
        assert!(error.starts_with("the server's answer cannot be read: "), "{error}");
        assert!(result.uncertain, "the call may have been made");
    }
}

#[tokio::test]
async fn a_call_that_is_not_authorized_fails_for_good() {
    for status in ["401 Unauthorized\r\nwww-authenticate: Bearer", "403 Forbidden"] {
        let (web, mut offers) = calls(false, whole(status, "")).await;
        let fault = offers.call("odd", "").await.unwrap_err();
        assert_eq!(fault, ToolFault::permanent("not authorized by the server"));
        assert_eq!(web.heard("tools/call"), 1);
    }
}

/// Clients read why it failed.
#[tokio::test]
async fn a_server_that_refuses_a_key_does_not_repeat_it() {
    let begin = format!("no {KEY} and no header-{KEY}, which ");
    // Twelve bytes of the last one are left of it.
    let padding = "x".repeat(200 - 12 - begin.len());
    let refused = whole("400 Bad Request", &format!("{begin}{padding}{KEY}"));
    let web = Web::start(false, move |_| Some(refused.clone())).await;
    let mut offers = follow_with(&web, |options| {
        let Reach::Http(reach) = &mut options.reach else { panic!("it is no address") };
        reach.url.set_query(Some(&format!("api_key={KEY}")));
        reach.headers.push(("Authorization".to_owned(), format!("Bearer header-{KEY}")));
    });
    let error = offers.failed().await;
    assert!(error.contains(": no [the key] and no [the key], which x"), "{error}");
    assert!(error.ends_with("x[the key]…"), "{error}");
}

#[tokio::test]
async fn calls_that_the_server_refused_leave_no_trace() {
    let refusals = std::sync::atomic::AtomicUsize::new(0);
    let answers = move |method: &str| {
        let is_call = method == "tools/call";
        let count = || refusals.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let is_busy = is_call && count() <= tether::limits::mcp::OPEN_CALLS_MAX;
        is_busy.then(|| whole("503 Service Unavailable\r\nretry-after: 2", ""))
    };
    let web = Web::start(false, answers).await;
    let mut offers = follow(&web);
    for _ in 0..=tether::limits::mcp::OPEN_CALLS_MAX {
        let fault = offers.call("odd", "").await.unwrap_err();
        assert_eq!(fault.retry_after, Some(Duration::from_secs(2)), "{fault:?}");
    }
    assert!(offers.call("odd", "").await.unwrap().success);
}

#[tokio::test]
async fn a_busy_server_is_busy_in_whatever_words() {
    let told =
        r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "slow down"}}"#;
    let status = "429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 2";
    let (_web, mut offers) = calls(false, whole(status, told)).await;
    let fault = offers.call("odd", "").await.unwrap_err();
    assert!(fault.transient, "{fault:?}");
    assert_eq!(fault.retry_after, Some(Duration::from_secs(2)));
}

#[tokio::test]
async fn an_error_without_an_id_answers_its_own_request() {
    let told = r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "odd"}}"#;
    let body = whole("200 OK\r\ncontent-type: application/json", told);
    for (is_modern, bytes) in [(false, body), (true, events(&format!("data: {told}\n\n")))] {
        let (_web, mut offers) = calls(is_modern, bytes).await;
        let result = offers.call("odd", "").await.unwrap();
        assert_eq!(result.error.as_deref(), Some("odd"));
    }
}

#[tokio::test]
async fn a_lost_session_is_made_again_whatever_the_status() {
    let told = r#"{"jsonrpc": "2.0", "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}, "id": null}"#;
    let refused = std::sync::atomic::AtomicBool::new(false);
    let answers = move |method: &str| {
        let is_first = || !refused.swap(true, std::sync::atomic::Ordering::Relaxed);
        let is_lost = method == "tools/call" && is_first();
        is_lost.then(|| whole("400 Bad Request\r\ncontent-type: application/json", told))
    };
    let web = Web::start(false, answers).await;
    let mut offers = follow(&web);
    let odd = offers.tool("odd").await;
    let call = || odd.call(json!({}), CallContext::first("call"));
    let fault = within(call()).await.unwrap_err();
    assert!(fault.transient && fault.delivery == Delivery::Unsent, "{fault:?}");
    assert!(within(call()).await.unwrap().success);
    assert_eq!(web.heard("initialize"), 2);
}

/// The server has made the call. Made again, it would charge twice.
#[tokio::test]
async fn an_error_with_the_calls_own_id_is_its_answer_whatever_it_says_of_sessions() {
    let web = Web::start(false, |_| None).await;
    let mut offers = follow(&web);
    let told = "charged, but the checkout session has expired";
    *web.state.refusal.lock() = Some(json!({ "code": -32000, "message": told }));
    let result = offers.call("odd", "").await.unwrap();
    assert_eq!(result.error.as_deref(), Some(told));
    assert_eq!((web.heard("tools/call"), web.heard("initialize")), (1, 1));
}

#[tokio::test]
async fn a_new_session_must_have_the_pinned_tools() {
    let web = Web::start(false, |_| None).await;
    let (pin, _) = McpServer::new(web.options()).pin().await.unwrap();
    let mut offers = follow_with(&web, |options| options.pin = Some(pin));
    let odd = offers.tool("odd").await;
    *web.state.tools.lock() = json!([web::tool("odd", "Is another.")]);
    *web.state.session.lock() += 1;
    let call = || odd.call(json!({}), CallContext::first("call"));
    let fault = within(call()).await.unwrap_err();
    assert!(fault.transient && fault.delivery == Delivery::Unsent, "{fault:?}");
    assert!(offers.failed().await.contains("`pin`"));
    let fault = within(call()).await.unwrap_err();
    assert_eq!(fault.message, NOT_PINNED);
    assert!(!fault.transient && fault.delivery == Delivery::Unsent, "{fault:?}");
    assert_eq!(web.heard("tools/call"), 1, "the one that was told that its session is gone");
}

#[tokio::test]
async fn a_tool_that_has_changed_while_its_server_was_away_is_not_called() {
    let web = Web::start(false, |_| None).await;
    let mut offers = follow(&web);
    let (act, odd) = (offers.tool("act").await, offers.tool("odd").await);
    *web.state.tools.lock() = json!([web::tool("odd", "Deletes everything.")]);
    *web.state.session.lock() += 1;
    within(odd.call(json!({}), CallContext::first("call"))).await.unwrap_err();
    offers.until(|offering| offering.tools.len() == 1).await;
    for (tool, told) in [(&act, "no longer has it"), (&odd, "the tool has changed")] {
        let result = within(tool.call(json!({}), CallContext::first("call"))).await.unwrap();
        assert!(result.error.as_deref().unwrap().contains(told), "{result:?}");
    }
    assert_eq!(web.heard("tools/call"), 1);
    let result = offers.call("odd", "").await.unwrap();
    assert!(result.success, "the next turn knows what it calls");
}

#[tokio::test]
async fn a_server_that_is_gone_is_looked_for_until_it_is_back() {
    let mut web = Web::start(false, |_| None).await;
    let mut offers = follow(&web);
    let odd = offers.tool("odd").await;
    web.stop().await;
    let fault = within(odd.call(json!({}), CallContext::first("call"))).await.unwrap_err();
    assert!(fault.transient && fault.delivery == Delivery::Unsent, "{fault:?}");
    let lost = offers.until(|it| it.report.state == SourceState::Reconnecting).await;
    assert_eq!(lost.tools.len(), 2, "its tools stay on offer");
    offers.until(|it| it.report.error.as_deref().is_some_and(|it| it.contains("refused"))).await;
    let waiting = tokio::spawn(odd.call(json!({}), CallContext::first("call")));
    web.restart().await;
    assert!(within(waiting).await.unwrap().unwrap().success);
    offers.ready().await;
}

/// The next attempt would come up to a minute later.
#[tokio::test]
async fn a_call_causes_an_attempt_to_connect() {
    let mut web = Web::start(false, |_| None).await;
    let mut offers = follow(&web);
    let odd = offers.tool("odd").await;
    web.stop().await;
    let call = || within(odd.call(json!({}), CallContext::first("call")));
    assert!(call().await.is_err());
    offers.until(|it| it.report.error.as_deref().is_some_and(|it| it.contains("refused"))).await;
    tokio::time::pause();
    // All attempts in this time fail, and the pauses between them grow.
    let _ = timeout(Duration::from_secs(200), std::future::pending::<()>()).await;
    tokio::time::resume();
    web.restart().await;
    assert!(call().await.unwrap().success);
}

/// As a proxy does whose server is being replaced.
#[tokio::test]
async fn connections_that_nobody_answers_do_not_hold_up_the_next_attempt() {
    let mut web = Web::start(false, |_| None).await;
    let mut offers = follow(&web);
    let odd = offers.tool("odd").await;
    web.stop().await;
    let call = || within(odd.call(json!({}), CallContext::first("call")));
    assert!(call().await.is_err());
    let silent = web.listen_again().await;
    let (_held, _) = within(silent.accept()).await.unwrap();
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let told = "it did not answer within";
    offers.until(|it| it.report.error.as_deref().is_some_and(|it| it.starts_with(told))).await;
    assert!(begun.elapsed() < tether::limits::mcp::CONNECT_TIMEOUT, "{:?}", begun.elapsed());
    tokio::time::resume();
    drop(silent);
    web.restart().await;
    assert!(call().await.unwrap().success);
}

#[tokio::test]
async fn an_old_address_is_recognized() {
    for (path, told) in [
        ("/sse", "streamable HTTP, which often ends in /mcp"),
        ("/other", "HTTP status 404; check the `url`"),
    ] {
        let page = "<!DOCTYPE html><pre>Cannot POST</pre>";
        let web = Web::start(false, move |_| {
            Some(whole("404 Not Found\r\ncontent-type: text/html", page))
        })
        .await;
        let mut offers = follow_with(&web, |options| {
            let Reach::Http(reach) = &mut options.reach else { panic!("it is reached over HTTP") };
            reach.url.set_path(path);
        });
        let error = offers.failed().await;
        assert!(error.contains(told) && !error.contains('<'), "{error}");
    }
}

#[tokio::test]
async fn changes_are_noticed_after_a_subscription_has_ended() {
    let web = Web::start(true, |_| None).await;
    let mut offers = follow(&web);
    offers.ready().await;
    // Once it has been listed again, somebody listens.
    within(async {
        while web.heard("tools/list") < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    web.state.hang_up.notify_one();
    *web.state.tools.lock() = json!([web::tool("new", "Is new.")]);
    let changed = offers.until(|offering| offering.tools.len() == 1).await;
    assert_eq!(names(&changed), ["new"]);
    assert_eq!(web.heard("subscriptions/listen"), 2);
}

/// A tool that comes after the list was asked for, and before anybody listens.
#[tokio::test]
async fn a_change_before_the_subscription_is_noticed() {
    let known = Arc::new(OnceLock::<Arc<web::State>>::new());
    let state = Arc::clone(&known);
    let adds_first = move |method: &str| {
        if method == "subscriptions/listen" {
            let state = state.get().unwrap();
            *state.tools.lock() = json!([web::tool("new", "Is new.")]);
        }
        None
    };
    let web = Web::start(true, adds_first).await;
    known.set(Arc::clone(&web.state)).ok().unwrap();
    let mut offers = follow(&web);
    let changed = offers.until(|offering| offering.tools.len() == 1).await;
    assert_eq!(names(&changed), ["new"]);
}

#[tokio::test]
async fn a_server_that_reports_no_changes_is_asked_for_its_list_again() {
    let refused = r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no"}}"#;
    let refused = whole("404 Not Found\r\ncontent-type: application/json", refused);
    let answers = move |method: &str| (method == "subscriptions/listen").then(|| refused.clone());
    let web = Web::start(true, answers).await;
    let mut offers = follow(&web);
    offers.ready().await;
    let act = offers.tool("act").await;
    // Once a call has been answered, so has been the request to listen.
    within(act.call(json!({}), CallContext::first("call"))).await.unwrap();
    *web.state.tools.lock() = json!([web::tool("new", "Is new.")]);
    tokio::time::pause();
    tokio::time::advance(tether::limits::mcp::LIST_AGE_MIN).await;
    tokio::time::resume();
    let changed = offers.until(|offering| offering.tools.len() == 1).await;
    assert_eq!(names(&changed), ["new"]);
}

#[tokio::test]
async fn whatever_an_old_server_answers_to_the_probe_it_is_asked_in_the_old_protocol() {
    const JSON: &str = "200 OK\r\ncontent-type: application/json";
    for probe in [
        whole("500 Internal Server Error", "oops"),
        whole("501 Not Implemented", ""),
        whole("400 Bad Request", "what?"),
        whole("429 Too Many Requests", ""),
        whole("200 OK\r\ncontent-type: text/html", "<html>"),
        whole("200 OK", ""),
        whole("202 Accepted", ""),
        whole(JSON, r#"{"hello": 1}"#),
        whole(JSON, "null"),
        events("data: hello\n\n"),
    ] {
        let told = String::from_utf8(probe.clone()).unwrap();
        let answers = move |method: &str| (method == "server/discover").then(|| probe.clone());
        let web = Web::start(false, answers).await;
        let offering = follow(&web).ready().await;
        assert_eq!(offering.report.era, Some("legacy"), "{told}");
    }
}

#[tokio::test]
async fn an_operator_is_told_why_there_is_no_connection() {
    let answers = |_: &str| Some(whole("401 Unauthorized", ""));
    let mut web = Web::start(false, answers).await;
    let told = follow(&web).failed().await;
    assert!(told.starts_with("it does not authorize the gateway (HTTP status 401)"), "{told}");
    assert_eq!(web.heard("initialize"), 0);
    web.stop().await;
    let told = follow(&web).failed().await;
    assert!(told.starts_with("cannot connect to 127.0.0.1: "), "{told}");
    assert!(!told.contains("::"), "{told}");
}

#[tokio::test]
async fn the_time_of_a_call_is_limited_for_all_its_attempts() {
    let web = Web::start(false, |_| None).await;
    let mut offers = follow_with(&web, |options| {
        options.call_max = Duration::from_secs(2);
        options.silence_max = Duration::from_secs(6);
    });
    let odd = offers.tool("odd").await;
    assert_eq!(odd.spec().policy.timeout, Some(Duration::from_secs(2)));
    let limits = RunLimits { attempts_max: 2, total_max: Some(Duration::from_secs(2)) };
    assert_eq!(odd.run_limits(), limits);
}

/// A server that is given a key, as a header or as a variable, may repeat it.
#[tokio::test]
async fn the_key_that_a_server_is_given_is_not_in_what_it_says() {
    let told = r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no user has s3cr3t-key"}}"#;
    let answers = move |method: &str| {
        let is_call = method == "tools/call";
        is_call.then(|| whole("200 OK\r\ncontent-type: application/json", told))
    };
    let web = Web::start(false, answers).await;
    let mut offers = follow_with(&web, |options| {
        let Reach::Http(reach) = &mut options.reach else { panic!("{:?}", options.reach) };
        reach.headers.push(("Authorization".to_owned(), "Bearer s3cr3t-key".to_owned()));
    });
    let result = offers.call("odd", "").await.unwrap();
    assert_eq!(result.error.as_deref(), Some("no user has [the key]"));

    let mut program = Bad::start_with("plain", |options| {
        let Reach::Program(program) = &mut options.reach else { panic!("{:?}", options.reach) };
        program.environment.push(("API_TOKEN".into(), "s3cr3t-key".into()));
    });
    let said = program.says("echo", "good day, s3cr3t-key").await.to_string();
    assert!(said.contains("good day, [the key]") && !said.contains("s3cr3t"), "{said}");
}
