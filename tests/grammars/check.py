"""Asks llama.cpp's grammar engine about the cases that the unit tests have written.

    check.py CASES RECORDED

RECORDED is the grammar that the recordings were made with; llama.cpp has to take it.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from llama_engine import Engine

SHOWN = 5


def main(cases, recorded):
    engine = Engine()
    assert engine.accepts(Path(recorded).read_text(), "Words."), "the recorded grammar"
    asked, wrong = Counter(), []
    with open(cases, encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            for grammar in case["grammars"]:
                for message in case["messages"]:
                    asked[case["format"]] += 1
                    if engine.accepts(grammar, message["text"]) != message["is_valid"]:
                        wrong.append((case["format"], message, grammar))
    for name, message, grammar in wrong[:SHOWN]:
        print(f"{name}: {message}\n{grammar}", file=sys.stderr)
    passed = sum(asked.values()) - len(wrong)
    print(f"{len(asked)} formats")
    print(f"grammars: {passed} passed, {len(wrong)} failed")
    return 1 if wrong or not asked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
