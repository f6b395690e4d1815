//! How the user answers the question that interrupted a run.

use serde_json::Value;

use super::history::OpenCall;
use crate::conversation::claimed::{Adopted, TurnLookup};
use crate::conversation::{AnswerError, Choice, ClientInput, Opening, Question, approval};
use crate::gateway::BeginError;
use crate::server::dialect::call_id;
use crate::server::refusal::Refusal;
use crate::tools::{Continuation, Given};

/// The field, as refusals name it.
pub(super) const PARAM: &str = "resume";

/// An entry of `resume`.
#[derive(Debug)]
pub(super) struct Entry {
    interrupt_id: String,
    status: Status,
    payload: Value,
}

#[derive(Debug)]
enum Status {
    Resolved,
    Cancelled,
}

/// Reads `resume`.
pub(super) fn entries(resume: &Value) -> Result<Vec<Entry>, Refusal> {
    let entries = match resume {
        Value::Null => Some(Vec::new()),
        resume => resume.as_array().and_then(|list| list.iter().map(entry).collect()),
    };
    entries.ok_or_else(|| {
        Refusal::invalid(
            PARAM,
            "resume must be a list of objects with interruptId (a string), status (\"resolved\" or \
             \"cancelled\") and, if resolved, payload",
        )
    })
}

fn entry(entry: &Value) -> Option<Entry> {
    let status = match entry["status"].as_str()? {
        "resolved" => Status::Resolved,
        "cancelled" => Status::Cancelled,
        _ => return None,
    };
    let interrupt_id = entry["interruptId"].as_str()?.to_owned();
    Some(Entry { interrupt_id, status, payload: entry["payload"].clone() })
}

/// A call that waited for the user's answer: the client has seen it begin, and now sees its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resumed {
    /// Its id, as the client knows it.
    pub(super) id: String,
    pub(super) tool_name: String,
    /// Its id in the turn that the answer opens, if it goes on there. Otherwise the answer is its
    /// result.
    pub(super) goes_on_as: Option<String>,
    /// The answer in words.
    pub(super) answer: String,
}

impl Resumed {
    /// Whether it goes on as this call, or asks again in its name.
    pub(super) fn is(&self, call: &Value) -> bool {
        self.goes_on_as.is_some() && call["tool_name"] == *self.tool_name
    }
}

/// A run with its answer, if it has one.
#[derive(Debug)]
pub(super) struct ResumedRun {
    pub(super) adopted: Adopted,
    pub(super) resumed: Option<Resumed>,
}

/// Reads the answer of a run.
pub(super) fn read(
    entries: Vec<Entry>,
    adopted: Adopted,
    open: &[OpenCall],
    lookup: &dyn TurnLookup,
) -> Result<ResumedRun, Refusal> {
    let mut entries = entries.into_iter();
    let Some(Entry { interrupt_id, status, payload }) = entries.next() else {
        let resumed = in_words_alone(&adopted, open, lookup);
        return Ok(ResumedRun { adopted, resumed });
    };
    if entries.next().is_some() {
        return Err(Refusal::invalid(PARAM, "resume must have one entry: a run asks one question"));
    }
    let turn = lookup.by_question(&interrupt_id);
    let question = turn.as_deref().and_then(|turn| turn.questions.first());
    let is_closed = lookup.is_closed(&interrupt_id);
    let resumed = |choice: Option<&Choice>| {
        let (turn, question) = (turn.as_deref()?, question?);
        let id = id_of(&turn.turn_id, question, open);
        // A call gets one result.
        if is_closed && !is_open(&id, open) {
            return None;
        }
        Some(Resumed {
            id,
            tool_name: question.tool_name.clone(),
            goes_on_as: None,
            answer: in_words(choice),
        })
    };
    let choice = match status {
        Status::Resolved => choice_of(payload, question)?,
        // The user has said something else. Clients insist on an entry until a run has succeeded, so
        // a question may be dropped again, whatever has become of it.
        Status::Cancelled if matches!(adopted.input, ClientInput::Words(_)) => {
            if question.is_none() {
                return Err(unknown(interrupt_id, &adopted));
            }
            let resumed = resumed(None);
            let adopted = adopted.dropping(&interrupt_id, lookup);
            return Ok(ResumedRun { adopted, resumed });
        }
        Status::Cancelled => Choice::Cancel,
    };
    let resumed = resumed(Some(&choice));
    let goes_on = question.is_some_and(|question| goes_on(question, &choice));
    let adopted = adopted.answering(interrupt_id, choice, lookup);
    let goes_on_as = goes_on.then(|| first_call(&adopted));
    let resumed = resumed.map(|resumed| Resumed { goes_on_as, ..resumed });
    Ok(ResumedRun { adopted, resumed })
}

