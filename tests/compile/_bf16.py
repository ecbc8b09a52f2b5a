"""Whether oneDNN has bf16 layers on this CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpuaccel import _native

_PROBE = """graph 1 probe
value 0 bf16 16x16
value 1 bf16 16x16
value 2 bf16 16x16
input 0
constant 1
partition
op MatMul in 0 1 out 2
"""

ALONE = "CPUACCEL_TESTS_OF_BF16_ALONE"
"""Set if only the bf16 tests should run, see conftest.py."""

NO_ARITHMETIC = "cpuaccel._C.has_bf16_arithmetic() is False: there is none, or f32 is faster"


def cpu_has_it() -> bool:
    """Whether the CPU has bf16 arithmetic."""
    module = _native.native()
    return module is not None and module.has_bf16_arithmetic()


def onednn_has_it() -> bool:
    """Whether oneDNN has it in this process; oneDNN keeps the first ISA cap that it meets."""
    return cpu_has_it() and not any(_native.load().uncompilable_reasons(_PROBE))


def in_a_process_of_its_own(file: str) -> None:
    """Run a file's bf16 tests in a new process if an earlier test capped the ISA in this one."""
    if not cpu_has_it():
        pytest.skip(NO_ARITHMETIC)
    if onednn_has_it():
        pytest.skip("onednn_has_it(): oneDNN compiles a bf16 MatMul, so the tests run here")
    # `python -m pytest` would put the sources before the installed package.
    done = subprocess.run(
        [Path(sys.executable).with_name("pytest"), file, "-p", "no:cacheprovider"],
        env={**os.environ, ALONE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
