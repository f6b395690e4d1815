//! A turn as OpenTelemetry shows it: spans and measurements by its conventions for generative AI.
//!
//! ```text
//!   invoke_agent            the turn, below the client's span if the client sent one
//!   |- chat MODEL           a round; requests to the model server name it as their parent
//!   '- execute_tool NAME    a call; requests of the tool name it as their parent
//! ```
//! What users and models say, and the arguments of calls, are never included.

use std::time::Duration;

use tokio::time::Instant;

use super::call::{CallAt, CalledTool};
use super::semconv;
use super::turn::TurnMachine;
use crate::event::{FailureCode, Usage};
use crate::telemetry::otlp::{self, Buckets, Histogram, Instrument, Labels};
use crate::telemetry::trace::{Attributes, Span, SpanKind, Value};
use crate::tools::{RunEnd, Source};
use crate::trace_context::TraceContext;
use crate::upstream::{Delta, Identity, RoundFinish, RoundRequest, Sampling};

const fn seconds(name: &'static str) -> Instrument {
    Instrument { name, unit: "s", buckets: Buckets::Seconds }
}

const fn calls(name: &'static str) -> Instrument {
    Instrument { name, unit: "{call}", buckets: Buckets::Calls }
}

static ROUND_SECONDS: Instrument = seconds("gen_ai.client.operation.duration");
static FIRST_CHUNK_SECONDS: Instrument = seconds("gen_ai.client.operation.time_to_first_chunk");
static CHUNK_SECONDS: Instrument = seconds("gen_ai.client.operation.time_per_output_chunk");
static TOKENS: Instrument =
    Instrument { name: "gen_ai.client.token.usage", unit: "{token}", buckets: Buckets::Tokens };
static TURN_SECONDS: Instrument = seconds("gen_ai.invoke_agent.duration");
static TURN_ROUNDS: Instrument = calls("gen_ai.invoke_agent.inference_calls");
static TURN_CALLS: Instrument = calls("gen_ai.invoke_agent.tool_calls");
static TOOL_SECONDS: Instrument = seconds("gen_ai.execute_tool.duration");

/// The spans of one turn.
#[derive(Debug)]
pub(super) struct TurnTrace {
    /// `None` once it has ended, and without an exporter, unless the client sent a context that is passed on.
    turn: Option<Box<Span>>,
    /// Boxed, as the turn is: without an exporter, turns keep no room for it.
    round: Option<Box<RoundTrace>>,
    tools: Vec<ToolTrace>,
}

/// A round that is under way.
#[derive(Debug)]
struct RoundTrace {
    span: Span,
    begun: Instant,
    /// The upstream that was asked, or that answers.
    upstream: Identity,
    sampling: Sampling,
    /// How long it took until the model said something.
    first_chunk: Option<Duration>,
    /// When the last chunk came, and the times between chunks.
    last_chunk: Instant,
    chunks: Histogram,
    /// The model that answers, as its server calls it.
    model: Option<String>,
    finish: Option<RoundFinish>,
    usage: Usage,
}

/// A tool that is running.
#[derive(Debug)]
struct ToolTrace {
    call: CallAt,
    call_id: String,
    name: String,
    traced: TracedTool,
    span: Span,
}

/// What spans say about a tool, besides its name.
#[derive(Debug)]
pub(super) struct TracedTool {
    pub(super) source: Source,
    /// See [`Tool::trace_attributes`](crate::tools::Tool::trace_attributes).
    pub(super) attributes: Vec<(&'static str, serde_json::Value)>,
}

impl TurnTrace {
    /// Begins the turn's span in the client's context.
    pub(super) fn new(context: Option<&TraceContext>) -> Self {
        let is_needed = context.is_some() || otlp::sampler().is_some();
        let turn = is_needed.then(|| Box::new(Span::begin(context)));
        Self { turn, round: None, tools: Vec::new() }
    }

    /// Begins a round's span, if there is an exporter. Returns the context for the model server.
    pub(super) fn begin_round(
        &mut self,
        request: &RoundRequest,
        upstream: impl FnOnce() -> Identity,
    ) -> Option<TraceContext> {
        let span = self.turn.as_ref()?.child();
        let context = span.context().cloned();
        if otlp::sampler().is_some() {
            let now = Instant::now();
            self.round = Some(Box::new(RoundTrace {
                span,
                begun: now,
                last_chunk: now,
                chunks: Histogram::new(&CHUNK_SECONDS),
                model: None,
                upstream: upstream(),
                sampling: request.sampling.clone(),
                first_chunk: None,
                finish: None,
                usage: Usage::NONE,
            }));
        }
        context
    }

    /// Notes which upstream answers the round: it may be another one than was asked first.
    pub(super) fn note_answering(&mut self, upstream: impl FnOnce() -> Identity) {
        if let Some(round) = &mut self.round {
            round.upstream = upstream();
        }
    }

