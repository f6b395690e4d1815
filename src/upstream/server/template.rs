//! Rendering chat templates, for dialects that send prompts.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Method;
use serde::Deserialize;
use tracing::info;

use super::failed::Failed;
use super::{Server, read_body};
use crate::call_format::{CallContract, Row};
use crate::limits::upstream as limits;
use crate::upstream::chat_template::Losses;
use crate::upstream::server_error::ServerError;
use crate::upstream::{History, RoundFailure};

/// How a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) contract: CallContract,
    pub(super) history: History,
}

impl Server {
    /// How the model is asked. If its chat template is rendered, it presents the tools and writes
    /// calls and results, as far as it loses none of them.
    pub(super) async fn way(&self, history: History) -> Result<Way, Failed> {
        let contract = self.contract().await?;
        match contract {
            CallContract::InText(row) if self.sends_prompts => {
                // Templates know nothing of what models are taught.
                let wants_template = history == History::Native && !row.is_taught;
                if wants_template {
                    self.templated(row).await
                } else {
                    Ok(Way { contract, history: History::Text })
                }
            }
            _ => Ok(Way { contract, history }),
        }
    }

    /// How a model with this format is asked, by what its template loses.
    async fn templated(&self, row: &'static Row) -> Result<Way, Failed> {
        let losses = self.losses().await?;
        let contract =
            if losses.tools { CallContract::InText(row) } else { CallContract::Templated(row) };
        let history = if losses.of_history() { History::Text } else { History::Native };
        Ok(Way { contract, history })
    }

    /// What the model's chat template loses. It is rendered once, and again only when there is a sign
    /// that the server has been replaced.
    pub(in crate::upstream) async fn losses(&self) -> Result<Losses, Failed> {
        if let Some(known) = *self.losses.lock() {
            return Ok(known);
        }
        let losses = self.probe_template().await?;
        if losses != Losses::default() {
            let Losses { tools, calls, words, results } = losses;
            info!(
                upstream = &*self.name,
                tools,
                calls,
                words,
                results,
                "the chat template loses these; they are written as text"
            );
        }
        *self.losses.lock() = Some(losses);
        Ok(losses)
    }

    async fn probe_template(&self) -> Result<Losses, Failed> {
        for request in Losses::requests() {
            match self.render(request.to_string().into()).await {
                Ok(prompt) => return Ok(Losses::of(&prompt)),
                // The template refuses this conversation.
                Err(failed) if failed.was_reached && !failed.failure.retryable => {}
                Err(failed) => return Err(failed),
            }
        }
        Ok(Losses::ALL)
    }

    /// The prompt that the model's chat template makes of a conversation.
    pub(in crate::upstream) async fn render(&self, body: Bytes) -> Result<String, Failed> {
        #[derive(Deserialize)]
        struct Rendered {
            prompt: String,
        }
        let path = format!("{}/apply-template", self.root());
        let request = self.request(Method::POST, &path, Full::new(body));
        let mut answer = self.send(request, self.idle_timeout).await?;
        let body = read_body(&mut answer, limits::PROMPT_BYTES_MAX, self.idle_timeout).await;
        if !answer.head.status.is_success() {
            return Err(Failed::refused(&answer, &body));
        }
        answer.finish();
        let rendered = serde_json::from_str::<Rendered>(&body);
        rendered.map(|Rendered { prompt }| prompt).map_err(|_| {
            let error = ServerError::from_body(body.as_bytes());
            Failed::permanent(RoundFailure::not_a_prompt(&error))
        })
    }
}
