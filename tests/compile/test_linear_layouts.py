"""Views and copies that are expressed again, so that linear layers and attention copy nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

import cpuaccel
from compile import _bf16
from compile._compiled import Lambda, needs_onednn
from compile._transformers import needs_attention
from cpuaccel.compile.passes import linear_from_bmm, linear_layouts
from cpuaccel.compile.passes.view_offsets import view_chain_of

pytestmark = needs_onednn

TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


@needs_attention
def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


# Views and copies


def _sizes_of_as_many(draw: Any, count: int) -> list[int]:
    sizes = []
    while count > 1:
        divisors = [each for each in range(2, count + 1) if count % each == 0]
        sizes.append(draw(st.sampled_from(divisors)))
        count //= sizes[-1]
    for _ in range(draw(st.integers(0, 2))):
        sizes.insert(draw(st.integers(0, len(sizes))), 1)
    return sizes


@st.composite
def moves(draw: Any) -> tuple[list[int], list[Callable[[Tensor], Tensor]]]:
    """Sizes of a tensor, and a chain of views and copies."""
    first = sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    chain: list[Callable[[Tensor], Tensor]] = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["permute", "reshape", "reshape", "select", "unsqueeze"]))
        if kind == "permute":
            order = draw(st.permutations(range(len(sizes))))
            chain.append(lambda x, order=tuple(order): x.permute(order))  # type: ignore[misc]
            sizes = [sizes[dim] for dim in order]
        elif kind == "reshape":
            sizes = _sizes_of_as_many(draw, math.prod(sizes))
            chain.append(lambda x, sizes=tuple(sizes): x.reshape(sizes))  # type: ignore[misc]
        elif kind == "select" and sizes:
            dim = draw(st.integers(0, len(sizes) - 1))
            place = draw(st.integers(-sizes[dim], sizes[dim] - 1))
            chain.append(lambda x, dim=dim, place=place: x.select(dim, place))  # type: ignore[misc]
            sizes = sizes[:dim] + sizes[dim + 1 :]
        else:
            chain.append(lambda x: x.unsqueeze(0))
            sizes = [1, *sizes]
    return first, chain


@given(moves())
def test_rebuilt_view_chains_are_equal(
    drawn: tuple[list[int], list[Callable[[Tensor], Tensor]]],
) -> None:
    sizes, chain = drawn
    x = torch.arange(math.prod(sizes)).reshape(sizes)

    def call(x: Tensor) -> Tensor:
        for move in chain:
            x = move(x)
        return x * 1

    traced = make_fx(call, tracing_mode="fake")(x)
    (product,) = traced.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    end: Any = product.args[0]
    how = view_chain_of(end)
    if how is None:
        return  # not only splits of dimensions, or a select among several positions
    again = linear_layouts._rebuilt(traced.graph, end, how)
    assert tuple(again.meta["val"].shape) == tuple(end.meta["val"].shape)
    product.replace_input_with(end, again)
    traced.graph.lint()
    traced.recompile()
    assert torch.equal(traced(x), call(x))


# Models


WIDTH, HEADS = 32, 4


class Block(nn.Module):
    """Attention and the ops around it, as in torchvision's ViT."""

    def __init__(self, batch_first: bool = True, residual: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        y = self.attention(y, y, y, need_weights=False)[0]
        return x + y if self.residual else y


def _kinds(model: nn.Module, x: Tensor) -> list[str]:
    """Check the plan and torch.compile; return the kinds of the plan's steps."""
    most = 1e-5 if x.dtype == torch.float32 else 2e-2
    with torch.no_grad():
        expected = model(x)
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        for run in (optimized, torch.compile(model, backend="cpuaccel")):
            torch.testing.assert_close(run(x), expected, rtol=most, atol=most)
        (plan,) = cpuaccel.explain(optimized, (x,)).plans
    return [step.kinds for step in plan.steps]


@needs_attention
@TYPES
@pytest.mark.usefixtures("bf16_if_asked")
@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_copies_nothing(batch_first: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Block(batch_first).eval().to(dtype), torch.randn(3, 9, WIDTH).to(dtype)
    kinds = _kinds(model, x)
    assert not {"copy", "view", "permute"} & set(kinds), kinds


@needs_attention
def test_attention_alone() -> None:
    torch.manual_seed(0)
    kinds = _kinds(Block(residual=False).eval(), torch.randn(3, 9, WIDTH))
    assert kinds.count("MatMul") == 2, kinds


LAYER = {
    "read in another order": lambda self, x: self.layer(x.transpose(0, 1)).sigmoid(),
    "read in both": lambda self, x: [
        (y := self.layer(x.transpose(0, 1))).sigmoid(),
        y.transpose(0, 1).sigmoid(),
    ],
    "read in its order": lambda self, x: self.layer(x.transpose(0, 1)).transpose(0, 1).sigmoid(),
    "in one dimension": lambda self, x: (
        self.layer(x.permute(1, 0, 2).reshape(-1, WIDTH))
        .view(x.shape[1], x.shape[0], -1)
        .permute(1, 0, 2)
        .sigmoid()
    ),
    "a part": lambda self, x: self.layer(x.transpose(0, 1))[2].sigmoid(),
    "columns between": lambda self, x: self.layer(x.permute(1, 2, 0).reshape(-1, WIDTH)).sigmoid(),
    "returned as well": lambda self, x: [
        y := self.layer(x.transpose(0, 1)).transpose(0, 1),
        y.sigmoid(),
    ],
}


@pytest.mark.parametrize("name", LAYER)
@pytest.mark.parametrize("bias", [False, True])
def test_layers(name: str, bias: bool) -> None:
    torch.manual_seed(0)
    model = Lambda(LAYER[name], layer=nn.Linear(WIDTH, 24, bias=bias)).eval()
    x = torch.randn(4, 8, WIDTH)
    with torch.no_grad():
        expected = model(x)
        for found in (
            cpuaccel.optimize(model, (x,), time_budget=0)(x),
            torch.compile(model, backend="cpuaccel")(x),
        ):
            torch.testing.assert_close(found, expected)


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


@pytest.mark.parametrize(
    ("name", "in_order"), [("read in its order", 1), ("in one dimension", 1), ("read in both", 0)]
)
def test_rows_are_read_as_they_lie(name: str, in_order: int) -> None:
    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        layer = Lambda(LAYER[name])
        layer.layer = lambda x: F.linear(x, weight, bias)  # type: ignore[assignment]
        return layer(x)

    given_ = torch.randn(4, 8, WIDTH), torch.randn(24, WIDTH), torch.randn(24)
    traced = make_fx(call, tracing_mode="fake")(*given_)
    linear_from_bmm.restore_linears(traced.graph)
    linear_layouts.reorder_rows(traced.graph)
    traced.graph.lint()
    traced.recompile()
    for found, expected in zip(_tensors(traced(*given_)), _tensors(call(*given_)), strict=True):
        torch.testing.assert_close(found, expected)
    layers = traced.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)
    assert sum(layer.args[0].op == "placeholder" for layer in layers) == in_order


def test_sizes_that_change() -> None:
    torch.manual_seed(0)
    model = Block().eval()
    compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
    with torch.no_grad():
        for sizes in ((3, 9, WIDTH), (2, 7, WIDTH), (1, 1, WIDTH)):
            x = torch.randn(sizes)
            torch.testing.assert_close(compiled(x), model(x))
