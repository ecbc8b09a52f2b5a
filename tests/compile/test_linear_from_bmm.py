"""Linear layers of inputs that torch cannot flatten, which it exports as batched products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import cpuaccel
from compile._compiled import Lambda, needs_onednn
from cpuaccel.compile.partition import insertion
from cpuaccel.compile.passes import linear_from_bmm

pytestmark = needs_onednn

_aten: Any = torch.ops.aten

THREE = (3, 5, 8)
FOUR = (2, 3, 5, 8)
WIDTH, OUT = 8, 6


def _turned(x: Tensor) -> Tensor:
    """Rows in an order that no view flattens."""
    return x.transpose(0, 1)


def _graph(call: Callable[..., Tensor], *inputs: Tensor) -> GraphModule:
    traced = make_fx(call, tracing_mode="fake")(*inputs)
    assert traced.graph.find_nodes(op="call_function", target=_aten.bmm.default)
    return traced


def _rejoined(call: Callable[..., Tensor], *inputs: Tensor) -> list[int]:
    """Check that results stay the same; return the number of operands of each linear layer."""
    traced = _graph(call, *inputs)
    linear_from_bmm.restore_linears(traced.graph)
    traced.graph.lint()
    traced.recompile()
    torch.testing.assert_close(traced(*inputs), call(*inputs))
    layers = traced.graph.find_nodes(op="call_function", target=_aten.linear.default)
    insertion.decompose_preserved(traced.graph)
    traced.graph.lint()
    traced.recompile()
    assert not traced.graph.find_nodes(op="call_function", target=_aten.linear.default)
    torch.testing.assert_close(traced(*inputs), call(*inputs))
    return [len(layer.args) for layer in layers]


@pytest.mark.parametrize("sizes", [THREE, FOUR])
def test_layers(sizes: tuple[int, ...]) -> None:
    x, weight, bias = torch.randn(sizes), torch.randn(OUT, WIDTH), torch.randn(OUT)
    assert _rejoined(lambda x, w: F.linear(_turned(x), w), x, weight) == [2]
    assert _rejoined(lambda x, w, b: F.linear(_turned(x), w, b), x, weight, bias) == [3]
    assert _rejoined(lambda x, w: _turned(x) @ w, x, weight.t().contiguous()) == [2]


CASES: dict[str, tuple[Callable[..., Tensor], tuple[int, ...], int]] = {
    "added twice": (lambda y, b: torch.add(y, b, alpha=2), (OUT,), 2),
    "a matrix added": (lambda y, b: y + b, (5, 3, OUT), 2),
    "a number added": (lambda y, b: y + b, (1,), 2),
    "of another type": (lambda y, b: y + b.double(), (OUT,), 2),
    "read beside its sum": (lambda y, b: (y + b) * y, (OUT,), 2),
    "a bias in front": (lambda y, b: b + y, (OUT,), 2),
}


@pytest.mark.parametrize("case", CASES)
def test_addends_other_than_a_bias_are_added_after_the_layer(case: str) -> None:
    behind, sizes, operands = CASES[case]
    x, weight, other = torch.randn(THREE), torch.randn(OUT, WIDTH), torch.randn(sizes)
    assert _rejoined(lambda x, w, b: behind(F.linear(_turned(x), w), b), x, weight, other) == [
        operands
    ]


def test_products_of_batches_stay() -> None:
    x, y = torch.randn(THREE), torch.randn(3, WIDTH, OUT)
    assert _rejoined(torch.bmm, x, y) == []
    repeated = torch.randn(1, WIDTH, OUT)
    assert _rejoined(lambda x, y: torch.bmm(x, y.expand(3, -1, -1)), x, repeated) == []


def test_a_repeated_source() -> None:
    x, weight = torch.randn(1, 5, WIDTH), torch.randn(WIDTH, OUT)
    assert _rejoined(
        lambda x, w: torch.bmm(x.expand(3, -1, -1), w.expand(3, -1, -1)), x, weight
    ) == [2]


def _products(model: nn.Module, x: Tensor) -> list[str]:
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        torch.testing.assert_close(optimized(x), model(x))
        (plan,) = cpuaccel.explain(optimized, (x,)).plans
    return [f"{step.kinds}: {step.sizes}" for step in plan.steps if "MatMul" in step.kinds]


def test_plans_have_one_matrix_and_fuse_post_ops() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, OUT)
    model = Lambda(lambda self, x: F.relu(self.layer(_turned(x))), layer=layer).eval()
    (product,) = _products(model, torch.randn(THREE))
    assert product == "MatMul+ReLU: 5x3x8 * 6x8 -> 5x3x6", product


def test_compiled_with_sizes_that_change() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, OUT)
    model = Lambda(lambda self, x: F.relu(self.layer(_turned(x))), layer=layer).eval()
    compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
    with torch.no_grad():
        for batch, words in ((3, 5), (2, 7), (1, 1)):
            x = torch.randn(batch, words, WIDTH)
            torch.testing.assert_close(compiled(x), model(x))