/// The call that waits, if the client says nothing of it: the user's words answer the question or
/// drop it.
fn in_words_alone(
    adopted: &Adopted,
    open: &[OpenCall],
    lookup: &dyn TurnLookup,
) -> Option<Resumed> {
    let ClientInput::Words(words) = &adopted.input else { return None };
    let asked = adopted.history.open_questions().first()?;
    // The question as it was asked: in the list, its call has another number.
    let turn = lookup.by_question(&asked.clarification_id)?;
    let question = turn.questions.first()?;
    let id = id_of(&turn.turn_id, question, open);
    if !is_open(&id, open) {
        return None;
    }
    let is_stale = !asked.may_repeat() && lookup.is_closed(&asked.clarification_id);
    let given = match adopted.history.open(&adopted.input, |_| true) {
        Ok(Opening::Answer(answer)) if !is_stale => Some(answer.given),
        _ => None,
    };
    let goes_on = match question.continuation {
        Continuation::Model => false,
        Continuation::Again { .. } | Continuation::Open => given.is_some(),
        Continuation::Approval { .. } => matches!(given, Some(Given::Approved { .. })),
    };
    let answer = match given {
        Some(_) => format!("the user answered: {words}"),
        None => in_words(None),
    };
    let goes_on_as = goes_on.then(|| first_call(adopted));
    Some(Resumed { id, tool_name: question.tool_name.clone(), goes_on_as, answer })
}

/// The id of the first call of the turn that opens.
fn first_call(adopted: &Adopted) -> String {
    format!("call_{}", adopted.history.call_ids() + 1)
}

/// Whether this call has no result yet, as far as the client knows.
fn is_open(id: &str, open: &[OpenCall]) -> bool {
    open.iter().any(|call| call.id == id)
}

fn unknown(id: String, adopted: &Adopted) -> Refusal {
    let open = adopted.history.open_questions().first().map(|open| open.clarification_id.clone());
    Refusal::Begin(BeginError::Answer(AnswerError::UnknownQuestion { id, open }))
}

/// The id by which the client knows the call that asked. A call that began in an earlier run still
/// has that run's id.
fn id_of(turn_id: &str, question: &Question, open: &[OpenCall]) -> String {
    let own = call_id::for_client(turn_id, &question.call_id);
    if open.iter().any(|call| call.id == own) {
        return own;
    }
    let of_tool = open.iter().rev().find(|call| call.name == question.tool_name);
    of_tool.map_or(own, |call| call.id.clone())
}

fn goes_on(question: &Question, choice: &Choice) -> bool {
    match question.continuation {
        Continuation::Model => false,
        Continuation::Again { .. } | Continuation::Open => true,
        Continuation::Approval { .. } => matches!(
            choice,
            Choice::Option(id) if id == approval::APPROVE || id == approval::APPROVE_SESSION
        ),
    }
}

/// The answer as the result of the call that asked. `None`: the user has said something else.
fn in_words(choice: Option<&Choice>) -> String {
    match choice {
        Some(Choice::Option(id)) => format!("the user chose {id}"),
        Some(Choice::Text(text)) => format!("the user answered: {text}"),
        Some(Choice::Content(content)) => format!("the user answered: {content}"),
        Some(Choice::Decline) => "the user declined".to_owned(),
        Some(Choice::Cancel) | None => "the user did not answer".to_owned(),
    }
}

/// What a payload says.
fn choice_of(payload: Value, question: Option<&Question>) -> Result<Choice, Refusal> {
    let fields = match payload {
        Value::Object(fields) => fields,
        Value::String(words) => return Ok(said(words, question)),
        Value::Bool(approved) => return Ok(approving(approved)),
        _ => return Err(bad_payload()),
    };
    let mut choices: Vec<Choice> =
        fields.into_iter().filter_map(|(name, value)| field(&name, value)).collect();
    // Forms send the fields that the user has left empty, too.
    if choices.len() > 1 {
        choices.retain(|choice| !matches!(choice, Choice::Text(text) if text.trim().is_empty()));
    }
    match <[Choice; 1]>::try_from(choices) {
        Ok([choice]) => Ok(choice),
        Err(_) => Err(bad_payload()),
    }
}

fn bad_payload() -> Refusal {
    Refusal::invalid(
        PARAM,
        "payload must have exactly one of selected_option (an option's id), text, content (an \
         object), approved (true or false) or action (\"decline\" or \"cancel\")",
    )
}

fn field(name: &str, value: Value) -> Option<Choice> {
    Some(match (name, value) {
        ("selected_option", Value::String(id)) => Choice::Option(id),
        ("selected_option", Value::Object(option)) => {
            Choice::Option(option.get("id")?.as_str()?.to_owned())
        }
        ("text", Value::String(text)) => Choice::Text(text),
        ("content", content @ Value::Object(_)) => Choice::Content(content),
        ("approved", Value::Bool(approved)) => approving(approved),
        ("action", Value::String(action)) => match &*action {
            "decline" => Choice::Decline,
            "cancel" => Choice::Cancel,
            _ => return None,
        },
        _ => return None,
    })
}

fn approving(approved: bool) -> Choice {
    Choice::Option(if approved { approval::APPROVE } else { approval::DENY }.to_owned())
}

/// A payload of words alone: an option's id, or the user's own words.
fn said(words: String, question: Option<&Question>) -> Choice {
    let mut options = question.into_iter().flat_map(|asked| &asked.clarification.options);
    let is_id = options.any(|option| option.id == words);
    if is_id { Choice::Option(words) } else { Choice::Text(words) }
}
