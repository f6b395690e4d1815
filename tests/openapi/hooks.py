"""Leads requests that were made up past the first check: the model exists, there is something to
answer, and what a path names is there. Every fourth body and every other path stay as they were made
up."""

import json
import os

import schemathesis

# What is there, by the paths that name it, or whose bodies do.
THERE = json.loads(os.environ["TETHER_THERE"])

ANSWERS = ("clarification_response", "tool_results")
WORDS = [{"id": "m", "role": "user", "content": "Hi."}]


@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict):
        return body
    path = context.operation.path
    if path == "/api/v1/chat/stream":
        if not any(body.get(key) for key in ANSWERS):
            body.pop("model", None)
            if body.get("prompt") is None:
                body["prompt"] = "Hi."
        return body
    if path == "/api/v1/chat/cancel":
        session = body.get("session_id")
        if session is None or isinstance(session, str) and len(session) % 4 != 3:
            body["session_id"] = THERE.get(path, session)
        return body
    if path == "/v1/messages" and body.get("max_tokens") is None:
        body["max_tokens"] = 9
    fill = FILLED.get(path)
    if fill and len(body) % 4:
        fill(body)
    return body


@schemathesis.hook
def map_path_parameters(context, parameters):
    there = THERE.get(context.operation.path)
    if parameters and there and context.operation.method != "delete" and len(parameters["id"]) % 2:
        parameters["id"] = there
    return parameters


def chat(body):
    body["model"] = "script"
    body.pop("tool_choice", None)
    if not body.get("messages"):
        body["messages"] = WORDS


def responses(body):
    body["model"] = "script"
    if not body.get("input"):
        body["input"] = "Hi."
    # What they name is made up, and so is never there.
    for key in ("previous_response_id", "conversation", "prompt", "tool_choice"):
        body.pop(key, None)


def ui_messages(body):
    body.pop("clarification_response", None)
    if body.get("model") is not None:
        body["model"] = "script"
    if not body.get("messages"):
        body["messages"] = [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hi."}]}]


def ag_ui(body):
    body.pop("resume", None)
    for key in ("threadId", "runId"):
        if body.get(key) is None:
            body[key] = key
    if not body.get("messages"):
        body["messages"] = WORDS


FILLED = {
    "/v1/chat/completions": chat,
    "/v1/messages": chat,
    "/v1/messages/count_tokens": chat,
    "/v1/responses": responses,
    "/api/v1/ai-sdk/chat": ui_messages,
    "/api/v1/ag-ui": ag_ui,
}
