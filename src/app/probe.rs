//! Asks each upstream what it can do: `tether check --probe`.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::assemble::{AssemblyError, rules, upstreams};
use super::finding::Finding::{self, Fault, Note, Warning};
use crate::config::{Config, UpstreamKind};
use crate::conversation::Opening;
use crate::event::Event;
use crate::orchestrator::{Briefing, Input, Output, TurnMachine, TurnRequest};
use crate::tools::Registry;
use crate::tools::builtin::Calculate;
use crate::upstream::{RoundFailure, Sampling, ToolChoice, Upstream};

/// What the model is asked.
const QUESTION: &str = "What is 12.5 * 8? Use the calculate function.";
/// How long it may take; on a small machine, reading the prompt takes most of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Asks each upstream, and passes on what it finds with the upstream's name.
///
/// # Errors
/// If an upstream is wrongly configured.
pub async fn probe_upstreams(
    config: &Config,
    mut found: impl FnMut(&str, Finding),
) -> Result<(), AssemblyError> {
    for (upstream, entry) in upstreams(config)?.iter().zip(&config.upstreams) {
        let UpstreamKind::Server(server) = &entry.kind else { continue };
        let name = upstream.name();
        match upstream.probe(server.constrain).await {
            Ok(findings) => findings.into_iter().for_each(|finding| found(name, Note(finding))),
            Err(failure) => {
                found(name, Fault(failure.message));
                continue;
            }
        }
        let answer = timeout(ANSWER_TIMEOUT, first_answer(upstream, config)).await;
        let asked = format!("test question {QUESTION:?}");
        let seconds = ANSWER_TIMEOUT.as_secs();
        found(
            name,
            match answer {
                Ok(Ok(answer)) => Note(format!("{asked}: {answer}")),
                Ok(Err(failure)) => Fault(format!("{asked}: failed: {}", failure.message)),
                Err(_) => Warning(format!("{asked}: no answer within {seconds} s")),
            },
        );
    }
    Ok(())
}

/// What an upstream answers first to a question that needs a tool.
async fn first_answer(upstream: &Arc<Upstream>, config: &Config) -> Result<String, RoundFailure> {
    let mut tools = Registry::default();
    tools.add(Arc::new(Calculate::new())).expect("it is the only one");
    let briefing = Briefing::new(&Arc::new(rules(config)), None, tools.catalog());
    let briefing = briefing.expect("the configuration was checked");
    let mut turn = TurnMachine::new(request(upstream.name(), briefing));
    let request = loop {
        match turn.poll() {
            Some(Output::StartRound(request)) => break request,
            Some(_) => {}
            None => unreachable!("a prompt begins a round"),
        }
    };
    let mut round = upstream.open(&request).await?;
    let (contract, in_reasoning) = (round.contract(), round.starts_in_reasoning());
    turn.handle(Input::Answered { contract, in_reasoning, is_prefilled: false });
    poll_fn(|cx| {
        let mut more = true;
        while std::mem::take(&mut more) {
            let end =
                round.poll(cx, Instant::now(), &mut more, |delta| turn.handle(Input::Delta(delta)));
            if let Poll::Ready(end) = end {
                return Poll::Ready(end);
            }
        }
        Poll::Pending
    })
    .await?;
    turn.handle(Input::RoundEnded);
    let (mut words, mut mistake) = (String::new(), String::new());
    while let Some(output) = turn.poll() {
        match output {
            Output::StartTool { name, arguments, .. } => {
                return Ok(format!("called {name} with {arguments}"));
            }
            Output::Event(Event::TextDelta { text, .. }) => words.push_str(text),
            Output::Event(Event::Feedback { message, .. }) => {
                mistake = format!(" (the model would read: {message:?})");
            }
            _ => {}
        }
    }
    Ok(format!(
        "no valid call, only {words:?}{mistake}; try another `call_contract` or `constrain`"
    ))
}

fn request(model: &str, briefing: Briefing) -> TurnRequest {
    TurnRequest {
        session_id: "probe".to_owned(),
        turn_id: "probe".to_owned(),
        started_at_ms: 0,
        opening: Opening::Prompt(QUESTION.to_owned()),
        images: Vec::new(),
        model: model.to_owned(),
        sampling: Sampling { temperature: Some(0.0), max_tokens: Some(256), ..Sampling::default() },
        max_tool_loops: None,
        max_calls: None,
        disconnect_grace: None,
        tool_choice: ToolChoice::Auto,
        response_format: None,
        is_read_whole: true,
        single_client_call: false,
        nobody_approves: true,
        words_only: true,
        confirm: None,
        briefing: Arc::new(briefing),
        lent: crate::tools::Catalog::default(),
        history: crate::conversation::Conversation::default(),
    }
}
