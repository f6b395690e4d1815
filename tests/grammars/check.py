"""Asks the engines of model servers about the cases that the unit tests have written.

    check.py CASES RECORDED

llama.cpp's engine gets the grammars, xgrammar the structural tags. RECORDED is the grammar that the
recordings were made with; llama.cpp has to take it.
"""

import json
import sys
from pathlib import Path

import llama_engine
import xgrammar_engine

SHOWN = 5


def ask(name, engine, key, cases):
    """Asks one engine; how many answers were right, and how many were not."""
    asked, formats, wrong = 0, set(), []
    for case in cases:
        for constraint in case[key]:
            for message in case["messages"]:
                asked += 1
                formats.add(case["format"])
                if engine.accepts(constraint, message["text"]) != message["is_valid"]:
                    wrong.append(f"{name}, {case['format']}: {message}\n{constraint}")
    for complaint in wrong[:SHOWN]:
        print(complaint, file=sys.stderr)
    print(f"{name}: {len(formats)} formats")
    return asked - len(wrong), len(wrong)


def main(cases, recorded):
    llama = llama_engine.Engine()
    assert llama.accepts(Path(recorded).read_text(), "Words."), "the recorded grammar"
    with open(cases, encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    counts = [
        ask("llama.cpp", llama, "grammars", cases),
        ask("xgrammar", xgrammar_engine.Engine(), "structural_tags", cases),
    ]
    passed, failed = map(sum, zip(*counts))
    print(f"grammars: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
