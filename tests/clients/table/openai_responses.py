"""OpenAI's SDK for Python over Responses."""

import json

from jobs import OPEN_FILE, serve
from openai import OpenAI

TOOLS = [
    {
        "type": "function",
        "name": OPEN_FILE["name"],
        "description": OPEN_FILE["description"],
        "parameters": OPEN_FILE["schema"],
        "strict": None,
    }
]
ENDS = {"completed": "stop", "incomplete": "length"}


def chain(respond):
    """`respond(client, request, heard)` asks once, and returns a response."""

    def start(job):
        client = OpenAI(base_url=f"{job['origin']}/v1", api_key="none", max_retries=0)
        request = {"model": "script"}
        if job["offers"]:
            request["tools"] = TOOLS

        def ask(prompt, heard):
            request["input"] = [{"role": "user", "content": prompt}]
            while request["input"]:
                response = respond(client, request, heard)
                outputs = []
                for item in response.output:
                    if item.type == "mcp_call":
                        heard.ours.append([item.name, item.status == "completed"])
                    if item.type == "function_call":
                        output = heard.open(json.loads(item.arguments)["path"])
                        result = {"type": "function_call_output", "call_id": item.call_id}
                        outputs.append({**result, "output": output})
                heard.end = ENDS[response.status]
                request["input"] = outputs
                request["previous_response_id"] = response.id

        return ask

    return start


def create(client, request, heard):
    response = client.responses.create(**request)
    for item in response.output:
        if item.type == "reasoning":
            heard.reasoning += item.summary[0].text
    heard.say(response.output_text)
    return response


def hear_event(heard, event):
    if event.type == "response.output_text.delta":
        heard.say(event.delta)
    if event.type == "response.reasoning_summary_text.delta":
        heard.reasoning += event.delta


def stream(client, request, heard):
    with client.responses.create(**request, stream=True) as events:
        for event in events:
            hear_event(heard, event)
    return event.response


def stream_helper(client, request, heard):
    with client.responses.stream(**request) as events:
        for event in events:
            hear_event(heard, event)
        return events.get_final_response()


serve(
    {
        "Responses": {
            "create": chain(create),
            "stream": chain(stream),
            "stream helper": chain(stream_helper),
        }
    }
)
