"""Compiles the native sources against the headers of another torch release, without running them.

    python tools/compile_against.py 2.10.0 [--wheel FILE]

Downloads the wheel without its dependencies (or takes FILE), unpacks its headers and builds the
objects of every native library against them.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def download(version: str, directory: pathlib.Path) -> pathlib.Path:
    """Downloads the wheel of torch ``version`` for this Python into ``directory``."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
         "--dest", directory, f"torch=={version}"],
        check=True,
    )  # fmt: skip
    return next(directory.glob("torch-*.whl"))


def unpack_headers(wheel: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    """Unpacks ``torch/include`` of ``wheel`` into ``directory`` and returns its path."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(
            directory, [n for n in archive.namelist() if n.startswith("torch/include/")]
        )
    return directory / "torch" / "include"


def compile_objects(include: pathlib.Path, build: pathlib.Path) -> None:
    """Builds the native libraries' objects against ``include``."""
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}",
         f"-Dpybind11_DIR={pybind11}", f"-DCPUACCEL_TORCH_INCLUDE={include}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    subprocess.run(["cmake", "--build", build, "--target", "cpuaccel_quant"], check=True)


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="release of torch, for example 2.10.0")
    parser.add_argument("--wheel", type=pathlib.Path, help="a wheel that was downloaded before")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        wheel = arguments.wheel or download(arguments.version, directory)
        compile_objects(unpack_headers(wheel, directory), directory / "build")
    print(f"compiled against the headers of torch {arguments.version}")


if __name__ == "__main__":
    main()
