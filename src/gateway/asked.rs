//! What a turn was asked, as its journal keeps it: all that another gateway needs to go on with the turn.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::new_turn::NewTurn;
use super::question_claim::QuestionClaim;
use super::recent_turn_draft::RecentTurnDraft;
use super::recent_turns::RecentTurns;
use super::turn_keys::TurnKeys;
use crate::conversation::claimed::PrefixHash;
use crate::conversation::{Opening, PlacedImage};
use crate::orchestrator::ResponseFormat;
use crate::session::store::{EntryClaim, EntryKey, StoreError};
use crate::tools::Confirm;
use crate::tools::client::ClientTools;
use crate::upstream::{ExtraSampling, Sampling, ToolChoice};

/// See the module docs. Fields that are added later need a default: a turn outlives an upgrade.
#[expect(clippy::struct_excessive_bools, reason = "requests answer each on its own")]
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) owner: String,
    /// The session as its owner calls it.
    pub(super) session_id: String,
    /// Where the calls that it answers wait.
    pub(super) parked_in: String,
    pub(super) opening: Opening,
    /// See [`NewTurn::answers_explicitly`].
    #[serde(default)]
    pub(super) answers_explicitly: bool,
    #[serde(default)]
    pub(super) images: Vec<PlacedImage>,
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) tools: Option<Vec<String>>,
    #[serde(default)]
    client_tools: Vec<WrittenTool>,
    /// The names of client tools that are not offered: no tool of ours runs in their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reserved_names: Vec<String>,
    /// In place of `model.system_prompt`.
    #[serde(default)]
    pub(super) instructions: Option<String>,
    #[serde(default)]
    pub(super) single_client_call: bool,
    #[serde(default)]
    pub(super) nobody_approves: bool,
    #[serde(default)]
    pub(super) words_only: bool,
    #[serde(default)]
    pub(super) is_read_whole: bool,
    #[serde(default)]
    pub(super) tool_choice: ToolChoice,
    #[serde(default)]
    response_format: Option<Value>,
    #[serde(default)]
    pub(super) confirm: Option<Confirm>,
    #[serde(default)]
    pub(super) max_tool_loops: Option<u32>,
    #[serde(default)]
    pub(super) max_calls: Option<u32>,
    /// See [`TurnRequest::disconnect_grace`](crate::orchestrator::TurnRequest::disconnect_grace).
    #[serde(default)]
    pub(super) disconnect_grace: Option<Duration>,
    #[serde(default)]
    sampling: Sampling,
    /// Those fields of it that not every server knows.
    #[serde(default)]
    extra_sampling: Map<String, Value>,
    /// What its client, which keeps the conversation itself, will find it by.
    #[serde(default)]
    recent: Option<WrittenDraft>,
}

/// See [`RecentTurnDraft`].
#[derive(Debug, Serialize, Deserialize)]
struct WrittenDraft {
    prefix: PrefixHash,
    prompt: Option<EntryKey>,
    drops: Option<String>,
    has_files: bool,
    knows_questions: bool,
    #[serde(rename = "closing")]
    claim: Option<EntryClaim>,
}

/// A tool that the client brings.
#[derive(Debug, Serialize, Deserialize)]
struct WrittenTool {
    name: String,
    description: String,
    parameters: Value,
}

/// Why a turn that was left must not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotDrafted {
    /// What follows from the answer must not be done twice.
    #[error("another turn has answered its question")]
    Answered,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where a turn starts, and with what.
pub(super) struct TurnStart<'a> {
    pub(super) session_id: &'a str,
    pub(super) parked_in: &'a str,
    pub(super) opening: &'a Opening,
    pub(super) images: &'a [PlacedImage],
    /// In place of `model.system_prompt`.
    pub(super) instructions: Option<String>,
    pub(super) disconnect_grace: Option<Duration>,
}

