//! The sources of a gateway's tools, and what they offer together.
//!
//! ```text
//!   builtin ───────┐
//!   command, http ─┤ fixed        ┌──────────┐   one registry, which turns take at their start,
//!   Rust ──────────┼────────────> │ toolset  │─> and a report of what became of each source
//!   MCP servers ───┘ may change   └──────────┘
//! ```
//! A source that fails, and a tool that cannot be offered, never keep others from being offered.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;
use tokio_stream::Stream as _;
use tokio_stream::wrappers::WatchStream;

use super::builtin::FindTools;
use super::process::Launcher;
use super::source::{LeftOut, Offering, Source, SourceKind, SourceReport, SourceState};
use super::{Entry, Registry, RegistryError, Tool, ToolSpec};

/// The sources of a gateway's tools, in the order of the configuration.
#[derive(Debug, Default)]
pub struct Sources {
    feeds: Vec<Feed>,
    /// What starts their programs, if any have some.
    launcher: Option<Arc<Launcher>>,
}

/// A source.
enum Feed {
    /// It always offers the same.
    Fixed(Offering),
    /// It has to be asked, and has not been yet.
    Idle(SourceReport, Begin),
    /// What it offers may change.
    Live { now: watch::Receiver<Offering>, changes: WatchStream<Offering> },
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Feed").field(&self.report().source).finish()
    }
}

/// Starts asking a source.
type Begin = Box<dyn FnOnce() -> watch::Receiver<Offering> + Send>;

/// What all sources offer at one moment.
#[derive(Debug, Clone, Default)]
pub struct Toolset {
    /// The tools.
    pub tools: Registry,
    /// The state of each source.
    pub sources: Vec<SourceReport>,
}

impl Sources {
    /// No sources yet. Their programs are started by `launcher`.
    #[must_use]
    pub fn with_programs(launcher: Arc<Launcher>) -> Self {
        Self { launcher: Some(launcher), ..Self::default() }
    }

    /// Adds a source that always offers the same.
    pub fn push(&mut self, offering: Offering) {
        self.feeds.push(Feed::Fixed(offering));
    }

    /// Adds a source whose offering may change. [`start`](Self::start) calls `begin`; until then,
    /// the source offers nothing, and `report` is what is known of it.
    pub fn push_live(
        &mut self,
        report: SourceReport,
        begin: impl FnOnce() -> watch::Receiver<Offering> + Send + 'static,
    ) {
        self.feeds.push(Feed::Idle(report, Box::new(begin)));
    }

    /// Starts asking the sources that are remote, or run as programs of their own. **Has
    /// to be called inside a runtime.** All are asked at the same time.
    pub fn start(&mut self) {
        for feed in std::mem::take(&mut self.feeds) {
            self.feeds.push(match feed {
                Feed::Idle(_, begin) => {
                    let now = begin();
                    Feed::Live { changes: WatchStream::from_changes(now.clone()), now }
                }
                begun => begun,
            });
        }
    }

