//! What this binary was built from; `build.rs` finds it out.

/// The version, then commit, target and features: what `--version` prints.
pub(crate) const LINE: &str = env!("TETHER_VERSION");
/// The version alone.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit, shortened; empty if it is unknown.
pub(crate) const COMMIT: &str = env!("TETHER_COMMIT");
/// The platform.
pub(crate) const TARGET: &str = env!("TETHER_TARGET");
/// What is compiled in, with commas between.
pub(crate) const FEATURES: &str = env!("TETHER_FEATURES");
