"""LangChain's `ChatOpenAI`, over Chat Completions and over Responses."""

from contextlib import closing

from jobs import serve
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

ENDS = {"completed": "stop", "incomplete": "length"}


def conversation(use_responses_api, ask_model):
    """`ask_model(model, messages, heard)` asks once, and returns a message."""

    def start(job):
        messages = []
        chat = ChatOpenAI(
            model="script",
            base_url=f"{job['origin']}/v1",
            api_key="none",
            max_retries=0,
            use_responses_api=use_responses_api,
        )

        def ask(prompt, heard):
            @tool
            def open_file(path: str) -> str:
                """Opens a file."""
                return heard.open(path)

            model = chat.bind_tools([open_file]) if job["offers"] else chat
            messages.append(HumanMessage(prompt))
            calls = True
            while calls:
                message = ask_model(model, messages, heard)
                messages.append(message)
                hear_blocks(heard, message)
                told = message.response_metadata
                heard.end = told.get("finish_reason") or ENDS.get(told.get("status"))
                calls = message.tool_calls
                messages.extend(open_file.invoke(call) for call in calls)

        return ask

    return start


def hear_blocks(heard, message):
    for block in message.content if isinstance(message.content, list) else []:
        if block["type"] == "reasoning":
            heard.reasoning += "".join(part["text"] for part in block["summary"])
        if block["type"] == "mcp_call":
            heard.ours.append([block["name"], block["status"] == "completed"])


def invoke(model, messages, heard):
    message = model.invoke(messages)
    heard.say(message.text)
    return message


def stream(model, messages, heard):
    whole = None
    with closing(model.stream(messages)) as pieces:
        for piece in pieces:
            whole = piece if whole is None else whole + piece
            heard.say(piece.text)
    return whole


def ways(use_responses_api):
    return {
        "invoke": conversation(use_responses_api, invoke),
        "stream": conversation(use_responses_api, stream),
    }


serve({"Chat Completions": ways(False), "Responses": ways(True)})
