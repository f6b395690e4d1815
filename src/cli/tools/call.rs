//! `tether tools call`: runs one tool as the gateway would, without a model.

use std::future::{pending, poll_fn};
use std::io::{self, Read as _, Write};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::Answer;
use super::lines::Lines;
use super::settle;
use crate::app;
use crate::cli::runtime::runtime;
use crate::cli::{CallArgs, CliError, print_diagnostic};
use crate::config::Config;
use crate::limits::tools::QUESTIONS_PER_CALL_MAX;
use crate::parser;
use crate::tools::question::{Awaits, SentQuestion};
use crate::tools::report::{Report, Reporter};
use crate::tools::run::{self, Run, ToolCall};
use crate::tools::source::{SourceReport, SourceState};
use crate::tools::{InvalidCall, Resumption, Tool, ToolFile, ToolResult, Toolset};

/// Runs the tool and writes its result on one line, or its events.
///
/// # Errors
/// [`CliError::Usage`] for an unknown tool, bad arguments or a bad answer; [`CliError::Silent`] if
/// the tool fails or its question is not answered, because the result says so.
pub(super) fn run(config: &Config, args: &CallArgs, out: &mut impl Write) -> Result<(), CliError> {
    let arguments = read_arguments(&args.arguments)?;
    let answer = args.answer.as_deref().map(Answer::parse).transpose()?;
    let limit = args.timeout.map(|seconds| Duration::from_secs(seconds.get() as u64));
    runtime()?.block_on(async {
        let mut sources = app::tools(config).map_err(CliError::usage)?;
        let wait = limit.unwrap_or_else(|| settle::wait(config));
        let is_enough = |toolset: &Toolset| toolset.is_settled_for(&args.name);
        let toolset = settle::settled_once(&mut sources, wait, is_enough).await;
        let ran = match find(toolset, &args.name, arguments) {
            Ok((tool, arguments)) => {
                let timeout = limit.unwrap_or(config.limits.tool_timeout);
                let lines = Lines::new(out, args.events, &args.name);
                Call { tool, arguments, answer, timeout, lines }.print(limit).await
            }
            Err(error) => Err(error),
        };
        sources.stop().await;
        ran
    })
}

/// The tool of this name, and the arguments as it takes them.
///
/// # Errors
/// [`CliError::Usage`] if there is none, or the arguments do not fit.
fn find(
    toolset: Toolset,
    name: &str,
    arguments: Value,
) -> Result<(Arc<dyn Tool>, Value), CliError> {
    let Some(tool) = toolset.tools.get(name).cloned() else {
        return Err(not_found(toolset, name));
    };
    let catalog = toolset.tools.catalog();
    let arguments = catalog.completed(name, arguments);
    let checked = catalog.check(name, &arguments);
    checked.map_err(|error| CliError::Usage(error.to_string()))?;
    Ok((tool, arguments))
}

/// Says which sources are missing, and that there is no such tool.
fn not_found(mut toolset: Toolset, name: &str) -> CliError {
    toolset.sources.retain(|source| {
        let is_awaited = source.state != SourceState::Starting || source.may_offer(name);
        if !is_awaited {
            let SourceReport { source, prefix, .. } = source;
            let note = format!("{source} was not waited for: its tools begin with {prefix}");
            print_diagnostic("note", note);
        }
        is_awaited
    });
    settle::report(&toolset);
    let checked = toolset.tools.catalog().check(name, &json!({}));
    CliError::Usage(checked.err().map(|error| no_such_tool(&error)).unwrap_or_default())
}

/// The error for people: [`InvalidCall`] words it for models.
fn no_such_tool(error: &InvalidCall) -> String {
    let InvalidCall::NotFound { name, closest, available } = error else {
        return error.to_string();
    };
    let mut message = format!("there is no tool {name:?}");
    if !closest.is_empty() {
        message.extend(["; did you mean ", &closest.join(" or "), "?"]);
    }
    let others = match (closest.is_empty(), available.is_empty()) {
        (true, true) => "; no tools are offered",
        (false, true) => "",
        (true, false) => "; available: ",
        (false, false) => " Also available: ",
    };
    message.extend([others, &available.join(", ")]);
    message
}

/// The result with its files in its data: without a session, there is nowhere to keep them.
fn with_files_named(mut result: ToolResult) -> ToolResult {
    result.list_files(result.files.iter().map(ToolFile::listed).collect());
    result
}

