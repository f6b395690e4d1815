"""Picks the 200 questions of tests/data/effect/single_calls.json from BFCL.

    pip download --no-deps bfcl-eval==2026.3.23
    pick_bfcl.py bfcl_eval-2026.3.23-py3-none-any.whl

BFCL is the Berkeley Function Calling Leaderboard. The script reads the wheel and installs
nothing. Order and halves follow from hashes of the seed and each question's id, so the
same wheel always gives the same file. A question is left out if

- it is more than one user message, or has a system prompt;
- a tool's name is not one that Tether takes, is a built-in tool's, or occurs twice;
- its tools are longer than TOOLS_BYTES_MAX as JSON, or its prompt than PROMPT_BYTES_MAX;
- BFCL's answer does not fit the schema of the tool it calls, or makes the same call twice,
  which Tether would not run;
- its prompt was picked before or, in the live categories, the tool it calls was: BFCL asks
  some things many times, and the halves should not share questions.
"""

import argparse
import hashlib
import json
import re
import zipfile
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

OUTPUT = Path(__file__).resolve().parent.parent / "data" / "effect" / "single_calls.json"
VERSION = "2026.3.23"
SEED = 8

# Kind, BFCL category, questions.
PICKS = [
    ("single", "simple_python", 50),
    ("single", "live_simple", 30),
    ("multiple", "multiple", 50),
    ("multiple", "live_multiple", 30),
    ("parallel", "parallel", 25),
    ("parallel", "parallel_multiple", 15),
]

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
BUILT_IN = {"calculate", "get_current_time"}
# A small model's context has room for these and an answer.
TOOLS_BYTES_MAX = 6 * 1024
PROMPT_BYTES_MAX = 1200
FILE_BYTES_MAX = 500_000

# BFCL names types as Python does. None: any type.
TYPES = {
    "any": None,
    "array": "array",
    "bool": "boolean",
    "boolean": "boolean",
    "dict": "object",
    "float": "number",
    "integer": "integer",
    "list": "array",
    "number": "number",
    "object": "object",
    "string": "string",
    "tuple": "array",
}
KEPT_AS_IS = ("description", "default", "maximum", "minimum", "format")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path, help=f"bfcl_eval-{VERSION}-py3-none-any.whl")
    wheel = parser.parse_args().wheel
    picked, seen = [], set()
    with zipfile.ZipFile(wheel) as files:
        metadata = files.read(f"bfcl_eval-{VERSION}.dist-info/METADATA").decode()
        if f"\nVersion: {VERSION}\n" not in metadata:
            parser.error(f"{wheel} is not bfcl-eval {VERSION}")
        for kind, category, count in PICKS:
            group = pick(candidates(files, kind, category), category, count, seen)
            if len(group) < count:
                parser.error(f"{category} has only {len(group)} questions that fit")
            picked.append(group)
    assign_halves(picked)
    text = render([question for group in picked for question in group])
    size = len(text.encode())
    if size > FILE_BYTES_MAX:
        parser.error(f"the file would have {size} bytes, {FILE_BYTES_MAX} are allowed")
    OUTPUT.write_text(text, encoding="utf-8")
    unchecked = "" if jsonschema else "; install jsonschema to check the schemas"
    print(f"{OUTPUT.name}: {sum(map(len, picked))} questions, {size} bytes{unchecked}")


def candidates(files, kind, category):
    """The questions of a category that can be used, in the order of their hashes."""
    name = f"BFCL_v4_{category}.json"
    rows = read_lines(files, f"bfcl_eval/data/{name}")
    answers = {
        row["id"]: row["ground_truth"]
        for row in read_lines(files, f"bfcl_eval/data/possible_answer/{name}")
    }
    found = [convert(row, answers.get(row["id"]), kind) for row in rows]
    return sorted(filter(None, found), key=lambda question: rank(question["id"]))


def pick(found, category, count, seen):
    """The first `count` that ask something new; `seen` is what was asked before."""
    group = []
    for question in found:
        asks = {re.sub(r"\W", "", question["prompt"]).lower()}
        if category.startswith("live_"):
            asks |= {("live", call["name"]) for call in question["expected"]}
        if len(group) < count and seen.isdisjoint(asks):
            seen |= asks
            group.append(question)
    return group


def read_lines(files, name):
    return [json.loads(line) for line in files.read(name).decode().split("\n") if line.strip()]


def rank(question_id):
    return hashlib.sha256(f"{SEED}:{question_id}".encode()).hexdigest()


