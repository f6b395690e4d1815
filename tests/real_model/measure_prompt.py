"""Measures system prompts with the real model: does it call where it should?

    measure_prompt.py [--answers] PROMPT...

Each PROMPT is a file with a whole system prompt that offers the two built-in tools and
teaches the default marker, such as tests/data/prompts/default.txt. One row of
docs/prompting.md is printed for each: of the questions about the time, those that were
answered by one valid call of get_current_time; of the sums, those by one of calculate;
of the others, those without a call. Then the prompt's tokens. All at temperature 0,
with the grammar that the gateway sends. `--answers` prints each answer, too.
"""

import argparse
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
GRAMMAR = HERE.parent / "data" / "upstream" / "grammar.gbnf"
MARKER = "<<function_call>>"
# A call of both tools' arguments fits; a story is cut.
ANSWER_TOKENS_MAX = 60

QUESTIONS = {
    "get_current_time": [
        "What time is it in Berlin?",
        "What is the time in New York right now?",
        "Tell me the time in London.",
        "What's the current time in Sydney?",
        "How late is it in Paris?",
        "Can you tell me what time it is in Moscow?",
        "What time is it now in Chicago?",
        "Do you know the time in Cairo?",
        "Please give me the current time in Madrid.",
        "What is the local time in Los Angeles?",
        "I have to call a friend in Toronto. What time is it there?",
        "what time is it in singapore",
        "What day is it today in Tokyo?",
        "What is the date in Auckland?",
        "Is it already morning in Mumbai?",
        "What time is it?",
        "What's the time in Vienna, please?",
        "Current time in Dubai?",
        "My sister lives in Lima. How late is it for her?",
        "What day of the week is it in Helsinki?",
    ],
    "calculate": [
        "What is 17 * 23?",
        "Calculate 1234 + 5678.",
        "What is 15% of 80?",
        "How much is 99 divided by 7?",
        "What is the square root of 144?",
        "What is 2 to the power of 10?",
        "Add 12, 30 and 58.",
        "What is 1000 - 377?",
    ],
    None: [
        "What is the capital of France?",
        "Say hello.",
        "Write a short poem about the sea.",
        "Who wrote Romeo and Juliet?",
        "What colour is the sky?",
        "Give me a name for a cat.",
        "Explain what a computer is.",
        "Thank you very much!",
    ],
}


class Server:
    """The model; it dies with the pipe to its standard input, so with this script."""

    def __init__(self):
        command = [sys.executable, HERE / "server.py", "--slots", "1"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening "):
            sys.exit("the model server did not start")
        self.address = line.split()[1]

    def post(self, path, request):
        with urllib.request.urlopen(self.address + path, json.dumps(request).encode(), timeout=120) as answer:
            return json.load(answer)

    def tokens(self, text):
        return len(self.post("/tokenize", {"content": text})["tokens"])

    def answer(self, system, question):
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        request = {"messages": messages, "temperature": 0, "max_tokens": ANSWER_TOKENS_MAX}
        request["grammar"] = GRAMMAR.read_text()
        return self.post("/v1/chat/completions", request)["choices"][0]["message"]["content"]


def called(answer):
    """The names of the tools that an answer calls; the grammar sees to their arguments."""
    for payload in answer.split(MARKER)[1:]:
        try:
            yield json.JSONDecoder().raw_decode(payload.lstrip())[0]["name"]
        except json.JSONDecodeError:
            yield "(cut)"


def measure(server, system, show_answers):
    for tool, questions in QUESTIONS.items():
        as_wanted = 0
        for question in questions:
            answer = server.answer(system, question)
            as_wanted += list(called(answer)) == ([tool] if tool else [])
            if show_answers:
                print(f"  {question!r} -> {answer!r}", flush=True)
        yield f"{as_wanted}/{len(questions)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompts", nargs="+", type=Path, metavar="PROMPT")
    parser.add_argument("--answers", action="store_true", help="print each answer")
    options = parser.parse_args()
    server = Server()
    print("| prompt | time | sums | none | tokens |\n| --- | --- | --- | --- | --- |", flush=True)
    for path in options.prompts:
        system = path.read_text().rstrip("\n")
        counts = " | ".join(measure(server, system, options.answers))
        print(f"| {path.stem} | {counts} | {server.tokens(system)} |", flush=True)


if __name__ == "__main__":
    main()
