//! What this binary was built from, as `build.rs` found out.

/// What `--version` prints: the version, then commit, target and features.
pub(crate) const LINE: &str = env!("TETHER_VERSION");
/// The version alone.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit, shortened; empty if it is unknown.
pub(crate) const COMMIT: &str = env!("TETHER_COMMIT");
/// The platform, as a target triple.
pub(crate) const TARGET: &str = env!("TETHER_TARGET");
/// What is compiled in, separated by commas.
pub(crate) const FEATURES: &str = env!("TETHER_FEATURES");
