//! Tools that the configuration names outside their own entries.

use crate::config::Config;
use crate::tools::source::SourceState;
use crate::tools::source::unmatched::{unmatched, warning_for};
use crate::tools::{SourceReport, Toolset};

/// Warnings about names in `chat.models` and `tools.select.always` that no tool has, as far as the sources have answered.
pub(super) fn warnings(config: &Config, toolset: &Toolset) -> Vec<String> {
    let known = toolset.tools.catalog().names();
    let may_come = |name: &str| toolset.sources.iter().any(|source| may_yet_offer(source, name));
    let always = config.tools.select.always.iter().filter(|glob| !may_come(&glob.to_string()));
    let mut warnings = unmatched("tools.select.always", "tool", always, &known);
    for (at, model) in config.chat.models.iter().enumerate() {
        let names = model.tools.iter().flatten();
        let missing = names.filter(|name| !known.contains(name) && !may_come(name));
        let key = format!("chat.models[{at}].tools");
        warnings.extend(missing.map(|name| warning_for(&key, "tool", name, &known)));
    }
    warnings
}

/// Whether a source that is not there now may have a tool of this name.
fn may_yet_offer(source: &SourceReport, name: &str) -> bool {
    source.state != SourceState::Ready && source.may_offer(name)
}
