//! Tells the binary what it was built from (`src/version.rs`): `TETHER_COMMIT`, `TETHER_TARGET`,
//! `TETHER_FEATURES` and, in one line, `TETHER_VERSION`.

#[path = "build/commit.rs"]
mod commit;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/commit.rs");
    println!("cargo::rerun-if-env-changed=TETHER_COMMIT");
    let (target, is_release) = (variable("TARGET"), variable("PROFILE") == "release");
    let commit = commit(is_release);
    let mut features: Vec<String> = Vec::new();
    // As in `src/main.rs`.
    if variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu" {
        features.push("jemalloc".to_owned());
    }
    let chosen = variable("CARGO_CFG_FEATURE");
    features.extend(chosen.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
    if !is_release {
        features.push("debug".to_owned());
    }
    let parts = [&commit, &target].into_iter().chain(&features).filter(|part| !part.is_empty());
    let parts: Vec<_> = parts.map(String::as_str).collect();
    println!("cargo::rustc-env=TETHER_COMMIT={commit}");
    println!("cargo::rustc-env=TETHER_TARGET={target}");
    println!("cargo::rustc-env=TETHER_FEATURES={}", features.join(","));
    let version = variable("CARGO_PKG_VERSION");
    println!("cargo::rustc-env=TETHER_VERSION={version} ({})", parts.join(", "));
}

/// The commit that `TETHER_COMMIT` names, or else the package's own; empty if it is unknown. Debug builds do
/// not look for it, because every commit would then rebuild everything.
fn commit(is_release: bool) -> String {
    let given = variable("TETHER_COMMIT");
    if !given.is_empty() || !is_release {
        return given;
    }
    let Some(found) = commit::of(Path::new(&variable("CARGO_MANIFEST_DIR"))) else {
        return String::new();
    };
    for file in found.files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    found.id
}

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script everything by variables")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
