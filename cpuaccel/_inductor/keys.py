"""Keys of Inductor's caches: a hash of cpuaccel's sources."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from cpuaccel._version import __version__


@cache
def sources(folder: Path) -> str:
    """Return a hash of cpuaccel's version and of the .py and .csv files in `folder`."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(each for each in folder.rglob("*") if each.suffix in (".py", ".csv")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
