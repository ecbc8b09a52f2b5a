"""Segments of rows reduced: against float64 and torch, except torch's gradient of ties."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ops._compare import capped, isas
from ops._floats import assert_alike, assert_near, eps
from quant._engine import counted, needs_plugin, off
from torch import Tensor

from gnn._graphs import index_dtypes
from gnn._rows import DTYPES, WIDTHS, check_fallback, rows

pytestmark = needs_plugin
REDUCTIONS = ("sum", "mean", "max", "min")
reductions = pytest.mark.parametrize("reduce", REDUCTIONS)
forms = pytest.mark.parametrize("form", ["lengths", "offsets"])


def _reduced(
    data: Tensor, reduce: str, lengths: Tensor, form: str = "lengths", **options: object
) -> Tensor:
    named = {"lengths": lengths}
    if form == "offsets":
        named = {"offsets": torch.cat([lengths.new_zeros(1), lengths.cumsum(0).to(lengths.dtype)])}
    result: Tensor = torch._segment_reduce(data, reduce, **named, **options)  # type: ignore[attr-defined]
    return result


def _exact(data: Tensor, reduce: str, lengths: Tensor, initial: float | None) -> Tensor:
    """In float64, segment by segment."""
    nothing = {"sum": 0.0, "mean": float("nan"), "max": -float("inf"), "min": float("inf")}[reduce]
    start = {"mean": 0.0}.get(reduce, nothing) if initial is None else initial
    found = []
    ends = lengths.cumsum(0).tolist()
    for begin, end in itertools.pairwise([0, *ends]):
        part, first = data[begin:end].double(), torch.full(data.shape[1:], start).double()
        if begin == end:
            found.append(torch.full_like(first, nothing if initial is None else initial))
        elif reduce in ("sum", "mean"):
            found.append((first + part.sum(0)) / (end - begin if reduce == "mean" else 1))
        else:
            both = torch.cat([first[None], part])
            found.append(both.amax(0) if reduce == "max" else both.amin(0))
    return torch.stack(found)


@st.composite
def _lengths(draw: st.DrawFn) -> Tensor:
    some = st.lists(st.sampled_from([0, 0, 1, 2, 3, 9, 700]), min_size=1, max_size=12)
    lengths = draw(some.filter(lambda each: sum(each) > 0))
    return torch.tensor(lengths, dtype=draw(st.sampled_from([torch.int32, torch.int64])))


@isas
@reductions
@forms
@given(data=st.data())
def test_against_float64(isa: str, reduce: str, form: str, data: st.DataObject) -> None:
    dtype, lengths = data.draw(st.sampled_from(DTYPES)), data.draw(_lengths())
    initial = data.draw(st.sampled_from([None, 0.25, -1.0]))
    x = rows(int(lengths.sum()), data.draw(st.sampled_from(WIDTHS)), dtype)
    with capped(isa), counted() as counts:
        got = _reduced(x, reduce, lengths, form, initial=initial)
    assert counts.calls == {"segment_reduce.cpuaccel": 1}
    exact = _exact(x, reduce, lengths, initial)
    if reduce in ("max", "min"):
        assert torch.equal(got.double(), exact)
    else:
        sizes = _exact(x.abs(), reduce, lengths, None if initial is None else abs(initial))
        known = ~exact.isnan()
        assert torch.equal(known, ~got.isnan())
        longest = int(lengths.max()) + 3
        assert_near(got[known], exact[known], (longest * eps(dtype) * sizes)[known])
    with off():
        assert_alike(got, _reduced(x, reduce, lengths, form, initial=initial))


@reductions
@pytest.mark.parametrize("width", [None, 1, 4, 30])
def test_nan_infinities_and_zeros(reduce: str, width: int | None) -> None:
    numbers = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1.0, -1.0, 1.0, 2.0])
    lengths = torch.tensor([3, 0, 10, 1, 20])
    x = numbers[torch.randint(0, len(numbers), rows(34, width).shape)]
    got = _reduced(x, reduce, lengths)
    with off():
        theirs = _reduced(x, reduce, lengths)
    torch.testing.assert_close(got, theirs, rtol=0, atol=1e-6, equal_nan=True)


@reductions
@pytest.mark.parametrize("width", [None, 3, 40])
def test_same_bits_on_any_number_of_threads(reduce: str, width: int | None) -> None:
    lengths = torch.full((2000,), 3)
    lengths[7], lengths[1500] = 40_000, 9_000
    x = rows(int(lengths.sum()), width)
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        found.append(_reduced(x, reduce, lengths))
    for other in found[1:]:
        assert torch.equal(found[0], other)


@reductions
@pytest.mark.parametrize("width", [None, 1, 2, 3])
def test_few_columns_of_short_segments_are_torchs_bits(reduce: str, width: int | None) -> None:
    lengths = torch.randint(0, 12, (3000,))
    x, grad = rows(int(lengths.sum()), width), rows(3000, width).abs()
    x.view(-1)[::97] = float("nan")
    got = _reduced(x, reduce, lengths), _gradient(x, reduce, lengths, grad)
    with off():
        theirs = _reduced(x, reduce, lengths), _gradient(x, reduce, lengths, grad)
    for ours, expected in zip(got, theirs, strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=0, equal_nan=True)


@reductions
def test_layouts_and_more_dimensions(reduce: str) -> None:
    lengths = torch.tensor([2, 0, 5, 3])
    for x in (rows(20, 9)[::2, 3:7], rows(20, 9)[::2, 3], rows(6, 10).t(), torch.randn(10, 2, 3)):
        with counted() as counts:
            got = _reduced(x, reduce, lengths)
        assert counts.without_copies() == {"segment_reduce.cpuaccel": 1}
        with off():
            torch.testing.assert_close(got, _reduced(x, reduce, lengths), equal_nan=True)


@reductions
def test_offsets_that_leave_rows_out(reduce: str) -> None:
    x, offsets = rows(9, 3), torch.tensor([2, 4, 4, 7])
    with counted() as counts:
        got = torch._segment_reduce(x, reduce, offsets=offsets, initial=0.5)  # type: ignore[attr-defined]
    assert counts.calls == {"segment_reduce.cpuaccel": 1}
    exact = _exact(x[2:7], reduce, offsets.diff(), 0.5)
    torch.testing.assert_close(got.double(), exact, rtol=1e-6, atol=1e-6)
    shorter = torch.tensor([2, 3])
    got = _reduced(x, reduce, shorter, unsafe=True)
    torch.testing.assert_close(got.double(), _exact(x, reduce, shorter, None), rtol=1e-6, atol=1e-6)


@index_dtypes
@pytest.mark.parametrize("bad", [[0, -1, 5], [0, 6, 5], [0, 2**31 - 1, 2**31 - 1], [0, 2, 8]])
def test_bad_offsets_and_lengths_are_an_error(bad: list[int], index: torch.dtype) -> None:
    """torch reads past the end for these."""
    x, offsets = rows(5, 3), torch.tensor(bad, dtype=index)
    with pytest.raises(RuntimeError, match="segment_reduce: expected offsets to be at least 0"):
        torch._segment_reduce(x, "sum", offsets=offsets)  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="segment_reduce: expected lengths to be at least 0"):
        _reduced(x, "sum", offsets, unsafe=True)


_FAR = 900_000_000
_BAD: dict[str, Callable[[], Tensor]] = {
    "offsets of a vector": lambda: _of_offsets(torch.randn(5), [0, 3, _FAR]),
    "negative offsets of a vector": lambda: _of_offsets(torch.randn(5), [-_FAR, 3, 5]),
    "offsets of one column": lambda: _of_offsets(torch.randn(5, 1), [0, 3, _FAR]),
    "offsets of other types": lambda: _of_offsets(torch.randn(5, 3).half(), [0, 3, _FAR]),
    "offsets of two dimensions": lambda: _of_offsets(
        torch.randn(2, 5, 3), [[0, 3, 5], [0, _FAR, 5]], axis=1
    ),
    "offsets of the second axis": lambda: _of_offsets(
        torch.randn(2, 5), [[0, 3, 5], [0, 4, _FAR]], axis=1
    ),
    "offsets of more rows than there are": lambda: _of_offsets(
        torch.randn(2, 5), [[0, 3, 5]] * 900, axis=1
    ),
    "no offset": lambda: _of_offsets(torch.randn(5), []),
    "lengths of a vector": lambda: _of_lengths(torch.randn(5), [3, _FAR], unsafe=True),
    "negative lengths": lambda: _of_lengths(torch.randn(5), [_FAR, -_FAR, 5], unsafe=True),
    "lengths of one column": lambda: _of_lengths(torch.randn(5, 1), [3, _FAR], unsafe=True),
    "lengths of the second axis": lambda: _of_lengths(
        torch.randn(2, 5), [[3, 2], [_FAR, 5]], axis=1, unsafe=True
    ),
    "lengths of more rows than there are": lambda: _of_lengths(
        torch.randn(2, 5), [[3, 2]] * 900, axis=1
    ),
    # Their sum is 5 modulo 2^64.
    "lengths that wrap": lambda: _of_lengths(torch.randn(5), [2**62] * 4 + [5]),
    "lengths of rows that wrap": lambda: _of_lengths(torch.randn(5, 3), [2**62] * 4 + [5]),
}


def _of_offsets(data: Tensor, offsets: list[object], **options: object) -> Tensor:
    result: Tensor = torch._segment_reduce(  # type: ignore[attr-defined]
        data, "sum", offsets=torch.tensor(offsets, dtype=torch.int64), **options
    )
    return result


def _of_lengths(data: Tensor, lengths: list[object], **options: object) -> Tensor:
    result: Tensor = torch._segment_reduce(  # type: ignore[attr-defined]
        data, "sum", lengths=torch.tensor(lengths, dtype=torch.int64), **options
    )
    return result


@pytest.mark.parametrize("case", _BAD)
def test_what_would_leave_the_memory_is_an_error(case: str) -> None:
    with pytest.raises(RuntimeError, match=r"segment_reduce: expected (offsets|lengths|the sizes)"):
        _BAD[case]()


def _backward(
    data: Tensor, rows: int, axis: int = 0, reduce: str = "max", **segments: Tensor
) -> Tensor:
    sizes = [*data.shape]
    sizes[axis] = rows
    grad = torch.randn(sizes)
    result: Tensor = torch.ops.aten._segment_reduce_backward(
        grad, grad.clone(), data, reduce, axis=axis, **segments
    )
    return result


@reductions
@pytest.mark.parametrize(
    ("data", "axis", "rows", "offsets"),
    [
        (torch.randn(5), 0, 2, [0, 3, _FAR]),
        (torch.randn(5, 3), 0, 2, [0, 3, _FAR]),
        (torch.randn(5), 0, 900, [0, 3, 5]),
        (torch.randn(2, 5), 1, 2, [[0, 3, 5], [0, 4, _FAR]]),
    ],
)
def test_gradients_that_would_leave_the_memory_are_an_error(
    reduce: str, data: Tensor, axis: int, rows: int, offsets: list[int]
) -> None:
    ends = torch.tensor(offsets)
    with pytest.raises(RuntimeError, match=r"segment_reduce(_backward)?: expected"):
        _backward(data, rows, axis, reduce, offsets=ends)
    with pytest.raises(RuntimeError, match=r"segment_reduce(_backward)?: expected"):
        _backward(data, rows if rows > 2 else 2, axis, reduce, lengths=ends.diff())


_FALLBACKS: dict[str, Callable[[], Tensor]] = {
    "prod": lambda: _reduced(rows(4, 2), "prod", torch.tensor([1, 3])),
    "no reduction": lambda: _reduced(rows(4, 2), "amax", torch.tensor([1, 3])),
    "sum of lengths": lambda: _reduced(rows(4, 2), "sum", torch.tensor([1, 2])),
    "negative length": lambda: _reduced(rows(4, 2), "sum", torch.tensor([5, -1])),
    "offsets go down": lambda: torch._segment_reduce(  # type: ignore[attr-defined]
        rows(4, 2), "sum", offsets=torch.tensor([0, 3, 2, 4])
    ),
    "neither": lambda: torch._segment_reduce(rows(4, 2), "sum"),  # type: ignore[attr-defined]
    "indices": lambda: torch._segment_reduce(  # type: ignore[attr-defined]
        rows(4, 2), "sum", indices=torch.tensor([0, 0, 1, 1])
    ),
    "float lengths": lambda: _reduced(rows(4, 2), "sum", torch.tensor([1.0, 3.0])),
    "bf16": lambda: _reduced(rows(4, 2).bfloat16(), "sum", torch.tensor([1, 3])),
    "second axis": lambda: _reduced(rows(2, 4), "sum", torch.tensor([[1, 3], [2, 2]]), axis=1),
    "no rows": lambda: _reduced(rows(0, 4), "max", torch.tensor([0, 0])),
    "no columns": lambda: _reduced(rows(3, 0), "max", torch.tensor([1, 2])),
}


@pytest.mark.parametrize("case", _FALLBACKS)
def test_fallbacks(case: str) -> None:
    counts = check_fallback(_FALLBACKS[case])
    assert not counts.calls
    assert sum(counts.fallbacks.values()) == 1


def _gradient(
    x: Tensor, reduce: str, lengths: Tensor, grad: Tensor, form: str = "lengths", **options: object
) -> Tensor:
    x = x.clone().requires_grad_()
    y = _reduced(x, reduce, lengths, form, **options)
    return torch.autograd.grad(y, x, grad)[0]


@isas
@reductions
@forms
@given(data=st.data())
def test_gradients_are_torchs(isa: str, reduce: str, form: str, data: st.DataObject) -> None:
    """Also with ties, as long as the incoming gradient is positive."""
    dtype, lengths = data.draw(st.sampled_from(DTYPES)), data.draw(_lengths())
    width, initial = data.draw(st.sampled_from(WIDTHS)), data.draw(st.sampled_from([None, 0.0]))
    x = torch.randint(-2, 3, rows(int(lengths.sum()), width).shape).to(dtype)
    grad = rows(len(lengths), width, dtype).abs()
    with capped(isa), counted() as counts:
        got = _gradient(x, reduce, lengths, grad, form, initial=initial)
    assert counts.calls["segment_reduce_backward.cpuaccel"] == 1
    with off():
        theirs = _gradient(x, reduce, lengths, grad, form, initial=initial)
    torch.testing.assert_close(got, theirs)
    assert_alike(got, theirs)


@reductions
def test_gradients_of_nan(reduce: str) -> None:
    x, lengths = rows(6, 2), torch.tensor([3, 0, 3])
    x[1, 0] = x[2, 0] = float("nan")
    grad = torch.tensor([[1.0, float("inf")], [2.0, 2.0], [float("inf"), 3.0]])
    got = _gradient(x, reduce, lengths, grad)
    with off():
        torch.testing.assert_close(got, _gradient(x, reduce, lengths, grad), equal_nan=True)


@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize("width", [1, 3, 20, 5000])
def test_ties_share_a_negative_gradient_too(reduce: str, width: int) -> None:
    """torch 2.13 gives each tie the whole gradient, which is not the derivative of anything."""
    x, lengths = torch.tensor([[2.0], [2.0], [2.0], [5.0]]), torch.tensor([3, 1])
    x, grad = x.expand(-1, width), torch.tensor([[-6.0], [-1.0]]).expand(-1, width)
    got = _gradient(x, reduce, lengths, grad)
    assert torch.equal(got, torch.tensor([[-2.0], [-2.0], [-2.0], [-1.0]]).expand(-1, width))
    assert torch.equal(got, -_gradient(x, reduce, lengths, -grad))


@reductions
@forms
@pytest.mark.parametrize("width", [None, 3, 20])
def test_gradcheck(reduce: str, form: str, width: int | None) -> None:
    lengths, x = torch.tensor([3, 2, 4]), rows(9, width, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: _reduced(a, reduce, lengths, form), (x,))


@reductions
def test_same_gradients_on_any_number_of_threads(reduce: str) -> None:
    lengths = torch.full((2000,), 3)
    lengths[7] = 30_000
    x, grad = torch.randint(-3, 3, (int(lengths.sum()), 20)).float(), rows(2000, 20)
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        found.append(_gradient(x, reduce, lengths, grad))
    for other in found[1:]:
        assert torch.equal(found[0], other)


def test_inference_mode() -> None:
    lengths, x = torch.tensor([3, 2, 4]), rows(9, 3)
    expected = _reduced(x, "mean", lengths)
    with torch.inference_mode():
        got = _reduced(x, "mean", lengths)
    assert got.is_inference()
    assert torch.equal(got, expected)
