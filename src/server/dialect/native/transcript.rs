//! A session as `GET` shows it (`docs/http-api.md`).
//!
//! Field names are those of the documented API, whatever the conversation calls its own. It is
//! serialised directly, without a tree of values, because conversations grow long.

use schemars::{JsonSchema, SchemaGenerator};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::conversation::{
    Answer, Call, Conversation, Ending, Given, Note, Outcome, Part, Question, Step, Turn,
    Utterance, UtteranceKind,
};
use crate::event::{AcknowledgementSource, FeedbackReason, TurnState};
use crate::parser::Arguments;
use crate::session::Snapshot;
use crate::tools::{Clarification, ClarificationOption, Source, ToolResult};

/// A snapshot of session `id`, as JSON.
pub(crate) fn transcript<'a>(id: &'a str, session: &'a Snapshot) -> impl Serialize + 'a {
    Transcript {
        session_id: id,
        state: session.state,
        running_turn_id: session.running.as_ref().map(|turn| &*turn.turn_id),
        clarification: session.question().map(QuestionView::of),
        dropped_turns: session.conversation.dropped(),
        turns: Turns(&session.conversation),
    }
}

/// Adds the schema of a session as `GET` shows it.
pub(in crate::server) fn add_schema(generator: &mut SchemaGenerator) {
    generator.subschema_for::<Transcript<'_>>();
}

#[derive(Serialize, JsonSchema)]
struct Transcript<'a> {
    session_id: &'a str,
    state: Option<TurnState>,
    running_turn_id: Option<&'a str>,
    clarification: Option<QuestionView<'a>>,
    dropped_turns: u64,
    #[schemars(with = "Vec<TurnView<'_>>")]
    turns: Turns<'a>,
}

struct Turns<'a>(&'a Conversation);

impl Serialize for Turns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.turns().map(|turn| TurnView::of(turn)))
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TranscriptTurn")]
struct TurnView<'a> {
    turn_id: &'a str,
    started_at_ms: u64,
    prompt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<AnswerView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<&'a str>,
    steps: Vec<StepView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<QuestionView<'a>>,
    ending: Option<EndingView>,
}

