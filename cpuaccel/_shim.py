"""Finds the shim: the folder with the C++ module that was compiled against the torch that runs.

A package has one shim for each minor version of torch that it supports, because torch's C++
interface is stable only within a minor version.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch

REBUILD = "run `pip install --force-reinstall --no-deps --no-build-isolation .` in a checkout"
"""Builds against the installed torch, and does not replace torch."""


def minor(version: str) -> str:
    """Return `2.13` for `2.13.0+cpu`."""
    return ".".join(version.split(".")[:2])


def built() -> dict[str, str]:
    """Return the minor versions that have a shim, and the release that each was compiled against.

    Raises:
        RuntimeError: cpuaccel is not built.
    """
    try:
        return dict(importlib.import_module("cpuaccel._build_info").SHIMS)
    except ImportError:
        raise RuntimeError(
            f"cpuaccel is not built: {Path(__file__).parent} has no compiled module. If that is a"
            " checkout and cpuaccel is installed, start Python in another folder; otherwise build"
            f" it: {REBUILD}"
        ) from None


def folder() -> Path:
    """Return the folder of the shim for the torch that runs.

    Raises:
        RuntimeError: cpuaccel is not built, or has no shim for this torch.
    """
    shims = built()
    running = str(torch.__version__)
    if minor(running) not in shims:
        raise RuntimeError(_no_shim(sorted(shims, key=_number), running))
    return Path(__file__).parent / f"torch_{minor(running).replace('.', '_')}"


def add_to_package() -> None:
    """Make `import cpuaccel._C` find the module of the shim.

    Raises:
        RuntimeError: as `folder`.
    """
    path, package = str(folder()), sys.modules["cpuaccel"]
    if path not in package.__path__:
        package.__path__.append(path)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _no_shim(minors: list[str], running: str) -> str:
    *others, last = minors
    versions = f"{', '.join(others)} and {last}" if others else last
    return (
        f"cpuaccel was built for torch {versions} and this is torch {running}. Install a torch that"
        " it was built for, or a newer cpuaccel (pip install --upgrade cpuaccel), or build it for"
        f" this torch: {REBUILD}"
    )
