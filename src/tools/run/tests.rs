//! Time is paused, so tests take no time and measure exactly.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::*;
use crate::limits::tools::{ATTEMPTS_MAX, RETRY_AFTER_MAX, RETRY_BACKOFF};
use crate::tools::{Policy, Settled, ToolFuture};

const TIMEOUT: Duration = Duration::from_secs(15);

/// A tool made from a function.
struct Fake<F> {
    spec: Arc<ToolSpec>,
    call: F,
}

impl<F> std::fmt::Debug for Fake<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fake")
    }
}

impl<F: Fn(Value, CallContext) -> ToolFuture + Send + Sync> Tool for Fake<F> {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> ToolFuture {
        (self.call)(arguments, context)
    }
}

fn fake(
    policy: Policy,
    call: impl Fn(Value, CallContext) -> ToolFuture + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: "fake".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        waiting_hint: String::new(),
        policy,
        ..ToolSpec::default()
    };
    Arc::new(Fake { spec: Arc::new(spec), call })
}

/// The policy of a tool that changes nothing and has no timeout of its own.
fn looks() -> Policy {
    Policy::default()
}

fn mutates(idempotent: bool) -> Policy {
    Policy { mutates: true, idempotent, ..Policy::default() }
}

/// A tool whose attempts end like this, one after another; the last ending repeats.
fn scripted(policy: Policy, attempts: Vec<Result<ToolResult, ToolFault>>) -> Arc<dyn Tool> {
    fake(policy, move |_, context| {
        let at = (context.attempt as usize).min(attempts.len()) - 1;
        Box::pin(future::ready(attempts[at].clone()))
    })
}

/// A call of it without arguments.
fn call(tool: &Arc<dyn Tool>) -> ToolCall {
    let (tool, idempotency_key) = (Arc::clone(tool), Arc::from("key"));
    ToolCall {
        tool,
        arguments: json!({}),
        idempotency_key,
        resumption: None,
        session: Arc::default(),
        words_only: false,
        trace: None,
    }
}

/// Runs it without jitter.
async fn run_evenly(tool: &Arc<dyn Tool>) -> Run {
    run_with(&call(tool), Reporter::default(), TIMEOUT, || 0.0).await
}

fn busy(retry_after: Option<Duration>) -> ToolFault {
    ToolFault { retry_after, ..ToolFault::transient("the shop is busy") }
}

fn found() -> ToolResult {
    ToolResult::data(json!({"found": 1}))
}

#[tokio::test]
async fn a_tool_that_answers_is_done() {
    let tool = fake(looks(), |arguments, _| Box::pin(async { Ok(ToolResult::data(arguments)) }));
    let call = ToolCall { arguments: json!({"a": 1}), ..call(&tool) };
    let run = run(call, Reporter::default(), TIMEOUT).await;
    let result = ToolResult::data(json!({"a": 1}));
    assert_eq!(run, Run { result, end: RunEnd::Done, attempts: 1 });
}

