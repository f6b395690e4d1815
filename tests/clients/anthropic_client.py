"""Anthropic's SDK for Python against a gateway: prints what no scenario shows, as JSON.

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

printed["events"] = [event.type for event in client.messages.create(**ask, stream=True)]

schema = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
tools = [{"name": "open_file", "description": "Opens a file.", "input_schema": schema}]
called = client.messages.create(**ask, tools=tools, tool_choice={"type": "any"})
printed["call"] = [called.stop_reason, *[block.type for block in called.content]]

printed["models"] = [
    [model.id, model.display_name, model.type, model.created_at.year >= 2026]
    for model in client.models.list()
]

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
