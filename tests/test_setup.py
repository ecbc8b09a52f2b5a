"""tools/setup: what is missing for `make demo`, `make test` and .ci/run is named in one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SETUP = ROOT / "tools" / "setup"

PYTHON_HEADER = sysconfig.get_paths()["include"] + "/Python.h"
GTEST_HEADER = "/usr/include/gtest/gtest.h"
GTEST_SOURCE = "/usr/src/googletest/CMakeLists.txt"

# The folder of commands and the folder of headers of a machine that has everything.
COMMANDS = {
    "c++": "exit 0",
    "cmake": "echo 'cmake version 3.25.1'; echo; echo 'CMake suite'",
    "python3": f'exec "{sys.executable}" "$@"',
    "id": "echo 1000",
    "apt-get": 'echo "$@" >>"$LOG"',
    "qemu-x86_64": "exit 0",
    "qemu-aarch64": "exit 0",
    "aarch64-linux-gnu-g++-12": "exit 0",
    "llvm-mca-19": "exit 0",
}
FILES = (PYTHON_HEADER, GTEST_HEADER, GTEST_SOURCE)


class Machine:
    """A folder of stand-ins for a machine's commands, and one for its headers."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.root, self.log = folder / "bin", folder / "root", folder / "log"
        self.bin.mkdir()
        for name, code in COMMANDS.items():
            self.command(name, code)
        for file in FILES:
            self.file(file)

    def command(self, name: str, code: str) -> None:
        file = self.bin / name
        file.write_text(f"#!/bin/sh\n{code}\n")
        file.chmod(0o755)

    def file(self, path: str) -> None:
        file = Path(f"{self.root}{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def lose(self, name: str) -> None:
        """Remove a command, or a file if the name is a path."""
        Path(f"{self.root}{name}" if name.startswith("/") else self.bin / name).unlink()

    def setup(self, task: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "CPUACCEL_SETUP_ROOT": str(self.root)}
        environment |= {"LOG": str(self.log), **variables}
        return subprocess.run(
            [SETUP, task], env=environment, capture_output=True, text=True, check=False
        )

    def refused(self, task: str, **variables: str) -> str:
        """The one line that `tools/setup task` stops with."""
        done = self.setup(task, **variables)
        assert done.returncode == 1, done.stderr
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert not self.log.exists(), "apt-get was called"
        return line

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("task", ["demo", "test", "ci"])
def test_nothing_is_said_if_nothing_is_missing(machine: Machine, task: str) -> None:
    done = machine.setup(task)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.calls() == []


@pytest.mark.parametrize(
    ("task", "lost", "named", "package"),
    [
        ("demo", "c++", "a C++20 compiler", "g++"),
        ("demo", "cmake", "CMake 3.25 or newer", "cmake"),
        ("demo", PYTHON_HEADER, "Python's headers", "python3-dev"),
        ("test", "c++", "a C++20 compiler", "g++"),
        ("test", GTEST_HEADER, "GoogleTest", "libgtest-dev"),
        ("ci", GTEST_SOURCE, "GoogleTest's source", "googletest"),
        ("ci", "qemu-x86_64", "qemu-user", "qemu-user"),
        ("ci", "qemu-aarch64", "qemu-user", "qemu-user"),
        (
            "ci",
            "aarch64-linux-gnu-g++-12",
            "the cross compiler for Arm",
            "g++-12-aarch64-linux-gnu",
        ),
        ("ci", "llvm-mca-19", "llvm-mca", "llvm-19"),
    ],
)
def test_what_is_missing_is_named_with_its_package(
    machine: Machine, task: str, lost: str, named: str, package: str
) -> None:
    machine.lose(lost)
    command = {"ci": ".ci/run"}.get(task, f"make {task}")
    expected = f"tools/setup: {command} needs {named}. Type: sudo apt-get install {package}"
    assert machine.refused(task) == expected


def test_all_that_is_missing_is_in_one_line(machine: Machine) -> None:
    for lost in ("c++", "cmake", GTEST_HEADER):
        machine.lose(lost)
    assert machine.refused("test") == (
        "tools/setup: make test needs a C++20 compiler, CMake 3.25 or newer, GoogleTest. "
        "Type: sudo apt-get install g++ cmake libgtest-dev"
    )


def test_a_machine_without_python_is_told_so(machine: Machine) -> None:
    machine.lose("python3")
    line = machine.refused("demo")
    assert "needs Python 3.10 or newer" in line
    assert line.endswith("apt-get install python3 python3-venv python3-dev")


def test_the_demo_needs_no_googletest_and_the_tests_no_cross_compiler(machine: Machine) -> None:
    machine.lose("aarch64-linux-gnu-g++-12")
    machine.lose("qemu-aarch64")
    assert machine.setup("test").returncode == 0
    machine.lose(GTEST_HEADER)
    assert machine.setup("demo").returncode == 0


@pytest.mark.parametrize("variable", ["GTEST_ROOT", "GTest_ROOT", "CMAKE_PREFIX_PATH", "PATH"])
def test_googletest_is_found_where_cmake_finds_it(machine: Machine, variable: str) -> None:
    machine.lose(GTEST_HEADER)
    machine.file("/opt/gtest/include/gtest/gtest.h")
    found = {"CMAKE_PREFIX_PATH": "/opt/other:/opt/gtest", "PATH": f"{machine.bin}:/opt/gtest/bin"}
    assert machine.setup("test").returncode == 1
    assert machine.setup("test", **{variable: found.get(variable, "/opt/gtest")}).returncode == 0


@pytest.mark.skipif(
    shutil.which("c++") is None,
    reason="`command -v c++` finds no compiler to ask for C++17 and C++20",
)
def test_a_compiler_without_cxx20_is_rejected(machine: Machine) -> None:
    compiler = shutil.which("c++")
    machine.command("c++", f'PATH="{os.environ["PATH"]}" exec "{compiler}" "$@"')
    assert machine.setup("demo").returncode == 0
    assert machine.setup("demo", CXX="c++ -O2").returncode == 0
    machine.command("old", 'exec c++ "$@" -std=c++17')
    for bad in ("old", "no-such-compiler"):
        line = machine.refused("demo", CXX=bad)
        assert f"make demo needs a C++20 compiler (CXX={bad} is none)." in line


@pytest.mark.parametrize(
    ("version", "is_new"),
    [("3.22.1", False), ("2.8.12.2", False), ("3.25.0-rc1", True), ("3.31.6", True), ("4.0", True)],
)
def test_an_old_cmake_is_rejected_with_what_to_type(
    machine: Machine, version: str, is_new: bool
) -> None:
    machine.command("cmake", f"echo 'cmake version {version}'")
    if is_new:
        assert machine.setup("demo").returncode == 0
        return
    assert machine.refused("demo") == (
        f"tools/setup: make demo needs CMake 3.25 or newer, this is {version}. "
        "Type: python3 -m pip install cmake"
    )


def test_an_old_python_is_rejected(machine: Machine) -> None:
    machine.command(
        "old", f'case $2 in *version_info*) exit 1 ;; esac; exec "{sys.executable}" "$@"'
    )
    assert machine.refused("demo", PYTHON="old") == (
        "tools/setup: make demo needs Python 3.10 or newer, old is older. "
        "Type: PYTHON=python3.12 make demo"
    )


def test_without_apt_get_the_packages_are_named(machine: Machine) -> None:
    machine.lose("apt-get")
    machine.lose("cmake")
    assert machine.refused("demo") == (
        "tools/setup: make demo needs CMake 3.25 or newer. "
        "Install the system's packages for it; Debian's are: cmake"
    )


def test_root_installs_what_is_missing(machine: Machine) -> None:
    machine.lose(GTEST_HEADER)
    machine.command("id", "echo 0")
    header = f"{machine.root}{GTEST_HEADER}"
    machine.command("apt-get", f'echo "$@" >>"$LOG"; case $1 in install) : >"{header}" ;; esac')
    done = machine.setup("test")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == ["update -qq", "install -y -qq libgtest-dev"]


def test_root_installs_nothing_if_that_is_forbidden(machine: Machine) -> None:
    machine.lose(GTEST_HEADER)
    machine.command("id", "echo 0")
    line = machine.refused("test", CPUACCEL_SETUP_INSTALL="0")
    assert line.endswith("make test needs GoogleTest. Type: apt-get install libgtest-dev")


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("exit 100", "apt-get failed, and make test needs GoogleTest."),
        (
            "exit 0",
            "make test needs GoogleTest. Debian's packages did not provide it: libgtest-dev",
        ),
    ],
)
def test_an_installation_that_provides_nothing_is_an_error(
    machine: Machine, ends: str, said: str
) -> None:
    machine.lose(GTEST_HEADER)
    machine.command("id", "echo 0")
    machine.command("apt-get", ends)
    done = machine.setup("test")
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]


