#!/usr/bin/env python3
"""Counts the instructions that an event and a request cost, outside of the kernel.

    cargo build --release
    benches/instructions.py [--binary target/release/tether] [--store memory] [--pieces 256]
        [--functions 40]

Runs the gateway under callgrind, behind a model server that sends one piece of text at a time, and in
front of a client that reads Tether's own event stream. What an event costs is the difference between long
and short turns, by the number of their pieces; what a request costs is the difference between many short
turns and few. Counts hardly depend on what else the machine does, as times do. `--functions` lists those
that cost most in long turns.

Needs valgrind.
"""

import argparse
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
MODELS = b'{"object":"list","data":[{"id":"model","object":"model"}]}'
# Far more than the gateway needs for a piece, at a fiftieth of its speed.
PAUSE_SEC = 0.008


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def frame(delta, finish):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "model",
            "choices": [choice]}
    return chunk(b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n")


class Model:
    """A model server that answers with so many pieces as `max_tokens` says."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        requests = client.makefile("rb")
        while line := requests.readline():
            length = 0
            while (field := requests.readline()) not in (b"\r\n", b""):
                name, _, value = field.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            body = requests.read(length)
            if line.startswith(b"GET"):
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(MODELS), MODELS))
            else:
                self.answer(client, json.loads(body)["max_tokens"])

    @staticmethod
    def answer(client, pieces):
        client.sendall(HEAD + frame({"role": "assistant", "content": ""}, None))
        for at in range(pieces):
            time.sleep(PAUSE_SEC)
            client.sendall(frame({"content": f" word{at % 10}"}, None))
        time.sleep(PAUSE_SEC)
        client.sendall(frame({}, "stop") + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def run_turns(port, turns, pieces):
    """Runs turns one after the other on one connection; returns how many pieces arrived."""
    connection, arrived = http.client.HTTPConnection("127.0.0.1", port, timeout=120), 0
    for _ in range(turns):
        body = json.dumps({"prompt": "Tell me a story.", "sampling": {"max_tokens": pieces}})
        connection.request("POST", "/api/v1/chat/stream", body,
                           {"Content-Type": "application/json"})
        answer = connection.getresponse().read()
        if b"event: turn_completed" not in answer:
            sys.exit(f"the turn did not complete:\n{answer.decode()[-500:]}")
        arrived += answer.count(b"event: text_delta")
    connection.close()
    return arrived


def count(binary, model, turns, pieces, keep=None, store="memory"):
    """The instructions of a gateway that runs these turns, and the events of text in them."""
    with tempfile.TemporaryDirectory() as folder:
        config, out = os.path.join(folder, "tether.yml"), keep or os.path.join(folder, "out")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"upstreams: [{{name: model, kind: openai_chat, model: model, "
                       f"base_url: 'http://127.0.0.1:{model.port}/v1'}}]\n"
                       f"sessions: {{store: {store}, embedded: {{path: {folder}/sessions.db}}}}\n")
        port = free_port()
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            gateway = subprocess.Popen(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", binary,
                 "--config", config, "--listen", f"127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            wait_until_ready(gateway, port)
            # What is done once is not counted: clocks are calibrated, for as long as that takes.
            run_turns(port, 2, pieces)
            control(gateway, "--zero")
            events = run_turns(port, turns, pieces)
            # Nor is what the process does as it ends, such as tidying up a store's file.
            control(gateway, "--instr=off")
        finally:
            gateway.terminate()
            gateway.wait(60)
        with open(out, encoding="utf-8") as file:
            totals = re.search(r"^totals: (\d+)", file.read(), re.MULTILINE)
    return int(totals.group(1)), events


def control(gateway, command):
    subprocess.run(["callgrind_control", command, str(gateway.pid)], check=True, capture_output=True)


def wait_until_ready(gateway, port):
    for _ in range(600):
        if gateway.poll() is not None:
            sys.exit("the gateway did not start; is valgrind installed?")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the gateway did not answer within a minute")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", default="target/release/tether")
    parser.add_argument("--store", default="memory", choices=["memory", "embedded"])
    parser.add_argument("--pieces", type=int, default=256, help="pieces of text in a long turn")
    parser.add_argument("--functions", type=int, default=0, help="list so many functions")
    parser.add_argument("--profile", help="keep callgrind's profile of the long turns here")
    asked = parser.parse_args()
    model, turns, short = Model(), 8, 4
    with tempfile.TemporaryDirectory() as folder:
        profile = asked.profile or os.path.join(folder, "profile")

        def run(turns, pieces, keep=None):
            return count(asked.binary, model, turns, pieces, keep, asked.store)

        few, _ = run(2, short)
        many, few_events = run(turns, short)
        long, many_events = run(turns, asked.pieces, profile)
        events = many_events - few_events
        print(f"events of text measured       {events:>10}")
        print(f"instructions for each event   {(long - many) / events:>10.0f}")
        print(f"instructions for each request {(many - few) / (turns - 2):>10.0f}"
              f"  with {short} events of text")
        if asked.functions:
            listed = subprocess.run(["callgrind_annotate", "--threshold=100", profile],
                                    capture_output=True, text=True, check=True).stdout
            lines = [line for line in listed.splitlines() if re.match(r"\s*[\d,]+ \(", line)]
            print("\n".join(line[:150] for line in lines[1:asked.functions + 1]))


if __name__ == "__main__":
    main()
