use std::time::Duration;

use serde_json::json;

use super::*;
use crate::limits::mcp::{NOTIFICATIONS_PER_SEC_MAX, SERVER_REQUESTS_MAX};
use crate::tools::report::{Report, Reports};
use crate::tools::{CallContext, Reporter};

type Incoming = RxJsonRpcMessage<RoleClient>;

fn ping(id: usize) -> Incoming {
    serde_json::from_value(json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).unwrap()
}

fn cancelled(id: usize) -> Incoming {
    let params = json!({ "requestId": id });
    let message =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    serde_json::from_value(message).unwrap()
}

fn id(id: usize) -> RequestId {
    NumberOrString::Number(i64::try_from(id).unwrap())
}

#[test]
fn as_many_requests_of_a_server_wait_as_the_limit_allows() {
    let traffic = Traffic::default();
    for at in 0..SERVER_REQUESTS_MAX {
        assert!(traffic.incoming(ping(at)).is_some());
    }
    assert!(traffic.incoming(ping(SERVER_REQUESTS_MAX)).is_none());
    traffic.has_answered(&id(0));
    assert!(traffic.incoming(ping(SERVER_REQUESTS_MAX)).is_some());
}

/// A transport whose server is gone.
struct Ended;

impl Transport<RoleClient> for Ended {
    type Error = std::io::Error;

