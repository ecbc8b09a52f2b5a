"""torch.ops.cpuaccel.edge_stats: all statistics of edge messages, and an extreme alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_plugin
from torch import Tensor

from gnn._graphs import check_rejects_other_edges

pytestmark = needs_plugin

pytest.importorskip("cpuaccel.gnn")

_NAMES = ("mean", "var", "smallest", "largest")
whichs = pytest.mark.parametrize("which", ["all", "amin", "amax"])


def _case(
    nodes: int = 9, rows: int = 7, count: int = 40, columns: int = 5
) -> tuple[Tensor, Tensor, Tensor]:
    """x and shift of whole numbers, many of them equal, and an edge_index."""
    x = torch.randint(-2, 3, (nodes, columns)).double()
    shift = torch.randint(-1, 2, (rows, columns)).double()
    ends = [torch.randint(0, number, (count,)) for number in (nodes, rows)]
    return x, torch.stack(ends), shift


def _edges(x: Tensor, edge_index: Tensor, rows: int) -> Tensor:
    edges: Tensor = torch.ops.cpuaccel.sort_edges(edge_index, x.shape[0], rows)
    return edges


def _composed(x: Tensor, edge_index: Tensor, shift: Tensor | None, rows: int) -> list[Tensor]:
    """The same result by torch's own ops."""
    messages = x.index_select(0, edge_index[0])
    if shift is not None:
        messages = messages + shift.index_select(0, edge_index[1])
    index = edge_index[1][:, None].expand_as(messages)
    zeros = x.new_zeros(rows, x.shape[1])

    def mean(values: Tensor) -> Tensor:
        count = edge_index[1].bincount(minlength=rows).clamp(min=1)
        return zeros.scatter_add(0, index, values) / count[:, None]

    extremes = [
        zeros.scatter_reduce(0, index, messages, reduce, include_self=False)
        for reduce in ("amin", "amax")
    ]
    return [mean(messages), mean(messages**2) - mean(messages) ** 2, *extremes]


def _compare(x: Tensor, edge_index: Tensor, shift: Tensor | None, rows: int, which: str) -> None:
    inputs = [t.clone().requires_grad_() for t in (x, shift) if t is not None]
    x, shift = inputs[0], inputs[1] if shift is not None else None
    edges = _edges(x, edge_index, rows)
    found = torch.ops.cpuaccel.edge_stats(x, edges, shift, rows, which)
    expected = _composed(x, edge_index, shift, rows)
    wanted = {"all": range(4), "amin": [2], "amax": [3]}[which]
    for i, (a, b) in enumerate(zip(found[:4], expected, strict=True)):
        if i in wanted:
            torch.testing.assert_close(a, b)
        else:
            assert a.numel() == 0
    weights = [torch.randn_like(expected[i]) for i in wanted]
    sums = [
        sum((of[i] * w).sum() for i, w in zip(wanted, weights, strict=True))
        for of in (found, expected)
    ]
    grads: list[Any] = [torch.autograd.grad(each, inputs) for each in sums]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


@whichs
@pytest.mark.parametrize("shifted", [False, True])
def test_numbers_and_gradients(which: str, shifted: bool) -> None:
    x, edge_index, shift = _case()
    _compare(x, edge_index, shift if shifted else None, 7, which)


@given(
    nodes=st.integers(1, 12),
    rows=st.integers(1, 12),
    count=st.integers(0, 60),
    columns=st.integers(1, 40),
    which=st.sampled_from(["all", "amin", "amax"]),
)
def test_any_size(nodes: int, rows: int, count: int, columns: int, which: str) -> None:
    x, edge_index, shift = _case(nodes, rows, count, columns)
    _compare(x, edge_index, shift, rows, which)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0, 0)])
def test_nothing(shape: tuple[int, int]) -> None:
    x = torch.randn(shape, requires_grad=True)
    edges = _edges(x, torch.zeros(2, 0, dtype=torch.long), 6)
    found = torch.ops.cpuaccel.edge_stats(x, edges, None, 6, "all")
    for each in found[:4]:
        assert torch.equal(each, torch.zeros(6, shape[1]))
    found[1].sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.zeros(shape))


def test_nan_in_a_message() -> None:
    x = torch.tensor([[1.0], [torch.nan], [3.0]])
    edges = _edges(x, torch.tensor([[0, 1, 2], [0, 0, 1]]), 2)
    _, _, smallest, largest, *ties = torch.ops.cpuaccel.edge_stats(x, edges, None, 2, "all")
    for each in (smallest, largest):
        assert each[:, 0].isnan().tolist() == [True, False]
    assert [each[:, 0].tolist() for each in ties] == [[0, 1], [0, 1]]


def _arguments() -> dict[str, tuple[object, ...]]:
    x, edge_index, shift = _case()
    edges = _edges(x, edge_index, 7)
    made = torch.ops.cpuaccel.edge_stats(x, edges, shift, 7, "all")
    mean, _, *others = made
    learned = x.clone().requires_grad_()
    grad = torch.randn_like(mean)
    return {
        "edge_stats": (learned, edges, shift.clone().requires_grad_(), 7, "all"),
        "edge_stats_backward": (grad, None, grad, None, x, edges, shift, 7, "all", mean, *others),
    }


@pytest.mark.parametrize("name", ["edge_stats", "edge_stats_backward"])
def test_opcheck(name: str) -> None:
    torch.library.opcheck(getattr(torch.ops.cpuaccel, name).default, _arguments()[name])


@pytest.mark.parametrize("name", ["edge_stats", "edge_stats_backward"])
def test_edges_that_are_none_are_an_error(name: str) -> None:
    check_rejects_other_edges(name, _arguments()[name], 1 if name == "edge_stats" else 5)


def test_another_name_is_an_error() -> None:
    x, edge_index, _ = _case()
    with pytest.raises(ValueError, match="which to be all, amin or amax, but got mean"):
        torch.ops.cpuaccel.edge_stats(x, _edges(x, edge_index, 7), None, 7, "mean")