def test_contributing_lists_the_packages(machine: Machine) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in ("c++", "cmake", "python3", "qemu-aarch64", "aarch64-linux-gnu-g++-12"):
        machine.lose(name)
    for name in ("llvm-mca-19", *FILES):
        machine.lose(name)
    _, table = page.split("\n## What each command installs\n")
    listed: list[str] = []  # each row adds to the one above it
    for task, command in {"demo": "make demo", "test": "make test", "ci": ".ci/run"}.items():
        (row,) = re.findall(rf"^\| `{re.escape(command)}` \|([^|]*)", table, re.MULTILINE)
        listed += re.findall(r"`(.*?)`", row)
        assert machine.refused(task).endswith(f" apt-get install {' '.join(listed)}")


def test_an_unknown_task_prints_the_usage(machine: Machine) -> None:
    done = machine.setup("everything")
    assert done.returncode == 2
    assert done.stderr == "usage: tools/setup demo|test|ci\n"


@pytest.mark.skipif(shutil.which("make") is None, reason="`command -v make` finds nothing")
@pytest.mark.parametrize(
    ("target", "task"),
    [("demo", "demo"), ("test", "test"), ("test-full", "test"), ("test-kernels", "test")],
)
def test_make_looks_first(target: str, task: str) -> None:
    inherited = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    environment = {name: each for name, each in os.environ.items() if name not in inherited}
    done = subprocess.run(
        ["make", "--dry-run", "--jobs=4", target],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[0].endswith(f" tools/setup {task}")


def test_ci_looks_first() -> None:
    commands = re.findall(r"^(?!#|set |cd )(.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert commands[0] == "tools/setup ci"
