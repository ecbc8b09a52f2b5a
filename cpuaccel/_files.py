"""Files that others may read while they are written."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file, and its folder if there is none; one that is there is replaced at once or not.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of this process: two may write the same file.
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(text, encoding="utf-8", newline="")
    partial.replace(path)
