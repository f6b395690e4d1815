//! Asking a server about its model, to find out how the model makes calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, info};
use url::form_urlencoded;

use super::failed::Failed;
use super::{Known, Server};
use crate::call_format::{CallContract, ContractSetting, Row};
use crate::limits::upstream as limits;
use crate::upstream::detect::{self, Detected, Report, detect};
use crate::upstream::models::{Flavour, Models};

/// The contract chosen from an incomplete answer of the server.
#[derive(Debug)]
pub(super) struct Guess {
    detected: Detected,
    at: Instant,
    /// How long it is good for.
    holds: Duration,
    /// How many times the model may have been replaced by then.
    replacements: u64,
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

    /// The format of a model whose server parses calls, as far as the model's template or its name shows it.
    pub(super) async fn row_behind_native_calls(&self) -> Result<Option<&'static Row>, Failed> {
        if let Some(detected) = self.detected() {
            return Ok(detected.format);
        }
        let models = self.models().await?;
        let names = [self.model_of(&models)].into_iter().chain(models.root.as_deref());
        Ok(detect::format_by_name(names))
    }

    /// The contract that was found, if it was looked for.
    pub(in crate::upstream) fn detected(&self) -> Option<Detected> {
        self.detected.lock().clone()
    }

    /// Finds the contract that the server suggests.
    pub(super) async fn detect(&self) -> Result<Detected, Failed> {
        // Rounds that begin together look once and share the result, even if it is a guess or a failure.
        let since = Instant::now();
        let mut guessed = self.guessed.lock().await;
        if let Some(known) = self.detected() {
            return Ok(known);
        }
        let replacements = self.replacements();
        if let Some(guess) = &*guessed
            && (guess.at >= since
                || (guess.replacements == replacements && guess.at.elapsed() < guess.holds))
        {
            return Ok(guess.detected.clone());
        }
        let models = self.models_since(since).await?;
        let (report, is_complete) = self.report(&models).await;
        let detected = detect(&report);
        let (upstream, contract) = (&*self.name, detected.contract.name());
        if guessed.as_ref().is_none_or(|guess| guess.detected != detected) {
            info!(upstream, contract, because = %detected.reason, "call contract chosen");
        }
        // A server that was too busy to answer is asked again.
        let is_known = !matches!(*self.known.lock(), Known::Nothing);
        if is_complete && is_known {
            self.keep(&self.detected, detected.clone(), replacements);
        } else {
            // Then only its list of models is missing, or it lets everyone wait who asks.
            let is_slow = since.elapsed() >= limits::CHECK_TIMEOUT;
            let holds = if is_complete || is_slow { limits::LIST_AGAIN } else { Duration::ZERO };
            let at = Instant::now();
            *guessed = Some(Guess { detected: detected.clone(), at, holds, replacements });
        }
        Ok(detected)
    }

    /// What the server says about itself and its model, and whether that is all that it could say.
    /// Most servers say little.
    pub(super) async fn report(&self, models: &Models) -> (Report, bool) {
        let model = self.model_of(models);
        let mut report = Report {
            flavour: models.flavour,
            parameters: models.parameters.filter(|_| models.first.as_deref() == Some(model)),
            names: [model].into_iter().chain(models.root.as_deref()).map(str::to_owned).collect(),
            sends_special: self.sends_prompts || models.flavour.keeps_special_tokens_if_asked(),
            ..Report::default()
        };
        let is_complete = match models.flavour {
            Flavour::Vllm | Flavour::Sglang => true,
            Flavour::Ollama => self.ask_ollama(model, &mut report).await,
            Flavour::LlamaCpp => self.ask_llama_cpp(model, &mut report).await,
            // Ollama's models may come from elsewhere than its library.
            Flavour::Other => {
                let answers = self.ask_llama_cpp(model, &mut report).await;
                let is_told =
                    report.template.is_some() || self.ask_ollama(model, &mut report).await;
                answers && is_told
            }
        };
        // Prompts leave nothing to the server.
        report.calls_natively = report.calls_natively.filter(|_| !self.sends_prompts);
        report.names.retain(|name| !name.is_empty());
        (report, is_complete)
    }

    async fn ask_llama_cpp(&self, model: &str, report: &mut Report) -> bool {
        // A router has several models.
        let model = form_urlencoded::byte_serialize(model.as_bytes()).collect::<String>();
        let path = format!("{}/props?model={model}", self.root());
        let Some(props) = self.look_up_json(Method::GET, &path, Bytes::new()).await else {
            return false;
        };
        let text = |key: &str| props[key].as_str().map(str::to_owned);
        let template = |key| text(key).filter(|template| !template.is_empty());
        report.template = template("chat_template_tool_use").or_else(|| template("chat_template"));
        if report.template.is_some() {
            let caps = &props["chat_template_caps"];
            let keys = ["supports_tools", "supports_tool_calls"];
            report.calls_natively = Some(keys.iter().all(|key| caps[*key] == true));
        }
        report.names.extend(text("model_path"));
        report.names.extend(text("model_alias"));
        true
    }

    async fn ask_ollama(&self, model: &str, report: &mut Report) -> bool {
        let path = format!("{}/api/show", self.root());
        let body = json!({ "model": model }).to_string();
        let Some(shown) = self.look_up_json(Method::POST, &path, body.into()).await else {
            return false;
        };
        report.template = shown["template"].as_str().map(str::to_owned);
        let parameters = shown["model_info"]["general.parameter_count"].as_u64();
        report.parameters = report.parameters.or(parameters);
        let capabilities = shown["capabilities"].as_array();
        report.calls_natively = capabilities.map(|all| all.contains(&"tools".into()));
        true
    }

    /// The answer to a question that not every server knows: nothing if it does not. `None` if there
    /// was no answer, or one that says to ask again.
    async fn look_up_json(&self, method: Method, path: &str, body: Bytes) -> Option<Value> {
        match self.look_up(method, path, body).await {
            Ok(body) => Some(serde_json::from_str(&body).unwrap_or_default()),
            Err(failed) => {
                debug!(path, reason = %failed.failure.message, "the server does not answer this");
                // A server that is still loading its model says so with an error.
                let is_final = !failed.failure.retryable || failed.status == Some(404);
                is_final.then_some(Value::Null)
            }
        }
    }

    /// The path of what the server offers outside the API that it shares with others.
    pub(super) fn root(&self) -> &str {
        self.path.strip_suffix("/v1").unwrap_or(&self.path)
    }

    /// Forgets what was learnt of the model.
    pub(super) fn forget_model(&self) {
        self.replacements.fetch_add(1, Ordering::Relaxed);
        *self.detected.lock() = None;
        *self.losses.lock() = None;
        self.dialect.forget_refusals();
        self.images.forget();
        self.refused_sampling.forget();
        self.tightness.store(0, Ordering::Relaxed);
        self.shown_tightness.store(0, Ordering::Relaxed);
        self.refuses_system.store(false, Ordering::Relaxed);
        // Rounds that the earlier model still answers keep theirs.
        *self.gives_reasons.lock() = Arc::default();
    }

    /// Keeps what was learnt of the model, unless it may have been replaced `since`.
    pub(super) fn keep<T>(&self, known: &Mutex<Option<T>>, learnt: T, since: u64) {
        let mut known = known.lock();
        if self.replacements() == since {
            *known = Some(learnt);
        }
    }

    /// How many times the model may have been replaced.
    pub(super) fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::Relaxed)
    }
}
