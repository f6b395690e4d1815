"""Python clients of Responses against a gateway: prints what each gets, as JSON.

responses_client.py BASE_URL
"""

import asyncio
import json
import sys

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, NotFoundError, OpenAI

base = sys.argv[1]
client = OpenAI(base_url=base, api_key="none", max_retries=0)
ask = {"model": "script", "input": "What is 6*7?"}
printed = {}


def types(response):
    return [item.type for item in response.output]


whole = client.responses.create(**ask)
printed["create"] = [whole.output_text, types(whole), whole.status]

with client.responses.stream(**ask) as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_response()
printed["stream"] = [final.output_text, types(final), kinds[0], kinds[-1]]

queued = client.responses.create(**ask, background=True)
with client.responses.stream(response_id=queued.id, starting_after=3) as stream:
    numbers = [event.sequence_number for event in stream]
    final = stream.get_final_response()
printed["background"] = [queued.status, numbers[0], final.output_text]
printed["polled"] = client.responses.retrieve(queued.id).output_text

chained = client.responses.create(model="script", input="Sure?", previous_response_id=whole.id)
printed["chained"] = chained.output_text
client.responses.delete(chained.id)
try:
    client.responses.retrieve(chained.id)
except NotFoundError as error:
    printed["deleted"] = error.status_code

set_tracing_disabled(True)
opened = []


@function_tool
def open_file(path: str) -> str:
    """Opens a file."""
    opened.append(path)
    return "Buy milk."


async def run_agent():
    model = OpenAIResponsesModel(
        model="script", openai_client=AsyncOpenAI(base_url=base, api_key="none", max_retries=0)
    )
    agent = Agent(name="Reader", instructions="Be brief.", model=model, tools=[open_file])
    result = await Runner.run(agent, "Open it.")
    streamed = Runner.run_streamed(agent, "Open it.")
    async for _ in streamed.stream_events():
        pass
    return [result.final_output, streamed.final_output, opened]


printed["agents"] = asyncio.run(run_agent())


@tool
def shut_file(path: str) -> str:
    """Shuts a file."""
    return path


chat = ChatOpenAI(model="script", base_url=base, api_key="none", use_responses_api=True)
said = chat.invoke("What is 6*7?")
printed["langchain"] = [said.text, len(said.tool_calls)]
pieces = [piece.text for piece in chat.stream("What is 6*7?")]
printed["langchain_stream"] = "".join(pieces)
called = chat.bind_tools([shut_file]).invoke("Shut it.")
printed["langchain_call"] = [[call["name"], call["args"]] for call in called.tool_calls]

print(json.dumps(printed))
