"""Rows reduced by index: against float64, torch's special cases, and its gradients with ties."""

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
from gnn._rows import DTYPES, WIDTHS, check_fallback, indices, rows, spread

pytestmark = [needs_plugin, pytest.mark.filterwarnings("ignore:index_reduce")]

Reduce = Callable[[Tensor, Tensor, Tensor, str, bool], Tensor]


def _scatter(x: Tensor, index: Tensor, src: Tensor, reduce: str, include: bool) -> Tensor:
    return x.scatter_reduce(0, spread(index, src), src, reduce, include_self=include)


def _scatter_in_place(x: Tensor, index: Tensor, src: Tensor, reduce: str, include: bool) -> Tensor:
    return x.clone().scatter_reduce_(
        -x.dim(), spread(index, src), src, reduce, include_self=include
    )


def _scatter_out(x: Tensor, index: Tensor, src: Tensor, reduce: str, include: bool) -> Tensor:
    out = torch.full_like(x, float("nan"))
    expanded = spread(index, src)
    return torch.scatter_reduce(x, 0, expanded, src, reduce, include_self=include, out=out)


def _index(x: Tensor, index: Tensor, src: Tensor, reduce: str, include: bool) -> Tensor:
    return x.index_reduce(0, index, src, reduce, include_self=include)


def _index_in_place(x: Tensor, index: Tensor, src: Tensor, reduce: str, include: bool) -> Tensor:
    return x.clone().index_reduce_(-x.dim(), index, src, reduce, include_self=include)


def _index_out(x: Tensor, index: Tensor, src: Tensor, reduce: str, include: bool) -> Tensor:
    out = torch.full_like(x, float("nan"))
    return torch.index_reduce(x, 0, index, src, reduce, include_self=include, out=out)


WAYS: dict[str, Reduce] = {
    "scatter_reduce": _scatter,
    "scatter_reduce_": _scatter_in_place,
    "scatter_reduce.two_out": _scatter_out,
    "index_reduce": _index,
    "index_reduce_": _index_in_place,
    "index_reduce.out": _index_out,
}
CASES = [
    (way, reduce)
    for way in WAYS
    for reduce in ("sum", "mean", "amax", "amin", "prod")
    if not (way.startswith("index") and reduce == "sum")  # torch has no index_reduce with "sum"
]
cases = pytest.mark.parametrize(("way", "reduce"), CASES)
CASES_WITH_GRADIENTS = [case for case in CASES if "out" not in case[0] and case[1] != "prod"]
"""torch has no gradient for out=, and prod's gradient is torch's own."""
cases_with_gradients = pytest.mark.parametrize(("way", "reduce"), CASES_WITH_GRADIENTS)
includes = pytest.mark.parametrize("include", [True, False], ids=["with self", "without self"])


def _op(way: str) -> str:
    return way.split(".")[0].rstrip("_")


@pytest.fixture(autouse=True, scope="module")
def _warned() -> None:
    """torch warns once that index_reduce is new: do it before tests that compare warnings."""
    with off():
        torch.ones(1).index_reduce(0, torch.tensor([0]), torch.ones(1), "mean")


def _exact(x: Tensor, index: Tensor, src: Tensor, reduce: str, include: bool) -> Tensor:
    """In float64, row by row."""
    result = x.double().clone()
    for row in set(index.tolist()):
        terms = src[: len(index)].double()[index == row]
        if include:
            terms = torch.cat([x.double()[row : row + 1], terms])
        result[row] = getattr(terms, reduce)(0)
    return result


@isas
@given(data=st.data())
def test_against_float64(isa: str, data: st.DataObject) -> None:
    way, reduce = data.draw(st.sampled_from(CASES))
    include = data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(DTYPES))
    nodes = data.draw(st.sampled_from([1, 2, 9, 500]))
    width = data.draw(st.sampled_from(WIDTHS))
    index = data.draw(indices(nodes))
    x, src = rows(nodes, width, dtype), rows(len(index), width, dtype)
    with capped(isa), counted() as counts:
        got = WAYS[way](x, index, src, reduce, include)
    assert counts.without_copies() == {f"{_op(way)}.cpuaccel": 1}
    exact = _exact(x, index, src, reduce, include)
    if reduce in ("amax", "amin"):
        assert torch.equal(got.double(), exact)
    elif reduce == "prod":  # underflow of intermediate products is allowed
        assert_near(got, exact, (len(index) + 3) * eps(dtype) * exact.abs() + 1e-37)
    else:
        sizes = _exact(x.abs(), index, src.abs(), reduce, include)
        assert_near(got, exact, (len(index) + 3) * eps(dtype) * sizes)
    with off():
        assert_alike(got, WAYS[way](x, index.long(), src, reduce, include))


