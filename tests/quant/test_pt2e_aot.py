"""A PT2E model that AOTInductor compiles with cpuaccel runs on integers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("torchao", reason="requirements/dev.txt has torchao, which is not installed")

from compile._compiled import needs_onednn
from compile._int8_models import pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import X86InductorQuantizer

import cpuaccel

pytestmark = [
    needs_onednn,
    pytest.mark.skipif(
        not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))),
        reason="AOTInductor needs a C++ compiler: neither CXX (g++) nor clang++ is in PATH",
    ),
]


def test_linear_layers(tmp_path: Path) -> None:
    """pytorch/ao 4566: in AOTInductor's own package each of them runs in float."""
    torch.manual_seed(0)
    x = torch.randn(16, 64)
    net = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 32), nn.ReLU())
    model = pt2e(net, x, quantizer=X86InductorQuantizer())
    path = tmp_path / "model.pt2"
    with torch.no_grad():
        cpuaccel.aot_compile(model, (x,), path)
        loaded = cpuaccel.load(path)
        cpuaccel.reset_stats()
        found = loaded(x)
        calls = cpuaccel.stats()["calls"]
        with cpuaccel.enabled(False):
            expected = model(x)
    assert sum(n for name, n in calls.items() if name.startswith("linear.")) == 2
    assert (found - expected).abs().max() <= 0.03 * expected.abs().max()


def test_under_autocast(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 64)
    model = pt2e(nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 32)), x)
    path = tmp_path / "model.pt2"
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        cpuaccel.aot_compile(model, (x,), path)
        with cpuaccel.enabled(False):
            expected = model(x)
    with torch.no_grad():
        loaded = cpuaccel.load(path)
        cpuaccel.reset_stats()
        with torch.autocast("cpu", torch.bfloat16):
            found = loaded(x)
    calls = cpuaccel.stats()["calls"]
    assert sum(n for name, n in calls.items() if name.startswith("linear.")) == 2
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)
