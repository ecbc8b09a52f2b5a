"""oneDNN primitives for products: torch's products create each once, cpuaccel's create none."""

from __future__ import annotations

import pytest
import torch
from _settings import setting
from torch import nn
from torch.backends import mkldnn

from cpuaccel._native import load


def _created(layer: nn.Module, x: torch.Tensor, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines about created primitives that a call prints with DNNL_VERBOSE=2."""
    capfd.readouterr()
    with torch.no_grad(), mkldnn.verbose(mkldnn.VERBOSE_ON_CREATION):
        layer(x)
    lines = capfd.readouterr().out.splitlines()
    return [line for line in lines if "create" in line and "cache_hit" not in line]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_second_call_through_torchs_makes_no_primitive(
    dtype: torch.dtype, capfd: pytest.CaptureFixture[str]
) -> None:
    layer, x = nn.Linear(96, 64).to(dtype), torch.randn(33, 96).to(dtype)
    with setting("matmul_provider", "intree"):
        first, second = (_created(layer, x, capfd) for _ in range(2))
    if dtype == torch.bfloat16 and "bf16" in load().cpu_features():
        assert first  # verbose mode works here
    assert second == []


def test_ours_make_none(capfd: pytest.CaptureFixture[str]) -> None:
    layer, x = nn.Linear(96, 80), torch.randn(33, 96)
    with setting("matmul_provider", "cpuaccel"):
        assert _created(layer, x, capfd) == []
