"""The files of the repository, for tests that read its sources and pages."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@functools.cache
def files() -> frozenset[str]:
    """The files that git does not ignore, relative to the root; all files if there is no git."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return frozenset(file for file in done.stdout.splitlines() if (ROOT / file).is_file())
    return frozenset(str(file.relative_to(ROOT)) for file in ROOT.rglob("*") if file.is_file())
