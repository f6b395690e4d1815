//! The parsers of the gateway SMG: `tool-parser`, and the newer `smg-symphony`.

use std::hint::black_box;

use futures::executor::block_on;
use openai_protocol::common::{Function, Tool};
use symphony::{
    CallSyntax, Declared, Emits, Engine, EngineFinish, Event, Events, Format, Input, Parser as _,
};
use tool_parser::{LlamaParser, QwenParser, ToolParser};

use crate::measure::Run;
use crate::output::Output;
use crate::stream::{Stream, tool_schemas};

struct Smg<P> {
    parser: P,
    tools: Vec<Tool>,
}

pub(crate) fn qwen(_: &Stream) -> Box<dyn Run> {
    Box::new(Smg { parser: QwenParser::new(), tools: tools() })
}

pub(crate) fn llama(_: &Stream) -> Box<dyn Run> {
    Box::new(Smg { parser: LlamaParser::new(), tools: tools() })
}

fn tools() -> Vec<Tool> {
    let tool = |(name, parameters): (&str, _)| Tool {
        tool_type: "function".to_owned(),
        function: Function {
            name: name.to_owned(),
            description: None,
            parameters,
            strict: None,
            extra: serde_json::Map::default(),
        },
    };
    tool_schemas().into_iter().map(tool).collect()
}

impl<P: ToolParser> Run for Smg<P> {
    fn run(mut self: Box<Self>, chunks: &[&str], output: &mut Output) {
        // One executor for the whole stream: a chunk costs what the parser takes, and the boxed future
        // that its trait asks for.
        block_on(async {
            for chunk in chunks {
                if output.is_late() {
                    return;
                }
                output.fed += 1;
                match self.parser.parse_incremental(black_box(chunk), &self.tools).await {
                    Ok(piece) => {
                        output.text(&piece.normal_text);
                        for call in &piece.calls {
                            output.call(call.tool_index, call.name.as_deref(), &call.parameters);
                        }
                    }
                    Err(error) => {
                        output.error = Some(error.to_string());
                        return;
                    }
                }
            }
        });
        // As their gateway does when a stream ends.
        for call in self.parser.get_unstreamed_tool_args().unwrap_or_default() {
            output.call(call.tool_index, call.name.as_deref(), &call.parameters);
        }
        output.text(&self.parser.take_unstreamed_normal_text());
    }
}

struct Symphony(Engine);

pub(crate) fn symphony_qwen(_: &Stream) -> Box<dyn Run> {
    Box::new(Symphony(Engine::new(symphony::qwen2_5(), Declared::default())))
}

/// Tether's marker line as a table of theirs: the marker opens a call, the line's end closes it.
pub(crate) fn symphony_marker_line(_: &Stream) -> Box<dyn Run> {
    let table = Format::new("line")
        .terminal("call_open", "<<function_call>>")
        .terminal("call_close", "\n")
        .state("content", Emits::Content)
        .state("calls", Emits::Arguments)
        .transition("content", "call_open", "calls")
        .transition("calls", "call_close", "content")
        .calls(CallSyntax::Json)
        .opens_turn("<|assistant|>");
    Box::new(Symphony(Engine::new(table, Declared::default())))
}

impl Run for Symphony {
    fn run(mut self: Box<Self>, chunks: &[&str], output: &mut Output) {
        let mut events = Events::new();
        for chunk in chunks {
            if output.is_late() || output.error.is_some() {
                return;
            }
            output.fed += 1;
            // Without token ids, which a gateway does not have.
            self.take(
                Input::Delta { token_ids: &[], text: black_box(chunk), spans: &[] },
                &mut events,
                output,
            );
        }
        self.take(Input::End { finish: EngineFinish::Stop }, &mut events, output);
    }
}

impl Symphony {
    fn take(&mut self, input: Input<'_>, events: &mut Events, output: &mut Output) {
        if let Err(error) = self.0.feed(input, events) {
            output.error = Some(error.to_string());
        }
        for event in events.drain() {
            match event {
                // Their adapters give malformed text back to the client.
                Event::Content(text) | Event::Malformed { text, .. } => output.text(&text.text),
                Event::ToolCallStart { index, name, .. } => {
                    output.call(index as usize, Some(&name), "");
                }
                Event::ToolCallArguments { index, json, .. } => {
                    output.call(index as usize, None, &json);
                }
                _ => {}
            }
        }
    }
}
