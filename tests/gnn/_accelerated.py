"""Compares a layer of torch_geometric with the same layer accelerated."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from quant._engine import counted
from torch import Tensor

NODES, EDGES, FEATURES = 60, 700, 16


def graph(count: int = EDGES) -> tuple[Tensor, Tensor]:
    """Features, many of them equal as after a ReLU, and an edge_index.

    It has self-loops and repeated edges, nodes without incoming and nodes without outgoing edges.
    """
    generator = torch.Generator().manual_seed(5)
    edge_index = torch.randint(0, NODES - 5, (2, count), generator=generator)
    edge_index[0] += 5
    edge_index[:, :5] = 7
    x = torch.randn(NODES, FEATURES, generator=generator).relu()
    x[20:24] = 0
    return x, edge_index


def run(layer: Any, x: Any, *others: Any) -> tuple[Tensor, ...]:
    """The result and all gradients, with the same draws of dropout each time."""
    given = [_learned(each) for each in (x, *others)]
    torch.manual_seed(1)
    y = layer(*given)
    weights = torch.arange(y.numel(), dtype=torch.float64).view_as(y).sin().to(y.dtype)
    inputs = [t for each in given for t in (each if isinstance(each, tuple) else (each,))]
    needs = [t for t in (*inputs, *layer.parameters()) if isinstance(t, Tensor) and t.requires_grad]
    grads = torch.autograd.grad((y * weights).sum(), needs, allow_unused=True)
    return y.detach(), *(
        torch.zeros_like(t) if g is None else g for t, g in zip(needs, grads, strict=True)
    )


def check(plain: Any, x: Any, *others: Any, dtype: torch.dtype = torch.float32) -> None:
    """Run both in `dtype`, and compare them with the plain layer in float64."""
    gnn = pytest.importorskip("cpuaccel.gnn")
    fast = gnn.accelerate(copy.deepcopy(plain)).to(dtype)
    assert type(fast) is not type(plain)
    expected = run(copy.deepcopy(plain).double(), *_to(torch.float64, x, *others))
    given = _to(dtype, x, *others)
    small = dtype == torch.float64
    for _ in range(2):  # cached indices the second time
        with counted() as counts:
            found = run(fast, *given)
        assert not fell_back(counts.fallbacks)
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert a.dtype == dtype
            limit = 1e-10 if small else 1e-5 if i == 0 else 1e-4
            torch.testing.assert_close(a.double(), b, rtol=limit, atol=limit)


def check_falls_back(plain: Any, reason: str, x: Any, *others: Any) -> None:
    """Checks that the fallback to the plain layer is counted, and that its results are equal."""
    gnn = pytest.importorskip("cpuaccel.gnn")
    cpuaccel = pytest.importorskip("cpuaccel")
    fast = gnn.accelerate(copy.deepcopy(plain))
    assert type(fast) is not type(plain)
    torch.manual_seed(1)
    expected = plain(x, *others)
    torch.manual_seed(1)
    with counted() as counts:
        found = fast(x, *others)
    torch.testing.assert_close(found, expected)
    assert counts.fallbacks[f"gnn.{type(plain).__name__}: {reason}"] == 1
    assert f"fell back to torch_geometric: {reason}" in str(cpuaccel.explain(fast))


def check_round_trip(plain: Any, x: Any, *others: Any) -> None:
    """Accelerates, copies, pickles and restores the layer; state and results stay the same."""
    gnn = pytest.importorskip("cpuaccel.gnn")
    keys = list(plain.state_dict())
    expected = plain(x, *others)
    fast = gnn.accelerate(copy.deepcopy(plain))
    assert list(fast.state_dict()) == keys
    copied = copy.deepcopy(fast)
    assert type(copied) is type(fast)
    assert torch.equal(copied(x, *others), fast(x, *others))
    loaded = pickle.loads(pickle.dumps(fast))
    for each in (loaded, gnn.unaccelerate(fast)):
        assert type(each) is type(plain)
        assert torch.equal(each(x, *others), expected)


def fell_back(fallbacks: dict[str, int]) -> list[str]:
    """The reasons of layers among the counted fallbacks."""
    return [name for name in fallbacks if name.startswith("gnn.")]


def _learned(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_learned(each) for each in value)
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.clone().requires_grad_()
    return value


def _to(dtype: torch.dtype, *values: Any) -> list[Any]:
    def one(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(one(each) for each in value)
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(dtype)
        return value

    return [one(value) for value in values]
