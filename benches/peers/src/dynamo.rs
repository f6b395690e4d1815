//! The parser of NVIDIA Dynamo's frontend. It takes and gives typed chat chunks, so those that go in
//! are made before the clock runs.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use dynamo_parsers::tool_calling::ToolDefinition;
use dynamo_parsers::tool_calling::jail::{Annotated, JailedStream, JailedStreamBuilder};
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

struct Dynamo {
    jail: JailedStream,
    items: Vec<Item>,
}

pub(crate) fn hermes(stream: &Stream) -> Box<dyn Run> {
    dynamo(stream, JailedStream::builder().tool_call_parser("hermes"))
}

/// With arguments while they arrive.
pub(crate) fn guided(stream: &Stream) -> Box<dyn Run> {
    dynamo(stream, JailedStream::builder().tool_choice_required().guided_streaming(true))
}

fn dynamo(stream: &Stream, builder: JailedStreamBuilder) -> Box<dyn Run> {
    let tool = |(name, parameters): (&str, _)| ToolDefinition {
        name: name.to_owned(),
        parameters: Some(parameters),
        strict: None,
    };
    let tools = tool_schemas().into_iter().map(tool).collect();
    let mut items: Vec<Item> = stream.chunks().into_iter().map(|chunk| item(Some(chunk))).collect();
    items.push(item(None));
    Box::new(Dynamo { jail: builder.tool_definitions(tools).build(), items })
}

/// A chunk of an answer, or its end.
fn item(content: Option<&str>) -> Item {
    #[expect(deprecated, reason = "a literal names every field")]
    let delta = ChatCompletionStreamResponseDelta {
        role: None,
        content: content.map(|text| ChatCompletionMessageContent::Text(text.to_owned())),
        tool_calls: None,
        function_call: None,
        refusal: None,
        reasoning_content: None,
    };
    let choice = ChatChoiceStream {
        index: 0,
        delta,
        finish_reason: content.is_none().then_some(FinishReason::Stop),
        logprobs: None,
    };
    Annotated {
        data: Some(CreateChatCompletionStreamResponse {
            id: "chatcmpl-0".to_owned(),
            choices: vec![choice],
            created: 0,
            model: "model".to_owned(),
            system_fingerprint: None,
            object: "chat.completion.chunk".to_owned(),
            usage: None,
            service_tier: None,
        }),
        id: None,
        event: None,
        comment: None,
        error: None,
    }
}

impl Run for Dynamo {
    fn run(self: Box<Self>, chunks: &[&str], output: &mut Output) {
        let Self { jail, items } = *self;
        let fed = Arc::new(AtomicUsize::new(0));
        let (counter, deadline) = (Arc::clone(&fed), output.deadline());
        let input = futures::stream::iter(items.into_iter().map_while(move |item| {
            let before = counter.fetch_add(1, Relaxed);
            (!is_past(deadline, before)).then_some(item)
        }));
        block_on(async {
            let mut answers = pin!(jail.apply(input));
            while let Some(answer) = answers.next().await {
                output.fed = fed.load(Relaxed).min(chunks.len());
                for choice in answer.data.into_iter().flat_map(|response| response.choices) {
                    take(&choice.delta, output);
                }
            }
        });
        // Without the item that ends the answer.
        output.fed = fed.load(Relaxed).min(chunks.len());
    }
}

fn take(delta: &ChatCompletionStreamResponseDelta, output: &mut Output) {
    if let Some(ChatCompletionMessageContent::Text(text)) = &delta.content {
        output.text(text);
    }
    for call in delta.tool_calls.iter().flatten() {
        if let Some(function) = &call.function {
            let arguments = function.arguments.as_deref().unwrap_or_default();
            output.call(call.index as usize, function.name.as_deref(), arguments);
        }
    }
}
