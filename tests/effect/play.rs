//! Plays one task through its own gateway.

use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use serde::Serialize;
use serde_json::{Value, json};
use tether::app::{self, Parts};
use tether::config::{Config, ModelServerConfig, UpstreamConfig, UpstreamKind};
use tether::server::Timeouts;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::client::Client;
use crate::judge::{self, Verdict};
use crate::options::{Setting, ToolChoice};
use crate::record::{Transcript, Turn};
use crate::tasks::{Set, Task, Wanted};
use crate::tools;

/// Longer than any turn that still makes progress: on two cores a small model takes half a minute
/// to read a long prompt, and a turn has a handful of rounds.
const TURN_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Tokens per round: enough for an answer, and an end for a model that finds none.
const ROUND_TOKENS_MAX: u32 = 256;

const SEED: u64 = 8;

const SESSION: &str = "effect";

/// The outcome of a task.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// One turn, and a second one after the user's choice, if any.
    pub(crate) turns: Vec<Turn>,
    #[serde(flatten)]
    transcript: Transcript,
    pub(crate) seconds: f64,
    /// Why it could not be played to its end: a fault of the gateway or of the model server.
    pub(crate) fault: Option<String>,
}

/// Plays a task.
///
/// # Errors
/// If the gateway does not start. Later errors are part of the outcome.
pub(crate) async fn play(task: &Task, setting: &Setting) -> Result<Outcome, Error> {
    let config = config(task, setting);
    let tools = tools::sources(&task.tools).map_err(|error| format!("{}: {error}", task.id))?;
    let parts = Parts { tools, ..Parts::of(&config)? };
    // Not installed: there is one gateway per task, but only one recorder per process.
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    let running = app::start(&config, parts, Timeouts::default(), metrics).await?;
    let client = Client::new(running.address());

    let started = Instant::now();
    let mut turns = Vec::new();
    let mut fault = play_turns(&client, task, setting, &mut turns).await.err();
    let seconds = started.elapsed().as_secs_f64();
    // The model server only gets to the next task once it has stopped working on this one.
    running.gateway().cancel_all();
    let transcript = match client.transcript(SESSION).await {
        Ok(transcript) => Transcript::read(&transcript),
        Err(error) => {
            fault.get_or_insert(error);
            Transcript::default()
        }
    };
    drop(client);
    running.stop().await;

    let verdict = judge::judge(&task.wanted, &turns, &transcript);
    let fault = fault.map(|fault| fault.to_string());
    Ok(Outcome { verdict, turns, transcript, seconds, fault })
}

fn config(task: &Task, setting: &Setting) -> Config {
    let options = ModelServerConfig {
        base_url: setting.server.clone(),
        model: setting.model.clone(),
        constrain: Some(setting.constrain),
        history: setting
            .history
            .unwrap_or_else(|| UpstreamConfig::usual_history(setting.kind, setting.contract)),
        // The turn's own timeout should decide.
        idle_timeout: TURN_TIMEOUT,
        ..ModelServerConfig::new(setting.kind)
    };
    let kind = UpstreamKind::Server(options);
    let upstreams = vec![UpstreamConfig {
        name: "measured".to_owned(),
        call_contract: Some(setting.contract),
        kind,
    }];
    let mut config = Config { upstreams, ..Config::default() };
    config.server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    if let Some(max_told) = setting.max_told {
        config.tools.select.max_told = max_told;
    }
    if let Some(budget) = setting.budget {
        config.model.context_budget_tokens = budget;
    }
    // BFCL only asks for calls.
    config.tools.continue_after_tool = task.set != Set::Single;
    config
}

async fn play_turns(
    client: &Client,
    task: &Task,
    setting: &Setting,
    turns: &mut Vec<Turn>,
) -> Result<(), Error> {
    play_turn(client, body(setting, ("prompt", json!(task.prompt))), turns).await?;
    let choice = match &task.wanted {
        Wanted::Answer { choose, .. } => choose.as_deref(),
        Wanted::Calls(_) | Wanted::NoCall => None,
    };
    let question = turns.last().and_then(|turn| turn.question.clone());
    if let (Some(choice), Some(question)) = (choice, question) {
        let response = json!({"clarification_id": question, "selected_option": {"id": choice}});
        play_turn(client, body(setting, ("clarification_response", response)), turns).await?;
    }
    Ok(())
}

/// Plays one turn, and adds it to `turns` however it ends.
async fn play_turn(client: &Client, body: Value, turns: &mut Vec<Turn>) -> Result<(), Error> {
    let mut turn = Turn::default();
    let played = timeout(TURN_TIMEOUT, client.play(&body, &mut turn)).await;
    let failure = turn.end.as_ref().filter(|end| !end.completed && is_fault(&end.reason));
    let failure = failure
        .map(|end| format!("{}: {}", end.reason, end.message.as_deref().unwrap_or_default()));
    turns.push(turn);
    match (played, failure) {
        (Err(_), _) => Err(format!("the turn did not end within {TURN_TIMEOUT:?}").into()),
        (Ok(_), Some(failure)) => Err(failure.into()),
        (Ok(played), None) => played,
    }
}

/// Whether a failure with this code says nothing about the model.
fn is_fault(code: &str) -> bool {
    code.starts_with("upstream_") || code == "internal"
}

/// A request; `ask` is the field that differs between a prompt and an answer to a question.
fn body(setting: &Setting, ask: (&str, Value)) -> Value {
    let (field, value) = ask;
    let mut body = json!({
        "session_id": SESSION,
        // Retries are warmer; the seed makes them reproducible.
        "sampling": {"temperature": 0, "max_tokens": ROUND_TOKENS_MAX, "seed": SEED},
    });
    body[field] = value;
    if setting.tool_choice == ToolChoice::Required {
        body["tool_choice"] = json!("required");
    }
    body
}
