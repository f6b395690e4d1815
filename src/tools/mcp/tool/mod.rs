//! A tool of an MCP server.

mod entries;
pub(super) mod result;
mod said;

use std::sync::{Arc, Weak};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientNotification, ClientRequest, ErrorCode, ErrorData, GetExtensions as _, RequestId,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::limits::mcp::{ATTEMPTS_MAX, OPEN_CALLS_MAX, STATE_PAUSE};
use crate::tools::keys::Keys;
use crate::tools::mcp::connection::Connection;
use crate::tools::mcp::http::params::{Param, ParamHeaders};
use crate::tools::mcp::link::Link;
use crate::tools::mcp::question::{Exchange, Reply, Step};
use crate::tools::mcp::traffic::OpenCall;
use crate::tools::mcp::{cause, list, message, question};
use crate::tools::{CallContext, RunLimits, Tool, ToolFault, ToolFuture, ToolResult, ToolSpec};
use result::Reading;

pub(super) use entries::entries;

/// A tool of an MCP server.
#[derive(Debug)]
struct McpTool {
    spec: Arc<ToolSpec>,
    shared: Arc<Shared>,
}

/// What calls of a tool share.
#[derive(Debug)]
struct Shared {
    /// The server's own name for it.
    name: String,
    /// The hash of what it is.
    definition: String,
    /// The connection that listed it.
    listed_by: Weak<Connection>,
    /// The arguments that are repeated in headers.
    params: Vec<Param>,
    reading: Reading,
    link: Link,
    silence_max: Duration,
    /// The key of the configuration that says so.
    silence_key: &'static str,
    call_max: Duration,
    result_bytes_max: usize,
    may_send_to_pages: bool,
    /// What the server's list of tools must be.
    pin: Option<String>,
    /// What traces show of how the server is reached.
    reached: Vec<(&'static str, Value)>,
    /// Keys that the server is given.
    keys: Keys,
}

impl McpTool {
    const fn new(spec: Arc<ToolSpec>, shared: Arc<Shared>) -> Self {
        Self { spec, shared }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> ToolFuture {
        let shared = Arc::clone(&self.shared);
        let context = context.hiding(&shared.keys);
        Box::pin(async move { shared.keys.hide(shared.run(arguments, context).await) })
    }

    /// The conventions also name `mcp.session.id`. To many servers, whoever knows that is the session's client, so it
    /// is kept out of traces.
    fn trace_attributes(&self) -> Vec<(&'static str, Value)> {
        let mut attributes = vec![("mcp.method.name", "tools/call".into())];
        let version = self.shared.listed_by.upgrade().map(|connection| connection.version.clone());
        attributes.extend(version.map(|version| ("mcp.protocol.version", version.into())));
        attributes.extend(self.shared.reached.iter().cloned());
        attributes
    }

    fn run_limits(&self) -> RunLimits {
        RunLimits { attempts_max: ATTEMPTS_MAX, total_max: Some(self.shared.call_max) }
    }

    fn forget(&self, session: &str) {
        self.shared.link.forget(session);
    }
}

impl Shared {
    async fn run(
        &self,
        arguments: Value,
        mut context: CallContext,
    ) -> Result<ToolResult, ToolFault> {
        let mut exchange = match context.resumption.take() {
            Some(resumption) => match Exchange::resume(resumption.state, &resumption.given) {
                Ok(exchange) => exchange,
                Err(reason) => return Ok(ToolResult::error(reason)),
            },
            None => Exchange::default(),
        };
        loop {
            if let Some(next) = exchange.questions.first() {
                let may = self.may_send_to_pages;
                let question = match question::read_for(context.words_only, &next.params, may) {
                    Ok(question) => question,
                    // The server decides what becomes of a call whose question is not asked.
                    Err(reason) => match exchange.skip(reason) {
                        Ok(()) => continue,
                        Err(reason) => return Ok(ToolResult::error(reason)),
                    },
                };
                let state = exchange.to_json();
                match context.reporter.ask_again(question, state).await {}
            }
            let (reply, not_asked) = self.send(&arguments, &context, &exchange).await?;
            exchange.note_not_asked(not_asked);
            match exchange.go_on(reply) {
                Step::Done(result) => return Ok(self.read(result, exchange.not_asked())),
                Step::Ask => {}
                Step::Later => sleep(STATE_PAUSE).await,
                Step::Wrong(reason) => return Ok(ToolResult::error(reason)),
                Step::Unread(reason) => return Ok(ToolResult::unread(reason)),
            }
        }
    }