def convert(row, answer, kind):
    """The question in our form, or None if it cannot be used."""
    messages = [message for turn in row["question"] for message in turn]
    if answer is None or [message["role"] for message in messages] != ["user"]:
        return None
    tools = [
        {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": schema(tool["parameters"]),
        }
        for tool in row["function"]
    ]
    names = [tool["name"] for tool in tools]
    prompt = messages[0]["content"]
    if (
        not prompt.strip()
        or len(prompt.encode()) > PROMPT_BYTES_MAX
        or len(compact(tools).encode()) > TOOLS_BYTES_MAX
        or len(set(names)) < len(names)
        or not BUILT_IN.isdisjoint(names)
        or not all(TOOL_NAME.fullmatch(name) for name in names)
    ):
        return None
    for tool in tools:
        check_schema(tool["parameters"])
    expected = [
        {"name": name, "arguments": arguments}
        for call in answer
        for name, arguments in call.items()
    ]
    parameters = {tool["name"]: tool["parameters"] for tool in tools}
    if not all(answerable(call, parameters) for call in expected):
        return None
    if any(call in expected[:index] for index, call in enumerate(expected)):
        return None
    # Halves are assigned once the questions are picked; the key keeps its place here.
    return {
        "id": row["id"],
        "kind": kind,
        "half": None,
        "prompt": prompt,
        "tools": tools,
        "expected": expected,
    }


def schema(bfcl):
    """A JSON Schema (2020-12) from BFCL's form of one."""
    made = {}
    name = TYPES[bfcl["type"]]
    if name:
        made["type"] = name
    made |= {key: bfcl[key] for key in KEPT_AS_IS if key in bfcl}
    if isinstance(bfcl.get("enum"), list):
        made["enum"] = bfcl["enum"]
    if isinstance(bfcl.get("properties"), dict):
        made["properties"] = {key: schema(value) for key, value in bfcl["properties"].items()}
    if isinstance(bfcl.get("items"), dict):
        made["items"] = schema(bfcl["items"])
    if isinstance(bfcl.get("required"), list):
        made["required"] = list(dict.fromkeys(bfcl["required"]))
    return made


def check_schema(made):
    if jsonschema:
        jsonschema.Draft202012Validator.check_schema(made)


def answerable(call, parameters):
    """Whether the schema allows the call that BFCL expects."""
    made = parameters.get(call["name"])
    if made is None:
        return False
    properties, arguments = made.get("properties", {}), call["arguments"]
    for key, accepted in arguments.items():
        given = [plain(value) for value in accepted if value != ""]
        if key not in properties or not isinstance(accepted, list):
            return False
        if given and not any(fits(value, properties[key]) for value in given):
            return False
        if not given and accepted != [""]:
            return False
    return all(
        key in arguments and any(value != "" for value in arguments[key])
        for key in made.get("required", [])
    )


def plain(value):
    """An accepted value as a model would write it: in objects, BFCL lists the accepted
    values of each key."""
    if isinstance(value, dict):
        given = {key: first(accepted) for key, accepted in value.items()}
        return {key: plain(value) for key, value in given.items() if value != ""}
    if isinstance(value, list):
        return [plain(element) for element in value]
    return value


def first(accepted):
    """The first accepted value that is not left out, or an empty string."""
    if not isinstance(accepted, list):
        return accepted
    return next((value for value in accepted if value != ""), "")


def fits(value, made):
    """Whether `value` is valid by the keywords that `schema` writes."""
    if "enum" in made and value not in made["enum"]:
        return False
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and not made.get("minimum", value) <= value <= made.get("maximum", value):
        return False
    match made.get("type"):
        case "object":
            properties = made.get("properties", {})
            return (
                isinstance(value, dict)
                and all(key in value for key in made.get("required", []))
                and all(fits(value[key], properties[key]) for key in value if key in properties)
            )
        case "array":
            return isinstance(value, list) and all(
                fits(element, made.get("items", {})) for element in value
            )
        case "integer":
            return number and value == int(value)
        case "number":
            return number
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
    return True


def assign_halves(picked):
    """Alternately in the order of the hashes, then back to the order of the ids."""
    counts = {}
    for group in picked:
        for question in group:
            count = counts.setdefault(question["kind"], 0)
            question["half"] = ("tune", "report")[count % 2]
            counts[question["kind"]] += 1
        group.sort(key=lambda question: [int(part) for part in re.findall(r"\d+", question["id"])])


def render(questions):
    """One question per line, so that a diff shows what changed."""
    head = {
        "source": f"Berkeley Function Calling Leaderboard, PyPI bfcl-eval {VERSION}, BFCL_v4_"
        + ", ".join(category for _, category, _ in PICKS)
        + " with possible_answer. Picked by tests/effect/pick_bfcl.py, which turned BFCL's types "
        "into JSON Schema and left prompts and accepted answers as they were.",
        "licence": "Apache-2.0, Sky Computing Lab, UC Berkeley, "
        "https://github.com/ShishirPatil/gorilla",
        "seed": SEED,
    }
    lines = [f" {json.dumps(key)}: {compact(value)},\n" for key, value in head.items()]
    rows = ",\n".join("  " + compact(question) for question in questions)
    return "{\n" + "".join(lines) + ' "questions": [\n' + rows + "\n ]\n}\n"


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
