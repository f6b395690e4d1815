//! Model servers that send unreadable data.

use super::{failed, nothing, turn};
use crate::support::events::{outcome, said};
use crate::support::model::text;

#[tokio::test]
async fn it_does_not_speak_http() {
    for rubbish in
        [&b"\x16\x03\x01\x02\x00"[..], b"220 mail.example ESMTP\r\n", b"HTTP/1.1\r\n\r\n"]
    {
        let frames = turn(nothing, async |mut round, _| round.write(rubbish).await).await;
        let message = failed(&frames, "upstream_error", true);
        let is_head = rubbish.ends_with(b"\r\n\r\n");
        assert_eq!(message.contains("does not speak HTTP/1.1: check"), is_head, "{message}");
    }
}

#[tokio::test]
async fn it_sends_frames_that_are_not_chunks() {
    for rubbish in [
        "data: {\"choices\": [\n\n",
        "data: rubbish\n\n",
        "data: [1, 2]\n\n",
        "data: {\"choices\": [{\"delta\": 7}]}\n\n",
        "data: {\"choices\": \"none\"}\n\n",
    ] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.chunk(text("Half") + rubbish).await;
            round.closed().await;
        })
        .await;
        let message = failed(&frames, "upstream_error", false);
        assert!(message.contains("cannot read"), "{rubbish}: {message}");
        assert_eq!(said(&frames), "Half", "{rubbish}");
    }
}

#[tokio::test]
async fn it_sends_bytes_that_are_not_text() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        let mut bytes = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a".to_vec();
        bytes.extend_from_slice(b"\xff\xc3");
        bytes.extend_from_slice(b"b\"}}]}\n\n");
        round.chunk(bytes).await;
        round.end().await;
    })
    .await;
    assert_eq!(outcome(&frames), "stop");
    assert_eq!(said(&frames), "a\u{fffd}\u{fffd}b");
}

#[tokio::test]
async fn it_breaks_the_chunks() {
    for rubbish in ["zz\r\n", "5\r\ndata:xx", "-1\r\n", "ffffffffffffffffff\r\n"] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.say("Half").await;
            round.write(rubbish).await;
        })
        .await;
        let message = failed(&frames, "upstream_error", true);
        assert!(message.starts_with("cannot read the model server's answer: "), "{message}");
        assert_eq!(said(&frames), "Half");
    }
}
