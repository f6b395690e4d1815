"""Posts a turn with httpx-sse and prints each event as a line of JSON.

httpx_sse_client.py URL BODY
"""

import json
import sys

import httpx
import httpx_sse

url, body = sys.argv[1:]
headers = {"content-type": "application/json"}
with httpx.Client(trust_env=False) as client:
    with httpx_sse.connect_sse(client, "POST", url, headers=headers, content=body) as source:
        for event in source.iter_sse():
            print(json.dumps({"id": event.id, "event": event.event, "data": event.data}))
