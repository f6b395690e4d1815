//! The gateway from outside: raw bytes in and out, a model that does what a test
//! says, and the real server between them.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

#[path = "../support/mod.rs"]
mod support;

mod cancel;
mod rejoin;
mod stream;
