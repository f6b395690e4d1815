pub(super) mod claim_store;

use std::future::poll_fn;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::call_format::ContractSetting;
use crate::event;
use crate::rehearsal::Rehearsal;
use crate::session::LoggedTurn;
use crate::session::store::{SqliteStore, SyncMode};
use crate::session::tests::Slow;
use crate::tools::source::SourceState;
use crate::tools::{
    CallContext, Clarification, Source, SourceKind, Tool, ToolFuture, ToolResult, ToolSpec,
    registry,
};
use crate::upstream::{self, ChatRequest, History, Kind, LocalAnswer, LocalModel, ToolChoice};

fn embedded() -> Vec<Arc<Upstream>> {
    let kind = Kind::Local(Arc::new(Rehearsal { tokens_per_sec: 100 }));
    let options = upstream::Options {
        name: "embedded".to_owned(),
        contract: ContractSetting::default(),
        history: History::Text,
        kind,
    };
    vec![Arc::new(Upstream::new(options).unwrap())]
}

fn gateway(options: Options, upstreams: Vec<Arc<Upstream>>) -> Result<Gateway, OptionsError> {
    Gateway::new(options, upstreams, Registry::default())
}

#[test]
fn unusable_options_are_refused_at_once() {
    assert!(gateway(Options::default(), embedded()).is_ok());
    let none = gateway(Options::default(), Vec::new());
    assert!(matches!(none, Err(OptionsError::NoUpstream)));
    let rules = Rules { marker: String::new(), ..Rules::default() };
    let markerless = gateway(Options { rules, ..Options::default() }, embedded());
    assert!(matches!(markerless, Err(OptionsError::Parser(_))));
    let room = limits::parser::MARKER_BYTES_MAX - limits::parser::NONCE_BYTES;
    for (length, fits) in [(room, true), (room + 1, false)] {
        let rules = Rules { marker: "m".repeat(length), marker_nonce: true, ..Rules::default() };
        let options = Options { rules, ..Options::default() };
        assert_eq!(gateway(options, embedded()).is_ok(), fits, "with a nonce, {length} bytes");
    }
}

/// Stands in for a turn that does not end when it is cancelled, which should never happen.
#[tokio::test(start_paused = true)]
async fn a_stuck_turn_does_not_block_the_drain_forever() {
    let gateway = gateway(Options::default(), embedded()).unwrap();
    let _stuck = gateway.turns.token();
    let begun = Instant::now();
    let within = Duration::from_secs(3);
    assert!(!gateway.drain(within).await);
    assert_eq!(begun.elapsed(), within + limits::turn::CANCEL_TIMEOUT);
}

/// A turn whose session is still being loaded is not in the list of running ones.
#[tokio::test]
async fn a_turn_that_is_about_to_begin_is_cancelled_too() {
    let store = Slow::new(false);
    let options = Options { store: Arc::clone(&store) as Arc<dyn Store>, ..Options::default() };
    let gateway = gateway(options, embedded()).unwrap();
    let cancel = async {
        gateway.cancel_all();
        store.open();
    };
    let (begun, ()) = tokio::join!(gateway.begin(NewTurn::default()), cancel);
    let last = last_event(&begun.unwrap().turn).await;
    assert_eq!(last["data"]["finish_reason"], "cancelled", "{last}");
    let BegunTurn { session_id, .. } = gateway.begin(NewTurn::default()).await.unwrap();
    let snapshot = gateway.snapshot(&session_id).await.unwrap().unwrap();
    assert!(snapshot.running.is_some(), "one that begins later is not");
}

/// A turn's last event, as JSON.
async fn last_event(turn: &LoggedTurn) -> Value {
    let mut reader = turn.log.read_after(0);
    let mut last = Vec::new();
    while poll_fn(|cx| reader.poll_read(cx, |record| last = record.data.to_vec())).await.is_some() {
    }
    serde_json::from_slice(&last).unwrap()
}

#[derive(Debug)]
struct Panics;

impl LocalModel for Panics {
    fn answer(&self, _request: &ChatRequest) -> LocalAnswer {
        panic!("a bug of ours");
    }
}

/// The client sees a failure, and the session goes on.
#[tokio::test]
async fn a_turn_that_panics_ends_and_frees_its_session() {
    let kind = Kind::Local(Arc::new(Panics));
    let options = upstream::Options {
        name: "m".to_owned(),
        contract: ContractSetting::default(),
        history: History::Text,
        kind,
    };
    let upstreams = vec![Arc::new(Upstream::new(options).unwrap())];
    let gateway = gateway(Options::default(), upstreams).unwrap();
    let ask = || NewTurn { session_id: Some("s".to_owned()), ..NewTurn::default() };
    for _ in 0..2 {
        let BegunTurn { turn, .. } = gateway.begin(ask()).await.unwrap();
        assert_eq!(last_event(&turn).await["type"], "turn_failed");
        gateway.turns.close();
        gateway.turns.wait().await;
        gateway.turns.reopen();
        let found = gateway.find_turn("s", None, 0).await.unwrap();
        assert!(matches!(found, FoundTurn::Turn(found) if found.turn_id == turn.turn_id));
    }
}