    pub(super) fn note_delta(&mut self, delta: &Delta<'_>) {
        let Some(round) = &mut self.round else { return };
        match delta {
            Delta::Finish(finish) => round.finish = Some(*finish),
            Delta::Usage(usage) => round.usage = *usage,
            said if said.is_said() => round.note_chunk(Instant::now()),
            _ => {}
        }
    }

    /// Notes which model answers the round, as its server calls it.
    pub(super) fn note_model(&mut self, model: Option<&str>) {
        if let Some(round) = &mut self.round {
            round.model = model.map(str::to_owned);
        }
    }

    /// Ends the round, perhaps with this failure.
    pub(super) fn end_round(&mut self, error: Option<&'static str>) {
        let Some(round) = self.round.take() else { return };
        round.record(error);
        round.end_span(error);
    }

    /// Begins a tool's span, if there is an exporter. Returns the context for the tool.
    pub(super) fn begin_tool(
        &mut self,
        CalledTool { call, call_id, name }: CalledTool<'_>,
        traced: impl FnOnce() -> TracedTool,
    ) -> Option<TraceContext> {
        let span = self.turn.as_ref()?.child();
        let context = span.context().cloned();
        if otlp::sampler().is_some() {
            let (call_id, name) = (call_id.to_owned(), name.to_owned());
            self.tools.push(ToolTrace { call, call_id, name, traced: traced(), span });
        }
        context
    }

    /// Ends a tool that has returned, failed or asks the user.
    pub(super) fn end_tool(&mut self, call: CallAt, end: RunEnd, duration: Duration) {
        let Some(at) = self.tools.iter().position(|tool| tool.call == call) else { return };
        let tool = self.tools.swap_remove(at);
        let error = (end != RunEnd::Done).then(|| end.name());
        otlp::record(&TOOL_SECONDS, duration.as_secs_f64(), || {
            let mut labels = vec![(semconv::TOOL_NAME, tool.name.clone())];
            labels.extend(error.map(|error| (semconv::ERROR_TYPE, error.to_owned())));
            labels
        });
        tool.end_span(error);
    }

    /// Ends the tools that are stopped before they have returned.
    pub(super) fn stop_tools(&mut self, is_stopped: impl Fn(CallAt) -> bool) {
        for tool in self.tools.extract_if(.., |tool| is_stopped(tool.call)) {
            tool.end_span(Some("cancelled"));
        }
    }

    /// Ends the turn.
    pub(super) fn end_turn(&mut self, turn: &TurnMachine, duration: Duration) {
        self.stop_tools(|_| true);
        let Some(span) = self.turn.take() else { return };
        let summary = turn.summary();
        let error = turn.failure().map(FailureCode::name);
        let labels = || -> Labels {
            let mut labels = vec![(semconv::AGENT_NAME, AGENT.to_owned())];
            labels.extend(error.map(|error| (semconv::ERROR_TYPE, error.to_owned())));
            labels
        };
        otlp::record(&TURN_SECONDS, duration.as_secs_f64(), labels);
        otlp::record(&TURN_ROUNDS, summary.loops.into(), labels);
        otlp::record(&TURN_CALLS, summary.tool_calls.into(), labels);
        span.end(SpanKind::Internal, error, || {
            let mut attributes: Attributes = vec![
                (semconv::OPERATION_NAME, "invoke_agent".into()),
                (semconv::PROVIDER_NAME, AGENT.into()),
                (semconv::AGENT_NAME, AGENT.into()),
                (semconv::CONVERSATION_ID, turn.session_id().into()),
                (semconv::REQUEST_MODEL, turn.model().into()),
                (semconv::TETHER_TURN_ID, turn.turn_id().into()),
                (semconv::TETHER_TURN_OUTCOME, turn.outcome().into()),
            ];
            attributes.extend(error.map(|error| (semconv::ERROR_TYPE, error.into())));
            attributes.extend(usage_attributes(summary.usage));
            (format!("invoke_agent {AGENT}"), attributes)
        });
    }
}

impl RoundTrace {
    /// Notes that the model has said something.
    fn note_chunk(&mut self, now: Instant) {
        if self.first_chunk.is_none() {
            self.first_chunk = Some(now - self.begun);
        } else {
            self.chunks.record((now - self.last_chunk).as_secs_f64());
        }
        self.last_chunk = now;
    }

