"""Plays scenarios for clients in Python: reads a job per line, prints what was heard as a line.

A job says how the client is to be used (`api`, `way`), the gateway's `origin`, the user's `prompts`,
whether the client `offers` its tool, and the words after which it is to leave (`leavesAfter`).
"""

import json
import sys

OPEN_FILE = {
    "name": "open_file",
    "description": "Opens a file.",
    "schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
}


class LeftEarly(Exception):
    """Raised where the client stops reading."""


class Heard:
    """What a client hears in one turn: see `Heard` in play.mjs."""

    def __init__(self, leaves_after):
        self.text = ""
        self.reasoning = ""
        self.ours = []
        self.opened = []
        self.end = None
        self._leaves_after = leaves_after

    def say(self, words):
        self.text += words
        if self.text == self._leaves_after:
            raise LeftEarly

    def open(self, path):
        """The tool that the client brings."""
        self.opened.append(path)
        return f"Buy the milk in {path}."

    def shown(self):
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}


def play(start, job):
    heard = []
    played = {"heard": heard}
    try:
        ask = start(job)
        for prompt in job["prompts"]:
            turn = Heard(job["leavesAfter"])
            heard.append(turn)
            ask(prompt, turn)
    except Exception as error:
        played["error"] = {"name": type(error).__name__, "message": str(error)}
    played["heard"] = [turn.shown() for turn in heard]
    return played


def serve(ways):
    """Plays jobs until there are no more. `ways` has an API's ways by name. A way is a function of a
    job; it begins a conversation and returns a function that says the user's next words:
    `ask(prompt, heard)`."""
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(play(ways[job["api"]][job["way"]], job)), flush=True)
