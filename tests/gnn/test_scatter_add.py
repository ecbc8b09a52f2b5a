"""Rows added to rows by index: against float64, and bit for bit against torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ops._compare import capped, isas
from ops._floats import assert_alike, assert_near, eps, same_ending
from quant._engine import counted, needs_plugin, off
from torch import Tensor

from gnn._graphs import index_dtypes
from gnn._rows import ADDS, DTYPES, WIDTHS, check_fallback, counted_name, indices, rows, spread

pytestmark = needs_plugin
ways = pytest.mark.parametrize("way", ADDS)
ways_with_gradients = pytest.mark.parametrize("way", [way for way in ADDS if ".out" not in way])
"""torch has no gradient for out=."""


def _exact(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    result = x.double().clone()
    return result.index_put_((index.long(),), src.double(), accumulate=True)


@isas
@ways
@given(data=st.data())
def test_against_float64(isa: str, way: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    nodes = data.draw(st.sampled_from([1, 2, 9, 500]))
    width = data.draw(st.sampled_from(WIDTHS))
    index = data.draw(indices(nodes))
    x, src = rows(nodes, width, dtype), rows(len(index), width, dtype)
    with capped(isa), counted() as counts:
        got = ADDS[way](x, index, src)
    assert counts.without_copies() == {f"{counted_name(way)}.cpuaccel": 1}
    exact, sizes = _exact(x, index, src), _exact(x.abs(), index, src.abs())
    assert_near(got, exact, (len(index) + 2) * eps(dtype) * sizes)
    with off():  # torch's scatter_add rejects int32 from 16 columns on
        assert_alike(got, ADDS[way](x, index.long(), src))


@ways
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [None, 1, 7, 16, 33])
def test_halves_are_rounded_once(way: str, dtype: torch.dtype, width: int | None) -> None:
    index = torch.randint(0, 7, (500,))
    x, src = rows(7, width).to(dtype), rows(500, width).to(dtype)
    with counted() as counts:
        got = ADDS[way](x, index, src)
    assert counts.without_copies() == {f"{counted_name(way)}.cpuaccel": 1}
    assert torch.equal(got, ADDS[way](x.float(), index, src.float()).to(dtype))


@ways
@pytest.mark.parametrize("width", WIDTHS)
def test_the_bits_of_the_plain_loop(way: str, width: int | None) -> None:
    index = torch.randint(0, 7, (500,))
    x, src = rows(7, width), rows(500, width)
    x[3], src[5], src[40] = -0.0, float("nan"), float("inf")
    expected = x.clone()
    for e, row in enumerate(index.tolist()):
        expected[row] += src[e]
    torch.testing.assert_close(ADDS[way](x, index, src), expected, rtol=0, atol=0, equal_nan=True)


@ways
@index_dtypes
@pytest.mark.parametrize("width", [None, 1, 3, 16, 100])
def test_same_bits_on_any_number_of_threads(
    way: str, index: torch.dtype, width: int | None
) -> None:
    numbers = torch.randint(0, 900, (40_000,), dtype=index)
    numbers[:15_000] = 77
    x, src = rows(900, width), rows(40_000, width)
    found = []
    for threads in (1, 2, 3, 4):
        torch.set_num_threads(threads)
        found.append(ADDS[way](x, numbers, src))
    for other in found[1:]:
        assert torch.equal(found[0], other)


@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded", "repeated", "every second"])
@ways
def test_layouts_of_what_is_added(way: str, layout: str) -> None:
    index, x = torch.randint(0, 9, (50,)), rows(9, 12)
    src = {
        "transposed": rows(12, 50).t(),
        "sliced": rows(50, 20)[:, 3:15],
        "expanded": rows(50, 1).expand(-1, 12),
        "repeated": rows(1, 12).expand(50, -1),
        "every second": rows(100, 12)[::2],
    }[layout]
    with counted() as counts:
        got = ADDS[way](x, index, src)
    assert not counts.fallbacks
    assert torch.equal(got, ADDS[way](x, index, src.contiguous()))


@index_dtypes
def test_layouts_of_indices_and_results(index: torch.dtype) -> None:
    numbers = torch.randint(0, 9, (100,), dtype=index)[::2]
    wide, src = rows(18, 20), rows(50, 12)
    expected = _exact(wide[::2, 4:16], numbers, src)
    others = wide.clone()
    with counted() as counts:
        wide[::2, 4:16].scatter_add_(0, spread(numbers, src), src)
    assert counts.calls == {"scatter_add.cpuaccel": 1}
    torch.testing.assert_close(wide[::2, 4:16].double(), expected, rtol=1e-5, atol=1e-5)
    wide[::2, 4:16] = others[::2, 4:16]
    assert torch.equal(wide, others)
    # The result of an out-of-place call is dense, whatever the strides of its input.
    turned = others.t()[:12].t()
    ours, theirs = same_ending(lambda: turned[:9].index_add(0, numbers, src))
    assert_alike(ours.result, theirs.result)


def test_more_dimensions_and_fewer_numbers_than_rows() -> None:
    index, x, src = torch.randint(0, 5, (30,)), torch.randn(5, 3, 4), torch.randn(40, 3, 4)
    with counted() as counts:
        got = x.scatter_add(0, spread(index, src), src)
    assert counts.without_copies() == {"scatter_add.cpuaccel": 1}
    torch.testing.assert_close(got, _exact(x, index, src[:30]).float())


@pytest.mark.parametrize("way", [way for way in ADDS if "index_put" not in way])
@index_dtypes
@pytest.mark.parametrize("number", [-1, 5, -6, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("width", [None, 3, 40])
def test_out_of_range(way: str, number: int, index: torch.dtype, width: int | None) -> None:
    numbers = torch.tensor([0, 4, number, 2]).to(index)
    x, src = rows(5, width), rows(4, width)
    with counted() as counts:
        ours, _ = same_ending(lambda: ADDS[way](x, numbers, src))
    assert ours.error is not None
    assert not [name for name in counts.calls if not name.startswith("clone")]
    # torch's index_add may call scatter_add.
    assert counts.fallbacks[f"{counted_name(way)}: index out of range"] == 1


_FALLBACKS: dict[str, Callable[[], Tensor]] = {
    "dimension": lambda: rows(4, 5).scatter_add(1, torch.zeros(4, 2).long(), rows(4, 2)),
    "dimension, index_add": lambda: rows(4, 5).index_add(1, torch.tensor([1]), rows(4, 1)),
    "scalar": lambda: torch.tensor(1.0).index_add(0, torch.tensor([0]), torch.ones(1)),
    "integers": lambda: torch.ones(4).long().index_add(0, torch.tensor([1]), torch.ones(1).long()),
    "types": lambda: rows(4, 5).index_add(0, torch.tensor([1]), rows(1, 5).double()),
    "type of index": lambda: rows(4).index_add(0, torch.tensor([1.0]), rows(1, None)),
    "columns": lambda: rows(4, 5).scatter_add(0, torch.tensor([[1, 1]]), rows(1, 5)),
    "more columns": lambda: rows(4, 5).scatter_add(0, torch.ones(1, 6).long(), rows(1, 6)),
    "too many": lambda: rows(4, 5).scatter_add(0, torch.ones(3, 1).long().expand(3, 5), rows(2, 5)),
    "lengths": lambda: rows(4, 5).index_add(0, torch.tensor([1, 1]), rows(3, 5)),
    "own numbers": lambda: rows(4, 5).scatter_add(0, torch.randint(0, 4, (6, 5)), rows(6, 5)),
    "alpha": lambda: rows(4, 5).index_add(0, torch.tensor([1]), rows(1, 5), alpha=2),
    "nothing added": lambda: rows(4, 5).index_add(0, torch.ones(0).long(), rows(0, 5)),
    "no columns": lambda: rows(4, 0).index_add(0, torch.tensor([1]), rows(1, 0)),
    "no rows": lambda: rows(0, 4).index_add(0, torch.tensor([1]), rows(1, 4)),
    "another size": lambda: torch.index_add(
        torch.ones(3, 2), 0, torch.tensor([1]), torch.ones(1, 2), out=torch.ones(7)
    ),
    "another type": lambda: torch.index_add(
        torch.ones(3), 0, torch.tensor([1]), torch.ones(1), out=torch.ones(3).long()
    ),
}


@pytest.mark.parametrize("case", _FALLBACKS)
def test_fallbacks(case: str) -> None:
    counts = check_fallback(_FALLBACKS[case])
    # torch's index_add may call scatter_add.
    asks = any(name.startswith("index_add") for name in counts.fallbacks)
    assert set(counts.calls) <= ({"scatter_add.cpuaccel"} if asks else set())


def test_overlapping_memory_falls_back() -> None:
    index = torch.tensor([0, 1, 2])
    one, column = torch.ones(1, 4).expand(3, 4), torch.ones(3, 3)
    for call in (
        lambda: one.index_add_(0, index, torch.ones(3, 4)),
        lambda: column.index_add_(0, index, column),
        lambda: column[:2].index_add_(0, index[:2], column[1:]),
    ):
        with counted() as counts:
            same_ending(call)
        assert not counts.calls


@ways_with_gradients
@pytest.mark.parametrize("width", [None, 1, 3, 20])
def test_gradients(way: str, width: int | None) -> None:
    index = torch.tensor([3, 0, 3, 1, 3])
    x = rows(4, width, torch.float64).requires_grad_()
    src = rows(5, width, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: ADDS[way](a, index, b), (x, src))
    assert torch.autograd.gradgradcheck(lambda a, b: ADDS[way](a, index, b), (x, src))


@pytest.mark.parametrize("op", ["gather", "index_select"])
def test_the_backward_of_reading_rows(op: str) -> None:
    index, x = torch.randint(0, 6, (50,)), rows(6, 9).requires_grad_()
    grad = rows(50, 9)
    y = x.gather(0, spread(index, x)) if op == "gather" else x.index_select(0, index)
    with counted() as counts:
        (got,) = torch.autograd.grad(y, x, grad)
    added = "scatter_add" if op == "gather" else "index_add"
    assert counts.calls.get(f"{added}.cpuaccel") == 1
    torch.testing.assert_close(got, _exact(torch.zeros(6, 9), index, grad).float())


def test_inference_mode() -> None:
    index, x, src = torch.randint(0, 6, (50,)), rows(6, 9), rows(50, 9)
    expected = x.index_add(0, index, src)
    with torch.inference_mode():
        got = x.index_add(0, index, src)
        same = x.clone().scatter_add_(0, spread(index, src), src)
    assert got.is_inference()
    assert torch.equal(got, expected)
    assert torch.equal(same, expected)
