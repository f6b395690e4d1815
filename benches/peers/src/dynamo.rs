//! The parsers of the gateway Dynamo: `dynamo-parsers`, as its front end drives them.

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dynamo_parsers::tool_calling::ToolDefinition;
use dynamo_parsers::tool_calling::jail::{Annotated, JailedStream};
use dynamo_protocols::types::{
    ChatChoiceStream, ChatCompletionMessageContent, ChatCompletionStreamResponseDelta,
    CreateChatCompletionStreamResponse, FinishReason,
};
use futures::StreamExt as _;
use futures::executor::block_on;

use crate::measure::Run;
use crate::output::{Output, is_past};
use crate::stream::{Stream, tool_schemas};

type Item = Annotated<CreateChatCompletionStreamResponse>;

/// It takes and gives the chunks of Chat Completions as types. Those that go in are made before the clock runs.
struct Dynamo {
    jail: JailedStream,
    items: Vec<Item>,
}

pub(crate) fn hermes(stream: &Stream) -> Box<dyn Run> {
    let tool = |(name, parameters): (&str, _)| ToolDefinition {
        name: name.to_owned(),
        parameters: Some(parameters),
        strict: None,
    };
    let tools = tool_schemas().into_iter().map(tool).collect();
    let jail = JailedStream::builder().tool_call_parser("hermes").tool_definitions(tools).build();
    let chunks = stream.chunks().into_iter().map(Some);
    Box::new(Dynamo { jail, items: chunks.chain([None]).map(item).collect() })
}

/// A chunk with this text, or the last one.
fn item(text: Option<&str>) -> Item {
    let delta = ChatCompletionStreamResponseDelta {
        role: None,
        content: text.map(|text| ChatCompletionMessageContent::Text(text.to_owned())),
        tool_calls: None,
        function_call: None,
        refusal: None,
        reasoning_content: None,
    };
    let finish_reason = text.is_none().then_some(FinishReason::Stop);
    let choice = ChatChoiceStream { index: 0, delta, finish_reason, logprobs: None };
    let response = CreateChatCompletionStreamResponse {
        id: "chatcmpl-0".to_owned(),
        choices: vec![choice],
        created: 0,
        model: "m".to_owned(),
        system_fingerprint: None,
        object: "chat.completion.chunk".to_owned(),
        usage: None,
        service_tier: None,
    };
    Annotated { data: Some(response), id: None, event: None, comment: None, error: None }
}

impl Run for Dynamo {
    fn run(self: Box<Self>, chunks: &[&str], output: &mut Output) {
        let Self { jail, items } = *self;
        // Its input has to be `Send`.
        let (fed, deadline) = (Arc::new(AtomicUsize::new(0)), output.deadline());
        let counted = Arc::clone(&fed);
        let items = futures::stream::iter(items.into_iter().map_while(move |item| {
            let before = counted.fetch_add(1, Ordering::Relaxed);
            (!is_past(deadline, before)).then(|| black_box(item))
        }));
        block_on(async {
            let mut found = pin!(jail.apply(items));
            while let Some(item) = found.next().await {
                // The item that ends the stream is none of the chunks.
                output.fed = fed.load(Ordering::Relaxed).min(chunks.len());
                for choice in item.data.into_iter().flat_map(|response| response.choices) {
                    if let Some(ChatCompletionMessageContent::Text(text)) = &choice.delta.content {
                        output.text(text);
                    }
                    for call in choice.delta.tool_calls.iter().flatten() {
                        if let Some(function) = &call.function {
                            let arguments = function.arguments.as_deref().unwrap_or_default();
                            output.call(call.index as usize, function.name.as_deref(), arguments);
                        }
                    }
                }
            }
        });
        output.fed = fed.load(Ordering::Relaxed).min(chunks.len());
    }
}
