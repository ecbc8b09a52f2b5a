"""Atomic file replacement: readers see either the old file or the new one. Also package folders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. It replaces `path` at once afterwards, or not at all.

    Creates the folder of `path` if it does not exist.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a folder of its own, because two threads, or two processes with the same id in different
    # containers, may write the same file. Under its final name, which torch writes into archives.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}.") as folder:
        partial = Path(folder) / path.name
        yield partial
        partial.replace(path)


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to a file atomically, as `written` does.

    Raises:
        OSError: it cannot be written.
    """
    with written(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")


def user_folder(variable: str, otherwise: str) -> Path:
    """Return this package's folder in the one that the XDG variable names, or in `~/otherwise`."""
    base = os.environ.get(variable) or Path.home() / otherwise
    return Path(base) / "cpuaccel"


def cmake_prefix_path() -> str:
    """Return the CMAKE_PREFIX_PATH with which CMake finds the package `cpuaccel`.

    Raises:
        RuntimeError: cpuaccel was built without its C++ library.
    """
    found = Path(__file__).parent / "share" / "cmake"
    if not (found / "cpuaccel" / "cpuaccel-config.cmake").exists():
        raise RuntimeError("cpuaccel was built without its C++ library (CPUACCEL_CPP_LIBRARY)")
    return str(found)
