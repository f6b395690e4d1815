//! A gateway on a machine with one processor, where one thread does everything.

use std::fs;

use serde_json::json;

use crate::support::Model;
use crate::support::events::{names, outcome, said};
use crate::support::model::call;
use crate::support::process::Process;

/// While one turn waits for its tool, others go on, and the end of the process waits for all of them.
#[tokio::test]
async fn turns_and_their_tools_run_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let mut model = Model::listen();
    let process = Process::start_on_one_processor(&format!(
        "upstreams: [{{name: fake, kind: openai_chat, base_url: \"http://{}/v1\", model: fake}}]
tools:
  builtin: []
  command:
    - name: wait
      description: Waits.
      command: [sh, -c, 'until [ -e \"$0\" ]; do sleep 0.02; done; echo done', '{}']
      parameters: {{type: object}}
      sandbox: {{mode: 'off'}}
",
        model.address,
        go.display()
    ))
    .await;

    let (mut first, round) = process.begin(&mut model, "a").await;
    round.answer(&call("wait", &json!({}))).await;
    let mut seen = first.up_to("tool_started").await;
    let (mut second, mut round) = process.begin(&mut model, "b").await;
    round.begin().await;
    round.say("Beside it.").await;
    second.up_to_text("Beside it.").await;
    process.signal("TERM");
    round.end().await;
    assert_eq!(outcome(&second.rest().await), "stop");

    fs::write(go, "").unwrap();
    model.round().await.answer("It is done.").await;
    seen.extend(first.rest().await);
    assert!(names(&seen).contains(&"tool_completed"), "{seen:?}");
    assert_eq!((outcome(&seen), &*said(&seen)), ("stop", "It is done."));
    assert_eq!(process.exit().await.code(), Some(0));
}
