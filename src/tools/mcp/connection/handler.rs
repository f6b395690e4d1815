//! What servers of the old protocol ask while a call is open.

use std::sync::Arc;

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorCode, ErrorData,
};
use rmcp::service::{InboundStreamOrigin, RequestContext, RoleClient};
use serde_json::Value;
use tracing::debug;

use crate::tools::Given;
use crate::tools::mcp::options::McpOptions;
use crate::tools::mcp::question::{self, ElicitedAnswer};
use crate::tools::mcp::traffic::OpenCall;
use crate::tools::mcp::traffic::{Asker, Traffic};

/// Answers the requests of a server.
#[derive(Debug)]
pub(super) struct Handler {
    config: ClientConfig,
    traffic: Traffic,
    may_send_to_pages: bool,
}

impl Handler {
    pub(super) const fn new(config: ClientConfig, traffic: Traffic, options: &McpOptions) -> Self {
        Self { config, traffic, may_send_to_pages: options.may_send_to_pages }
    }

    /// Puts a question to the user whose call it belongs to, for as long as somebody waits for the answer: rmcp lets a
    /// connection end only when its questions are answered.
    async fn ask(&self, params: &Value, context: RequestContext<RoleClient>) -> ElicitedAnswer {
        let (origin, withdrawn) = (context.extensions.get::<InboundStreamOrigin>(), &context.ct);
        let Some(call) = self.caller(origin) else { return ElicitedAnswer::cancel() };
        if let Err(reason) = call.count_question() {
            call.note_not_asked(reason);
            return ElicitedAnswer::cancel();
        }
        let question = match question::read_for(call.words_only, params, self.may_send_to_pages) {
            Ok(question) => question,
            Err(reason) => {
                call.note_not_asked(reason);
                return ElicitedAnswer::decline();
            }
        };
        let asking = call.asking();
        let given = tokio::select! {
            given = call.reporter.ask_and_wait(question) => given,
            () = self.traffic.over() => Given::Cancelled,
            () = withdrawn.cancelled() => Given::Cancelled,
        };
        drop(asking);
        let answer = question::answer(&given);
        debug!(action = answer.action, "the server's question is answered");
        answer
    }

    /// The call that a question belongs to. **Nobody is asked on behalf of someone else**: if the
    /// transport cannot tell, and the question may be for another session, it belongs to none.
    fn caller(&self, origin: Option<&InboundStreamOrigin>) -> Option<Arc<OpenCall>> {
        let open = match self.traffic.asker(origin) {
            Asker::Call(call) => return Some(call),
            Asker::Unknown(open) => open,
        };
        for call in open {
            call.note_not_asked(
                "its question may be for another user, and does not say for whom; set \
                 `connections: per_session` for this server"
                    .to_owned(),
            );
        }
        None
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = serde_json::to_value(&request).unwrap_or_default();
        let answer = self.ask(&params, context).await;
        let mut result = ElicitResult::new(match answer.action {
            "accept" => ElicitationAction::Accept,
            "decline" => ElicitationAction::Decline,
            _ => ElicitationAction::Cancel,
        });
        result.content = answer.content;
        Ok(result)
    }

    /// Takes the questions whose forms rmcp's types do not know: lists, types that may be null, and
    /// formats of their own.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        if method != "elicitation/create" {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None));
        }
        let answer = self.ask(&params.unwrap_or_default(), context).await;
        Ok(CustomResult::new(answer.to_json()))
    }
}