#[tokio::test]
async fn a_draining_gateway_starts_no_turns() {
    let gateway = gateway(Options::default(), embedded()).unwrap();
    assert!(gateway.drain(Duration::ZERO).await);
    let refused = gateway.begin(NewTurn::default()).await;
    assert!(matches!(refused, Err(BeginError::Draining)));
    assert_eq!(gateway.running(), 0);
}

/// Tools of which a required source has not answered.
fn awaited() -> Toolset {
    let files = Source::entry(SourceKind::Mcp, "files");
    let report = SourceReport::new(files, SourceState::Starting);
    let sources = vec![SourceReport { is_required: true, ..report }];
    Toolset { tools: Registry::default(), sources }
}

#[tokio::test(start_paused = true)]
async fn no_more_turns_wait_for_a_source_than_may_run() {
    let options = Options { max_concurrent_turns: 1, ..Options::default() };
    let gateway = Gateway::new(options, embedded(), awaited()).unwrap();
    let begun = Instant::now();
    let (waits, refused) = tokio::join!(gateway.begin(NewTurn::default()), async {
        let refused = gateway.begin(NewTurn::default()).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "it is refused at once");
        refused
    });
    assert!(matches!(refused, Err(BeginError::Full(1))), "{refused:?}");
    assert_eq!(
        waits.unwrap_err().to_string(),
        "a required source of tools is not ready: mcp files: it has not answered yet; try again later"
    );
    assert_eq!(begun.elapsed(), limits::turn::REQUIRED_SOURCE_WAIT);
    gateway.replace_tools(Registry::default());
    assert!(gateway.begin(NewTurn::default()).await.is_ok(), "its place is free again");
}

