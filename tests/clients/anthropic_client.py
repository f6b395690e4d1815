"""Anthropic's SDK for Python against a gateway: prints what each way of asking returns, as JSON.

anthropic_client.py BASE_URL
"""

import json
import sys

from anthropic import Anthropic, BadRequestError, NotFoundError

client = Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0)
ask = {
    "model": "claude-opus-9",
    "max_tokens": 1024,
    "messages": [{"role": "user", "content": "What is 6*7?"}],
}
printed = {}


def shown(message):
    """A message without ids."""
    blocks = [block.to_dict() for block in message.content]
    for block in blocks:
        for key in ["id", "tool_use_id", "signature", "citations", "caller"]:
            block.pop(key, None)
    return [blocks, message.stop_reason]


whole = client.messages.create(**ask)
printed["create"] = shown(whole)
printed["usage"] = whole.usage.output_tokens

kinds = []
for event in client.messages.create(**ask, stream=True):
    kinds.append(event.type)
printed["iterated"] = kinds

thinking = {"type": "enabled", "budget_tokens": 1024}
with client.messages.stream(**{**ask, "max_tokens": 2048}, thinking=thinking) as stream:
    text = "".join(stream.text_stream)
    printed["stream"] = [text, shown(stream.get_final_message())]

schema = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
tools = [{"name": "open_file", "description": "Opens a file.", "input_schema": schema}]
with client.messages.stream(**ask, tools=tools, tool_choice={"type": "any"}) as stream:
    called = stream.get_final_message()
printed["call"] = shown(called)
results = [
    {"type": "tool_result", "tool_use_id": block.id, "content": f"It is {block.input['path']}."}
    for block in called.content
    if block.type == "tool_use"
]
messages = [
    *ask["messages"],
    {"role": "assistant", "content": called.content},
    {"role": "user", "content": results},
]
printed["answer"] = shown(client.messages.create(**{**ask, "messages": messages}, tools=tools))

with client.beta.messages.stream(**ask) as stream:
    printed["beta"] = shown(stream.get_final_message())

counted = client.messages.count_tokens(model="claude-opus-9", messages=ask["messages"])
printed["counted"] = counted.input_tokens

try:
    client.messages.create(**{**ask, "model": "gpt-9"})
except NotFoundError as error:
    printed["not_found"] = error.body["error"]["type"]
try:
    client.messages.create(**{**ask, "max_tokens": 0})
except BadRequestError as error:
    printed["bad_request"] = error.body["error"]["type"]
print(json.dumps(printed))
