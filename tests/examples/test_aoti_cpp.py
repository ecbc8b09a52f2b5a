"""The C++ example, built by CMake as its README says, runs a package with cpuaccel on and off."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from compile._compiled import needs_onednn
from torch.utils.cpp_extension import CUDA_HOME

import cpuaccel

_CUDA_HEADER = Path(CUDA_HOME or "/usr/local/cuda") / "include" / "cuda_runtime.h"
_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "aoti_cpp"


def _has_library() -> bool:
    try:
        return bool(cpuaccel.cmake_prefix_path)
    except RuntimeError:
        return False


pytestmark = [
    needs_onednn,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("cmake") is None, reason="`command -v cmake` finds nothing"),
    pytest.mark.skipif(
        shutil.which(os.environ.get("CXX", "g++")) is None,
        reason="`command -v ${CXX:-g++}` finds nothing",
    ),
    pytest.mark.skipif(
        torch.version.cuda is not None and not _CUDA_HEADER.exists(),
        reason=f"torch {torch.__version__} was built with CUDA: find_package(Torch) asks for its"
        f" toolkit, and there is no {_CUDA_HEADER}",
    ),
    pytest.mark.skipif(not _has_library(), reason="built with CPUACCEL_CPP_LIBRARY=OFF"),
]


def _run(*command: str | Path, returns: int = 0, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=600,
        check=False,
    )
    assert done.returncode == returns, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_it_is_built_and_runs_a_package(tmp_path: Path) -> None:
    prefixes = f"{torch.utils.cmake_prefix_path};{cpuaccel.cmake_prefix_path}"
    build, files = tmp_path / "build", tmp_path / "files"
    _run("cmake", "-S", _EXAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefixes}")
    _run("cmake", "--build", build)
    make = ("-W", "ignore", _EXAMPLE / "make_package.py", files, "--model", "cnn")
    by_tables = {"CPUACCEL": "1", "CPUACCEL_DETERMINISTIC": "1"}  # no tuning in each process
    _run(sys.executable, *make, **by_tables)

    program = build / "run_package"
    package, tensors = files / "cnn.pt2", files / "cnn.tensors.pt"
    ran = _run(program, package, tensors, "0", **by_tables)
    assert "largest difference: 0 of" in ran, "the same ops as in Python"

    ran = _run(program, package, tensors, "2", CPUACCEL="1")
    assert f"cpuaccel {cpuaccel.__version__} on {cpuaccel._C.isa()}, package" in ran
    assert "median of 2 runs" in ran

    ran = _run(program, package, tensors, "0", CPUACCEL="0")
    assert "switched off" in ran

    ran = _run(program, files / "none.pt2", tensors, returns=2)
    assert "run_package: error: " in ran
    ran = _run(program, package, tensors, returns=2, CPUACCEL_MAX_ISA="mmx")
    assert "expected one of auto, ref" in ran
    ran = _run(program, package, tensors, returns=2, CPUACCEL_DETERMINISTIC="maybe")
    assert "CPUACCEL_DETERMINISTIC: expected 0 or 1, but got 'maybe'" in ran
    assert "usage: run_package" in _run(program, returns=2)