    /// Sends the request of a call, or of its continuation. Returns the reply, and why a question
    /// of the server was not put to the user.
    async fn send(
        &self,
        arguments: &Value,
        context: &CallContext,
        exchange: &Exchange,
    ) -> Result<(Reply, Option<String>), ToolFault> {
        let connection = self.link.connection(&context.session).await?;
        // A call that is stopped at its limit before it is sent could not be told from one that was made.
        let wait_max = self.silence_max.min(self.call_max / 2);
        let Some(slot) = connection.traffic.slot(wait_max).await else {
            let reason = format!("the server is still busy with {OPEN_CALLS_MAX} other calls");
            return Err(ToolFault::transient(reason).after_waiting().before_sending());
        };
        // It may have ended while the call waited.
        if connection.is_over() {
            return Err(ToolFault::transient(&*connection.ended().await).before_sending());
        }
        if let Some(reason) = self.why_stale(&connection).await? {
            return Ok((Reply::Result(error_result(reason)), None));
        }
        let call = Arc::new(OpenCall::new(context, slot));
        let send = |params: &[Param]| {
            let request = self.request(arguments, exchange, &call, params);
            self.answer(&connection, &call, request, context)
        };
        let mut answer = send(&self.params).await;
        if let Ok(Err(error)) = &answer
            && error.code == HEADER_MISMATCH
            && let Some(params) = self.params_now(&connection).await
        {
            answer = send(&params).await;
        }
        let answer = answer.map_err(|fault| call.explain(fault))?;
        Ok((reply(answer), call.not_asked()))
    }

    /// Why the call must not be made: on another connection than the one that listed it, the tool
    /// may be another one, which nobody has seen or approved.
    ///
    /// # Errors
    /// Why that cannot be found out.
    async fn why_stale(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<Option<&'static str>, ToolFault> {
        let is_own = self.link.own.is_some();
        if std::ptr::eq(self.listed_by.as_ptr(), Arc::as_ptr(connection)) {
            return Ok(None);
        }
        let mut now = connection.definition(&self.name);
        if is_own && now.as_ref() != Some(&self.definition) {
            // It may have listed its tools before they changed for everyone.
            let listed = list::checked(connection, self.pin.as_deref()).await;
            listed.map_err(|error| error.fault())?;
            now = connection.definition(&self.name);
        }
        Ok(match now {
            Some(now) if now == self.definition => None,
            Some(_) if is_own => Some(
                "the tool was not called: in this conversation, its server has another tool of \
                 this name",
            ),
            None if is_own => {
                Some("the tool was not called: in this conversation, its server does not have it")
            }
            Some(_) => Some(
                "the tool was not called: its server was restarted, and the tool has changed; it \
                 can be called from the user's next message on",
            ),
            None => Some("the tool was not called: its server was restarted, and no longer has it"),
        })
    }

    /// Sends a request and waits for its answer, as long as the server is not silent.
    async fn answer(
        &self,
        connection: &Connection,
        call: &OpenCall,
        request: ClientRequest,
        context: &CallContext,
    ) -> Result<Result<ServerResult, ErrorData>, ToolFault> {
        let mut meta = RequestMetaObject::new();
        meta.insert("traceparent".to_owned(), context.traceparent().into());
        if let Some(state) = context.tracestate() {
            meta.insert("tracestate".to_owned(), state.into());
        }
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let sent = connection.peer.send_cancellable_request(request, options).await;
        let handle = sent.map_err(cause::fault)?;
        let mut cancel = CancelOnDrop::new(connection.peer.clone(), handle.id.clone());
        let answer = tokio::select! {
            answer = received(handle, connection) => answer,
            () = call.silence(self.silence_max) => {
                let seconds = self.silence_max.as_secs_f64();
                return Err(ToolFault::transient(format!(
                    "the server said nothing for {seconds} s (`{}`)",
                    self.silence_key
                )));
            }
        };
        cancel.disarm();
        answer
    }

