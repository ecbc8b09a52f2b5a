"""Dependencies of the wheel: the minor versions of torch that it has shims for, pinned.

A shim links torch's C++ ABI, which changes with every minor release. A wheel with shims for 2.13,
2.14 and 2.15 asks for torch >=2.13,<2.16.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RUNTIME = ["rich>=13"]


def minor_version(version: str) -> tuple[int, int]:
    """Major and minor number of a torch release (for example ``2.13.0+cpu``)."""
    match = re.match(r"(\d+)\.(\d+)\.", version)
    if match is None:
        raise RuntimeError(f"torch version {version!r} is not of the form MAJOR.MINOR.PATCH")
    return int(match[1]), int(match[2])


def version_of(directory: Path) -> str:
    """Release of the torch in ``directory``, from its headers."""
    header = (directory / "include" / "torch" / "headeronly" / "version.h").read_text()
    parts = [
        re.search(rf"TORCH_VERSION_{part} (\d+)", header) for part in ("MAJOR", "MINOR", "PATCH")
    ]
    return ".".join(part[1] for part in parts if part is not None)


def torch_requirement(versions: Iterable[str]) -> str:
    """Requirement string that the minor versions of ``versions`` satisfy, and no other does."""
    minors = sorted({minor_version(version) for version in versions})
    if len(minors) == 1:
        return "torch=={}.{}.*".format(*minors[0])
    (first_major, first), (major, last) = minors[0], minors[-1]
    if first_major != major:
        raise RuntimeError(f"one wheel has shims for one major version of torch, not for {minors}")
    missing = [
        f"!={major}.{minor}.*" for minor in range(first, last) if (major, minor) not in minors
    ]
    return ",".join([f"torch>={major}.{first}", f"<{major}.{last + 1}", *missing])


def dynamic_metadata(field: str, settings: Mapping[str, Any]) -> list[str]:
    """Value of ``field`` (only ``dependencies``) for the wheel being built.

    CPUACCEL_TORCH_DIRS in the environment lists the torches, as for CMake. By default it is the
    installed one.
    """
    if field != "dependencies" or settings:
        raise RuntimeError(f"torch_pin provides dependencies without settings, not {field!r}")
    directories = [
        Path(name) for name in os.environ.get("CPUACCEL_TORCH_DIRS", "").split(";") if name
    ]
    versions = [version_of(each) for each in directories] or [importlib.metadata.version("torch")]
    return [torch_requirement(versions), *RUNTIME]
