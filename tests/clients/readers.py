"""Reads a recorded stream from standard input with one reader, whole and cut at every byte. Prints what
the whole has, and where a cut changes it.

readers.py READER
"""

import json
import sys

import httpx

DONE = "[DONE]"


class Arriving(httpx.SyncByteStream):
    def __init__(self, pieces):
        self._pieces = pieces

    def __iter__(self):
        return iter(self._pieces)


def response(pieces):
    return httpx.Response(
        200,
        headers={"content-type": "text/event-stream"},
        stream=Arriving(pieces),
        request=httpx.Request("POST", "http://gateway"),
    )


def httpx_sse(pieces):
    from httpx_sse import EventSource

    events = EventSource(response(pieces)).iter_sse()
    return [json.loads(event.data) for event in events if event.data != DONE]


def of_sdk(sdk, client):
    connected = client(api_key="none", base_url="http://gateway")

    def read(pieces):
        return list(sdk.Stream(cast_to=object, response=response(pieces), client=connected))

    return read


def reader(name):
    if name == "openai for Python":
        import openai

        return of_sdk(openai, openai.OpenAI)
    if name == "anthropic for Python":
        import anthropic

        return of_sdk(anthropic, anthropic.Anthropic)
    return httpx_sse


read = reader(sys.argv[1])
stream = sys.stdin.buffer.read()
whole = read([stream])
cuts = [[stream[:at], stream[at:]] for at in range(1, len(stream))]
one_by_one = [stream[at : at + 1] for at in range(len(stream))]
different = [at for at, pieces in enumerate([one_by_one, *cuts]) if read(pieces) != whole]
print(json.dumps({"events": whole, "different": different}))