    /// Records the round's measurements.
    fn record(&self, error: Option<&'static str>) {
        let labels = || -> Labels {
            let mut labels = vec![
                (semconv::OPERATION_NAME, "chat".to_owned()),
                (semconv::PROVIDER_NAME, self.upstream.provider.to_owned()),
                (semconv::REQUEST_MODEL, self.upstream.model.clone()),
            ];
            labels.extend(error.map(|error| (semconv::ERROR_TYPE, error.to_owned())));
            labels
        };
        otlp::record(&ROUND_SECONDS, self.begun.elapsed().as_secs_f64(), labels);
        if let Some(first) = self.first_chunk {
            otlp::record(&FIRST_CHUNK_SECONDS, first.as_secs_f64(), labels);
        }
        otlp::record_all(&CHUNK_SECONDS, &self.chunks, labels);
        let Usage { prompt_tokens: input, completion_tokens: output, .. } = self.usage;
        for (kind, tokens) in [("input", input), ("output", output)] {
            let labels = || [labels(), vec![(semconv::TOKEN_TYPE, kind.to_owned())]].concat();
            if tokens > 0 {
                otlp::record(&TOKENS, number(tokens), labels);
            }
        }
    }

    fn end_span(self, error: Option<&'static str>) {
        let Self { span, upstream, sampling, first_chunk, finish, usage, .. } = self;
        let (Identity { provider, model, address }, answering) = (upstream, self.model);
        span.end(SpanKind::Client, error, || {
            let mut attributes: Attributes = vec![
                (semconv::OPERATION_NAME, "chat".into()),
                (semconv::PROVIDER_NAME, provider.into()),
                (semconv::REQUEST_MODEL, model.as_str().into()),
                (semconv::REQUEST_STREAM, Value::Bool(true)),
            ];
            attributes.extend(error.map(|error| (semconv::ERROR_TYPE, error.into())));
            if let Some((host, port)) = address {
                attributes.push((semconv::SERVER_ADDRESS, Value::Text(host)));
                attributes.push((semconv::SERVER_PORT, Value::Int(port.into())));
            }
            attributes.extend(sampling_attributes(&sampling));
            attributes.extend(answering.map(|name| (semconv::RESPONSE_MODEL, Value::Text(name))));
            if let Some(first) = first_chunk {
                let seconds = Value::Float(first.as_secs_f64());
                attributes.push((semconv::RESPONSE_TIME_TO_FIRST_CHUNK, seconds));
            }
            if let Some(finish) = finish {
                let reasons = Value::Texts(vec![finish.name().to_owned()]);
                attributes.push((semconv::RESPONSE_FINISH_REASONS, reasons));
            }
            attributes.extend(usage_attributes(usage));
            (format!("chat {model}"), attributes)
        });
    }
}

impl ToolTrace {
    fn end_span(self, error: Option<&'static str>) {
        let Self { call_id, name, traced: TracedTool { source, attributes: more }, span, .. } =
            self;
        span.end(SpanKind::Internal, error, || {
            let mut attributes: Attributes = vec![
                (semconv::OPERATION_NAME, "execute_tool".into()),
                (semconv::TOOL_NAME, name.as_str().into()),
                (semconv::TOOL_CALL_ID, call_id.as_str().into()),
                (semconv::TOOL_TYPE, "function".into()),
                (semconv::TETHER_TOOL_SOURCE, Value::Text(source.to_string())),
            ];
            attributes.extend(more.into_iter().map(|(name, value)| (name, attribute(&value))));
            attributes.extend(error.map(|error| (semconv::ERROR_TYPE, error.into())));
            (format!("execute_tool {name}"), attributes)
        });
    }
}

/// The gateway's name as an agent: an agent is all that it does for a turn.
const AGENT: &str = "tether";

/// The sampling options that the client or the gateway has set.
fn sampling_attributes(sampling: &Sampling) -> impl Iterator<Item = (&'static str, Value)> {
    let Sampling { temperature, top_p, max_tokens, .. } = sampling;
    [
        (semconv::REQUEST_TEMPERATURE, temperature.map(Value::Float)),
        (semconv::REQUEST_TOP_P, top_p.map(Value::Float)),
        (semconv::REQUEST_MAX_TOKENS, max_tokens.map(|tokens| Value::Int(tokens.into()))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

/// A tool's own attribute.
fn attribute(value: &serde_json::Value) -> Value {
    match value.as_u64() {
        Some(number) => Value::Int(number),
        None => Value::Text(value.as_str().unwrap_or_default().to_owned()),
    }
}

/// The tokens that were used, as far as the server says.
fn usage_attributes(usage: Usage) -> impl Iterator<Item = (&'static str, Value)> {
    let Usage { prompt_tokens, completion_tokens, .. } = usage;
    [
        (semconv::USAGE_INPUT_TOKENS, prompt_tokens),
        (semconv::USAGE_OUTPUT_TOKENS, completion_tokens),
    ]
    .into_iter()
    .filter(|(_, tokens)| *tokens > 0)
    .map(|(name, tokens)| (name, Value::Int(tokens)))
}

#[expect(clippy::cast_precision_loss, reason = "nobody uses 2^53 tokens")]
const fn number(tokens: u64) -> f64 {
    tokens as f64
}
