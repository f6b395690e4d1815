"""A chat in the terminal, with OpenAI's SDK: type a line, and read the answer as it is written.

    pip install openai
    python examples/chat.py

The gateway runs its tools before it answers, so the program needs no code for them.
"""

import os
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("TETHER_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("TETHER_API_KEY", "none"),
)
model = client.models.list().data[0].id
messages = []

print("> ", end="", flush=True)
for line in sys.stdin:
    messages.append({"role": "user", "content": line.strip()})
    answer = ""
    for chunk in client.chat.completions.create(model=model, messages=messages, stream=True):
        words = chunk.choices[0].delta.content or ""
        print(words, end="", flush=True)
        answer += words
    messages.append({"role": "assistant", "content": answer})
    print("\n> ", end="", flush=True)
