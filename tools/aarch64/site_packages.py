"""The packages for aarch64 that run under emulation: torch, and cpuaccel's wheel built for it."""

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

# A cross compiler does not know what -march=native is.
_COMPILER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = -march=native ] || set -- "$@" "$argument"
done
exec aarch64-linux-gnu-g++-12 -idirafter "{include}" "$@"
"""


def install(directory: Path) -> Path:
    """Return the folder of packages, with all of requirements/aarch64.txt in it."""
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
    """Cross-build cpuaccel's wheel against the torch of `site`, as pip would build it natively."""
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
        # The torch that CMake and the version pin find, and the platform of the wheel's name.
        env={**os.environ, "PYTHONPATH": str(site), "_PYTHON_HOST_PLATFORM": "linux-aarch64"},
    )  # fmt: skip
    (wheel,) = wheels.glob("cpuaccel-*-linux_aarch64.whl")
    return wheel


def add_wheel(wheel: Path, directory: Path) -> Path:
    """Unpack `wheel` into a folder of its own and return that."""
    package = directory / "package"
    shutil.rmtree(package, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    return package


def write_compiler(directory: Path, sysroot: Path) -> Path:
    """Return a C++ compiler for what Inductor generates, which finds the headers of Python."""
    compiler = directory / "c++"
    compiler.write_text(_COMPILER.format(include=sysroot / "usr/include"))
    compiler.chmod(0o755)
    return compiler


def build_counter(directory: Path) -> Path:
    """Return the emulator's plugin that counts instructions, built for this machine."""
    plugin = directory / "count_instructions.so"
    source = Path(__file__).with_name("count_instructions.cpp")
    subprocess.run(["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                    source, "-o", plugin], check=True)  # fmt: skip
    return plugin
