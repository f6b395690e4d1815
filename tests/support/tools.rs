//! Tools that do what a test tells them to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tether::tools::{
    CallContext, Clarification, Policy, Progress, Tool, ToolFuture, ToolResult, ToolSpec,
};
use tokio::sync::{Semaphore, mpsc};

use super::within;

/// A tool called `wait`, which runs until the test releases it.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    spec: Arc<ToolSpec>,
    started: Arc<Semaphore>,
    released: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
}

impl Wait {
    pub(crate) fn new() -> Self {
        Self::that("wait", Policy::default())
    }

    /// The same with another name and policy.
    pub(crate) fn that(name: &str, policy: Policy) -> Self {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "Waits.".to_owned(),
            parameters: json!({"type": "object"}),
            waiting_hint: "waiting".to_owned(),
            policy,
            ..ToolSpec::default()
        };
        Self {
            spec: Arc::new(spec),
            started: Arc::new(Semaphore::new(0)),
            released: Arc::new(Semaphore::new(0)),
            running: Arc::default(),
        }
    }

    /// Waits for a call to start.
    #[track_caller]
    pub(crate) fn started(&self) -> impl Future<Output = ()> {
        within(async { self.started.acquire().await.unwrap().forget() })
    }

    /// Lets one call end.
    pub(crate) fn release(&self) {
        self.released.add_permits(1);
    }

    /// How many calls are running. Dropped ones do not count.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tool for Wait {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        let this = self.clone();
        this.running.fetch_add(1, Ordering::Relaxed);
        let running = Running(Arc::clone(&this.running));
        Box::pin(async move {
            let _running = running;
            this.started.add_permits(1);
            this.released.acquire().await.unwrap().forget();
            Ok(ToolResult::data(json!({"waited": true})))
        })
    }
}

/// A slow tool that follows the test: it reports, asks or ends.
#[derive(Debug)]
pub(crate) struct Slow {
    spec: Arc<ToolSpec>,
    steps: Arc<tokio::sync::Mutex<mpsc::Receiver<Step>>>,
    running: Arc<AtomicUsize>,
}

/// What a [`Slow`] tool does next.
#[derive(Debug)]
pub(crate) enum Step {
    Report(Progress),
    Ask(Clarification),
    End(ToolResult),
}

impl Slow {
    /// The tool, a sender for its steps, and the number of its running calls.
    pub(crate) fn new(name: &str) -> (Self, mpsc::Sender<Step>, Arc<AtomicUsize>) {
        let (sender, steps) = mpsc::channel(64);
        let spec = Always::new(name, Policy::default(), ToolResult::error("")).spec;
        let (steps, running) = (Arc::new(tokio::sync::Mutex::new(steps)), Arc::default());
        (Self { spec, steps, running: Arc::clone(&running) }, sender, running)
    }
}

impl Tool for Slow {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _arguments: Value, context: CallContext) -> ToolFuture {
        let steps = Arc::clone(&self.steps);
        self.running.fetch_add(1, Ordering::Relaxed);
        let running = Running(Arc::clone(&self.running));
        Box::pin(async move {
            let _running = running;
            let mut steps = steps.lock().await;
            loop {
                match steps.recv().await.expect("the test sends the outcome") {
                    Step::Report(progress) => context.reporter.progress(progress),
                    Step::Ask(question) => match context.reporter.ask(question).await {},
                    Step::End(result) => return Ok(result),
                }
            }
        })
    }
}

/// A tool that reports without pause, from its own thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Floods(Arc<ToolSpec>);

impl Floods {
    pub(crate) fn new(name: &str) -> Self {
        Self(Always::new(name, Policy::default(), ToolResult::error("")).spec)
    }
}

impl Tool for Floods {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _arguments: Value, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let (alive, gone) = tokio::sync::oneshot::channel::<()>();
            tokio::task::spawn_blocking(move || {
                let mut done = 0.0;
                while !alive.is_closed() {
                    done += 1.0;
                    context.reporter.progress(Progress::new(done));
                }
            });
            let _ = gone.await;
            Ok(ToolResult::error("it never ends"))
        })
    }
}

/// The arguments of a tool's calls, in order.
pub(crate) type Seen = Arc<Mutex<Vec<Value>>>;

/// Another tool, watched: records what it was really called with, whatever the events say.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    tool: T,
    seen: Seen,
}

impl<T> Watched<T> {
    pub(crate) fn new(tool: T) -> (Self, Seen) {
        let seen = Seen::default();
        (Self { tool, seen: Arc::clone(&seen) }, seen)
    }
}

impl<T: Tool> Tool for Watched<T> {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.tool.spec()
    }

    fn call(&self, arguments: Value, context: CallContext) -> ToolFuture {
        self.seen.lock().push(arguments.clone());
        self.tool.call(arguments, context)
    }
}

/// A tool that always returns the same result.
#[derive(Debug)]
pub(crate) struct Always {
    spec: Arc<ToolSpec>,
    result: ToolResult,
}

impl Always {
    pub(crate) fn new(name: &str, policy: Policy, result: ToolResult) -> Self {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "Does what the test says.".to_owned(),
            parameters: json!({"type": "object"}),
            waiting_hint: "looking".to_owned(),
            policy,
            ..ToolSpec::default()
        };
        Self { spec: Arc::new(spec), result }
    }
}

impl Tool for Always {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        Box::pin(std::future::ready(Ok(self.result.clone())))
    }
}

/// A tool that panics.
#[derive(Debug)]
pub(crate) struct Panics(Arc<ToolSpec>);

impl Panics {
    pub(crate) fn new(name: &str) -> Self {
        Self(Always::new(name, Policy::default(), ToolResult::error("")).spec)
    }
}

impl Tool for Panics {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _arguments: Value, _context: CallContext) -> ToolFuture {
        Box::pin(async { panic!("as the test wants it") })
    }
}

/// A tool called `key`, whose result is the idempotency key of its call.
#[derive(Debug)]
pub(crate) struct Key(Arc<ToolSpec>);

impl Key {
    pub(crate) fn new() -> Self {
        Self(
            Always::new("key", Policy { repeatable: true, ..Policy::NONE }, ToolResult::error(""))
                .spec,
        )
    }
}

impl Tool for Key {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _arguments: Value, context: CallContext) -> ToolFuture {
        let key = context.idempotency_key.to_string();
        Box::pin(async move { Ok(ToolResult::data(json!({ "key": key }))) })
    }
}
