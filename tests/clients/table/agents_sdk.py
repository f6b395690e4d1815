"""OpenAI's Agents SDK, with its models for Chat Completions and for Responses."""

import asyncio

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from jobs import serve
from openai import AsyncOpenAI

set_tracing_disabled(True)


def conversation(model_of, run):
    """`run(agent, items, heard)` says what the items have come to, and returns the run's result."""

    def start(job):
        items = []

        async def ask_once(prompt, heard):
            @function_tool
            def open_file(path: str) -> str:
                """Opens a file."""
                return heard.open(path)

            async with AsyncOpenAI(
                base_url=f"{job['origin']}/v1", api_key="none", max_retries=0
            ) as client:
                agent = Agent(
                    name="Reader",
                    model=model_of(model="script", openai_client=client),
                    model_settings=ModelSettings(),
                    tools=[open_file] if job["offers"] else [],
                )
                items.append({"role": "user", "content": prompt})
                result = await run(agent, items, heard)
                items[:] = result.to_input_list()
                hear_items(heard, result)

        return lambda prompt, heard: asyncio.run(ask_once(prompt, heard))

    return start


def hear_items(heard, result):
    for item in result.new_items:
        raw = item.raw_item
        if item.type == "reasoning_item":
            heard.reasoning += "".join(part.text for part in raw.summary)
        if item.type == "tool_call_item" and raw.type == "mcp_call":
            heard.ours.append([raw.name, raw.status == "completed"])


async def run_whole(agent, items, heard):
    result = await Runner.run(agent, items)
    for item in result.new_items:
        if item.type == "message_output_item":
            heard.say("".join(part.text for part in item.raw_item.content))
    return result


async def run_streamed(agent, items, heard):
    result = Runner.run_streamed(agent, items)
    try:
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                if event.data.type == "response.output_text.delta":
                    heard.say(event.data.delta)
    finally:
        result.cancel()
    return result


def ways(model):
    return {
        "run": conversation(model, run_whole),
        "run_streamed": conversation(model, run_streamed),
    }


serve({"Chat Completions": ways(OpenAIChatCompletionsModel), "Responses": ways(OpenAIResponsesModel)})
