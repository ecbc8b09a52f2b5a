"""Unpacks the Python and C library of Debian arm64 into a sysroot folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PACKAGES = ("python3.11", "libpython3.11-dev", "libgomp1", "libstdc++6", "libc6-dev")

_CONFIG = """\
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Install-Recommends "false";
Dir::State "{state}";
Dir::State::status "{state}/status";
Dir::Cache "{state}/cache";
"""


def unpack(directory: Path) -> Path:
    """Return the folder. apt selects and verifies the packages, with its own separate state."""
    root, state = directory / "sysroot", directory / "apt"
    done = root / ".unpacked"
    if done.exists() and done.read_text() == " ".join(PACKAGES):
        return root
    for folder in (state / "lists/partial", state / "cache/archives/partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    config = state / "apt.conf"
    config.write_text(_CONFIG.format(state=state.resolve()))
    for command in (["update"], ["install", "--yes", "--download-only", *PACKAGES]):
        subprocess.run(
            ["apt-get", "-qq", *command],
            check=True,
            env={**os.environ, "APT_CONFIG": str(config)},
            stdout=subprocess.DEVNULL,
        )
    root.mkdir(exist_ok=True)
    for package in sorted((state / "cache/archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    done.write_text(" ".join(PACKAGES))
    return root
