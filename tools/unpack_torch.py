"""Unpacks what cpuaccel's shim is compiled and linked with from the wheel of a torch release.

    python tools/unpack_torch.py 2.14.1

Downloads the wheel without its dependencies, unpacks torch's headers and two of its libraries into
build/torch/2.14.1, and prints that folder. Does nothing if the folder is there. CUDA builds, which
PyPI has, are as good as CPU builds: the shim uses no CUDA.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("torch/include/", "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so")


def download(version: str, folder: Path) -> Path:
    """Download the wheel of torch ``version`` for this Python into ``folder``."""
    # pip's own constraints may exclude a torch that is newer than the developers'.
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
         "--dest", folder, f"torch=={version}"],
        check=True,
        env=os.environ | {"PIP_CONSTRAINT": os.devnull},
    )  # fmt: skip
    return next(folder.glob("torch-*.whl"))


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack the needed files of ``wheel`` into ``folder``, all or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        with zipfile.ZipFile(wheel) as archive:
            files = [file for file in archive.namelist() if file.startswith(NEEDED)]
            archive.extractall(name, files)
        shutil.move(Path(name) / "torch", folder)


def unpacked(version: str) -> Path:
    """Return the folder with the headers and libraries of torch ``version``.

    Raises:
        SystemExit: ``version`` is not a release, such as 2.14.1.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"torch: expected MAJOR.MINOR.PATCH, not {version!r}")
    folder = ROOT / "build" / "torch" / version
    if not folder.exists():
        with tempfile.TemporaryDirectory() as name:
            unpack(download(version, Path(name)), folder)
    return folder


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="release of torch, for example 2.14.1")
    print(unpacked(parser.parse_args().version))


if __name__ == "__main__":
    main()
