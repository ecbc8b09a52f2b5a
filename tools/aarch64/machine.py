"""The Debian packages that the aarch64 cross build needs, and the cores that are emulated."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = {
    "aarch64-linux-gnu-g++-12": "g++-12-aarch64-linux-gnu",
    "qemu-aarch64": "qemu-user",
    "dpkg-deb": "dpkg",
}
"""Commands, and the Debian package of each."""

CORES = {
    "graviton3": "max,sme=off,sve256=on",
    "graviton4": "max,sme=off,sve128=on",
    "graviton2": "neoverse-n1",
}
"""Names of --core, and qemu's CPU option with the same instructions.

ACL picks an SME instruction that qemu 7.2 lacks, hence sme=off.
"""


def install() -> None:
    """Install the missing packages if run as root; otherwise exit and list them."""
    missing = [package for command, package in PACKAGES.items() if shutil.which(command) is None]
    if not Path("/usr/src/googletest").is_dir():
        missing.append("libgtest-dev")
    if not missing:
        return
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"aarch64: missing packages of Debian: {' '.join(missing)}")
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", *missing],
        check=True,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdout=subprocess.DEVNULL,
    )
