"""OpenAI's SDK for Python against a gateway: prints what no scenario shows, as JSON.

openai_client.py BASE_URL
"""

import json
import sys

from openai import NotFoundError, OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
printed = {}

printed["models"] = [model.id for model in client.models.list()]
try:
    client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "Hi."}])
except NotFoundError as error:
    printed["unknown"] = error.code

queued = client.responses.create(model="script", input="What is 6*7?", background=True)
with client.responses.stream(response_id=queued.id, starting_after=3) as stream:
    numbers = [event.sequence_number for event in stream]
    final = stream.get_final_response()
printed["background"] = [queued.status, numbers[0], final.output_text]
printed["polled"] = client.responses.retrieve(queued.id).output_text

client.responses.delete(queued.id)
try:
    client.responses.retrieve(queued.id)
except NotFoundError as error:
    printed["deleted"] = error.status_code
print(json.dumps(printed))
