"""Keys of Inductor's caches."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import cpuaccel


@cache
def sources(folder: Path) -> str:
    """Return what tells the Python files of `folder`, at this version, from other ones."""
    digest = hashlib.sha256(cpuaccel.__version__.encode())
    for path in sorted(each for each in folder.rglob("*") if each.suffix in (".py", ".csv")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
