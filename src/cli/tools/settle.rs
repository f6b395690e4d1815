//! Tools outside a gateway: asks their sources, and reports what is missing.

use std::time::Duration;

use tokio::time::timeout;

use crate::cli::print_diagnostic;
use crate::config::Config;
use crate::limits::mcp::SETTLE_MARGIN;
use crate::limits::turn::REQUIRED_SOURCE_WAIT;
use crate::tools::source::SourceState;
use crate::tools::{Sources, Toolset};

/// How long sources may take to answer: as long as turns wait for one, or as long as a server may take to connect. A
/// little longer, so that a server that does not connect is reported with its own reason.
pub(in crate::cli) fn wait(config: &Config) -> Duration {
    let longest = config.tools.mcp.iter().map(|server| server.connect_timeout).max();
    longest.unwrap_or_default().max(REQUIRED_SOURCE_WAIT) + SETTLE_MARGIN
}

/// Asks the sources. Returns what they offer once each has answered or failed, or after this time.
pub(in crate::cli) async fn settled(sources: &mut Sources, within: Duration) -> Toolset {
    settled_once(sources, within, Toolset::is_settled).await
}

/// Asks the sources. Returns what they offer once that is enough, or after this time.
pub(in crate::cli) async fn settled_once(
    sources: &mut Sources,
    within: Duration,
    is_enough: impl Fn(&Toolset) -> bool,
) -> Toolset {
    sources.start();
    let enough = async {
        while !is_enough(&sources.toolset()) {
            sources.changed().await;
        }
    };
    // A source that has not answered is reported as such.
    let _ = timeout(within, enough).await;
    sources.toolset()
}

/// Says on standard error which sources and tools are missing.
pub(in crate::cli) fn report(toolset: &Toolset) {
    for source in &toolset.sources {
        let error = source.error.as_deref();
        match source.state {
            SourceState::Starting => {
                print_diagnostic("warning", format!("{}: it has not answered", source.source));
            }
            SourceState::Failed | SourceState::Reconnecting => {
                let error = error.unwrap_or("it cannot be used");
                print_diagnostic("warning", format!("{}: {error}", source.source));
            }
            SourceState::Ready => {
                if let Some(error) = error {
                    print_diagnostic("warning", format!("{}: {error}", source.source));
                }
            }
        }
        for warning in source.warnings() {
            print_diagnostic("warning", warning);
        }
    }
}
