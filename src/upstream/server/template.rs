//! Rendering chat templates, for dialects that send prompts.

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use tracing::info;

use super::Server;
use super::failed::Failed;
use crate::call_format::{CallContract, Row};
use crate::limits::upstream as limits;
use crate::upstream::chat_template::Losses;
use crate::upstream::patience::Patience;
use crate::upstream::server_error::ServerError;
use crate::upstream::{History, RoundFailure, Way};

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
                    Ok(Way::of(contract, History::Text))
                }
            }
            CallContract::Native => {
                let row = self.row_behind_native_calls().await?;
                Ok(Way { call_ids: row.and_then(Row::call_ids), ..Way::of(contract, history) })
            }
            _ => Ok(Way::of(contract, history)),
        }
    }

    /// How a model with this format is asked, by what its template loses.
    async fn templated(&self, row: &'static Row) -> Result<Way, Failed> {
        let losses = self.losses().await?;
        let contract =
            if losses.tools { CallContract::InText(row) } else { CallContract::Templated(row) };
        let history = if losses.of_history() { History::Text } else { History::Native };
        Ok(Way::of(contract, history))
    }

    /// What the model's chat template loses. It is rendered before the first round, and again only when
    /// there is a sign that the server has been replaced.
    pub(in crate::upstream) async fn losses(&self) -> Result<Losses, Failed> {
        if let Some(known) = *self.losses.lock() {
            return Ok(known);
        }
        let since = self.replacements();
        let losses = self.render_test().await?.map_or(Losses::ALL, |prompt| Losses::of(&prompt));
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
        self.keep(&self.losses, losses, since);
        Ok(losses)
    }

    /// The test conversation as the template renders it. `None` if it refuses every form of it.
    pub(super) async fn render_test(&self) -> Result<Option<String>, Failed> {
        let model = self.model_of(&self.models().await?).to_owned();
        for request in Losses::requests(&model) {
            match self.render(request.to_string().into()).await {
                Ok(prompt) => return Ok(Some(prompt)),
                Err(failed) if failed.is_refusal() => {}
                Err(failed) => return Err(failed),
            }
        }
        Ok(None)
    }

    /// The prompt that the model's chat template makes of a conversation.
    pub(in crate::upstream) async fn render(&self, body: Bytes) -> Result<String, Failed> {
        #[derive(Deserialize)]
        struct Rendered {
            prompt: String,
        }
        let path = format!("{}/apply-template", self.root());
        let request = self.request(Method::POST, &path, body);
        let answer = self.send(request, &Patience::new(self.idle_timeout)).await?;
        let body = self.read_whole(answer, limits::PROMPT_BYTES_MAX, self.idle_timeout).await?;
        let rendered = serde_json::from_str::<Rendered>(&body);
        rendered.map(|Rendered { prompt }| prompt).map_err(|_| {
            let error = ServerError::from_body(self.without_key(body).as_bytes());
            Failed::permanent(RoundFailure::not_a_prompt(&error))
        })
    }
}