#[tokio::test]
async fn a_tool_gets_a_number_without_a_fraction_as_an_integer() {
    let tool = fake(looks(), |arguments, _| Box::pin(async { Ok(ToolResult::data(arguments)) }));
    let call = ToolCall { arguments: json!({"limit": 10.0}), ..call(&tool) };
    let run = run(call, Reporter::default(), TIMEOUT).await;
    assert_eq!(run.result.data, Some(json!({"limit": 10})));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_final_even_if_it_is_an_error() {
    let error = ToolResult::error("no such order");
    let run = run_evenly(&scripted(looks(), vec![Ok(error.clone()), Ok(found())])).await;
    let failed = Run { result: error, end: RunEnd::Failed, attempts: 1 };
    assert_eq!(run, failed);
}

#[tokio::test]
async fn a_result_that_breaks_the_shape_is_a_failure() {
    let broken = ToolResult { next_action: NextAction::Error, ..ToolResult::data(json!(1)) };
    let run = run_evenly(&scripted(looks(), vec![Ok(broken)])).await;
    assert_eq!(run.end, RunEnd::Failed);
    assert!(run.result.error.unwrap().contains("breaks the standard shape"));
}

#[tokio::test]
async fn a_flood_is_capped_be_it_data_or_a_fault() {
    let flood = "x".repeat(1 << 20);
    let data = run_evenly(&scripted(looks(), vec![Ok(ToolResult::data(json!(flood)))])).await;
    assert_eq!(serde_json::to_string(&data.result).unwrap().len(), OUTPUT_BYTES_MAX);
    let fault = run_evenly(&scripted(looks(), vec![Err(ToolFault::permanent(flood))])).await;
    assert!(serde_json::to_string(&fault.result).unwrap().len() <= OUTPUT_BYTES_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_transient_fault_is_hidden_by_a_retry() {
    let begun = Instant::now();
    let attempts = vec![Err(busy(None)), Err(busy(None)), Ok(found())];
    let run = run_evenly(&scripted(looks(), attempts)).await;
    let done = Run { result: found(), end: RunEnd::Done, attempts: 3 };
    assert_eq!(run, done);
    // Without jitter, each wait is half a step: half of one, then half of two.
    assert_eq!(begun.elapsed().as_millis(), (RETRY_BACKOFF * 3 / 2).as_millis());
}

#[tokio::test(start_paused = true)]
async fn a_persistent_fault_is_reported_with_advice() {
    let run = run_evenly(&scripted(looks(), vec![Err(busy(None))])).await;
    let message = "the shop is busy (3 attempts); calling it again later may help";
    let result = ToolResult::error(message);
    let end = RunEnd::Unavailable;
    assert_eq!(run, Run { result, end, attempts: ATTEMPTS_MAX });
}

#[tokio::test(start_paused = true)]
async fn a_permanent_fault_is_not_retried() {
    let fault = ToolFault::permanent("the shop has no such address");
    let run = run_evenly(&scripted(looks(), vec![Err(fault), Ok(found())])).await;
    let message = "the shop has no such address; calling it again will not help";
    let result = ToolResult::error(message);
    assert_eq!(run, Run { result, end: RunEnd::Failed, attempts: 1 });
}

#[tokio::test(start_paused = true)]
async fn mutating_calls_are_retried_only_if_idempotent() {
    let attempts = vec![Err(busy(None)), Ok(found())];
    let once = run_evenly(&scripted(mutates(false), attempts.clone())).await;
    assert_eq!((once.attempts, once.end), (1, RunEnd::Unavailable));
    assert!(once.result.uncertain);
    assert_eq!(
        once.result.error.unwrap(),
        "the shop is busy; it may or may not have taken effect, so do not call it again; tell \
         the user"
    );
    let twice = run_evenly(&scripted(mutates(true), attempts)).await;
    assert_eq!((twice.attempts, twice.end), (2, RunEnd::Done));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_timed_out_is_not_retried() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let tool = fake(mutates(false), move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(future::pending())
    });
    let run = run_evenly(&tool).await;
    assert_eq!((run.end, run.attempts, run.result.uncertain), (RunEnd::TimedOut, 1, true));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_result_is_lost_is_not_told_as_one_that_failed() {
    let lost = || ToolResult::unread("it is too long").with_instruction("Ask for less.");
    for (policy, told) in [
        (looks(), lost()),
        (mutates(true), lost()),
        (
            mutates(false),
            ToolResult::unread(
                "it is too long; it may or may not have taken effect, so do not call it again; tell \
                 the user",
            ),
        ),
    ] {
        let run = run_evenly(&scripted(policy, vec![Ok(lost())])).await;
        let uncertain = !policy.may_run_again();
        let result = ToolResult { uncertain, ..told };
        assert_eq!(run, Run { result, end: RunEnd::Failed, attempts: 1 });
    }
    let received = ToolFault::permanent("that is not HTTP").after_sending();
    let run = run_evenly(&scripted(mutates(false), vec![Err(received.clone())])).await;
    assert!(run.result.uncertain && run.result.error.unwrap().contains("may or may not"));
    let run = run_evenly(&scripted(looks(), vec![Err(received)])).await;
    assert!(!run.result.uncertain && run.result.error.unwrap().contains("will not help"));
    let next_action = NextAction::ClarificationNeeded;
    let odd = ToolResult { next_action, ..ToolResult::data(json!({})) };
    let run = run_evenly(&scripted(mutates(false), vec![Ok(odd)])).await;
    assert!(run.result.uncertain && run.result.error.unwrap().contains("may or may not"));
}

/// A tool whose calls may be repeated under their key alone.
#[derive(Debug)]
struct Keyed(Arc<dyn Tool>);

impl Tool for Keyed {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.0.spec()
    }

    fn call(&self, arguments: Value, context: CallContext) -> ToolFuture {
        self.0.call(arguments, context)
    }

    fn needs_own_key(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn the_model_does_not_repeat_what_only_its_key_makes_repeatable() {
    let tool: Arc<dyn Tool> = Arc::new(Keyed(scripted(mutates(true), vec![Err(busy(None))])));
    let run = run_evenly(&tool).await;
    assert_eq!((run.attempts, run.end), (ATTEMPTS_MAX, RunEnd::Unavailable));
    assert!(run.result.uncertain && run.result.error.unwrap().contains("do not call it again"));
}

#[tokio::test(start_paused = true)]
async fn every_attempt_knows_its_number_and_the_one_key() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let tool = fake(mutates(true), move |arguments, context| {
        noted.lock().push((arguments, context.idempotency_key, context.attempt));
        Box::pin(future::ready(Err(busy(None))))
    });
    let (arguments, idempotency_key) = (json!({"n": 7}), Arc::from("turn/call_1"));
    let call = ToolCall { arguments, idempotency_key, ..call(&tool) };
    run_with(&call, Reporter::default(), TIMEOUT, || 0.5).await;
    let expected =
        (1..=ATTEMPTS_MAX).map(|attempt| (json!({"n": 7}), Arc::from("turn/call_1"), attempt));
    assert_eq!(*seen.lock(), expected.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_requested_wait_is_kept_unless_it_is_too_long() {
    let over = RETRY_AFTER_MAX + Duration::from_millis(1);
    for (asked, attempts, waited) in
        [(RETRY_AFTER_MAX, 2, RETRY_AFTER_MAX), (over, 1, Duration::ZERO)]
    {
        let begun = Instant::now();
        let run = run_evenly(&scripted(looks(), vec![Err(busy(Some(asked))), Ok(found())])).await;
        assert_eq!(run.attempts, attempts, "{asked:?}");
        assert_eq!(begun.elapsed().as_millis(), waited.as_millis());
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_the_tools_own_time_or_the_usual_one() {
    let own = Duration::from_millis(1500);
    for (timeout, time) in [(None, TIMEOUT), (Some(own), own)] {
        let begun = Instant::now();
        let tool = fake(Policy { timeout, ..looks() }, |_, _| Box::pin(future::pending()));
        let run = run_evenly(&tool).await;
        assert_eq!((run.end, run.attempts), (RunEnd::TimedOut, ATTEMPTS_MAX));
        let all = time * ATTEMPTS_MAX + RETRY_BACKOFF * 3 / 2;
        assert_eq!(begun.elapsed().as_millis(), all.as_millis());
        let seconds = time.as_secs_f64();
        assert_eq!(
            run.result.error.unwrap(),
            format!(
                "the tool did not answer within {seconds} seconds and was stopped (3 attempts); \
                 calling it again later may help"
            )
        );
    }
}

#[tokio::test]
async fn a_panic_is_caught_wherever_it_happens_and_ends_the_run() {
    let before: fn(Value, CallContext) -> ToolFuture = |_, _| panic!("before the first await");
    let after_await: fn(Value, CallContext) -> ToolFuture = |_, _| {
        Box::pin(async {
            tokio::task::yield_now().await;
            panic!("after {}", "it")
        })
    };
    for call in [before, after_await] {
        let run = run_evenly(&fake(looks(), call)).await;
        assert_eq!((run.end, run.attempts, run.result.uncertain), (RunEnd::Panicked, 1, false));
        let error = run.result.error.unwrap();
        assert!(!error.contains("await"), "the model is not told of our insides: {error}");
    }
}

#[test]
fn the_jitter_differs_and_stays_in_its_range() {
    let drawn: Vec<f64> = (0..100).map(|_| random()).collect();
    assert!(drawn.iter().all(|drawn| (0.0..=1.0).contains(drawn)));
    assert!(drawn.iter().any(|drawn| *drawn < 0.5) && drawn.iter().any(|drawn| *drawn > 0.5));
}

/// Counts live attempts.
struct Alive(Arc<AtomicU32>);

impl Alive {
    fn new(count: &Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How an attempt of a random run ends.
#[derive(Debug, Clone)]
enum End {
    Answer,
    Permanent,
    Transient(Option<Duration>),
    Panic,
}

fn ends() -> impl Strategy<Value = Vec<(End, Duration)>> {
    let ms = |range: std::ops::Range<u64>| range.prop_map(Duration::from_millis);
    let end = prop_oneof![
        1 => Just(End::Answer),
        1 => Just(End::Permanent),
        4 => proptest::option::of(ms(0..6000)).prop_map(End::Transient),
        1 => Just(End::Panic),
    ];
    proptest::collection::vec((end, ms(0..20_000)), 1..6)
}

proptest! {
    /// Whatever the attempts do, and whenever the run is dropped: the number of attempts follows a
    /// simple model of the rules, and nothing is left running.
    #[test]
    fn any_run_keeps_the_rules_and_leaves_nothing_behind(
        script in ends(),
        (mutating, idempotent) in (any::<bool>(), any::<bool>()),
        jitter in 0.0..=1.0,
        dropped_at in proptest::option::of((0..60_000_u64).prop_map(Duration::from_millis)),
    ) {
        let expected = if mutating && !idempotent { 1 } else {
            // An answer at the very last moment counts.
            let passes = |(end, time): &(End, Duration)| *time > TIMEOUT || match end {
                End::Transient(asked) => asked.is_none_or(|asked| asked <= RETRY_AFTER_MAX),
                _ => false,
            };
            let last = script.len() - 1;
            let failed = (0..ATTEMPTS_MAX as usize - 1).take_while(|at| passes(&script[(*at).min(last)]));
            1 + u32::try_from(failed.count()).unwrap()
        };
        let (calls, alive) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (counted, living) = (Arc::clone(&calls), Arc::clone(&alive));
        let tool = fake(Policy { mutates: mutating, idempotent, ..Policy::default() }, move |_, context| {
            counted.fetch_add(1, Ordering::SeqCst);
            let alive = Alive::new(&living);
            let (end, time) = script[(context.attempt as usize).min(script.len()) - 1].clone();
            Box::pin(async move {
                sleep(time).await;
                drop(alive);
                match end {
                    End::Answer => Ok(found()),
                    End::Permanent => Err(ToolFault::permanent("gone")),
                    End::Transient(asked) => Err(busy(asked)),
                    End::Panic => panic!("out of order"),
                }
            })
        });
        let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let ended = clock.block_on(async {
            let call = call(&tool);
            let run = run_with(&call, Reporter::default(), TIMEOUT, || jitter);
            match dropped_at {
                Some(at) => timeout(at, run).await.ok(),
                None => Some(run.await),
            }
        });
        prop_assert_eq!(alive.load(Ordering::SeqCst), 0);
        let calls = calls.load(Ordering::SeqCst);
        match ended {
            Some(run) => prop_assert_eq!((run.attempts, calls), (expected, expected)),
            None => prop_assert!(calls <= expected),
        }
    }
}

/// A tool with limits of its own, whose attempts take this long and then fail.
#[derive(Debug)]
struct Limited {
    spec: Arc<ToolSpec>,
    limits: RunLimits,
    takes: Duration,
    fault: ToolFault,
}

impl Tool for Limited {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        let (takes, fault) = (self.takes, self.fault.clone());
        Box::pin(async move {
            sleep(takes).await;
            Err(fault)
        })
    }

    fn run_limits(&self) -> RunLimits {
        self.limits
    }
}

/// A tool that runs out of time, after which its work goes on for a while.
#[derive(Debug)]
struct RunsOn {
    spec: Arc<ToolSpec>,
    ended: Mutex<Option<Instant>>,
}

const RUNS_ON: Duration = Duration::from_secs(3);

impl Tool for RunsOn {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        let now = Instant::now();
        let ended = self.ended.lock().replace(now + TIMEOUT + RUNS_ON);
        assert!(!self.spec.policy.mutates || ended.is_none_or(|ended| ended <= now));
        Box::pin(future::pending())
    }

    fn settled<'a>(&'a self, _session: &'a str) -> Settled<'a> {
        let ended = *self.ended.lock();
        Box::pin(async move {
            if let Some(ended) = ended {
                tokio::time::sleep_until(ended).await;
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_changing_call_has_started_ends_before_the_next_attempt_and_before_its_result() {
    let waits = RETRY_BACKOFF / 2 + RETRY_BACKOFF;
    for (policy, attempts, took) in [
        (mutates(false), 1, TIMEOUT + RUNS_ON),
        (mutates(true), 3, 3 * (TIMEOUT + RUNS_ON) + waits),
        (looks(), 3, 3 * TIMEOUT + waits),
    ] {
        let spec = Arc::new(ToolSpec { policy, ..ToolSpec::default() });
        let tool: Arc<dyn Tool> = Arc::new(RunsOn { spec, ended: Mutex::default() });
        let begun = Instant::now();
        let run = run_evenly(&tool).await;
        assert_eq!((run.end, run.attempts), (RunEnd::TimedOut, attempts), "{policy:?}");
        assert_eq!(begun.elapsed(), took, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changing_call_begins_when_a_cancelled_one_has_ended() {
    let spec = Arc::new(ToolSpec { policy: mutates(false), ..ToolSpec::default() });
    let tool: Arc<dyn Tool> = Arc::new(RunsOn { spec, ended: Mutex::default() });
    assert!(timeout(Duration::from_secs(1), run_evenly(&tool)).await.is_err());
    assert_eq!(run_evenly(&tool).await.end, RunEnd::TimedOut);
}

/// A run with these limits, and how long it took.
async fn limited(limits: RunLimits, takes: Duration, fault: ToolFault) -> (Run, Duration) {
    let spec = Arc::new(ToolSpec { policy: looks(), ..ToolSpec::default() });
    let tool: Arc<dyn Tool> = Arc::new(Limited { spec, limits, takes, fault });
    let begun = Instant::now();
    let run = run_evenly(&tool).await;
    (run, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_tool_may_allow_fewer_attempts() {
    let limits = RunLimits { attempts_max: 2, total_max: None };
    let (run, _) = limited(limits, Duration::ZERO, busy(None)).await;
    assert_eq!((run.attempts, run.end), (2, RunEnd::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn a_total_limit_holds_for_all_attempts_together() {
    let total = Duration::from_secs(4);
    let limits = RunLimits { total_max: Some(total), ..RunLimits::default() };
    let takes = Duration::from_secs(3);
    let (run, took) = limited(limits, takes, busy(None)).await;
    assert_eq!((run.attempts, run.end, took), (2, RunEnd::TimedOut, total));
    // The first attempt and the wait after it had the rest.
    let left = total.saturating_sub(takes + RETRY_BACKOFF / 2).as_secs_f64();
    let error = run.result.error.unwrap();
    assert!(error.contains(&format!("within {left} seconds and was stopped")), "{error}");
    // No attempt begins without time.
    let takes = total.saturating_sub(RETRY_BACKOFF / 4);
    let (run, took) = limited(limits, takes, busy(None)).await;
    assert_eq!((run.attempts, run.end), (1, RunEnd::Unavailable));
    assert!(took < total);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_has_waited_is_not_called_again() {
    let fault = busy(None).before_sending().after_waiting();
    let (run, _) = limited(RunLimits::default(), Duration::ZERO, fault).await;
    assert_eq!((run.attempts, run.end), (1, RunEnd::Unavailable));
}
