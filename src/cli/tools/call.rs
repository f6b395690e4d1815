//! `tether tools call`: runs one tool as the gateway would, without a model.

use std::future::poll_fn;
use std::io::{self, Read as _, Write};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::settle;
use crate::app;
use crate::cli::{CallArgs, CliError, print_diagnostic};
use crate::config::Config;
use crate::event::Event;
use crate::limits::tools::QUESTIONS_PER_CALL_MAX;
use crate::limits::turn::REQUIRED_SOURCE_WAIT;
use crate::telemetry::millis;
use crate::tools::question::{Asked, Awaits};
use crate::tools::report::{Report, Reporter};
use crate::tools::run::{self, Run, ToolCall};
use crate::tools::{Clarification, Given, Progress, Resumption, Tool, ToolFile, ToolResult, form};

/// Runs the tool and writes its result on one line, or its events.
///
/// # Errors
/// [`CliError::Usage`] for an unknown tool, bad arguments or a bad answer; [`CliError::Silent`] if
/// the tool fails or its question is not answered, because the result says so.
pub(super) fn run(config: &Config, args: &CallArgs, out: &mut impl Write) -> Result<(), CliError> {
    let arguments = read_arguments(&args.arguments)?;
    let answer = args.answer.as_deref().map(Answer::parse);
    let limit = args.timeout.map(|seconds| Duration::from_secs(seconds.get() as u64));
    settle::runtime()?.block_on(async {
        let mut sources = app::tools(config).map_err(CliError::usage)?;
        let wait = limit.unwrap_or(REQUIRED_SOURCE_WAIT);
        let toolset = settle::settled(&mut sources, wait).await;
        let Some(tool) = toolset.tools.get(&args.name) else {
            settle::report(&toolset);
            let error = toolset.tools.catalog().check(&args.name, &json!({}));
            return Err(CliError::Usage(error.err().map(|it| it.to_string()).unwrap_or_default()));
        };
        let catalog = toolset.tools.catalog();
        let arguments = catalog.without_refused_nulls(&args.name, arguments);
        catalog
            .check(&args.name, &arguments)
            .map_err(|error| CliError::Usage(error.to_string()))?;
        let mut call = Call {
            tool: Arc::clone(tool),
            arguments,
            answer,
            timeout: limit.unwrap_or(config.limits.tool_timeout),
            lines: Lines { out, are_events: args.events, name: &args.name },
        };
        let begun = Instant::now();
        let (result, attempts) = match timeout(limit.unwrap_or(Duration::MAX), call.run()).await {
            Ok(ended) => ended?,
            Err(_) => (ToolResult::error("the tool did not answer in time and was stopped"), 1),
        };
        let result = with_files_named(result);
        call.lines.result(&result, begun.elapsed(), attempts)?;
        let is_done = result.success && result.clarification.is_none();
        if is_done { Ok(()) } else { Err(CliError::Silent) }
    })
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
        io::stdin().lock().read_to_string(&mut text)?;
    }
    let parsed = serde_json::from_str::<Value>(&text);
    match parsed {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(_) => Err(CliError::Usage("the arguments must be a JSON object".to_owned())),
        Err(error) => Err(CliError::Usage(format!("the arguments are not valid JSON: {error}"))),
    }
}

/// An answer to every question.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Accept,
    Decline,
    Cancel,
    Json(Value),
}

impl Answer {
    /// `accept`, `decline`, `cancel`, JSON, or else text.
    fn parse(written: &str) -> Self {
        match written {
            "accept" => Self::Accept,
            "decline" => Self::Decline,
            "cancel" => Self::Cancel,
            other => {
                let parsed = serde_json::from_str(other);
                Self::Json(parsed.unwrap_or_else(|_| Value::from(other)))
            }
        }
    }

    /// What it means as an answer to this question.
    fn given(&self, question: &Clarification) -> Result<Given, CliError> {
        let Clarification { schema, options, .. } = question;
        let filled = |schema: &Value, content: Value| {
            form::fill(schema, content).map(Given::Content).map_err(|violations| {
                let told: Vec<String> = violations.iter().map(|it| it.of("answer")).collect();
                CliError::Usage(told.join("; "))
            })
        };
        match (self, schema) {
            (Self::Decline, _) => Ok(Given::Declined),
            (Self::Cancel, _) => Ok(Given::Cancelled),
            (Self::Accept, Some(schema)) => filled(schema, json!({})),
            (Self::Accept, None) => options.first().cloned().map(Given::Option).ok_or_else(|| {
                CliError::Usage("the question has nothing to accept; answer with JSON".to_owned())
            }),
            (Self::Json(content @ Value::Object(_)), Some(schema)) => {
                filled(schema, content.clone())
            }
            (Self::Json(Value::String(text)), schema) => {
                let option = options.iter().find(|option| option.id == *text);
                match (schema, option) {
                    (Some(schema), option) => {
                        let content = option
                            .and_then(|option| form::from_option(schema, &option.id))
                            .or_else(|| form::from_text(schema, text));
                        filled(schema, content.unwrap_or_else(|| json!(text)))
                    }
                    (None, Some(option)) => Ok(Given::Option(option.clone())),
                    (None, None) => Ok(Given::Text(text.clone())),
                }
            }
            (Self::Json(_), _) => {
                Err(CliError::Usage("the question cannot be answered with this JSON".to_owned()))
            }
        }
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
            match news.await {
                Ok(Run { result, attempts, .. }) => return Ok(Ended::Result(result, attempts)),
                Err(Report::Progress { progress, .. }) => self.lines.progress(&progress)?,
                Err(Report::Question { question, .. }) => {
                    let Asked { clarification, awaits } = *question;
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

enum Ended {
    Result(ToolResult, u32),
    Again(Resumption),
}

/// What is printed.
struct Lines<'c, W> {
    out: &'c mut W,
    are_events: bool,
    name: &'c str,
}

impl<W: Write> Lines<'_, W> {
    fn event(&mut self, event: &Event<'_>) -> Result<(), CliError> {
        if self.are_events {
            serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)?;
            self.out.write_all(b"\n")?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn started(&mut self, arguments: &Value) -> Result<(), CliError> {
        let raw = RawValue::from_string(arguments.to_string()).map_err(io::Error::from)?;
        let (call_id, tool_name) = (CALL_ID, self.name);
        self.event(&Event::ToolStarted { call_id, tool_name, tool_args: &raw, r#loop: 1 })
    }

    fn progress(&mut self, progress: &Progress) -> Result<(), CliError> {
        let Progress { progress, total, message } = progress;
        let (progress, total, message) = (*progress, *total, message.as_deref());
        if !self.are_events {
            let of = total.map(|total| format!("/{total}")).unwrap_or_default();
            let message = message.unwrap_or_default();
            print_diagnostic("progress", format!("{progress}{of} {message}"));
        }
        let (call_id, tool_name) = (CALL_ID, self.name);
        self.event(&Event::ToolProgress { call_id, tool_name, progress, total, message })
    }

    fn result(
        &mut self,
        result: &ToolResult,
        duration: Duration,
        attempts: u32,
    ) -> Result<(), CliError> {
        if self.are_events {
            return self.event(&Event::ToolCompleted {
                call_id: CALL_ID,
                tool_name: self.name,
                tool_result: result,
                duration_ms: millis(duration),
                attempts,
            });
        }
        serde_json::to_writer(&mut *self.out, &*result.shown()).map_err(io::Error::from)?;
        self.out.write_all(b"\n")?;
        self.out.flush()?;
        Ok(())
    }
}

/// The id of the only call.
const CALL_ID: &str = "call_1";
