"""Rows selected by index: torch's bits, shapes and errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ops._floats import assert_alike, same_ending
from quant._engine import counted, needs_plugin, off
from torch import Tensor

from gnn._graphs import index_dtypes
from gnn._rows import WIDTHS, check_fallback, indices, rows, spread

pytestmark = needs_plugin

_READS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_select": lambda x, i: x.index_select(0, i),
    "index_select.out": lambda x, i: torch.index_select(
        x, -x.dim(), i, out=x.new_zeros(len(i), *x.shape[1:])
    ),
    "gather": lambda x, i: x.gather(0, spread(i, x)),
    "gather.out": lambda x, i: torch.gather(
        x, -x.dim(), spread(i, x), out=x.new_zeros(len(i), *x.shape[1:])
    ),
    "index": lambda x, i: x[i],
}
ways = pytest.mark.parametrize("way", _READS)
ways_with_gradients = pytest.mark.parametrize("way", [way for way in _READS if ".out" not in way])
"""torch has no gradient for out=."""
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex128)


def _name(way: str) -> str:
    return way.split(".")[0]


@ways
@given(data=st.data())
def test_torchs_rows(way: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(_DTYPES))
    nodes = data.draw(st.sampled_from([1, 2, 9, 500, 20_000]))
    index = data.draw(indices(nodes))
    x = (10 * rows(nodes, data.draw(st.sampled_from(WIDTHS)))).to(dtype)
    with counted() as counts:
        got = _READS[way](x, index)
    assert counts.without_copies() == {f"{_name(way)}.cpuaccel": 1}
    assert not counts.fallbacks
    with off():  # torch's gather reads an int32 index as int64
        theirs = _READS[way](x, index.long())
    assert torch.equal(got, theirs)
    assert_alike(got, theirs)


@ways
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads(way: str, threads: int) -> None:
    torch.set_num_threads(threads)
    index, x = torch.randint(0, 5000, (60_000,)), rows(5000, 7)
    expected = torch.from_numpy(x.numpy()[index.numpy()])
    assert torch.equal(_READS[way](x, index), expected)


@ways
@pytest.mark.parametrize("layout", ["sliced", "repeated", "every second", "transposed"])
def test_layouts(way: str, layout: str) -> None:
    x = {
        "sliced": rows(9, 30)[:, 3:15],
        "repeated": rows(1, 12).expand(9, -1),
        "every second": rows(18, 12)[::2],
        "transposed": rows(12, 9).t(),
    }[layout]
    index = torch.randint(0, 9, (80,))[::2]
    with counted() as counts:
        got = _READS[way](x, index)
    assert bool(counts.fallbacks) == (layout == "transposed")
    with off():
        theirs = _READS[way](x, index)
    assert torch.equal(got, theirs)
    assert_alike(got, theirs)


@index_dtypes
def test_numbers_from_the_end_and_indices_of_more_dimensions(index: torch.dtype) -> None:
    x = torch.randn(7, 3, 2)
    numbers = torch.tensor([[-1, 0, -7], [6, 3, -2]]).to(index)
    with counted() as counts:
        got = x[numbers, ...]
    assert counts.calls == {"index.cpuaccel": 1}
    assert torch.equal(got, torch.from_numpy(x.numpy()[numbers.numpy()]))


@ways
@index_dtypes
@pytest.mark.parametrize("number", [5, -6, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("width", [None, 3, 40])
def test_out_of_range(way: str, number: int, index: torch.dtype, width: int | None) -> None:
    numbers, x = torch.tensor([0, 4, number, 2]).to(index), rows(5, width)
    if way.startswith("gather") and index == torch.int32:
        with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 5"):
            _READS[way](x, numbers)
        return
    with counted() as counts:
        ours, _ = same_ending(lambda: _READS[way](x, numbers))
    assert ours.error is not None
    assert not counts.calls
    assert counts.fallbacks == {f"{_name(way)}: index out of range": 1}


_FALLBACKS: dict[str, Callable[[], Tensor]] = {
    "dimension": lambda: rows(4, 5).index_select(1, torch.tensor([1])),
    "scalar": lambda: torch.tensor(1.0).index_select(0, torch.tensor([0])),
    "scalar index": lambda: rows(4, 5).index_select(0, torch.tensor(2)),
    "type": lambda: rows(4, 5).index_select(0, torch.tensor([1.0])),
    "mask": lambda: rows(4, 5)[torch.tensor([True, False, True, True])],
    "second dimension": lambda: rows(4, 5)[:, torch.tensor([1, 2])],
    "two": lambda: rows(4, 5)[torch.tensor([1, 2]), torch.tensor([1, 2])],
    "turned": lambda: rows(4, 5)[torch.tensor([[1, 2], [3, 0]]).t()],
    "too many": lambda: rows(4, None)[torch.tensor([1]), None, :, :],
    "fewer columns": lambda: rows(4, 5).gather(0, torch.tensor([[1, 2]])),
    "own numbers": lambda: rows(4, 5).gather(0, torch.randint(0, 4, (6, 5))),
    "no numbers": lambda: rows(4, 5).index_select(0, torch.ones(0).long()),
    "no columns": lambda: rows(4, 0)[torch.tensor([1, 2])],
    "no rows": lambda: rows(0, 4)[torch.tensor([0])],
    "another size": lambda: torch.index_select(rows(4, 5), 0, torch.tensor([1]), out=torch.ones(0)),
    "another type": lambda: torch.index_select(
        rows(4, 5), 0, torch.tensor([1]), out=torch.ones(1, 5).double()
    ),
}


@pytest.mark.parametrize("case", _FALLBACKS)
def test_fallbacks(case: str) -> None:
    counts = check_fallback(_FALLBACKS[case])
    assert not [name for name in counts.calls if not name.startswith("clone")]


def test_overlapping_memory_falls_back() -> None:
    x, index = rows(8, 4), torch.tensor([0, 1, 2])
    with counted() as counts:
        same_ending(lambda: torch.index_select(x[:4], 0, index, out=x[2:5]))
    assert not counts.calls


@ways_with_gradients
@pytest.mark.parametrize("width", [None, 1, 20])
def test_gradients(way: str, width: int | None) -> None:
    index = torch.tensor([3, 0, 3, 1, 3])
    x = rows(4, width, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: _READS[way](a, index), (x,))
    assert torch.autograd.gradgradcheck(lambda a: _READS[way](a, index), (x,))


@ways_with_gradients
@pytest.mark.parametrize("width", [None, 3, 40])
def test_same_gradients_on_any_number_of_threads(way: str, width: int | None) -> None:
    index = torch.randint(0, 900, (40_000,))
    index[:15_000] = 77
    x, grad = rows(900, width).requires_grad_(), rows(40_000, width)
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        found.append(torch.autograd.grad(_READS[way](x, index), x, grad)[0])
    for other in found[1:]:
        assert torch.equal(found[0], other)


def test_inference_mode() -> None:
    index, x = torch.randint(0, 6, (50,)), rows(6, 9)
    expected = x[index]
    for read in _READS.values():
        with torch.inference_mode():
            got = read(x, index)
        assert got.is_inference()
        assert torch.equal(got, expected)
