//! An operator's changes to the policies of tools.

use serde::Serializer;

use crate::config::reader::{Keys, boolean, wait};
use crate::config::values::choice;
use crate::limits::config as bounds;
use crate::tools::source::Glob;
use crate::tools::{Confirm, PolicyPatch};

/// Reads the changes for one tool.
pub(super) fn policy(mut keys: Keys<'_, '_>) -> PolicyPatch {
    let mut flag = |key| keys.read(key, None, |node| boolean(node).map(Some));
    let patch = PolicyPatch {
        may_clarify: flag("may_clarify"),
        mutates: flag("mutates"),
        destructive: flag("destructive"),
        sequential: flag("sequential"),
        idempotent: flag("idempotent"),
        repeatable: flag("repeatable"),
        open_world: flag("open_world"),
        ..PolicyPatch::default()
    };
    let confirm = choice("confirm", &Confirm::ALL);
    let timeout = wait(bounds::WAIT_MIN..=bounds::WAIT_MAX);
    let patch = PolicyPatch {
        confirm: keys.read("confirm", None, |node| confirm(node).map(Some)),
        timeout: keys.read("timeout_sec", None, |node| timeout(node).map(Some)),
        ..patch
    };
    keys.finish();
    patch
}

/// Reads the changes for tools, by patterns that match their names.
pub(super) fn policies(keys: &mut Keys<'_, '_>) -> Vec<(Glob, PolicyPatch)> {
    let policies = keys.named_sections("policy", policy);
    policies.into_iter().map(|(pattern, patch)| (Glob::new(pattern), patch)).collect()
}

pub(super) fn by_glob<S: Serializer>(
    policies: &[(Glob, PolicyPatch)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(policies.iter().map(|(glob, patch)| (glob.to_string(), patch)))
}
