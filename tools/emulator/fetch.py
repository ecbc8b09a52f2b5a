"""Builds the emulator (Bochs, from Debian's source) and downloads a kernel for it from Debian."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

# The same suite on every host: Bochs 3.0 is the first release with AVX-VNNI.
SUITE = "trixie"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
KERNEL = "linux-image-cloud-amd64"
TOOLS = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "g++": "g++",
    "make": "make",
    "zstd": "zstd",
    "xz": "xz-utils",
}

# show-ips logs in a signal handler, which sometimes deadlocks on the lock of the log.
CONFIGURE = [
    "--enable-cpu-level=6", "--enable-x86-64", "--enable-avx", "--enable-evex",
    "--enable-all-optimizations", "--enable-long-phy-address", "--disable-docbook", "--with-nogui",
    "--disable-show-ips", "CXXFLAGS=-O2 -fno-strict-aliasing", "CFLAGS=-O2",
]  # fmt: skip

# Bochs allocates memory in blocks that need not be contiguous, but reads a whole image into the
# first one.
PATCHED_FILE = "memory/misc_mem.cc"
UNPATCHED = "ret = read(fd, (bx_ptr_t) BX_MEM_THIS get_vector(offset), size);"
PATCHED = """const unsigned long room = BX_MEM_THIS block_size - offset % BX_MEM_THIS block_size;
    ret = read(fd, (bx_ptr_t) BX_MEM_THIS get_vector(offset), size < room ? size : room);"""


def missing_tools() -> list[str]:
    """Missing commands, each with its Debian package."""
    missing = [f"{tool} ({package})" for tool, package in TOOLS.items() if not shutil.which(tool)]
    if not KEYRING.exists():
        missing.append(f"{KEYRING} (debian-archive-keyring)")
    return missing


class Apt:
    """apt-get with its own package lists below ``root``; the machine's sources are not changed."""

    def __init__(self, root: Path) -> None:
        for name in ("etc/apt.conf.d", "etc/preferences.d", "lists/partial", "cache", "state"):
            (root / name).mkdir(parents=True)
        source = f"[signed-by={KEYRING}] {_mirror()} {SUITE} main"
        (root / "etc/sources.list").write_text(f"deb {source}\ndeb-src {source}\n")
        paths = {
            "Dir::Etc": root / "etc",
            "Dir::State": root / "state",
            "Dir::State::lists": root / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": root / "cache",
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "root",
        }
        self._options = [
            word for name, value in paths.items() for word in ("-o", f"{name}={value}")
        ]

    def get(self, *arguments: str, directory: Path) -> None:
        """Runs ``apt-get`` in ``directory``."""
        _run(["apt-get", "-qq", *self._options, *arguments], directory)

    def dependency(self, package: str) -> str:
        """The package that the metapackage ``package`` depends on."""
        command = ["apt-cache", *self._options, "depends", "--important", package]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return next(line.split()[1] for line in lines.splitlines() if "Depends:" in line)


def _mirror() -> str:
    """The Debian mirror in this machine's own sources."""
    targets = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    sites = subprocess.run(targets, check=True, capture_output=True, text=True).stdout.split()
    for site in sites:
        if site.rstrip("/").endswith("/debian"):
            return site
    raise RuntimeError(f"apt's sources name no Debian mirror, only {sites}")


def _run(command: Sequence[str | Path], directory: Path) -> None:
    done = subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}")


def build_bochs(apt: Apt, work: Path) -> Path:
    """Downloads and builds Bochs below ``work``; returns the path of the program."""
    apt.get("source", "--tar-only", "bochs", directory=work)
    _run(["tar", "-xf", next(work.glob("bochs_*.tar.xz"))], work)
    source = next(work.glob("bochs-*/"))
    memory = (source / PATCHED_FILE).read_text()
    if memory.count(UNPATCHED) != 1:
        raise RuntimeError(f"{source.name}: {PATCHED_FILE} is not the one the patch was made for")
    (source / PATCHED_FILE).write_text(memory.replace(UNPATCHED, PATCHED))
    _run(["./configure", *CONFIGURE], source)
    _run(["make", f"-j{os.cpu_count()}"], source)
    _run(["strip", "bochs"], source)
    return source / "bochs"


def extract_vmlinux(bzimage: bytes) -> bytes:
    """The ELF file inside a zstd-compressed ``bzimage``."""
    offset, size = struct.unpack_from("<II", bzimage, 0x248)
    start = (bzimage[0x1F1] + 1) * 512 + offset
    payload = bzimage[start : start + size - 4]  # the last four bytes are the unpacked size
    return subprocess.run(["zstd", "-dcq"], input=payload, check=True, capture_output=True).stdout


def fetch_kernel(apt: Apt, work: Path) -> bytes:
    """Downloads the kernel and unpacks it."""
    package = apt.dependency(KERNEL)
    apt.get("download", package, directory=work)
    _run(["dpkg-deb", "-x", next(work.glob("linux-image-*.deb")), "kernel"], work)
    return extract_vmlinux(next((work / "kernel/boot").glob("vmlinuz-*")).read_bytes())


def prepare(directory: Path) -> None:
    """Puts ``bochs`` and ``vmlinux`` into ``directory`` unless they are there."""
    if (directory / "vmlinux").exists() and (directory / "bochs").exists():
        return
    if missing := missing_tools():
        raise RuntimeError("to build the emulator, install " + ", ".join(missing))
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as name:
        work = Path(name)
        print(f"emulator: downloading from Debian {SUITE}", flush=True)
        apt = Apt(work / "apt")
        apt.get("update", directory=work)
        vmlinux = fetch_kernel(apt, work)
        print("emulator: building Bochs, some minutes", flush=True)
        shutil.move(build_bochs(apt, work), directory / "bochs")
        (work / "vmlinux").write_bytes(vmlinux)
        (work / "vmlinux").rename(directory / "vmlinux")
