//! The gateway seen from outside: raw bytes in and out, a model that follows the test's script,
//! and the real server in between.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod ag_ui;
mod ai_sdk;
mod artifacts;
mod call_formats;
mod cancel;
mod chat;
mod chat_completions;
mod clarification;
mod client_images;
mod client_limits;
mod client_tools;
mod contracts;
mod conversations;
mod documented;
mod drain;
mod early_failures;
mod embedded_store;
mod extra_sampling;
mod full_disk;
mod http2;
mod http2_frames;
mod idempotency;
mod images;
mod killed;
mod leaks;
mod limits;
mod llama_completion;
mod mcp_questions;
mod messages;
mod model_servers;
mod native;
mod ndjson;
mod nodes;
mod nonce;
mod older_releases;
mod one_processor;
mod pipelining;
mod progress;
mod recent_turns;
mod redis_cluster;
mod redis_failover;
mod redis_faults;
mod redis_loading;
mod redis_losses;
mod redis_outages;
mod redis_sentinel;
mod redis_store;
mod redis_tls;
mod rejoin;
mod report;
mod requests;
mod response_format;
mod responses;
mod routes;
mod rules;
mod selected_tools;
mod shared_store;
mod slow_reader;
mod smuggling;
mod stop_texts;
mod stream;
mod takeover_log;
mod telemetry;
mod tls;
mod tool_choice;
mod tool_sources;
mod transcript;
mod upstream_faults;
