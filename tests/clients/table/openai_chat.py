"""OpenAI's SDK for Python over Chat Completions."""

import json

from jobs import OPEN_FILE, serve
from openai import OpenAI

parameters = OPEN_FILE["schema"]
FUNCTION = {"name": OPEN_FILE["name"], "description": OPEN_FILE["description"]}
TOOLS = [{"type": "function", "function": {**FUNCTION, "parameters": parameters}}]


def conversation(complete):
    """`complete(client, request, heard)` asks once, and returns a message and its finish reason."""

    def start(job):
        client = OpenAI(base_url=f"{job['origin']}/v1", api_key="none", max_retries=0)
        messages = []

        def ask(prompt, heard):
            messages.append({"role": "user", "content": prompt})
            while heard.end in (None, "tool_calls"):
                request = {"model": "script", "messages": messages}
                if job["offers"]:
                    request["tools"] = TOOLS
                message, heard.end = complete(client, request, heard)
                messages.append(message)
                for call in message.get("tool_calls") or []:
                    content = heard.open(json.loads(call["function"]["arguments"])["path"])
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

        return ask

    return start


def hear_delta(heard, delta):
    heard.reasoning += getattr(delta, "reasoning_content", None) or ""
    heard.say(delta.content or "")


def create(client, request, heard):
    choice = client.chat.completions.create(**request).choices[0]
    hear_delta(heard, choice.message)
    return choice.message.to_dict(), choice.finish_reason


def stream(client, request, heard):
    calls = []
    with client.chat.completions.create(**request, stream=True) as chunks:
        for chunk in chunks:
            for choice in chunk.choices:
                hear_delta(heard, choice.delta)
                for call in choice.delta.tool_calls or []:
                    if call.id:
                        function = {"name": call.function.name, "arguments": ""}
                        calls.append({"id": call.id, "type": "function", "function": function})
                    calls[call.index]["function"]["arguments"] += call.function.arguments or ""
                end = choice.finish_reason
    message = {"role": "assistant", "content": heard.text}
    return {**message, **({"tool_calls": calls} if calls else {})}, end


def stream_helper(client, request, heard):
    with client.chat.completions.stream(**request) as events:
        for event in events:
            if event.type == "chunk":
                for choice in event.chunk.choices:
                    hear_delta(heard, choice.delta)
        choice = events.get_final_completion().choices[0]
    return choice.message.to_dict(), choice.finish_reason


serve(
    {
        "Chat Completions": {
            "create": conversation(create),
            "stream": conversation(stream),
            "stream helper": conversation(stream_helper),
        }
    }
)
