"""Attention that stays with torch between regions; torch's kernel ignores the inputs' layout."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn
from cpuaccel.compile import bridge
from cpuaccel.compile.bridge import torch_fallback

pytestmark = needs_onednn


class _OfTokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.inputs = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.last = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (of(x).view(1, 64, 2, 16).transpose(1, 2) for of in self.inputs)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.norm(self.last(y.transpose(1, 2).reshape(1, 64, 32)) + x)


class _OfImages(nn.Module):
    """Attention over channels: a row is one of an image, which regions store channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.last = nn.Conv2d(16, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.first(x))
        q = y.reshape(1, 2, 8, 64)
        y = F.scaled_dot_product_attention(q, q, q).reshape(1, 16, 8, 8)
        return F.relu(self.last(y))


_MODELS: dict[str, Any] = {
    "tokens": lambda: (_OfTokens(), torch.randn(1, 64, 32)),
    "images": lambda: (_OfImages(), torch.randn(1, 3, 8, 8)),
}


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("compiled", [False, True], ids=["optimize", "compile"])
def test_it_gets_rows(name: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, x = _MODELS[name]()
    monkeypatch.delitem(bridge.TRANSLATIONS, torch_fallback.ATTENTION)
    with torch.no_grad():
        expected = model.eval()(x)
        if compiled:
            found = torch.compile(model, backend="cpuaccel")
        else:
            found = cpuaccel.optimize(model, (x,), time_budget=0)
            assert found.verdict is not None
            assert found.verdict.runs == "plan", found.verdict
        torch.testing.assert_close(found(x), expected, atol=1e-5, rtol=1e-4)


def test_the_torch_fallback_of_a_region_gets_dense_rows() -> None:
    torch.manual_seed(0)
    q = torch.randn(1, 2, 8, 16).contiguous(memory_format=torch.channels_last)
    graph = torch.fx.Graph()
    source = graph.placeholder("q")
    both = graph.call_function(torch_fallback.ATTENTION, (source, source, source))
    first = graph.call_function(operator.getitem, (both, 0))
    source.meta["val"], both.meta["val"], first.meta["val"] = q, (q, q), q
    text = torch_fallback.encode([source], [], [both, first], [(first, False)])
    (found,) = torch_fallback.run([q], [], text)
    rows = q.contiguous()
    expected = F.scaled_dot_product_attention(rows, rows, rows)
    torch.testing.assert_close(found, expected)
