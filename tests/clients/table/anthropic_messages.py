"""Anthropic's SDK for Python."""

from anthropic import Anthropic
from jobs import OPEN_FILE, serve

TOOLS = [
    {
        "name": OPEN_FILE["name"],
        "description": OPEN_FILE["description"],
        "input_schema": OPEN_FILE["schema"],
    }
]
THINKING = {"type": "enabled", "budget_tokens": 1024}
ENDS = {"end_turn": "stop", "max_tokens": "length", "stop_sequence": "stop"}


def conversation(complete):
    """`complete(client, request, heard)` asks once, and returns a message."""

    def start(job):
        client = Anthropic(base_url=job["origin"], api_key="none", max_retries=0)
        messages = []
        request = {"model": "script", "max_tokens": 2048, "thinking": THINKING}
        if job["offers"]:
            request["tools"] = TOOLS

        def ask(prompt, heard):
            content = prompt
            while content:
                messages.append({"role": "user", "content": content})
                message = complete(client, {**request, "messages": messages}, heard)
                messages.append({"role": "assistant", "content": message.content})
                content = [result for block in message.content for result in answer(block, heard)]
                heard.end = ENDS.get(message.stop_reason)

        return ask

    return start


def answer(block, heard):
    """Notes a block of calls; the result of one that is the client's."""
    if block.type == "mcp_tool_use":
        heard.ours.append([block.name, None])
    elif block.type == "mcp_tool_result":
        unanswered = next(call for call in heard.ours if call[1] is None)
        unanswered[1] = not block.is_error
    elif block.type == "tool_use":
        result = {"type": "tool_result", "tool_use_id": block.id}
        yield {**result, "content": heard.open(block.input["path"])}


def create(client, request, heard):
    message = client.messages.create(**request)
    for block in message.content:
        if block.type == "thinking":
            heard.reasoning += block.thinking
        if block.type == "text":
            heard.say(block.text)
    return message


def hear_event(heard, event):
    if event.type == "content_block_delta" and event.delta.type == "text_delta":
        heard.say(event.delta.text)
    if event.type == "content_block_delta" and event.delta.type == "thinking_delta":
        heard.reasoning += event.delta.thinking


def helper(messages_of):
    def stream(client, request, heard):
        with messages_of(client).stream(**request) as events:
            for event in events:
                hear_event(heard, event)
            return events.get_final_message()

    return stream


serve(
    {
        "Messages": {
            "create": conversation(create),
            "stream helper": conversation(helper(lambda client: client.messages)),
            "stream helper, beta": conversation(helper(lambda client: client.beta.messages)),
        }
    }
)
