//! What the orchestrator may do with a tool's calls.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// What the orchestrator may do with a tool's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent settings that an operator configures"
)]
pub struct Policy {
    /// A call may return a question to the user. Later calls wait for it.
    pub may_clarify: bool,
    /// A call changes something. It waits for all earlier calls.
    pub mutates: bool,
    /// A call may delete or overwrite what cannot be restored.
    pub destructive: bool,
    /// Calls run strictly in order: each waits for all earlier calls, and later calls wait for it.
    pub sequential: bool,
    /// A mutating call may be retried under the same idempotency key.
    pub idempotent: bool,
    /// A call may be made again with the same arguments in one turn, because it polls something
    /// that changes by itself.
    pub repeatable: bool,
    /// Results may contain what strangers wrote. For the rest of the turn, earlier approvals do not
    /// count.
    pub open_world: bool,
    /// Which calls the user is asked to approve, if not those that `tools.confirm` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Confirm>,
    /// Time limit of a call, if not `limits.tool_timeout_sec`.
    #[serde(
        rename = "timeout_sec",
        skip_serializing_if = "Option::is_none",
        serialize_with = "seconds"
    )]
    #[schemars(with = "f64")]
    pub timeout: Option<Duration>,
}

/// Which calls the user is asked to approve. Each level includes the ones before it.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Confirm {
    /// None.
    Never,
    /// Those that may destroy something.
    #[default]
    Destructive,
    /// Those that change something.
    Mutating,
    /// All.
    Always,
}

impl Policy {
    /// The policy of a tool that only reads and answers at once.
    pub const NONE: Self = Self {
        may_clarify: false,
        mutates: false,
        destructive: false,
        sequential: false,
        idempotent: false,
        repeatable: false,
        open_world: false,
        confirm: None,
        timeout: None,
    };

    /// Whether a call may be made more than once: it changes nothing, or its tool knows it by its
    /// idempotency key.
    #[must_use]
    pub const fn may_run_again(&self) -> bool {
        !self.mutates || self.idempotent
    }

    /// Whether later calls wait for a call of this tool.
    #[must_use]
    pub const fn is_barrier(&self) -> bool {
        self.may_clarify || self.mutates || self.sequential
    }

    /// Whether it only looks something up, possibly with an ambiguous result.
    #[must_use]
    pub const fn is_lookup(&self) -> bool {
        self.may_clarify && !self.mutates
    }
}

impl Confirm {
    /// All levels, with their names in configurations and requests.
    pub const ALL: [(&'static str, Self); 4] = [
        ("never", Self::Never),
        ("destructive", Self::Destructive),
        ("mutating", Self::Mutating),
        ("always", Self::Always),
    ];

    /// Whether the user is asked to approve a call with this policy.
    #[must_use]
    pub const fn includes(self, policy: &Policy) -> bool {
        match self {
            Self::Never => false,
            Self::Destructive => policy.destructive,
            Self::Mutating => policy.mutates || policy.destructive,
            Self::Always => true,
        }
    }
}

/// Changes to a policy; absent fields stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PolicyPatch {
    /// See [`Policy::may_clarify`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_clarify: Option<bool>,
    /// See [`Policy::mutates`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutates: Option<bool>,
    /// See [`Policy::destructive`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// See [`Policy::sequential`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential: Option<bool>,
    /// See [`Policy::idempotent`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// See [`Policy::repeatable`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeatable: Option<bool>,
    /// See [`Policy::open_world`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    /// See [`Policy::confirm`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Confirm>,
    /// See [`Policy::timeout`].
    #[serde(
        rename = "timeout_sec",
        skip_serializing_if = "Option::is_none",
        serialize_with = "seconds"
    )]
    pub timeout: Option<Duration>,
}

impl PolicyPatch {
    /// The policy with these changes.
    ///
    /// A tool that does not change anything cannot destroy anything either, so `mutates: false`
    /// alone also means `destructive: false`, and `destructive: true` alone also means
    /// `mutates: true`.
    #[must_use]
    pub fn apply(&self, policy: Policy) -> Policy {
        let is_mutating = self.destructive.unwrap_or_default().then_some(true);
        let is_harmless = self.mutates.is_some_and(|mutates| !mutates).then_some(false);
        Policy {
            may_clarify: self.may_clarify.unwrap_or(policy.may_clarify),
            mutates: self.mutates.or(is_mutating).unwrap_or(policy.mutates),
            destructive: self.destructive.or(is_harmless).unwrap_or(policy.destructive),
            sequential: self.sequential.unwrap_or(policy.sequential),
            idempotent: self.idempotent.unwrap_or(policy.idempotent),
            repeatable: self.repeatable.unwrap_or(policy.repeatable),
            open_world: self.open_world.unwrap_or(policy.open_world),
            confirm: self.confirm.or(policy.confirm),
            timeout: self.timeout.or(policy.timeout),
        }
    }
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn seconds<S: Serializer>(timeout: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    timeout.map(|timeout| timeout.as_secs_f64()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: Policy = Policy::NONE;
    const CHANGES: Policy = Policy { mutates: true, ..Policy::NONE };
    const DESTROYS: Policy = Policy { mutates: true, destructive: true, ..Policy::NONE };

    #[test]
    fn each_level_of_confirmation_includes_the_ones_before_it() {
        for (level, includes) in [
            (Confirm::Never, [false, false, false]),
            (Confirm::Destructive, [false, false, true]),
            (Confirm::Mutating, [false, true, true]),
            (Confirm::Always, [true, true, true]),
        ] {
            let found = [READS, CHANGES, DESTROYS].map(|policy| level.includes(&policy));
            assert_eq!(found, includes, "{level:?}");
        }
        assert!(Confirm::ALL.is_sorted_by_key(|(_, level)| *level));
    }

    #[test]
    fn a_patch_changes_only_what_it_names() {
        let timeout = Some(Duration::from_secs(3));
        let before = Policy { may_clarify: true, timeout, ..DESTROYS };
        assert_eq!(PolicyPatch::default().apply(before), before);
        let patch = PolicyPatch { confirm: Some(Confirm::Always), ..PolicyPatch::default() };
        let after = Policy { confirm: Some(Confirm::Always), ..before };
        assert_eq!(patch.apply(before), after);
    }

    #[test]
    fn what_changes_nothing_destroys_nothing() {
        let harmless = PolicyPatch { mutates: Some(false), ..PolicyPatch::default() };
        assert_eq!(harmless.apply(DESTROYS), READS);
        let destructive = PolicyPatch { destructive: Some(true), ..PolicyPatch::default() };
        assert_eq!(destructive.apply(READS), DESTROYS);
    }
}
