"""A loaded model runs in each way without torch.ao and quantized dtypes, in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

from quant._lowered import assert_close
from quant.legacy import _child, _files

_TESTS = Path(__file__).resolve().parents[2]
_INTEGERS = ("optimize", "save")
"""Ways in which every layer runs on the integers of the eager model."""


def _run(folder: Path, model: nn.Module, ways: tuple[str, ...]) -> dict[str, torch.Tensor]:
    (folder / "model.pt").write_bytes(_files.saved(model).getvalue())
    torch.save(_files.images(), folder / "input.pt")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "quant.legacy._child", str(folder), *ways],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": _path()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {way: torch.load(folder / f"{way}.out") for way in ways}


def _path() -> str:
    """The installed package first, and the tests behind it."""
    return os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(_TESTS)])


def test_each_way(tmp_path: Path) -> None:
    model = _files.converted(_files.ResNet)
    expected = _files.result(model, _files.images())
    found = _run(tmp_path, model, tuple(way for way in _child.WAYS if way != "aot"))
    for way, output in found.items():
        if way in _INTEGERS:
            assert torch.equal(output, expected), way
        else:
            assert_close(output, expected)


def test_an_aot_package(tmp_path: Path) -> None:
    model = _files.converted(_files.ResNet)
    found = _run(tmp_path, model, ("aot",))
    assert_close(found["aot"], _files.result(model, _files.images()))
