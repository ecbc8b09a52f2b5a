"""TorchScript models with cpuaccel enabled: oneDNN's own fuser, and a traced int8 model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from quant._engine import needs_torch_ao
from torch import nn

from compile._compiled import randomized


def _net() -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1))
    return randomized(nn.Sequential(*layers)).eval()


@pytest.fixture
def _fusion() -> Iterator[None]:
    torch.jit.enable_onednn_fusion(True)
    yield
    torch.jit.enable_onednn_fusion(False)


@pytest.mark.usefixtures("_fusion")
def test_onednn_fusion() -> None:
    net, x = _net(), torch.randn(2, 4, 9, 9)
    with torch.no_grad():
        traced = torch.jit.freeze(torch.jit.trace(net, x))
        for _ in range(4):
            torch.testing.assert_close(traced(x), net(x), atol=1e-5, rtol=1e-4)


@needs_torch_ao
def test_a_traced_int8_model() -> None:
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    torch.backends.quantized.engine = "x86"
    x = torch.randn(2, 4, 9, 9)
    with torch.no_grad():
        prepared = prepare_fx(_net(), get_default_qconfig_mapping("x86"), (x,))
        prepared(x)
        model = convert_fx(prepared)
        traced = torch.jit.freeze(torch.jit.trace(model, x))
        for _ in range(4):
            torch.testing.assert_close(traced(x), model(x))
