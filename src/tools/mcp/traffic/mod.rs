//! What goes over one connection: which requests are open, and what the server sends about them.
//!
//! ```text
//!   rmcp ── send ────> Gate ───> transport ──> server
//!   rmcp <─ receive ── Gate <─── transport <── server
//!                        │
//!                        ├─ answers to requests that are not open: dropped
//!                        ├─ progress: to its call, in order, the newest of a flood; dropped once the call is over
//!                        ├─ "the list of tools has changed": to the server's task
//!                        ├─ requests beyond those that are still to be answered, with the id of one, or too long: dropped
//!                        └─ more other notifications than anyone needs: dropped
//! ```
//! rmcp would run each notification in a task of its own, so that progress arrives out of order,
//! after the result, and without limit.

mod budget;
mod given_up;
mod open_call;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, ClientNotification, ClientRequest, GetExtensions as _, NumberOrString,
    ProgressToken, RequestId, RequestMetaObject, ServerNotification,
};
use rmcp::service::{InboundStreamOrigin, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::limits::mcp::OPEN_CALLS_MAX;
use crate::tools::mcp::{cause, message};
use budget::Budget;
use given_up::GivenUp;
use server_requests::ServerRequests;

pub(super) use open_call::OpenCall;

/// The requests of one connection, and what is known of them. Copies share it.
#[derive(Debug, Clone)]
pub(super) struct Traffic {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    requests: Mutex<Requests>,
    /// Places for open calls.
    slots: Arc<Semaphore>,
    /// How often the server said that its list of tools has changed.
    changes: watch::Sender<u64>,
    /// Set when nothing more can come from the server.
    over: CancellationToken,
}

#[derive(Debug)]
struct Requests {
    /// Requests without an answer, by their ids on the wire.
    open: HashMap<RequestId, Request>,
    server: ServerRequests,
    /// Calls by their progress tokens.
    by_token: HashMap<ProgressToken, Arc<OpenCall>>,
    /// Ids of calls on the wire, by rmcp's.
    ids: HashMap<RequestId, RequestId>,
    /// The next id of a call on the wire. No other connection has used it, so that a server that
    /// remembers requests never mistakes one for another.
    next: i64,
    given_up: GivenUp,
    notifications: Budget,
}

/// A request without an answer.
#[derive(Debug)]
struct Request {
    /// Its id in rmcp.
    id: RequestId,
    call: Option<(ProgressToken, Arc<OpenCall>)>,
}

/// Whose question a server's own request is.
#[derive(Debug)]
pub(super) enum Asker {
    /// It belongs to this call, or to another one of the same session.
    Call(Arc<OpenCall>),
    /// It belongs to one of these open calls, or to one that was given up.
    Unknown(Vec<Arc<OpenCall>>),
}

impl Asker {
    const fn nobody() -> Self {
        Self::Unknown(Vec::new())
    }
}

impl Default for Traffic {
    fn default() -> Self {
        let requests = Requests {
            open: HashMap::new(),
            server: ServerRequests::default(),
            by_token: HashMap::new(),
            ids: HashMap::new(),
            next: first_id(),
            given_up: GivenUp::default(),
            notifications: Budget::default(),
        };
        let (changes, _) = watch::channel(0);
        let slots = Arc::new(Semaphore::new(OPEN_CALLS_MAX));
        let over = CancellationToken::new();
        Self { shared: Arc::new(Shared { requests: Mutex::new(requests), slots, changes, over }) }
    }
}

/// A number below 2^52, so that every language can hold it and a few billion after it.
fn first_id() -> i64 {
    let [a, b, c, d, ..] = *uuid::Uuid::new_v4().as_bytes();
    i64::from(u32::from_be_bytes([a, b, c, d])) << 20
}

impl Traffic {
    /// Says when the list of tools has changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Waits until nothing more can come from the server.
    pub(super) async fn over(&self) {
        self.shared.over.cancelled().await;
    }

    /// Notes that the list of tools has changed.
    pub(super) fn note_change(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// A place for one more open call; `None` if there is none within this time. Calls get one in the order in which
    /// they ask.
    pub(super) async fn slot(&self, within: Duration) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.shared.slots).acquire_owned();
        timeout(within, slot).await.ok()?.ok()
    }

    /// Whose question a server's own request is.
    pub(super) fn asker(&self, origin: Option<&InboundStreamOrigin>) -> Asker {
        let mut requests = self.shared.requests.lock();
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = origin {
            let request = requests.open.get(id);
            let call = request.and_then(|request| request.call.as_ref());
            return call.map_or_else(Asker::nobody, |(_, call)| Asker::Call(Arc::clone(call)));
        }
        let open: Vec<_> = requests.by_token.values().cloned().collect();
        let Some(first) = open.first() else { return Asker::nobody() };
        let session = &first.session;
        let is_sole = open.iter().all(|call| call.session == *session)
            && !requests.given_up.may_ask_others(session, Instant::now());
        if is_sole { Asker::Call(Arc::clone(first)) } else { Asker::Unknown(open) }
    }

    fn outgoing(&self, message: &mut TxJsonRpcMessage<RoleClient>) {
        let mut requests = self.shared.requests.lock();
        match message {
            TxJsonRpcMessage::<RoleClient>::Request(sent) => {
                requests.begin(&sent.request, &mut sent.id);
            }
            TxJsonRpcMessage::<RoleClient>::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &mut sent.notification
                    && let Some(id) = &mut cancelled.params.request_id
                {
                    requests.cancel(id);
                }
            }
            _ => {}
        }
    }

    /// The message as rmcp gets it; `None` if it ends here.
    fn incoming(
        &self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        match message {
            RxJsonRpcMessage::<RoleClient>::Response(mut answer) => {
                answer.id = self.answered(&answer.id)?;
                Some(RxJsonRpcMessage::<RoleClient>::Response(answer))
            }
            RxJsonRpcMessage::<RoleClient>::Error(mut answer) => {
                if let Some(id) = answer.id {
                    answer.id = Some(self.answered(&id)?);
                }
                Some(RxJsonRpcMessage::<RoleClient>::Error(answer))
            }
            RxJsonRpcMessage::<RoleClient>::Notification(sent) => {
                if self.takes(&sent.notification) {
                    return None;
                }
                Some(RxJsonRpcMessage::<RoleClient>::Notification(sent))
            }
            RxJsonRpcMessage::<RoleClient>::Request(request) => {
                let is_admitted = self.shared.requests.lock().server.admit(&request);
                is_admitted.then_some(RxJsonRpcMessage::<RoleClient>::Request(request))
            }
        }
    }

    /// A request could not be sent, or was refused, so no answer to it will come.
    fn not_sent(&self, id: &RequestId, may_run: bool) {
        self.shared.requests.lock().fail(id, may_run);
    }

    /// An answer to the server's own request is about to be sent.
    fn answers(&self, id: &RequestId) {
        self.shared.requests.lock().server.begin_answer(id);
    }

    /// An answer to the server's own request has been sent.
    fn has_answered(&self, id: &RequestId) {
        self.shared.requests.lock().server.end_answer(id);
    }

    /// The id in rmcp of a request that is answered; `None` if it is not open.
    fn answered(&self, id: &RequestId) -> Option<RequestId> {
        let ended = self.shared.requests.lock().end(id);
        if ended.is_none() {
            debug!(%id, "an answer to no open request");
        }
        ended
    }

    /// Whether a notification is dealt with here.
    fn takes(&self, notification: &ServerNotification) -> bool {
        let mut requests = self.shared.requests.lock();
        if let ServerNotification::ProgressNotification(progress) = notification {
            let params = &progress.params;
            if let Some(call) = requests.by_token.get(&params.progress_token) {
                call.progress(params);
            }
            return true;
        }
        let is_too_much = !requests.notifications.spend();
        match notification {
            ServerNotification::ToolListChangedNotification(_) => {
                drop(requests);
                self.note_change();
                true
            }
            // Without it, a subscription would not begin.
            ServerNotification::SubscriptionsAcknowledgedNotification(_) => false,
            ServerNotification::CancelledNotification(cancelled) => {
                if let Some(id) = &cancelled.params.request_id
                    && !is_too_much
                {
                    requests.server.cancel(id);
                }
                is_too_much
            }
            // Servers log to standard error as well, and logging over the protocol is deprecated.
            ServerNotification::LoggingMessageNotification(_) => true,
            _ => is_too_much,
        }
    }
}

