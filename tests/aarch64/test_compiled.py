"""torch.compile under emulation: Inductor's C++ is compiled by the cross compiler."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

import cpuaccel

needs_compiler = pytest.mark.skipif(
    "CXX" not in os.environ, reason="tools/aarch64 run names the cross compiler in CXX"
)


@needs_compiler
@pytest.mark.parametrize("backend", ["inductor", "cpuaccel"])
def test_mlp(backend: str) -> None:
    model = nn.Sequential(nn.Linear(33, 64), nn.GELU(), nn.Linear(64, 10), nn.Softmax(-1)).eval()
    x = torch.randn(7, 33)
    with torch.no_grad():
        expected = model(x)
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        torch.testing.assert_close(compiled(x), expected, atol=1e-5, rtol=1e-4)


def test_optimize_says_what_is_missing_or_runs() -> None:
    """Without oneDNN Graph there are no regions: the model runs as it is."""
    model, x = nn.Sequential(nn.Linear(33, 64), nn.ReLU()).eval(), torch.randn(7, 33)
    with torch.no_grad():
        found = cpuaccel.optimize(model, (x,))(x)
        torch.testing.assert_close(found, model(x), atol=1e-5, rtol=1e-4)