    fn send(
        &mut self,
        _: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<Incoming> {
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A question that is open would hold up the end of the connection.
#[tokio::test]
async fn whoever_waits_for_a_user_hears_that_the_server_is_gone() {
    let traffic = Traffic::default();
    let waits = tokio::spawn({
        let traffic = traffic.clone();
        async move { traffic.over().await }
    });
    assert!(Gate::new(Ended, traffic).receive().await.is_none());
    waits.await.unwrap();
}

#[test]
fn an_id_waits_once() {
    let traffic = Traffic::default();
    assert!(traffic.incoming(ping(1)).is_some());
    assert!(traffic.incoming(ping(1)).is_none());
    traffic.answers(&id(1));
    assert!(traffic.incoming(ping(1)).is_none());
    traffic.has_answered(&id(1));
    assert!(traffic.incoming(ping(1)).is_some());
}

#[test]
fn a_cancelled_request_waits_until_the_answer_on_its_way_is_read() {
    let traffic = Traffic::default();
    for at in 1..=2 {
        assert!(traffic.incoming(ping(at)).is_some());
    }
    traffic.answers(&id(2));
    for at in 1..=2 {
        assert!(traffic.incoming(cancelled(at)).is_some());
    }
    assert!(traffic.incoming(ping(1)).is_some(), "it was not answered yet");
    assert!(traffic.incoming(ping(2)).is_none());
}

/// Sends nothing.
struct Refusing;

impl Transport<RoleClient> for Refusing {
    type Error = std::io::Error;

    fn send(
        &mut self,
        _message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        std::future::ready(Err(std::io::ErrorKind::BrokenPipe.into()))
    }

    async fn receive(&mut self) -> Option<Incoming> {
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn call(slot: OwnedSemaphorePermit) -> CallToolRequest {
    request_of(1, OpenCall::new(&CallContext::first("call"), slot))
}

fn token(number: i64) -> ProgressToken {
    ProgressToken(NumberOrString::Number(number))
}

/// The request of a call with this progress token.
fn request_of(number: i64, open: OpenCall) -> CallToolRequest {
    let mut request = CallToolRequest::new(rmcp::model::CallToolRequestParams::new("act"));
    let mut meta = RequestMetaObject::new();
    meta.set_progress_token(token(number));
    request.extensions_mut().insert(Arc::new(open));
    request.extensions_mut().insert(meta);
    request
}

#[tokio::test]
async fn a_call_that_could_not_be_sent_gives_its_place_back() {
    let traffic = Traffic::default();
    let mut gate = Gate::new(Refusing, traffic.clone());
    for at in 0..=OPEN_CALLS_MAX {
        let slot = traffic.slot(Duration::ZERO).await.expect("a free place");
        let request = ClientRequest::CallToolRequest(call(slot));
        gate.send(TxJsonRpcMessage::<RoleClient>::request(request, id(at))).await.unwrap_err();
    }
    let requests = traffic.shared.requests.lock();
    assert!(requests.open.is_empty() && requests.by_token.is_empty() && requests.ids.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_over_the_limit_waits_no_longer_than_it_may_be_silent() {
    let within = Duration::from_secs(15);
    let traffic = Traffic::default();
    let mut open = Vec::new();
    for _ in 0..OPEN_CALLS_MAX {
        open.push(traffic.slot(Duration::ZERO).await.unwrap());
    }
    let begun = Instant::now();
    assert!(traffic.slot(within).await.is_none());
    assert_eq!(begun.elapsed(), within);
    open.pop();
    assert!(traffic.slot(within).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_not_silent_while_the_user_is_asked() {
    let most = Duration::from_secs(15);
    let slot = Traffic::default().slot(most).await.unwrap();
    let call = OpenCall::new(&CallContext::first("call"), slot);
    let asking = call.asking();
    assert!(timeout(10 * most, call.silence(most)).await.is_err());
    drop(asking);
    let answered_at = Instant::now();
    call.silence(most).await;
    assert_eq!(answered_at.elapsed(), most);
}

/// Sends a call with this progress token. Returns what it reports.
async fn sent(traffic: &Traffic, token: i64) -> Reports {
    let (reporter, reports) = Reporter::new();
    let context = CallContext { reporter, ..CallContext::first("call") };
    let open = OpenCall::new(&context, traffic.slot(Duration::ZERO).await.unwrap());
    let request = ClientRequest::CallToolRequest(request_of(token, open));
    let mut message =
        TxJsonRpcMessage::<RoleClient>::request(request, NumberOrString::Number(token));
    traffic.outgoing(&mut message);
    reports
}

fn report(traffic: &Traffic, token: i64, done: u32) {
    let params = json!({ "progressToken": token, "progress": done });
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
    assert!(traffic.incoming(serde_json::from_value(message).unwrap()).is_none());
}

fn newest(reports: &Reports) -> Option<f64> {
    reports.take().map(|report| match report {
        Report::Progress { progress, .. } => progress.progress,
        asked @ Report::Question { .. } => panic!("{asked:?}"),
    })
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_reports_ends_with_the_last_and_delays_no_other_call() {
    const MOST: u32 = NOTIFICATIONS_PER_SEC_MAX;
    let traffic = Traffic::default();
    let (busy, other) = (sent(&traffic, 1).await, sent(&traffic, 2).await);
    for done in 1..=MOST {
        report(&traffic, 1, done);
        assert_eq!(newest(&busy), Some(f64::from(done)));
    }
    for done in MOST + 1..2 * MOST {
        report(&traffic, 1, done);
        assert_eq!(newest(&busy), None, "{done} is one too many in this second");
    }
    report(&traffic, 2, 1);
    assert_eq!(newest(&other), Some(1.0));
    let call = Arc::clone(&traffic.shared.requests.lock().by_token[&token(1)]);
    let silence = call.silence(Duration::from_secs(15));
    assert!(timeout(Duration::from_secs(2), silence).await.is_err());
    assert_eq!(newest(&busy), Some(f64::from(2 * MOST - 1)), "the second is over");
    for done in 0..=MOST {
        report(&traffic, 1, done);
    }
    let on_wire = traffic.shared.requests.lock().ids[&id(1)].clone();
    let answer = json!({ "jsonrpc": "2.0", "id": on_wire, "result": { "content": [] } });
    assert!(traffic.incoming(serde_json::from_value(answer).unwrap()).is_some());
    assert_eq!(newest(&busy), Some(f64::from(MOST)), "it comes before the result");
}
