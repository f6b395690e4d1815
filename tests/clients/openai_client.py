"""OpenAI's SDK for Python against a gateway: prints what each way of asking returns, as JSON.

openai_client.py BASE_URL
"""

import json
import sys

from openai import NotFoundError, OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
ask = {"model": "script", "messages": [{"role": "user", "content": "What is 6*7?"}]}
printed = {}

whole = client.chat.completions.create(**ask)
printed["create"] = [whole.choices[0].message.content, whole.choices[0].finish_reason]
printed["usage"] = whole.usage.total_tokens

pieces = []
for chunk in client.chat.completions.create(**ask, stream=True):
    pieces += [choice.delta.content or "" for choice in chunk.choices]
printed["iterated"] = "".join(pieces)

with client.chat.completions.stream(**ask) as stream:
    final = stream.get_final_completion()
printed["stream"] = [final.choices[0].message.content, final.choices[0].finish_reason]

parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
function = {"name": "open_file", "description": "Opens a file.", "parameters": parameters}
tools = [{"type": "function", "function": function}]
called = client.chat.completions.create(**ask, tools=tools)
call = called.choices[0].message.tool_calls[0]
printed["call"] = [called.choices[0].finish_reason, call.function.name, call.function.arguments]
result = {"role": "tool", "tool_call_id": call.id, "content": "Buy milk."}
messages = [*ask["messages"], called.choices[0].message, result]
answer = client.chat.completions.create(model="script", messages=messages, tools=tools)
printed["answer"] = answer.choices[0].message.content

try:
    client.chat.completions.create(**{**ask, "model": "gpt-9"})
except NotFoundError as error:
    printed["error"] = error.code
printed["models"] = [model.id for model in client.models.list()]
print(json.dumps(printed))
