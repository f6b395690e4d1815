//! Streamable HTTP, on the client that checks addresses.

mod answer;
mod client;
mod config;
mod events;
pub(super) mod params;

pub(super) use client::{HttpClient, HttpError};
pub(super) use config::config;
