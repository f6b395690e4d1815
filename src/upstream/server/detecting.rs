//! Asking a server about its model, to find out how the model makes calls.

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use tracing::{debug, info};

use super::Server;
use super::failed::Failed;
use crate::call_format::{CallContract, ContractSetting};
use crate::upstream::detect::{Detected, Report, detect};
use crate::upstream::models::{Flavour, Models};

/// What llama.cpp says about itself: `GET /props`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Props {
    chat_template: Option<String>,
    chat_template_tool_use: Option<String>,
    chat_template_caps: Caps,
    model_path: Option<String>,
    model_alias: Option<String>,
}

/// What llama.cpp found out about the chat template by rendering it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Caps {
    supports_tools: bool,
    supports_tool_calls: bool,
}

/// What Ollama says about a model: `POST /api/show`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Shown {
    template: Option<String>,
    capabilities: Vec<String>,
    model_info: ModelInfo,
}

/// What Ollama read in the model's file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelInfo {
    #[serde(rename = "general.parameter_count")]
    parameters: Option<u64>,
}

impl Server {
    /// How the model makes calls, as configured or as its server suggests. The server is asked once,
    /// and again only when there is a sign that it has been replaced.
    pub(super) async fn contract(&self) -> Result<CallContract, Failed> {
        match self.contract {
            ContractSetting::Is(contract) => Ok(contract),
            ContractSetting::Auto => self.detect().await.map(|detected| detected.contract),
        }
    }

    /// The contract that was found, if it was looked for.
    pub(in crate::upstream) fn detected(&self) -> Option<Detected> {
        self.detected.lock().clone()
    }

    /// Finds the contract that the server suggests.
    pub(super) async fn detect(&self) -> Result<Detected, Failed> {
        // Rounds that begin together look once and share the result.
        let _detecting = self.detecting.lock().await;
        if let Some(known) = self.detected() {
            return Ok(known);
        }
        let models = self.models().await?;
        let detected = detect(&self.report(&models).await);
        let (upstream, contract) = (&*self.name, detected.contract.name());
        info!(upstream, contract, because = %detected.reason, "call contract chosen");
        *self.detected.lock() = Some(detected.clone());
        Ok(detected)
    }

    /// What the server says about itself and its model. Most servers say little.
    pub(super) async fn report(&self, models: &Models) -> Report {
        let model = self.model_of(models);
        let mut report = Report {
            flavour: models.flavour,
            parameters: models.parameters.filter(|_| models.first.as_deref() == Some(model)),
            names: [model].into_iter().chain(models.root.as_deref()).map(str::to_owned).collect(),
            sends_special: self.sends_prompts || models.flavour.skips_special_tokens(),
            ..Report::default()
        };
        match models.flavour {
            Flavour::Vllm | Flavour::Sglang => {}
            Flavour::Ollama => self.ask_ollama(model, &mut report).await,
            Flavour::LlamaCpp | Flavour::Other => self.ask_llama_cpp(&mut report).await,
        }
        // Prompts leave nothing to the server.
        report.calls_natively = report.calls_natively.filter(|_| !self.sends_prompts);
        report.names.retain(|name| !name.is_empty());
        report
    }

    async fn ask_llama_cpp(&self, report: &mut Report) {
        let path = format!("{}/props", self.root());
        let props: Props = self.look_up_json(Method::GET, &path, Bytes::new()).await;
        let Caps { supports_tools, supports_tool_calls } = props.chat_template_caps;
        report.template = props.chat_template_tool_use.or(props.chat_template);
        if report.template.is_some() {
            report.calls_natively = Some(supports_tools && supports_tool_calls);
        }
        report.names.extend(props.model_path);
        report.names.extend(props.model_alias);
    }

    async fn ask_ollama(&self, model: &str, report: &mut Report) {
        let path = format!("{}/api/show", self.root());
        let body = json!({ "model": model }).to_string();
        let shown: Shown = self.look_up_json(Method::POST, &path, body.into()).await;
        report.template = shown.template;
        report.parameters = shown.model_info.parameters;
        report.calls_natively = Some(shown.capabilities.iter().any(|it| it == "tools"));
    }

    /// The answer to a question that not every server knows.
    async fn look_up_json<T: Default + for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> T {
        match self.look_up(method, path, body).await {
            Ok(body) => serde_json::from_str(&body).unwrap_or_default(),
            Err(failed) => {
                debug!(path, reason = %failed.failure.message, "the server does not answer this");
                T::default()
            }
        }
    }

    /// The path of what the server offers outside the API that it shares with others.
    pub(super) fn root(&self) -> &str {
        self.path.strip_suffix("/v1").unwrap_or(&self.path)
    }
}
