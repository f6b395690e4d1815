//! Programs of this machine that tools run: started with a clean environment in a group of their
//! own, and ended with everything that they have started.
//!
//! ```text
//!   gateway ── exec ──> launcher (this binary again): limits itself, then becomes the program
//!      │                                                 │
//!      │                                                 ├─ its children: the same group
//!      │                                                 └─ stragglers: another group, the same mark
//!      └── pipe ──> guard: ends all of them if the gateway is killed
//! ```
//! A library without `unsafe` cannot run code between fork and exec, so whatever restricts the
//! program is done by the launcher.

mod child;
mod directory;
mod environment;
mod guard;
mod launcher;
mod running;
mod sandbox;
mod status;
mod stderr;
mod stragglers;
#[cfg(target_os = "linux")]
mod system_calls;
mod throttled;

pub use child::{Child, Options, ProcessError, missing_directory};
pub use environment::{ALWAYS, environment, find_program};
pub use launcher::{Launcher, is_launch, launch};
pub use sandbox::{Confinement, Layers, Limits, Sandbox};
pub use status::describe;
pub(super) use stderr::OnLine;
pub use stderr::{Stderr, last_lines};
pub use throttled::Throttled;