impl Asked {
    /// What `new` asks, whose client history has been taken.
    pub(super) fn of(new: &NewTurn, start: TurnStart<'_>, draft: Option<&RecentTurnDraft>) -> Self {
        let client_tools = new.client_tools.specs().map(|spec| WrittenTool {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
        });
        Self {
            owner: new.owner.clone(),
            session_id: start.session_id.to_owned(),
            parked_in: start.parked_in.to_owned(),
            opening: start.opening.clone(),
            answers_explicitly: new.answers_explicitly(),
            images: start.images.to_vec(),
            model: new.model.clone(),
            tools: new.tools.clone(),
            client_tools: client_tools.collect(),
            reserved_names: new.client_tools.reserved().map(str::to_owned).collect(),
            instructions: start.instructions,
            single_client_call: new.single_client_call,
            nobody_approves: new.nobody_approves,
            words_only: new.words_only,
            is_read_whole: new.is_read_whole,
            tool_choice: new.tool_choice.clone(),
            response_format: new.response_format.as_ref().map(|format| format.field().clone()),
            confirm: new.confirm,
            max_tool_loops: new.max_tool_loops,
            max_calls: new.max_calls,
            disconnect_grace: start.disconnect_grace,
            sampling: new.sampling.clone(),
            extra_sampling: new.sampling.extra.fields().clone(),
            recent: draft.map(|draft| WrittenDraft {
                prefix: draft.prefix,
                prompt: draft.keys.prompt,
                drops: draft.keys.drops.clone(),
                has_files: draft.has_files,
                knows_questions: draft.knows_questions,
                claim: draft.claim.as_ref().and_then(QuestionClaim::stored),
            }),
        }
    }

    pub(super) fn write(&self) -> Arc<RawValue> {
        serde_json::value::to_raw_value(self).expect("keys are strings").into()
    }

    pub(super) fn read(json: &RawValue) -> serde_json::Result<Self> {
        let mut deserializer = serde_json::Deserializer::from_str(json.get());
        // Results that a client claims are nested as deep as JSON may be by itself.
        deserializer.disable_recursion_limit();
        Self::deserialize(&mut deserializer)
    }

    /// The draft of its entry among the recent turns, with the claim of its question.
    ///
    /// # Errors
    /// If another turn has answered the question, or the store cannot tell.
    pub(super) async fn draft(
        &self,
        turns: &Arc<RecentTurns>,
    ) -> Result<Option<RecentTurnDraft>, NotDrafted> {
        let Some(recent) = &self.recent else { return Ok(None) };
        let claim = match recent.claim {
            Some(claim) => QuestionClaim::take_over(turns, &self.owner, claim).await?,
            None => None,
        };
        if recent.claim.is_some() && claim.is_none() && recent.drops.is_none() {
            return Err(NotDrafted::Answered);
        }
        Ok(Some(RecentTurnDraft {
            turns: Arc::clone(turns),
            prefix: recent.prefix,
            keys: TurnKeys {
                owner: self.owner.clone(),
                prompt: recent.prompt,
                drops: recent.drops.clone(),
            },
            has_files: recent.has_files,
            knows_questions: recent.knows_questions,
            claim,
        }))
    }

