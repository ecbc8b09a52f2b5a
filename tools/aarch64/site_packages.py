"""Installs the aarch64 packages that run under emulation: torch and cpuaccel's wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_REQUIREMENTS = ROOT / "requirements" / "aarch64.txt"
_SUFFIX = ".cpython-311-aarch64-linux-gnu.so"

# Drops -march=native, which Inductor asks for: the cross compiler rejects it.
_COMPILER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = -march=native ] || set -- "$@" "$argument"
done
exec aarch64-linux-gnu-g++-12 -idirafter "{include}" "$@"
"""


def install(directory: Path) -> Path:
    """Install requirements/aarch64.txt into a folder of packages and return the folder."""
    site = directory / "site"
    done = site / ".installed"
    if done.exists() and done.read_text() == _REQUIREMENTS.read_text():
        return site
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:",
         "--platform", "manylinux_2_28_aarch64", "--platform", "manylinux2014_aarch64",
         "--python-version", "3.11", "--target", site, "--requirement", _REQUIREMENTS],
        check=True,
    )  # fmt: skip
    done.write_text(_REQUIREMENTS.read_text())
    return site


def build_wheel(directory: Path, sysroot: Path, site: Path) -> Path:
    """Cross-build cpuaccel's wheel against the torch in `site`, as pip would build it natively."""
    wheels = directory / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    torch = f"{site}/torch/lib:{site}/torch.libs"
    definitions = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "cmake/toolchains/aarch64.cmake",
        "CMAKE_CXX_FLAGS": f"-idirafter {sysroot}/usr/include",
        "CMAKE_MODULE_LINKER_FLAGS": f"-Wl,-rpath-link,{torch}",
        "Python_INCLUDE_DIR": sysroot / "usr/include/python3.11",
        "PYTHON_MODULE_EXTENSION": _SUFFIX,
    }
    settings = [f"--config-settings=cmake.define.{k}={v}" for k, v in definitions.items()]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", ROOT, "--quiet", "--no-build-isolation",
         "--no-deps", "--wheel-dir", wheels, f"--config-settings=build-dir={directory}/build",
         *settings],
        check=True,
        # Which torch CMake and the version pin find, and the platform in the wheel's name.
        env={**os.environ, "PYTHONPATH": str(site), "_PYTHON_HOST_PLATFORM": "linux-aarch64"},
    )  # fmt: skip
    (wheel,) = wheels.glob("cpuaccel-*-linux_aarch64.whl")
    return wheel


def add_wheel(wheel: Path, directory: Path) -> Path:
    """Unpack `wheel` into its own folder and return that."""
    package = directory / "package"
    shutil.rmtree(package, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    return package


def write_compiler(directory: Path, sysroot: Path) -> Path:
    """Return a C++ compiler for Inductor's generated code; it finds Python's headers."""
    compiler = directory / "c++"
    compiler.write_text(_COMPILER.format(include=sysroot / "usr/include"))
    compiler.chmod(0o755)
    return compiler


def build_counter(directory: Path) -> Path:
    """Build the emulator's plugin that counts instructions, for this machine, and return it."""
    plugin = directory / "count_instructions.so"
    source = Path(__file__).with_name("count_instructions.cpp")
    subprocess.run(["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                    source, "-o", plugin], check=True)  # fmt: skip
    return plugin