impl Requests {
    fn begin(&mut self, request: &ClientRequest, id: &mut RequestId) {
        let own = id.clone();
        let call = match request {
            ClientRequest::CallToolRequest(call) => {
                *id = NumberOrString::Number(self.next);
                self.next += 1;
                self.ids.insert(own.clone(), id.clone());
                open_call(call)
            }
            // The server need not answer a probe, and may do so while it is asked to initialize.
            ClientRequest::InitializeRequest(_) => {
                self.open.clear();
                None
            }
            _ => None,
        };
        if let Some((token, call)) = &call {
            self.by_token.insert(token.clone(), Arc::clone(call));
        }
        self.open.insert(id.clone(), Request { id: own, call });
    }

    /// Ends a request; `id` becomes the one on the wire.
    fn cancel(&mut self, id: &mut RequestId) {
        if let Some(on_wire) = self.ids.get(id) {
            *id = on_wire.clone();
        }
        // rmcp does not wait for the answer, which may arrive at any time.
        if let Some(Request { call: Some((_, call)), .. }) = self.remove(id) {
            self.given_up.push(id.clone(), Arc::clone(&call.session), Instant::now());
        }
    }

    /// Ends a request whose sending has failed. If the server may run its call all the same, it may
    /// also ask something about it.
    fn fail(&mut self, id: &RequestId, may_run: bool) {
        if let Some(Request { call: Some((_, call)), .. }) = self.remove(id)
            && may_run
        {
            self.given_up.push(id.clone(), Arc::clone(&call.session), Instant::now());
        }
    }

