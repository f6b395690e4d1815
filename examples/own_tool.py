"""A client tool with Anthropic's SDK: this program lets the model read files in the current directory.

    pip install anthropic
    python examples/own_tool.py "What does README.md say?"
"""

import os
import sys
from pathlib import Path

from anthropic import Anthropic, beta_tool

client = Anthropic(
    base_url=os.environ.get("TETHER_URL", "http://127.0.0.1:8080"),
    api_key=os.environ.get("TETHER_API_KEY", "none"),
)


@beta_tool
def open_file(path: str) -> str:
    """Returns the contents of a file in the project.

    Args:
        path: For example README.md.
    """
    file = Path(path).resolve()
    if not file.is_relative_to(Path.cwd()):
        return "That file is outside the project."
    return file.read_text()


question = sys.argv[1] if len(sys.argv) > 1 else "What does README.md say?"
runner = client.beta.messages.tool_runner(
    model="claude-sonnet-4",  # any claude-* name selects the gateway's default model
    max_tokens=1024,
    messages=[{"role": "user", "content": question}],
    tools=[open_file],
)
for message in runner:
    for block in message.content:
        if block.type == "text":
            print(block.text)