    /// The request as it came, without what its opening and its history have become.
    pub(super) fn new_turn(&self) -> NewTurn {
        let mut client_tools = ClientTools::default();
        for WrittenTool { name, description, parameters } in &self.client_tools {
            client_tools.add_if_usable(name.clone(), description, Some(parameters.clone()));
        }
        for name in &self.reserved_names {
            client_tools.reserve(name.clone());
        }
        let extra = ExtraSampling::new(self.extra_sampling.clone());
        let response_format = self.response_format.as_ref().and_then(ResponseFormat::of_field);
        NewTurn {
            owner: self.owner.clone(),
            model: self.model.clone(),
            tools: self.tools.clone(),
            client_tools,
            single_client_call: self.single_client_call,
            nobody_approves: self.nobody_approves,
            words_only: self.words_only,
            tool_choice: self.tool_choice.clone(),
            response_format: response_format.map(Arc::new),
            is_read_whole: self.is_read_whole,
            confirm: self.confirm,
            max_tool_loops: self.max_tool_loops,
            max_calls: self.max_calls,
            sampling: Sampling { extra, ..self.sampling.clone() },
            ..NewTurn::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::claim_store::ClaimStore;
    use super::*;
    use crate::conversation::{Choice, ClientInput};
    use crate::session::store::{ClaimTerm, Store};
    use crate::tools::{ToolFile, ToolSpec};

    /// As the last release wrote it.
    const OLDER: &str =
        r#"{"owner":"a","session_id":"s","parked_in":"s@a","opening":{"prompt":"Hi."}}"#;

    /// As this release writes it.
    fn written(draft: &RecentTurnDraft) -> Asked {
        of(&NewTurn { owner: "a".to_owned(), ..NewTurn::default() }, Some(draft))
    }

    fn of(new: &NewTurn, draft: Option<&RecentTurnDraft>) -> Asked {
        let start = TurnStart {
            session_id: "s",
            parked_in: "s@a",
            opening: &Opening::Prompt("Hi.".to_owned()),
            images: &[],
            instructions: None,
            disconnect_grace: None,
        };
        let asked = Asked::of(new, start, draft);
        Asked::read(&asked.write()).unwrap()
    }

    fn draft(turns: &Arc<RecentTurns>) -> RecentTurnDraft {
        RecentTurnDraft {
            turns: Arc::clone(turns),
            prefix: PrefixHash::begin("a"),
            keys: TurnKeys { owner: "a".to_owned(), prompt: None, drops: None },
            has_files: false,
            knows_questions: true,
            claim: None,
        }
    }

    #[tokio::test]
    async fn a_turn_leaves_what_its_client_will_find_it_by() {
        let turns = Arc::new(RecentTurns::new(Arc::new(ClaimStore::default())));
        let prompt = Some(EntryKey::of(&["Hi."]));
        let keys = TurnKeys { owner: "a".to_owned(), prompt, drops: Some("q".to_owned()) };
        let left = RecentTurnDraft { keys, has_files: true, ..draft(&turns) };
        let read = written(&left).draft(&turns).await.unwrap().unwrap();
        assert_eq!((read.prefix, read.keys.prompt), (left.prefix, prompt));
        assert_eq!((&*read.keys.owner, read.keys.drops.as_deref()), ("a", Some("q")));
        assert!(read.has_files && read.knows_questions && read.claim.is_none());
    }

    #[tokio::test]
    async fn a_turn_of_the_last_release_goes_on() {
        let turns = Arc::new(RecentTurns::new(Arc::new(ClaimStore::default())));
        let older = Asked::read(&RawValue::from_string(OLDER.to_owned()).unwrap()).unwrap();
        assert!(older.draft(&turns).await.unwrap().is_none());
        assert!(!older.answers_explicitly);
    }

    #[test]
    fn a_turn_leaves_whether_its_client_has_answered_a_question() {
        let answer = ClientInput::Answer {
            clarification_id: "q".to_owned(),
            choice: Choice::Decline,
            beside: None,
        };
        for (input, expected) in [(answer, true), (ClientInput::Words("No.".to_owned()), false)] {
            let new = NewTurn { input, ..NewTurn::default() };
            assert_eq!(of(&new, None).answers_explicitly, expected);
        }
    }

    /// A request that leaves no field as it is by default which an interrupted turn needs again.
    fn full_request() -> NewTurn {
        let mut client_tools = ClientTools::default();
        let parameters = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        client_tools.add("ring".to_owned(), "Rings.", Some(parameters)).unwrap();
        client_tools.reserve("knock".to_owned());
        let format = ResponseFormat::json_schema("answer", json!({"type": "object"})).unwrap();
        let extra = Map::from_iter([("top_k".to_owned(), json!(4))]);
        NewTurn {
            owner: "a".to_owned(),
            model: Some("m".to_owned()),
            tools: Some(vec!["look".to_owned()]),
            client_tools,
            single_client_call: true,
            nobody_approves: true,
            words_only: true,
            tool_choice: ToolChoice::Named("ring".to_owned()),
            response_format: Some(Arc::new(format)),
            is_read_whole: true,
            confirm: Some(Confirm::Always),
            max_tool_loops: Some(2),
            max_calls: Some(3),
            sampling: Sampling {
                temperature: Some(0.5),
                top_p: Some(0.25),
                max_tokens: Some(6),
                seed: Some(7),
                stop: vec!["end".to_owned()],
                extra: ExtraSampling::new(extra),
            },
            ..NewTurn::default()
        }
    }

    /// What is not kept is lost when another gateway goes on with the turn: limits, and which calls the user approves.
    #[test]
    fn a_turn_leaves_all_that_it_was_asked() {
        let new = full_request();
        let file = ToolFile { name: None, mime_type: "image/png".to_owned(), bytes: "x".into() };
        let images = [PlacedImage { at: 3, file: file.listed() }];
        let opening = Opening::Prompt("Hi.".to_owned());
        let start = TurnStart {
            session_id: "s",
            parked_in: "s@a",
            opening: &opening,
            images: &images,
            instructions: Some("Be brief.".to_owned()),
            disconnect_grace: Some(Duration::MAX),
        };
        let left = Asked::read(&Asked::of(&new, start, None).write()).unwrap();
        assert_eq!((&*left.session_id, &*left.parked_in), ("s", "s@a"));
        assert_eq!((&left.opening, &*left.images), (&opening, &images[..]));
        assert_eq!(left.instructions.as_deref(), Some("Be brief."));
        assert_eq!(left.disconnect_grace, Some(Duration::MAX));

        // Every field is named, so that whoever adds one decides whether it is kept.
        let NewTurn {
            owner,
            model,
            tools,
            client_tools,
            single_client_call,
            nobody_approves,
            words_only,
            tool_choice,
            response_format,
            is_read_whole,
            confirm,
            max_tool_loops,
            max_calls,
            sampling,
            // These have done their work before the turn runs, or are in its opening and its history.
            address: _,
            trace: _,
            session_id: _,
            supersedes: _,
            input: _,
            aside: _,
            runs_alone: _,
            client_history: _,
            conversation: _,
            serializer: _,
            idempotency_key: _,
        } = left.new_turn();
        assert_eq!((owner, model, tools), (new.owner, new.model, new.tools));
        let specs = |tools: &ClientTools| {
            let told =
                |it: &ToolSpec| (it.name.clone(), it.description.clone(), it.parameters.clone());
            tools.specs().map(told).collect::<Vec<_>>()
        };
        assert_eq!(specs(&client_tools), specs(&new.client_tools));
        assert!(client_tools.runs("knock"));
        assert!(single_client_call && nobody_approves && words_only && is_read_whole);
        assert_eq!((tool_choice, confirm), (new.tool_choice, new.confirm));
        let field = |format: Option<Arc<ResponseFormat>>| format.unwrap().field().clone();
        assert_eq!(field(response_format), field(new.response_format));
        assert_eq!((max_tool_loops, max_calls), (new.max_tool_loops, new.max_calls));
        assert_eq!(sampling, new.sampling);
    }

    #[tokio::test]
    async fn a_turn_leaves_the_claim_of_its_question() {
        let store = Arc::new(ClaimStore::default());
        let turns = Arc::new(RecentTurns::new(Arc::clone(&store) as Arc<dyn Store>));
        let claim = QuestionClaim::acquire(&turns, "a", "q", ClaimTerm::Lasting).await.unwrap();
        let mut left = RecentTurnDraft { claim, ..draft(&turns) };
        let asked = written(&left);
        left.leave_claim();
        drop(left);
        let claim = asked.draft(&turns).await.unwrap().unwrap().claim.unwrap();
        let stored = claim.stored().unwrap();
        assert_eq!(store.holder(&stored.key), Some(stored.holder));
    }

    #[tokio::test]
    async fn a_turn_whose_question_was_answered_elsewhere_does_not_go_on_unless_it_drops_it() {
        let store = Arc::new(ClaimStore::default());
        let turns = Arc::new(RecentTurns::new(Arc::clone(&store) as Arc<dyn Store>));
        let claim = QuestionClaim::acquire(&turns, "a", "q", ClaimTerm::Lease).await.unwrap();
        let mut left = RecentTurnDraft { claim, ..draft(&turns) };
        let answering = written(&left);
        left.keys.drops = Some("q".to_owned());
        let dropping = written(&left);
        left.leave_claim();
        store.give(left.claim.as_ref().unwrap().stored().unwrap().key, 1);
        let refused = answering.draft(&turns).await.unwrap_err();
        assert!(matches!(refused, NotDrafted::Answered), "{refused}");
        assert!(dropping.draft(&turns).await.unwrap().unwrap().claim.is_none());
        store.hang();
        tokio::time::pause();
        let refused = answering.draft(&turns).await.unwrap_err();
        assert!(matches!(refused, NotDrafted::Store(_)), "{refused}");
    }
}