    /// Adds a tool written in Rust, after all others.
    ///
    /// # Errors
    /// If its name or its schema cannot be used.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let entry = Entry::new(tool)?;
        let source = entry.spec().source.clone();
        match self.feeds.last_mut() {
            Some(Feed::Fixed(last)) if last.report.source == source => last.tools.push(entry),
            _ => self.push(Offering::ready(source, vec![entry], Vec::new())),
        }
        Ok(())
    }

    /// What they offer now. If two tools have the same name, the earlier source keeps it.
    #[must_use]
    pub fn toolset(&self) -> Toolset {
        let mut toolset = Toolset::default();
        for feed in &self.feeds {
            toolset.add(feed.offering());
        }
        toolset
    }

    /// Waits until a source offers something other than last time.
    ///
    /// Dropping the future loses nothing.
    pub async fn changed(&mut self) {
        poll_fn(|cx| {
            let mut has_changed = false;
            for feed in &mut self.feeds {
                if let Feed::Live { changes, .. } = feed {
                    while let Poll::Ready(Some(_)) = Pin::new(&mut *changes).poll_next(cx) {
                        has_changed = true;
                    }
                }
            }
            if has_changed { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Sources {
    /// Ends the sources, and waits until their programs have ended, for at most
    /// [`STOP_TIMEOUT`](crate::limits::process::STOP_TIMEOUT). What is left then is killed when this process ends.
    pub async fn stop(self) {
        let Self { feeds, launcher } = self;
        drop(feeds);
        if let Some(launcher) = launcher {
            launcher.all_ended().await;
        }
    }
}

impl Feed {
    fn report(&self) -> SourceReport {
        match self {
            Self::Fixed(offering) => offering.report.clone(),
            Self::Idle(report, _) => report.clone(),
            Self::Live { now, .. } => now.borrow().report.clone(),
        }
    }

    fn offering(&self) -> Offering {
        match self {
            Self::Fixed(offering) => offering.clone(),
            Self::Idle(report, _) => Offering { report: report.clone(), tools: Vec::new() },
            Self::Live { now, .. } => now.borrow().clone(),
        }
    }
}

impl From<Registry> for Toolset {
    fn from(tools: Registry) -> Self {
        Self { tools, sources: Vec::new() }
    }
}

impl Toolset {
    fn add(&mut self, offering: Offering) {
        let Offering { mut report, tools } = offering;
        report.tools = 0;
        for tool in tools {
            let spec = Arc::clone(tool.spec());
            let name = spec.source_name.clone().unwrap_or_else(|| spec.name.clone());
            if spec.name == FindTools::NAME && !FindTools::is(&spec) {
                let reason = "the gateway's own tool has this name; change the `prefix` of the \
                              entry, or rename the tool";
                report.left_out.push(LeftOut { name, reason: reason.to_owned() });
                continue;
            }
            match self.tools.add_entry(tool) {
                Ok(()) => report.tools += 1,
                Err(error) => {
                    let earlier = self.tools.get(&spec.name).map(|tool| &tool.spec().source);
                    let reason =
                        earlier.map_or_else(|| error.to_string(), |it| collision(&spec, it));
                    report.left_out.push(LeftOut { name, reason });
                }
            }
        }
        self.sources.push(report);
    }

    /// The required sources that offer nothing yet.
    pub fn all_awaited(&self) -> impl Iterator<Item = &SourceReport> {
        self.sources.iter().filter(|it| {
            it.is_required && matches!(it.state, SourceState::Starting | SourceState::Failed)
        })
    }

    /// The first of them, if any; before the others, the first that is lost.
    #[must_use]
    pub fn awaited(&self) -> Option<&SourceReport> {
        self.all_awaited().find(|it| it.is_lost).or_else(|| self.all_awaited().next())
    }

    /// Whether every source has answered or failed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.sources.iter().all(|it| it.state != SourceState::Starting)
    }

    /// Whether it is known which tool has this name, if any. A source that has not answered yet may
    /// still take it, unless its tools have other names or it comes after the one that has it.
    #[must_use]
    pub fn is_settled_for(&self, name: &str) -> bool {
        let owner = self.tools.get(name).map(|tool| &tool.spec().source);
        let before = self.sources.iter().take_while(|report| Some(&report.source) != owner);
        before.into_iter().all(|it| it.state != SourceState::Starting || !it.may_offer(name))
    }
}

/// Why a tool is not offered if an earlier source offers one of the same name, with what the
/// tool's own entry can do about it.
fn collision(spec: &ToolSpec, earlier: &Source) -> String {
    let key = match (spec.source.kind, &spec.source_name) {
        (SourceKind::Mcp, _) => Some("deny"),
        // A written request has one name, which its entry gives it.
        (SourceKind::Http, Some(_)) => Some("exclude"),
        _ => None,
    };
    let advice = match key {
        None => "rename one of them".to_owned(),
        Some(key) if spec.source == *earlier => format!("leave one of them out with `{key}`"),
        Some(key) => format!("change the entry's `prefix`, or leave this one out with `{key}`"),
    };
    format!("{earlier} already offers a tool called {}; {advice}", spec.name)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use serde_json::json;

    use super::*;
    use crate::tools::registry::tests::{Named, tool};

    fn offering(name: &str, tools: &[&str]) -> Offering {
        let entry = |name: &&str| Entry::new(tool(name, json!({ "type": "object" }))).unwrap();
        let source = Source::entry(SourceKind::Mcp, name);
        Offering::ready(source, tools.iter().map(entry).collect(), Vec::new())
    }

    fn names(toolset: &Toolset) -> Vec<&str> {
        toolset.tools.catalog().specs().map(|spec| spec.name.as_str()).collect()
    }

    #[test]
    fn the_earlier_source_keeps_a_name_that_two_tools_have() {
        let mut sources = Sources::default();
        sources.push(offering("files", &["read", "write"]));
        sources.push(offering("mail", &["read", "send"]));
        let toolset = sources.toolset();
        assert_eq!(names(&toolset), ["read", "write", "send"]);
        let [files, mail] = &toolset.sources[..] else { panic!() };
        assert_eq!((files.tools, mail.tools, files.left_out.len()), (2, 1, 0));
        assert_eq!(mail.left_out[0].name, "read");
        assert!(mail.left_out[0].reason.contains("already offers a tool called read"));
    }

    /// What is said of a tool `a_b` that `source` knows by this name, if there is one already.
    #[track_caller]
    fn check_collision(earlier: &Source, source: &Source, own: Option<&str>, said: &str) {
        let entry = |source: &Source, own: Option<&str>| {
            let spec = ToolSpec {
                name: "a_b".to_owned(),
                parameters: json!({ "type": "object" }),
                source: source.clone(),
                source_name: own.map(str::to_owned),
                ..ToolSpec::default()
            };
            Entry::new(Arc::new(Named(Arc::new(spec)))).unwrap()
        };
        let mut toolset = Toolset::default();
        for tool in [entry(earlier, Some("a-b")), entry(source, own)] {
            let source = tool.spec().source.clone();
            toolset.add(Offering::ready(source, vec![tool], Vec::new()));
        }
        assert_eq!(toolset.sources[1].left_out[0].of(source), said);
    }

    #[test]
    fn a_collision_says_what_the_tools_own_entry_can_do() {
        let [files, mail] = ["files", "mail"].map(|name| Source::entry(SourceKind::Mcp, name));
        let [pets, request] = ["pets", "a_b"].map(|name| Source::entry(SourceKind::Http, name));
        let program = Source::entry(SourceKind::Command, "a_b");
        let (deny, exclude) = (Some("a.b"), Some("a b"));
        for (earlier, source, own, said) in [
            (
                &files,
                &mail,
                deny,
                "mcp mail: a.b is not offered: mcp files already offers a tool called a_b; change the entry's `prefix`, or leave this one out with `deny`",
            ),
            (
                &files,
                &files,
                deny,
                "mcp files: a.b is not offered: mcp files already offers a tool called a_b; leave one of them out with `deny`",
            ),
            (
                &files,
                &pets,
                exclude,
                "http pets: a b is not offered: mcp files already offers a tool called a_b; change the entry's `prefix`, or leave this one out with `exclude`",
            ),
            (
                &pets,
                &pets,
                exclude,
                "http pets: a b is not offered: http pets already offers a tool called a_b; leave one of them out with `exclude`",
            ),
            (
                &pets,
                &request,
                None,
                "http a_b is not offered: http pets already offers a tool called a_b; rename one of them",
            ),
            (
                &pets,
                &program,
                None,
                "command a_b is not offered: http pets already offers a tool called a_b; rename one of them",
            ),
        ] {
            check_collision(earlier, source, own, said);
        }
    }

    #[test]
    fn a_tool_is_known_once_no_earlier_source_can_take_its_name() {
        let source = |name: &str| Source::entry(SourceKind::Mcp, name);
        let offer = |from: &str, tool: &str| {
            let spec = ToolSpec {
                name: tool.to_owned(),
                parameters: json!({ "type": "object" }),
                source: source(from),
                ..ToolSpec::default()
            };
            let entry = Entry::new(Arc::new(Named(Arc::new(spec)))).unwrap();
            Offering::ready(source(from), vec![entry], Vec::new())
        };
        let starting = SourceReport::new(source("slow"), SourceState::Starting);
        let mut sources = Sources::default();
        sources.push(offer("files", "read"));
        sources.push(Offering { report: starting, tools: Vec::new() });
        sources.push(offer("mail", "send"));
        let toolset = sources.toolset();
        assert!(toolset.is_settled_for("read") && !toolset.is_settled());
        assert!(!toolset.is_settled_for("send") && !toolset.is_settled_for("none"));
    }

    #[test]
    fn a_name_with_another_prefix_does_not_wait_for_a_source() {
        let slow = SourceReport::new(Source::entry(SourceKind::Mcp, "slow"), SourceState::Starting);
        let report = SourceReport { prefix: "slow__".to_owned(), ..slow };
        let mut sources = Sources::default();
        sources.push(Offering { report, tools: Vec::new() });
        sources.push(offering("mail", &["send"]));
        let toolset = sources.toolset();
        assert!(toolset.is_settled_for("send") && toolset.is_settled_for("other__send"));
        assert!(!toolset.is_settled_for("slow__send"));
    }

    #[test]
    fn no_source_can_take_over_the_search_for_tools() {
        let mut sources = Sources::default();
        sources.push(offering("files", &["read", "find_tools"]));
        sources.add(tool("find_tools", json!({ "type": "object" }))).unwrap();
        let toolset = sources.toolset();
        assert_eq!(names(&toolset), ["read"]);
        for source in &toolset.sources {
            assert!(source.left_out[0].reason.starts_with("the gateway's own tool"), "{source:?}");
        }
    }

    #[test]
    fn a_tool_in_rust_comes_after_the_others() {
        let mut sources = Sources::default();
        sources.push(offering("files", &["read"]));
        sources.add(tool("shout", json!({ "type": "object" }))).unwrap();
        sources.add(tool("whisper", json!({ "type": "object" }))).unwrap();
        assert!(sources.add(tool("no", json!({ "type": "array" }))).is_err());
        let toolset = sources.toolset();
        assert_eq!(names(&toolset), ["read", "shout", "whisper"]);
        assert_eq!(toolset.sources.len(), 2);
    }

    #[test]
    fn a_toolset_shows_what_a_live_source_offers_now() {
        let (sender, receiver) = watch::channel(offering("files", &["read"]));
        let mut sources = Sources::default();
        let files = Source::entry(SourceKind::Mcp, "files");
        sources.push_live(SourceReport::new(files, SourceState::Starting), || receiver);
        assert!(!sources.toolset().is_settled() && names(&sources.toolset()).is_empty());
        sources.start();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(sources.changed()).poll(&mut cx).is_pending());
        sender.send(offering("files", &["read", "write"])).unwrap();
        assert!(pin!(sources.changed()).poll(&mut cx).is_ready());
        assert_eq!(names(&sources.toolset()), ["read", "write"]);
        assert!(pin!(sources.changed()).poll(&mut cx).is_pending());
        drop(sender);
        assert!(pin!(sources.changed()).poll(&mut cx).is_pending(), "it is gone for good");
    }

    #[test]
    fn turns_wait_for_required_sources_only() {
        let starting = |is_required| {
            let source = Source::entry(SourceKind::Mcp, "files");
            let report = SourceReport::new(source, SourceState::Starting);
            Offering { report: SourceReport { is_required, ..report }, tools: Vec::new() }
        };
        let toolset = |offering| {
            let mut sources = Sources::default();
            sources.push(offering);
            sources.toolset()
        };
        assert!(toolset(starting(true)).awaited().is_some());
        assert!(toolset(starting(false)).awaited().is_none());
        assert!(!toolset(starting(false)).is_settled());
        let mut both = toolset(starting(true));
        both.sources.extend(toolset(starting(true)).sources);
        both.sources[1].is_lost = true;
        assert!(both.awaited().unwrap().is_lost, "the others change nothing");
        let mut ready = offering("files", &["read"]);
        ready.report.is_required = true;
        assert!(toolset(ready.clone()).awaited().is_none() && toolset(ready).is_settled());
    }
}
