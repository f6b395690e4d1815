"""Leads requests that were made up past the first check: the model exists, and there is a prompt."""

import schemathesis

ANSWERS = ("clarification_response", "tool_results")


@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict):
        return body
    path = context.operation.path
    if path.startswith("/v1/") and len(body) % 4:
        body["model"] = "script"
        if not body.get("messages"):
            body["messages"] = [{"role": "user", "content": "Hi."}]
    if path == "/v1/messages" and body.get("max_tokens") is None:
        body["max_tokens"] = 9
    if path == "/api/v1/chat/stream" and not any(body.get(key) for key in ANSWERS):
        body.pop("model", None)
        if body.get("prompt") is None:
            body["prompt"] = "Hi."
    return body
