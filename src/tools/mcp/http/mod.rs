//! Streamable HTTP, on the client that checks addresses.

mod client;
mod events;
pub(super) mod params;

pub(super) use client::HttpClient;
