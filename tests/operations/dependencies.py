#!/usr/bin/env python3
"""Prints what docs/dependencies.md says about crates: for each that the binary is built from on Linux, its
version, the day of its last release, its licence and its unsafe code. Needs what `cargo fetch` brings, and no
network."""

import json
import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = "x86_64-unknown-linux-gnu"
# Blocks, functions, impls and traits; not the lint `unsafe_code`.
UNSAFE = re.compile(r"\bunsafe\s*(?:\{|fn\b|impl\b|extern\b|trait\b)")
IN_COMMENT = re.compile(r"//.*")


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked", "--offline"]
    return subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout


def linked(*options):
    """Names and versions of what the binary is linked with: nothing that only tests or builds need."""
    tree = cargo("tree", "-e", "normal,no-proc-macro", "--target", TARGET, "--prefix", "none", *options)
    return {tuple(line.split()[:2]) for line in tree.splitlines()[1:] if line}


def index():
    """The folder where cargo keeps what the registry says of each crate."""
    found = (Path.home() / ".cargo/registry/index").glob("*/.cache")
    return next(found, None)


def released(folder, name):
    """The day of the newest release that cargo has heard of."""
    lower = name.lower()
    prefix = {1: "1", 2: "2", 3: f"3/{lower[0]}"}.get(len(lower), f"{lower[:2]}/{lower[2:4]}")
    text = (folder / prefix / lower).read_bytes().decode("utf-8", "replace")
    return max(re.findall(r'"pubtime": ?"([0-9-]{10})', text), default="?")


def unsafe_places(manifest):
    sources = (Path(manifest).parent / "src").rglob("*.rs")
    texts = (path.read_text("utf-8", "replace") for path in sources if "tests" not in path.parts)
    return sum(len(UNSAFE.findall(IN_COMMENT.sub("", text))) for text in texts)


def main():
    packages = {
        (package["name"], f"v{package['version']}"): package
        for package in json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    }
    direct, every = linked("--depth", "1"), linked()
    folder = index()
    for title, keys in [("direct", direct), ("transitive", every - direct)]:
        print(f"{title}: {len(keys)}")
        rows = [(unsafe_places(packages[key]["manifest_path"]), packages[key]) for key in keys]
        for count, package in sorted(rows, key=lambda row: (-row[0], row[1]["name"])):
            day = released(folder, package["name"])
            print(f"  {package['name']} {package['version']}, {day}, {package['license']}, unsafe: {count}")


if __name__ == "__main__":
    main()
