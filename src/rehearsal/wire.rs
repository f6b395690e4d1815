//! A script as the bytes of a Chat Completions stream.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_stream::Stream;

use super::Script;
use crate::upstream::RoundFinish;

/// Streams a script, one chunk per token, at `tokens_per_sec`; with 0, as fast as it is read.
///
/// Nothing runs between polls, so dropping the stream ends it.
pub(crate) fn stream(
    script: Script,
    tokens_per_sec: u32,
) -> impl Stream<Item = Bytes> + Send + 'static {
    async_stream::stream! {
        yield chunk(&json!({"role": "assistant", "content": ""}), None);
        let mut pace = pace(tokens_per_sec);
        for token in script.tokens() {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            yield chunk(&json!({"content": token}), None);
        }
        yield chunk(&json!({}), Some(finish_reason(script.finish())));
        yield frame(&json!({
            "id": ID, "object": OBJECT, "created": 0, "model": MODEL,
            "choices": [], "usage": script.usage(),
        }));
        yield Bytes::from_static(b"data: [DONE]\n\n");
    }
}

const ID: &str = "chatcmpl-embedded";
const OBJECT: &str = "chat.completion.chunk";
const MODEL: &str = "embedded";

fn pace(tokens_per_sec: u32) -> Option<Interval> {
    let period = Duration::from_secs(1).checked_div(tokens_per_sec)?;
    // tokio panics if the interval is zero.
    let mut pace = tokio::time::interval(period.max(Duration::from_nanos(1)));
    // After a delay, continue at the same pace instead of catching up.
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(pace)
}

fn chunk(delta: &Value, finish_reason: Option<&str>) -> Bytes {
    frame(&json!({
        "id": ID, "object": OBJECT, "created": 0, "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }))
}

fn frame(data: &impl Serialize) -> Bytes {
    let mut frame = b"data: ".to_vec();
    // Writing JSON values to memory cannot fail.
    let _ = serde_json::to_writer(&mut frame, data);
    frame.extend_from_slice(b"\n\n");
    Bytes::from(frame)
}

const fn finish_reason(finish: RoundFinish) -> &'static str {
    match finish {
        RoundFinish::Length => "length",
        RoundFinish::ToolCalls => "tool_calls",
        RoundFinish::ContentFilter => "content_filter",
        RoundFinish::Stop | RoundFinish::Other => "stop",
    }
}
