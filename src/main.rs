//! The `tether` binary.

use std::process::ExitCode;

/// Returns freed memory to the system, unlike the default allocator (`Cargo.toml` has figures).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tether::cli::main()
}