fn read_arguments(written: &str) -> Result<Value, CliError> {
    let mut text = written.to_owned();
    if written == "-" {
        text.clear();
        let read = io::stdin().lock().read_to_string(&mut text);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => CliError::Usage("the arguments are not UTF-8".to_owned()),
            _ => error.into(),
        })?;
    }
    let parsed = serde_json::from_str::<Value>(&text);
    // The gateway does not guess which one is meant, either.
    if let (Ok(_), Some(key)) = (&parsed, parser::twice(&text)) {
        return Err(CliError::Usage(format!("the arguments have the key {key:?} twice")));
    }
    match parsed {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(_) => Err(CliError::Usage("the arguments must be a JSON object".to_owned())),
        Err(error) => Err(CliError::Usage(format!("the arguments are not valid JSON: {error}"))),
    }
}

/// The call, which may be made several times if the tool asks.
struct Call<'c, W> {
    tool: Arc<dyn Tool>,
    arguments: Value,
    answer: Option<Answer>,
    timeout: Duration,
    lines: Lines<'c, W>,
}

impl<W: Write> Call<'_, W> {
    /// Runs it, for at most this long, and writes its result.
    async fn print(&mut self, limit: Option<Duration>) -> Result<(), CliError> {
        let (result, attempts) = match timeout(limit.unwrap_or(Duration::MAX), self.run()).await {
            Ok(ended) => ended?,
            Err(_) => (ToolResult::error("the tool did not answer in time and was stopped"), 1),
        };
        let result = with_files_named(result);
        self.lines.result(&result, attempts)?;
        if result.clarification.is_some() && self.answer.is_some() {
            let note = "this question ends the call, so --answer was not used; \
                        call the tool again with what it asks for";
            print_diagnostic("note", note);
        }
        let is_done = result.success && result.clarification.is_none();
        if is_done { Ok(()) } else { Err(CliError::Silent) }
    }

    /// The result, and how many attempts it took.
    async fn run(&mut self) -> Result<(ToolResult, u32), CliError> {
        let mut resumption = None;
        self.lines.started(&self.arguments)?;
        for _ in 0..QUESTIONS_PER_CALL_MAX {
            match self.run_once(resumption.take()).await? {
                Ended::Result(result, attempts) => return Ok((result, attempts)),
                Ended::Again(next) => resumption = Some(next),
            }
        }
        Ok((ToolResult::error("the tool kept asking questions"), 1))
    }

    async fn run_once(&mut self, resumption: Option<Resumption>) -> Result<Ended, CliError> {
        let call = ToolCall {
            tool: Arc::clone(&self.tool),
            arguments: self.arguments.clone(),
            idempotency_key: Arc::from(uuid::Uuid::new_v4().to_string()),
            resumption,
            session: Arc::default(),
            words_only: false,
            trace: None,
        };
        let (reporter, reports) = Reporter::new();
        let mut running = Box::pin(run::run(call, reporter, self.timeout));
        loop {
            let news = poll_fn(|cx| {
                if let Poll::Ready(report) = reports.poll(cx) {
                    return Poll::Ready(Err(report));
                }
                running.as_mut().poll(cx).map(Ok)
            });
            let news = tokio::select! {
                news = news => news,
                () = until(self.lines.due()) => {
                    self.lines.report_due()?;
                    continue;
                }
            };
            match news {
                Ok(Run { result, attempts, .. }) => {
                    // The tool may have reported and ended at once.
                    if let Some(Report::Progress { progress, attempt }) = reports.take() {
                        self.lines.report(progress, attempt)?;
                    }
                    return Ok(Ended::Result(result, attempts));
                }
                Err(Report::Progress { progress, attempt }) => {
                    self.lines.report(progress, attempt)?;
                }
                Err(Report::Question { question, .. }) => {
                    let SentQuestion { clarification, awaits } = *question;
                    let unanswered =
                        |question| Ended::Result(ToolResult::clarification(question), 1);
                    let Some(answer) = &self.answer else { return Ok(unanswered(clarification)) };
                    match awaits {
                        // There is no model to tell.
                        Awaits::Model => return Ok(unanswered(clarification)),
                        Awaits::Again(state) => {
                            let given = answer.given(&clarification)?;
                            return Ok(Ended::Again(Resumption { state, given }));
                        }
                        Awaits::Open(sender) => {
                            let _ = sender.send(answer.given(&clarification)?);
                        }
                    }
                }
            }
        }
    }
}

/// Waits until then, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

enum Ended {
    Result(ToolResult, u32),
    Again(Resumption),
}
