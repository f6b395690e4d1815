//! Streamable HTTP, on the client that checks addresses.

mod answer;
mod client;
mod config;
mod events;
mod fields;
pub(super) mod params;

pub(super) use client::HttpClient;
pub(super) use config::config;
pub(super) use fields::{HttpError, why_unreadable};
