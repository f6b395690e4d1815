//! Model servers that refuse, stall, die, lie and flood: each has one clear outcome, and
//! whatever was said before is kept.

mod connections;
mod deaths;
mod exchanges;
mod floods;
mod garbage;
mod overflow;
mod refusals;
mod sound;
mod stalls;
mod tls;

use crate::support::events::{outcome, said};
use crate::support::gateway::Setup;
use crate::support::{EventStream, Frame, Gateway, Model, Round};

/// Runs a turn whose model behaves like `fault`; returns its frames.
async fn turn(
    change: impl FnOnce(&mut Setup),
    fault: impl AsyncFnOnce(Round, &mut EventStream),
) -> Vec<Frame> {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, change).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    fault(round, &mut stream).await;
    let frames = stream.rest().await;
    assert!(model.has_no_requests(), "it was asked again");
    // Whatever happened, the session is free and its history is valid.
    let again = gateway.whole_turn(&mut model, "s", "Again.").await.rest().await;
    assert_eq!(outcome(&again), "stop");
    frames
}

/// Checks how a turn failed; returns the message.
#[track_caller]
fn failed(frames: &[Frame], code: &str, retryable: bool) -> String {
    assert_eq!(outcome(frames), code, "{frames:#?}");
    let last = frames.last().unwrap();
    assert_eq!(last.data["retryable"], retryable, "{last:#?}");
    let (kept, said) = (last.data["text"].as_str().unwrap(), said(frames));
    if last.data["text_truncated"].is_null() {
        assert_eq!(kept, said);
    } else {
        assert!(said.starts_with(kept), "{kept:?}");
    }
    last.data["message"].as_str().unwrap().to_owned()
}

fn nothing(_: &mut Setup) {}