#[tokio::test(start_paused = true)]
async fn no_turn_waits_for_a_source_that_is_lost() {
    let gateway = Gateway::new(Options::default(), embedded(), awaited()).unwrap();
    let begun = Instant::now();
    let (refused, ()) = tokio::join!(gateway.begin(NewTurn::default()), async {
        let mut lost = awaited();
        lost.sources[0].is_lost = true;
        lost.sources[0].error = Some("there is no executable program files".to_owned());
        gateway.replace_tools(lost);
    });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "a required source of tools is not ready: mcp files: there is no executable program files; \
         restart the gateway once that is mended"
    );
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_needs_no_tools() {
    let gateway = gateway(Options::default(), embedded()).unwrap();
    let ask = || NewTurn {
        session_id: Some("s".to_owned()),
        idempotency_key: Some("key".to_owned()),
        ..NewTurn::default()
    };
    let first = gateway.begin(ask()).await.unwrap();
    gateway.replace_tools(awaited());
    let again = gateway.begin(ask()).await.unwrap();
    assert!(again.repeated && again.turn.turn_id == first.turn.turn_id);
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_a_source() {
    let gateway = Gateway::new(Options::default(), embedded(), awaited()).unwrap();
    let begun = Instant::now();
    let within = limits::turn::REQUIRED_SOURCE_WAIT;
    let (refused, drained) = tokio::join!(gateway.begin(NewTurn::default()), gateway.drain(within));
    assert!(matches!(refused, Err(BeginError::Draining)), "{refused:?}");
    assert!(drained && begun.elapsed() == Duration::ZERO);
}

/// Calls `asks` in each round.
#[derive(Debug)]
struct CallsAsks;

impl LocalModel for CallsAsks {
    fn answer(&self, _request: &ChatRequest) -> LocalAnswer {
        let call = "<<function_call>> {\"name\": \"asks\", \"arguments\": {}}";
        let delta = json!({"choices": [{"index": 0, "delta": {"content": call}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let stream = format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
        Box::pin(tokio_stream::once(stream.into()))
    }
}

/// A tool that asks the user once the test allows it.
#[derive(Debug)]
struct Asks(Arc<ToolSpec>, Arc<Semaphore>);

impl Tool for Asks {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _: Value, context: CallContext) -> ToolFuture {
        let allowed = Arc::clone(&self.1);
        Box::pin(async move {
            allowed.acquire().await.unwrap().forget();
            let (r#type, question) = ("text".to_owned(), "Which one?".to_owned());
            let question = Clarification { r#type, question, ..Clarification::default() };
            context.reporter.ask_and_wait(question).await;
            Ok(ToolResult::data(json!({})))
        })
    }
}

/// A gateway whose model calls this tool.
fn calling(options: Options, tool: impl FnOnce(Arc<ToolSpec>) -> Arc<dyn Tool>) -> Gateway {
    let kind = Kind::Local(Arc::new(CallsAsks));
    let (name, contract, history) = ("m".to_owned(), ContractSetting::default(), History::Text);
    let upstream = upstream::Options { name, contract, history, kind };
    let parameters = json!({"type": "object"});
    let spec = ToolSpec { name: "asks".to_owned(), parameters, ..ToolSpec::default() };
    let mut tools = Registry::default();
    tools.add(tool(Arc::new(spec))).unwrap();
    Gateway::new(options, vec![Arc::new(Upstream::new(upstream).unwrap())], tools).unwrap()
}

/// A tool that returns once the test allows it.
#[derive(Debug)]
struct Returns(Arc<ToolSpec>, Arc<Semaphore>);

impl Tool for Returns {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _: Value, _: CallContext) -> ToolFuture {
        let allowed = Arc::clone(&self.1);
        Box::pin(async move {
            allowed.acquire().await.unwrap().forget();
            Ok(ToolResult::data(json!({})))
        })
    }
}

/// Or else the next gateway would not know what the call has done.
#[tokio::test]
async fn a_result_that_has_just_come_is_stored_before_the_turn_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tether.db");
    let store = SqliteStore::open(&path, SyncMode::Normal, limits::session::TTL).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let allowed = Arc::new(Semaphore::new(0));
    let options = Options { store: Arc::clone(&store), ..Options::default() };
    let gateway = calling(options, |spec| Arc::new(Returns(spec, Arc::clone(&allowed))));
    let ask = NewTurn { session_id: Some("s".to_owned()), ..NewTurn::default() };
    let BegunTurn { turn, .. } = gateway.begin(ask).await.unwrap();
    let (mut reader, mut has_started) = (turn.log.read_after(0), false);
    while !has_started {
        poll_fn(|cx| {
            reader.poll_read(cx, |record| has_started |= record.kind == event::Kind::ToolStarted)
        })
        .await
        .unwrap();
    }
    // The tool's task is woken before the turn's.
    allowed.add_permits(1);
    assert!(turn.log.leave());
    gateway.turns.close();
    gateway.turns.wait().await;
    let log = store.read("s", None, 0).await.unwrap().unwrap();
    assert!(log.journal.is_some(), "it is not over");
    let events: Vec<_> = log.batches.iter().map(|batch| &*batch.bytes).collect();
    let events = String::from_utf8(events.concat()).unwrap();
    assert_eq!(events.matches("\"type\":\"tool_completed\"").count(), 1, "{events}");
    assert_eq!(events.matches("\"type\":\"tool_started\"").count(), 1, "{events}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_asks_while_the_gateway_drains_is_stopped_too() {
    let allowed = Arc::new(Semaphore::new(0));
    let gateway = calling(Options::default(), |spec| Arc::new(Asks(spec, Arc::clone(&allowed))));
    let BegunTurn { turn, .. } = gateway.begin(NewTurn::default()).await.unwrap();
    let ask = async {
        assert!(gateway.is_draining());
        allowed.add_permits(1);
    };
    let (drained, ()) = tokio::join!(gateway.drain(limits::server::DRAIN_TIMEOUT), ask);
    let last = last_event(&turn).await;
    assert_eq!(last["data"]["finish_reason"], "clarification_needed", "{last}");
    assert!(drained);
    assert_eq!(gateway.parked_calls(), 0);
}

/// A registry that was taken stays as it is; turns that begin later have the new one.
#[tokio::test]
async fn tools_are_replaced_between_turns() {
    let named = |name: &str| {
        let mut tools = Registry::default();
        tools.add(registry::tests::tool(name, json!({"type": "object"}))).unwrap();
        tools
    };
    let gateway = Gateway::new(Options::default(), embedded(), named("old")).unwrap();
    let choose = |name: &str| NewTurn {
        tool_choice: ToolChoice::Named(name.to_owned()),
        ..NewTurn::default()
    };
    gateway.begin(choose("old")).await.unwrap();
    let held = gateway.tools();
    gateway.replace_tools(named("new"));
    assert_eq!(held.catalog().names(), ["old"]);
    assert_eq!(gateway.tools().catalog().names(), ["new"]);
    let refused = gateway.begin(choose("old")).await;
    assert!(matches!(refused, Err(BeginError::UnknownChoice { .. })));
    gateway.begin(choose("new")).await.unwrap();
}

/// A tool that keeps something for sessions.
#[derive(Debug)]
struct Keeps {
    spec: Arc<ToolSpec>,
    forgotten: Arc<parking_lot::Mutex<Vec<String>>>,
}

impl Tool for Keeps {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        Box::pin(async { Ok(ToolResult::data(json!({}))) })
    }

    fn forget(&self, session: &str) {
        self.forgotten.lock().push(session.to_owned());
    }
}

#[tokio::test]
async fn tools_forget_a_session_with_the_gateway() {
    let forgotten = Arc::default();
    let parameters = json!({ "type": "object" });
    let spec = ToolSpec { name: "keeps".to_owned(), parameters, ..ToolSpec::default() };
    let keeps = Keeps { spec: Arc::new(spec), forgotten: Arc::clone(&forgotten) };
    let mut tools = Registry::default();
    tools.add(Arc::new(keeps)).unwrap();
    let gateway = Gateway::new(Options::default(), embedded(), tools).unwrap();
    gateway.forget("s").await.unwrap();
    assert_eq!(*forgotten.lock(), ["s"]);
}