impl<'a> TurnView<'a> {
    fn of(turn: &'a Turn) -> Self {
        Self {
            turn_id: &turn.turn_id,
            started_at_ms: turn.started_at_ms,
            prompt: &turn.prompt,
            answer: turn.answer.as_deref().map(AnswerView::of),
            dropped: turn.dropped.as_deref(),
            steps: turn.steps.iter().map(StepView::of).collect(),
            questions: turn.questions.iter().map(QuestionView::of).collect(),
            ending: turn.ending.map(EndingView::of),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TranscriptAnswer")]
struct AnswerView<'a> {
    clarification_id: &'a str,
    question: &'a str,
    #[serde(flatten)]
    given: GivenView<'a>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TranscriptGiven")]
enum GivenView<'a> {
    Option(&'a ClarificationOption),
    Text(&'a str),
    Content(&'a Value),
    Approved {
        for_session: bool,
    },
    Refused {
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
    },
    Action(&'static str),
}

impl<'a> AnswerView<'a> {
    fn of(answer: &'a Answer) -> Self {
        Self {
            clarification_id: &answer.clarification_id,
            question: &answer.question,
            given: match &answer.given {
                Given::Option(option) => GivenView::Option(option),
                Given::Text(text) => GivenView::Text(text),
                Given::Content(content) => GivenView::Content(content),
                Given::Approved { for_session } => {
                    GivenView::Approved { for_session: *for_session }
                }
                Given::Refused(words) => GivenView::Refused { text: words.as_deref() },
                Given::Declined => GivenView::Action("decline"),
                Given::Cancelled => GivenView::Action("cancel"),
            },
        }
    }
}

/// A question to the user.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Question")]
pub(in crate::server::dialect) struct QuestionView<'a> {
    clarification_id: &'a str,
    call_id: &'a str,
    tool_name: &'a str,
    source: &'a Source,
    #[serde(flatten)]
    clarification: &'a Clarification,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    arguments: Option<&'a RawValue>,
}

impl<'a> QuestionView<'a> {
    fn of(question: &'a Question) -> Self {
        Self {
            clarification_id: &question.clarification_id,
            call_id: &question.call_id,
            tool_name: &question.tool_name,
            source: &question.source,
            clarification: &question.clarification,
            arguments: question.shown_arguments(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TranscriptEnding")]
enum EndingView {
    Completed(&'static str),
    Failed(&'static str),
}

impl EndingView {
    const fn of(ending: Ending) -> Self {
        match ending {
            Ending::Completed(finish) => Self::Completed(finish.name()),
            Ending::Failed(code) => Self::Failed(code.name()),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TranscriptStep")]
struct StepView<'a> {
    at_ms: u64,
    #[schemars(with = "Vec<PartView<'_>>")]
    parts: Parts<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<NoteView<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TranscriptNote")]
struct NoteView<'a> {
    reason: FeedbackReason,
    message: &'a str,
}

impl<'a> StepView<'a> {
    fn of(step: &'a Step) -> Self {
        let note = |Note { reason, message }: &'a Note| NoteView { reason: *reason, message };
        let notes = step.notes.iter().map(note).collect();
        Self { at_ms: step.at_ms, parts: Parts(&step.parts), notes }
    }
}

/// What the model wrote and what the gateway added in between. Reasoning items belong to the
/// model server and are not shown.
struct Parts<'a>(&'a [Part]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_seq(None)?;
        for part in self.0 {
            match part {
                Part::Text(text) => parts.serialize_element(&PartView::Text(text))?,
                Part::Call(call) => parts.serialize_element(&PartView::Call(CallView::of(call)))?,
                Part::Said(said) => parts.serialize_element(&PartView::Said(SaidView::of(said)))?,
                Part::Reasoning(_) => {}
            }
        }
        parts.end()
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TranscriptPart")]
enum PartView<'a> {
    Text(&'a str),
    Call(CallView<'a>),
    Said(SaidView<'a>),
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TranscriptSaid")]
struct SaidView<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<AcknowledgementSource>,
    text: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tools: &'a [String],
    at_ms: u64,
}

impl<'a> SaidView<'a> {
    fn of(Utterance { kind, text, tools, at_ms }: &'a Utterance) -> Self {
        let (kind, source) = match kind {
            UtteranceKind::Acknowledgement(source) => ("acknowledgement", Some(*source)),
            UtteranceKind::Status => ("status", None),
            UtteranceKind::Response => ("response", None),
        };
        Self { kind, source, text, tools, at_ms: *at_ms }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TranscriptCall")]
struct CallView<'a> {
    call_id: &'a str,
    name: &'a str,
    #[schemars(with = "Value")]
    arguments: &'a Arguments,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    resolved_arguments: Option<&'a Arguments>,
    outcome: OutcomeView<'a>,
}

impl<'a> CallView<'a> {
    fn of(call: &'a Call) -> Self {
        Self {
            call_id: &call.call_id,
            name: &call.name,
            arguments: &call.arguments,
            resolved_arguments: call.resolved_arguments.as_ref(),
            outcome: OutcomeView::of(&call.outcome),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TranscriptOutcome")]
enum OutcomeView<'a> {
    Ended(
        #[serde(serialize_with = "ToolResult::serialize_shown")]
        #[schemars(with = "ToolResult")]
        &'a ToolResult,
    ),
    NotRun(
        #[serde(serialize_with = "ToolResult::serialize_shown")]
        #[schemars(with = "ToolResult")]
        &'a ToolResult,
    ),
    Skipped(&'a str),
    Cancelled,
    Unapproved,
    HandedOut,
    Claimed(&'a ToolResult),
}

impl<'a> OutcomeView<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        match outcome {
            Outcome::Ended(result) => Self::Ended(result),
            Outcome::NotRun(result) => Self::NotRun(result),
            Outcome::Skipped(reason) => Self::Skipped(reason),
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Unapproved(_) => Self::Unapproved,
            Outcome::HandedOut => Self::HandedOut,
            Outcome::Claimed(result) => Self::Claimed(result),
        }
    }
}
