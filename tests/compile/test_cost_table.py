"""Partitions of graphs by the table of measured costs that the package contains."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile._compiled import Lambda, needs_onednn, seen
from compile._random_graphs import draw
from compile._random_ops import OPS
from compile._rewritten import check
from cpuaccel import matmul

pytestmark = [needs_onednn, pytest.mark.measured_table]


def _attention(self: nn.Module, x: Tensor) -> Tensor:
    query, key, value = self.query(x), self.key(x), self.value(x)
    scores = torch.softmax(torch.bmm(query, key.transpose(1, 2)), -1)
    return self.last(torch.bmm(scores, value))


@pytest.fixture(autouse=True)
def _of_zen4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one machine's rows wherever the test runs."""
    monkeypatch.setattr(matmul, "machine", lambda: ("AuthenticAMD", "avx512"))


def test_softmax_between_products_is_in_their_region() -> None:
    torch.manual_seed(0)
    layers = {name: nn.Linear(64, 64) for name in ("query", "key", "value", "last")}
    found = seen(Lambda(_attention, **layers), torch.randn(2, 32, 64))
    (region,) = found.regions
    assert "SoftMax" in [kind for part in region for kind in part.kinds]


# Products of one row do not run on oneDNN.
@pytest.mark.parametrize(("rows", "taken"), [(1, True), (4, False), (64, True)])
def test_products_of_few_rows_are_fallbacks(rows: int, taken: bool) -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    found = seen(model, torch.randn(rows, 512))
    assert bool(found.regions) == taken
    reasons = [left.reason for left in found.left if "addmm" in left.op]
    assert all("times Inductor's speed (Zen 4" in reason for reason in reasons)
    assert bool(reasons) != taken


def test_what_stands_alone() -> None:
    x = torch.randn(1, 64, 28, 28)
    pool = seen(Lambda(lambda self, x: F.max_pool2d(x, 3, 2, 1)), x)
    assert pool.kinds() == [("MaxPool",)]
    norm = seen(Lambda(lambda self, x: F.layer_norm(x, (28,))), x)
    assert norm.kinds() == [("LayerNorm",)]
    assert not seen(Lambda(lambda self, x: torch.tanh(x)), x).regions


@pytest.mark.parametrize("seed", range(0, 60, 4))
def test_random_graphs(seed: int) -> None:
    model, inputs = draw(seed, OPS, False)
    check(model, *inputs)
