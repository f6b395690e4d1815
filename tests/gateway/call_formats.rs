//! Calls in each format, from prompt to answer.

use serde_json::{Value, json};
use tether::call_format::{CallContract, CallFormat, ContractSetting, ROWS};
use tether::config::{EmbeddedConfig, UpstreamConfig, UpstreamKind};

use crate::support::events::{names, outcome, said};
use crate::support::{Gateway, Model};

fn messages(body: &Value) -> &Vec<Value> {
    body["messages"].as_array().unwrap()
}

#[tokio::test]
async fn taught_calls_are_parsed_and_shown_again() {
    for row in ROWS {
        let format = CallFormat::of(row);
        let mut model = Model::listen();
        let gateway = Gateway::with(model.address, |setup| {
            setup.config.tools.call_contract = ContractSetting::Is(CallContract::InText(row));
        })
        .await;
        let (mut stream, round) = gateway.begin(&mut model, "s").await;
        let system = messages(&round.request.body)[0]["content"].as_str().unwrap();
        assert!(system.contains(&format.lesson()), "{system}");

        // Without an opener, a call is only found where nothing comes before it.
        let words = if row.is_bare() { "" } else { "Let me see.\n" };
        let mut answer = words.to_owned();
        format.push_call(&mut answer, "calculate", "{\"expression\":\"6*7\"}");
        round.answer_at_once(&answer).await;
        let round = model.round().await;
        let [.., spoken, results] = &messages(&round.request.body)[..] else { panic!("no result") };
        assert_eq!(spoken["content"], answer.trim_end());
        let [open, close] = row.result;
        let result = format!("{open}`calculate` (call_1) returned: ");
        let results = results["content"].as_str().unwrap();
        assert!(results.starts_with(&result) && results.contains("42"), "{results}");
        assert!(results.contains(close));
        round.answer("It is 42.").await;
        let frames = stream.rest().await;
        assert_eq!(said(&frames), format!("{words}It is 42."), "{}", row.name);
        assert!(names(&frames).contains(&"tool_completed"));
    }
}

#[tokio::test]
async fn the_embedded_model_writes_each() {
    for row in ROWS {
        let model = Model::listen();
        let gateway = Gateway::with(model.address, |setup| {
            setup.config.tools.call_contract = ContractSetting::Is(CallContract::InText(row));
            let kind = UpstreamKind::Embedded(EmbeddedConfig { tokens_per_sec: 1000 });
            setup.config.upstreams =
                vec![UpstreamConfig { name: "embedded".to_owned(), call_contract: None, kind }];
        })
        .await;
        let frames = gateway.turn(&json!({"prompt": "What is 17 * 23?"})).await.rest().await;
        assert!(said(&frames).contains("391"), "{}: {}", row.name, said(&frames));
        assert_eq!(outcome(&frames), "stop");
        assert!(names(&frames).contains(&"tool_completed"), "{}", row.name);
    }
}
