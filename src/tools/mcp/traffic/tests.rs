use serde_json::json;

use super::*;
use crate::tools::CallContext;

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
    let open = OpenCall::new(&CallContext::first("call"), slot);
    let mut request = CallToolRequest::new(rmcp::model::CallToolRequestParams::new("act"));
    let mut meta = RequestMetaObject::new();
    meta.set_progress_token(ProgressToken(NumberOrString::Number(1)));
    request.extensions_mut().insert(Arc::new(open));
    request.extensions_mut().insert(meta);
    request
}

#[tokio::test]
async fn a_call_that_could_not_be_sent_gives_its_place_back() {
    let traffic = Traffic::default();
    let mut gate = Gate::new(Refusing, traffic.clone());
    for at in 0..=OPEN_CALLS_MAX {
        let request = ClientRequest::CallToolRequest(call(traffic.slot().expect("a free place")));
        gate.send(TxJsonRpcMessage::<RoleClient>::request(request, id(at))).await.unwrap_err();
    }
    let requests = traffic.shared.requests.lock();
    assert!(requests.open.is_empty() && requests.by_token.is_empty() && requests.ids.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_not_silent_while_the_user_is_asked() {
    let most = Duration::from_secs(15);
    let slot = Traffic::default().slot().unwrap();
    let call = OpenCall::new(&CallContext::first("call"), slot);
    let asking = call.asking();
    assert!(tokio::time::timeout(10 * most, call.silence(most)).await.is_err());
    drop(asking);
    let answered_at = Instant::now();
    call.silence(most).await;
    assert_eq!(answered_at.elapsed(), most);
}