@cases
@includes
@pytest.mark.parametrize("width", [None, 3, 8, 70])
def test_nan_infinities_and_zeros(way: str, reduce: str, include: bool, width: int | None) -> None:
    index = torch.randint(0, 12, (40,))
    numbers = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1.0, -1.0, 1.0, 2.0])
    x, src = rows(12, width), rows(40, width)
    x = numbers[torch.randint(0, len(numbers), x.shape)]
    src = numbers[torch.randint(0, len(numbers), src.shape)]
    got = WAYS[way](x, index, src, reduce, include)
    with off():
        theirs = WAYS[way](x, index, src, reduce, include)
    torch.testing.assert_close(got, theirs, rtol=0, atol=1e-6, equal_nan=True)


@cases
@pytest.mark.parametrize(
    ("width", "index", "include"),
    [(None, torch.int32, False), (3, torch.int64, True), (100, torch.int64, False)],
)
def test_same_bits_on_any_number_of_threads(
    way: str, reduce: str, include: bool, index: torch.dtype, width: int | None
) -> None:
    count = 1_000_000 // ((width or 1) + 10)
    numbers = torch.randint(0, 900, (count,), dtype=index)
    numbers[: count // 3] = 77
    x, src = rows(900, width), rows(count, width)
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        found.append(WAYS[way](x, numbers, src, reduce, include))
    for other in found[1:]:
        assert torch.equal(found[0], other)


HALVES = (torch.bfloat16, torch.float16)


@cases
@includes
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("width", [None, 3, 8, 17, 40])
def test_halves_are_rounded_once(
    way: str, reduce: str, include: bool, dtype: torch.dtype, width: int | None
) -> None:
    index = torch.randint(0, 9, (50,))
    x, src = rows(9, width).to(dtype), rows(50, width).to(dtype)
    with counted() as counts:
        got = WAYS[way](x, index, src, reduce, include)
    assert counts.without_copies() == {f"{_op(way)}.cpuaccel": 1}
    in_float = WAYS[way](x.float(), index, src.float(), reduce, include)
    assert torch.equal(got, in_float.to(dtype))


@includes
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_layouts_and_fewer_numbers_than_rows(reduce: str, include: bool) -> None:
    numbers = torch.randint(0, 7, (60,))[::2]
    wide = rows(18, 20)
    before = wide.clone()
    x = wide[::2, 4:16]
    src = rows(12, 40).t()
    expected = _exact(x, numbers, src, reduce, include)
    with counted() as counts:
        x.scatter_reduce_(0, spread(numbers, src)[:30], src, reduce, include_self=include)
    assert counts.without_copies() == {"scatter_reduce.cpuaccel": 1}
    torch.testing.assert_close(x.double(), expected, rtol=1e-5, atol=1e-5)
    x.copy_(before[::2, 4:16])
    assert torch.equal(wide, before)


@cases
@index_dtypes
@pytest.mark.parametrize("number", [-1, 5, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("width", [None, 40])
def test_out_of_range(
    way: str, reduce: str, number: int, index: torch.dtype, width: int | None
) -> None:
    numbers = torch.tensor([0, 4, number, 2]).to(index)
    x, src = rows(5, width), rows(4, width)
    with counted() as counts:
        ours, _ = same_ending(lambda: WAYS[way](x, numbers, src, reduce, True))
    assert ours.error is not None
    assert counts.fallbacks[f"{_op(way)}: index out of range"] == 1


_FALLBACKS: dict[str, Callable[[], Tensor]] = {
    "no reduction": lambda: _scatter(rows(4, 5), torch.tensor([1]), rows(1, 5), "max", True),
    "index sum": lambda: _index(rows(4, 5), torch.tensor([1]), rows(1, 5), "sum", True),
    "dimension": lambda: rows(4, 5).scatter_reduce(1, torch.zeros(4, 2).long(), rows(4, 2), "amax"),
    "scalar": lambda: torch.tensor(1.0).index_reduce(0, torch.tensor([0]), torch.ones(1), "amax"),
    "integers": lambda: _scatter(
        torch.ones(4).long(), torch.tensor([1]), torch.ones(1).long(), "mean", True
    ),
    "types": lambda: _index(rows(4, 5), torch.tensor([1]), rows(1, 5).double(), "amax", True),
    "type of index": lambda: _index(rows(4), torch.tensor([1.0]), rows(1, None), "amax", True),
    "own numbers": lambda: rows(4, 5).scatter_reduce(
        0, torch.randint(0, 4, (6, 5)), rows(6, 5), "amax"
    ),
    "too many": lambda: _scatter(rows(4, 5), torch.ones(3).long(), rows(2, 5), "amax", True),
    "nothing": lambda: _scatter(rows(4, 5), torch.ones(0).long(), rows(0, 5), "amax", False),
    "no columns": lambda: _index(rows(4, 0), torch.tensor([1]), rows(1, 0), "amax", False),
    "no rows": lambda: _scatter(rows(0, 4), torch.tensor([1]), rows(1, 4), "amax", True),
    "another type of result": lambda: torch.index_reduce(
        rows(3, 2), 0, torch.tensor([1]), rows(1, 2), "mean", out=torch.ones(3, 2).long()
    ),
}


@pytest.mark.parametrize("case", _FALLBACKS)
def test_fallbacks(case: str) -> None:
    counts = check_fallback(_FALLBACKS[case])
    assert not [name for name in counts.calls if name.startswith(("scatter_r", "index_r"))]


def test_overlapping_memory_falls_back() -> None:
    index, one = torch.tensor([0, 1, 2]), torch.ones(1, 4).expand(3, 4)
    with counted() as counts:
        same_ending(lambda: one.index_reduce_(0, index, torch.ones(3, 4), "amax"))
    assert not counts.calls


def _tied(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Few distinct values, so that many are equal."""
    return torch.randint(-2, 3, shape).to(dtype)


def _gradients(
    way: str, reduce: str, include: bool, x: Tensor, index: Tensor, src: Tensor, grad: Tensor
) -> list[Tensor]:
    needs = [x.clone().requires_grad_(), src.clone().requires_grad_()]
    y = WAYS[way](needs[0], index, needs[1], reduce, include)
    return list(torch.autograd.grad(y, needs, grad))


@isas
@given(data=st.data())
def test_gradients_are_torchs_with_ties(isa: str, data: st.DataObject) -> None:
    way, reduce = data.draw(st.sampled_from(CASES_WITH_GRADIENTS))
    include = data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(DTYPES))
    width = data.draw(st.sampled_from(WIDTHS))
    index = data.draw(indices(9))
    if reduce == "mean":  # its gradient is torch's, which rejects int32
        index = index.long()
    shape = () if width is None else (width,)
    x, src, grad = _tied((9, *shape), dtype), _tied((len(index), *shape), dtype), rows(9, width)
    with capped(isa), counted() as counts:
        ours = _gradients(way, reduce, include, x, index, src, grad.to(dtype))
    if reduce in ("amax", "amin"):
        assert counts.calls[f"{_op(way)}_backward.cpuaccel"] == 1
    with off():
        theirs = _gradients(way, reduce, include, x, index.long(), src, grad.to(dtype))
    for a, b in zip(ours, theirs, strict=True):
        if reduce in ("amax", "amin"):
            assert torch.equal(a, b)
        torch.testing.assert_close(a, b)
        assert_alike(a, b)


@cases_with_gradients
@includes
def test_gradients_of_nan(way: str, reduce: str, include: bool) -> None:
    index = torch.tensor([0, 0, 2, 3, 3, 3])
    x, src = torch.zeros(5, 2), rows(6, 2)
    src[0, 0], src[5, 1], x[2, 0] = float("nan"), float("nan"), float("nan")
    ours = _gradients(way, reduce, include, x, index, src, -torch.ones(5, 2))
    with off():
        theirs = _gradients(way, reduce, include, x, index, src, -torch.ones(5, 2))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@cases_with_gradients
@includes
@pytest.mark.parametrize("width", [None, 3])
def test_gradcheck(way: str, reduce: str, include: bool, width: int | None) -> None:
    index = torch.tensor([3, 0, 3, 1, 3])
    x = rows(4, width, torch.float64).requires_grad_()
    src = rows(5, width, torch.float64).requires_grad_()

    def run(a: Tensor, b: Tensor) -> Tensor:
        return WAYS[way](a, index, b, reduce, include)

    assert torch.autograd.gradcheck(run, (x, src), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(run, (x, src))


@cases_with_gradients
@pytest.mark.parametrize("needs", ["self", "src"])
def test_one_of_both_learns(way: str, reduce: str, needs: str) -> None:
    index = torch.randint(0, 6, (30,))
    x, src = _tied((6, 5)), _tied((30, 5))
    learns = x if needs == "self" else src
    learns.requires_grad_()

    def run() -> Tensor:
        y = WAYS[way](x, index, src, reduce, False)
        return torch.autograd.grad(y, learns, torch.ones_like(y))[0]

    ours = run()
    with off():
        torch.testing.assert_close(ours, run())


@cases_with_gradients
def test_same_gradients_on_any_number_of_threads(way: str, reduce: str) -> None:
    index = torch.randint(0, 700, (40_000,))
    x, src, grad = _tied((700, 20)), _tied((40_000, 20)), rows(700, 20)
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        found.append(_gradients(way, reduce, True, x, index, src, grad))
    for other in found[1:]:
        assert torch.equal(found[0][0], other[0])
        assert torch.equal(found[0][1], other[1])


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_what_is_written_over_is_noticed(reduce: str) -> None:
    index = torch.tensor([0, 1, 1])
    for changed in ("src", "result", "index"):
        src, numbers = rows(3, 4).requires_grad_(), spread(index.clone(), rows(3, 4))
        inner = src * 1
        y = torch.zeros(2, 4).scatter_reduce_(0, numbers, inner, reduce, include_self=False)
        {"src": inner.detach(), "result": y.detach(), "index": numbers[:, 0]}[changed].zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.parametrize("op", ["scatter_reduce_", "index_reduce_"])
def test_in_place_as_torch_has_it(op: str) -> None:
    """Version counters, leaves that require gradients, views, and results used in later ops."""
    index, src = torch.tensor([0, 1, 1]), rows(3, 4).requires_grad_()

    def reduced(x: Tensor) -> Tensor:
        if op == "index_reduce_":
            return x.index_reduce_(0, index, src, "amax")
        return x.scatter_reduce_(0, spread(index, src), src, "amax")

    def version() -> int:
        return reduced(torch.zeros(2, 4))._version

    def leaf() -> Tensor:
        return reduced(torch.zeros(2, 4, requires_grad=True))

    def view() -> Tensor:
        base = torch.zeros(5, 4)
        reduced(base[1:3])
        return torch.autograd.grad(base.sum(), src)[0]

    def chained() -> Tensor:
        x = torch.zeros(2, 4, requires_grad=True)
        y = x * 2
        z = reduced(y)
        assert z is y
        return torch.autograd.grad((z * z).sum(), [x, src])[1]

    for call in (version, leaf, view, chained):
        ours, theirs = same_ending(call)
        if isinstance(ours.result, Tensor):
            torch.testing.assert_close(ours.result, theirs.result)
        else:
            assert ours.result == theirs.result


def test_transformations_and_tracing() -> None:
    index, src = torch.tensor([0, 1, 1, 3]), rows(4, 3)

    def loss(s: Tensor) -> Tensor:
        y = torch.zeros(5, 3).scatter_reduce(0, spread(index, src), s, "amax", include_self=False)
        return (y * y).sum()

    def run() -> tuple[Tensor, ...]:
        batched = torch.func.vmap(torch.func.grad(loss))(torch.stack([src, -src]))
        dual = torch.func.jvp(loss, (src,), (torch.ones_like(src),))[1]
        traced = torch.fx.experimental.proxy_tensor.make_fx(torch.func.grad(loss))(src)(src)
        return torch.func.grad(loss)(src), batched, dual, traced

    ours = run()
    with off():
        theirs = run()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_compiled() -> None:
    index, src = torch.tensor([0, 1, 1, 3]), rows(4, 3).requires_grad_()

    def run(s: Tensor) -> Tensor:
        return torch.zeros(5, 3).scatter_reduce(0, spread(index, s), s, "amax", include_self=False)

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    ours = torch.autograd.grad(compiled(src).sum(), src)[0]
    torch.testing.assert_close(ours, torch.autograd.grad(run(src).sum(), src)[0])


def test_inference_mode() -> None:
    index, x, src = torch.randint(0, 6, (50,)), rows(6, 9), rows(50, 9)
    expected = x.index_reduce(0, index, src, "amax")
    with torch.inference_mode():
        got = x.index_reduce(0, index, src, "amax")
        same = x.clone().scatter_reduce_(0, spread(index, src), src, "amax")
    assert got.is_inference()
    assert torch.equal(got, expected)
    assert torch.equal(same, expected)


@includes
@pytest.mark.parametrize("way", ["scatter_reduce", "index_reduce_"])
def test_the_gradient_of_prod_is_torchs(way: str, include: bool) -> None:
    index = torch.randint(0, 5, (12,))
    given = rows(5, 3), rows(12, 3)
    given[1][4, 1] = 0.0
    grad = rows(5, 3)

    def gradients() -> tuple[Tensor, ...]:
        x, src = (each.clone().requires_grad_() for each in given)
        result: tuple[Tensor, ...] = torch.autograd.grad(
            WAYS[way](x, index, src, "prod", include), (x, src), grad
        )
        return result

    found = gradients()
    with off():
        for ours, theirs in zip(found, gradients(), strict=True):
            torch.testing.assert_close(ours, theirs)
