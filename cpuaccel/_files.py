"""Files that others may read while they are written, and files of the package."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file, and its folder if there is none; one that is there is replaced at once or not.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two threads may write the same file, and two processes of one number in containers.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}.") as folder:
        partial = Path(folder) / path.name
        partial.write_text(text, encoding="utf-8", newline="")
        partial.replace(path)


def user_folder(variable: str, otherwise: str) -> Path:
    """Return this package's folder in the one that an XDG variable names, or in `~/otherwise`."""
    base = os.environ.get(variable) or Path.home() / otherwise
    return Path(base) / "cpuaccel"


def cmake_prefix_path() -> str:
    """Return what `cmake -DCMAKE_PREFIX_PATH` is given to find the package `cpuaccel`.

    Raises:
        RuntimeError: cpuaccel was built without its C++ library.
    """
    spec = importlib.util.find_spec("cpuaccel._C")
    found = Path(spec.origin).parent / "share" / "cmake" if spec and spec.origin else None
    if found is None or not (found / "cpuaccel" / "cpuaccel-config.cmake").exists():
        raise RuntimeError("cpuaccel was built without its C++ library (CPUACCEL_CPP_LIBRARY)")
    return str(found)