    /// Which arguments the server now wants in headers; `None` if the tool must not be called
    /// any more.
    async fn params_now(&self, connection: &Connection) -> Option<Vec<Param>> {
        // What this turn was told stays; the next one gets the new list.
        connection.traffic.note_change();
        let listing = list::checked(connection, self.pin.as_deref()).await.ok()?;
        let mut tools = listing.tools.into_iter();
        Some(tools.find(|tool| tool.declared.name == self.name)?.params)
    }

    fn request(
        &self,
        arguments: &Value,
        exchange: &Exchange,
        call: &Arc<OpenCall>,
        repeated: &[Param],
    ) -> ClientRequest {
        let mut params = CallToolRequestParams::new(self.name.clone());
        params.arguments = arguments.as_object().cloned();
        params.request_state.clone_from(&exchange.state);
        if !exchange.answers.is_empty() {
            let answers = exchange.answers.iter();
            params.input_responses =
                Some(answers.map(|(key, answer)| (key.clone(), answer.clone())).collect());
        }
        let mut request = CallToolRequest::new(params);
        let extensions = request.extensions_mut();
        extensions.insert(Arc::clone(call));
        if !repeated.is_empty() {
            extensions.insert(ParamHeaders::of(repeated, arguments));
        }
        ClientRequest::CallToolRequest(request)
    }

    fn read(&self, result: Value, not_asked: Option<&str>) -> ToolResult {
        let read = match result::read(result, &self.reading) {
            Ok(read) => read.capped(self.result_bytes_max),
            Err(reason) => {
                return ToolResult::unread(format!("the server's result is malformed: {reason}"));
            }
        };
        match (read.error.as_deref(), not_asked) {
            (Some(error), Some(reason)) => {
                let error = Some(format!("{error} ({reason})"));
                ToolResult { error, ..read }
            }
            (None, Some(reason)) => read
                .with_notice(format!("The tool had a question that nobody was asked: {reason}.")),
            (_, None) => read,
        }
    }
}

/// The answer to a request: a result, or the server's own error.
async fn received(
    handle: RequestHandle<RoleClient>,
    connection: &Connection,
) -> Result<Result<ServerResult, ErrorData>, ToolFault> {
    match handle.await_response().await {
        Ok(answer) => Ok(Ok(answer)),
        Err(ServiceError::McpError(error)) => Ok(Err(error)),
        Err(ServiceError::TransportClosed) => {
            Err(ToolFault::transient(&*connection.why_unanswered().await))
        }
        Err(error) => Err(cause::fault(error)),
    }
}

/// The result of a call that the server has not made.
fn error_result(text: &str) -> Value {
    json!({ "isError": true, "content": [{ "type": "text", "text": text }] })
}

/// A protocol error in words: its data often says which argument is wrong.
fn told_error(error: &ErrorData) -> String {
    match &error.data {
        Some(data) if !data.is_null() => format!("{}: {data}", error.message),
        _ => error.message.to_string(),
    }
}

/// What a server's answer means for its call. Bad arguments come as either kind of error.
fn reply(answer: Result<ServerResult, ErrorData>) -> Reply {
    match answer {
        Ok(result) => message::unwrap(result).map_or_else(
            || Reply::Unread("the server answered with something that is not a result".to_owned()),
            Reply::Result,
        ),
        Err(error) if message::replaces_answer(&error) => Reply::Unread(error.message.into_owned()),
        Err(error) => question::pages(&error)
            .map_or_else(|| Reply::Result(error_result(&told_error(&error))), Reply::Pages),
    }
}

/// The server's list of tools has changed, so other arguments belong in headers.
const HEADER_MISMATCH: ErrorCode = ErrorCode(-32020);

/// Tells the server that nobody waits for an answer any more.
struct CancelOnDrop {
    open: Option<(Peer<RoleClient>, RequestId)>,
}

impl CancelOnDrop {
    const fn new(peer: Peer<RoleClient>, id: RequestId) -> Self {
        Self { open: Some((peer, id)) }
    }

    fn disarm(&mut self) {
        self.open = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some((peer, id)) = self.open.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        drop(runtime.spawn(async move {
            let reason = "nobody waits for the answer".to_owned();
            let params = CancelledNotificationParam::new(Some(id), Some(reason));
            let notification = CancelledNotification::new(params);
            let _ = peer
                .send_notification(ClientNotification::CancelledNotification(notification))
                .await;
        }));
    }
}