    /// Ends a request that is answered, and returns its id in rmcp; `None` if it is not open.
    fn end(&mut self, id: &RequestId) -> Option<RequestId> {
        let id = message::as_sent(id.clone());
        self.given_up.remove(&id);
        let Request { id, call } = self.remove(&id)?;
        if let Some((_, call)) = call {
            call.end();
        }
        Some(id)
    }

    fn remove(&mut self, id: &RequestId) -> Option<Request> {
        let request = self.open.remove(id)?;
        self.ids.remove(&request.id);
        if let Some((token, _)) = &request.call {
            self.by_token.remove(token);
        }
        Some(request)
    }
}

fn open_call(call: &CallToolRequest) -> Option<(ProgressToken, Arc<OpenCall>)> {
    let open = call.extensions().get::<Arc<OpenCall>>()?;
    let token = call.extensions().get::<RequestMetaObject>()?.get_progress_token()?;
    Some((token, Arc::clone(open)))
}

/// A transport whose traffic is watched.
#[derive(Debug)]
pub(super) struct Gate<T> {
    transport: T,
    traffic: Traffic,
}

impl<T> Gate<T> {
    pub(super) const fn new(transport: T, traffic: Traffic) -> Self {
        Self { transport, traffic }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Gate<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.traffic.outgoing(&mut message);
        let (mut answered, mut asked) = (None, None);
        match &message {
            TxJsonRpcMessage::<RoleClient>::Response(answer) => answered = Some(answer.id.clone()),
            TxJsonRpcMessage::<RoleClient>::Error(answer) => answered.clone_from(&answer.id),
            TxJsonRpcMessage::<RoleClient>::Request(request) => asked = Some(request.id.clone()),
            TxJsonRpcMessage::<RoleClient>::Notification(_) => {}
        }
        if let Some(id) = &answered {
            self.traffic.answers(id);
        }
        let (sending, traffic) = (self.transport.send(message), self.traffic.clone());
        async move {
            let sent = sending.await;
            if let Some(id) = answered {
                traffic.has_answered(&id);
            }
            if let (Some(id), Err(error)) = (asked, &sent) {
                traffic.not_sent(&id, cause::may_run(error));
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.transport.receive().await else {
                self.traffic.shared.over.cancel();
                return None;
            };
            if let Some(message) = self.traffic.incoming(message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}

mod server_requests;
#[cfg(test)]
mod tests;
