//! A client of the gateway's HTTP API: whole turns, and a session's transcript.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::Error;
use crate::record::Turn;

/// A client of one gateway.
#[derive(Debug)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let http = legacy::Client::builder(TokioExecutor::new()).build_http();
        Self { http, address }
    }

    /// Plays one turn to its end. If dropped, `turn` keeps what has arrived so far.
    pub(crate) async fn play(&self, body: &Value, turn: &mut Turn) -> Result<(), Error> {
        let request = Request::post(self.url("/api/v1/chat/stream"))
            .header("content-type", "application/json")
            .body(Full::from(body.to_string()))?;
        let mut answer = self.ask(request).await?.into_body();
        let mut lines = Lines::default();
        while let Some(frame) = answer.frame().await {
            if let Ok(chunk) = frame?.into_data() {
                lines.push(&chunk);
            }
            while let Some(line) = lines.next() {
                if let Some(event) = line.strip_prefix(b"data: ") {
                    turn.note(&serde_json::from_slice(event)?);
                }
            }
        }
        if turn.end.is_none() {
            Err("the stream ended without a last event".into())
        } else {
            Ok(())
        }
    }

    /// The transcript of a session.
    pub(crate) async fn transcript(&self, session: &str) -> Result<Value, Error> {
        let url = self.url(&format!("/api/v1/sessions/{session}"));
        let answer = self.ask(Request::get(url).body(Full::default())?).await?;
        Ok(serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a request. Any status other than 200 becomes an error with the body.
    async fn ask(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        let answer = self.http.request(request).await?;
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let body = answer.into_body().collect().await?.to_bytes();
        Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into())
    }
}

/// Splits bytes, cut anywhere, into lines. The gateway writes an event's data on one line.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
    }

    /// The next whole line, without its line end.
    fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.0.drain(..=end).collect();
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_be_cut_anywhere() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for byte in b"id: 1-1\ndata: {}\n\nda" {
            lines.push(&[*byte]);
            found.extend(lines.next());
        }
        assert_eq!(found, [&b"id: 1-1"[..], b"data: {}", b""]);
        assert_eq!(lines.0, b"da");
    }
}
