"""The limit of packed weights in plans: beyond it, products read plain weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from _settings import setting
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn

pytestmark = needs_onednn

_WIDTH = 256


def _model(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Linear(_WIDTH, _WIDTH), nn.GELU(), nn.Linear(_WIDTH, _WIDTH, bias=False))
    return nn.Sequential(*layers, nn.Softmax(-1)).to(dtype).eval()


def _optimized(model: nn.Module, x: Tensor) -> Any:
    with torch.no_grad():
        return cpuaccel.optimize(model, (x,), time_budget=0)


def _weight_bytes() -> int:
    found: int = cpuaccel.stats()["graph_cache"]["bytes"]
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [40, 300])
@torch.no_grad()
def test_products_read_plain_weights(dtype: torch.dtype, rows: int) -> None:
    cpuaccel.clear_caches()
    model, x = _model(dtype), torch.randn(rows, _WIDTH).to(dtype)
    with setting("plan_weights_mib", 0):
        before = _weight_bytes()
        optimized = _optimized(model, x)
        result = optimized(x)
        plain = _weight_bytes() - before
    exact = model.double()(x.double())
    bound = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(result.double(), exact, rtol=4 * bound, atol=bound)
    weights = 2 * _WIDTH * _WIDTH * dtype.itemsize
    assert plain < weights // 2


@torch.no_grad()
def test_changed_weights_are_noticed() -> None:
    model, x = _model(torch.float32), torch.randn(40, _WIDTH)
    with setting("plan_weights_mib", 0):
        optimized = _optimized(model, x)
        optimized(x)
        model[0].weight.mul_(2)  # type: ignore[operator, union-attr]
        torch.testing.assert_close(optimized(x), model(x), rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_the_limit_is_of_all_plans() -> None:
    cpuaccel.clear_caches()
    x = torch.randn(40, 1024)
    layers = [nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()).eval() for _ in range(3)]
    with setting("plan_weights_mib", 9):  # two weights of 4 MiB
        kept = [_optimized(layer, x) for layer in layers]
        for each, layer in zip(kept, layers, strict=True):
            torch.testing.assert_close(each(x), layer(x), rtol=1e-4, atol=1e-4)
        assert 2 << 22 <= _weight_bytes() < 5 << 21
