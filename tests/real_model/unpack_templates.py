"""Replaces the archive in a directory by the chat templates in it.

    unpack_templates.py DIRECTORY
"""

import sys
import tarfile
from pathlib import Path

directory = Path(sys.argv[1])
[archive] = directory.glob("*.tar.gz")
with tarfile.open(archive) as sources:
    for member in sources:
        if "/models/templates/" in member.name and member.name.endswith(".jinja"):
            template = sources.extractfile(member).read()
            (directory / Path(member.name).name).write_bytes(template)
archive.unlink()
