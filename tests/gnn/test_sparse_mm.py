"""Products of CSR or CSC and dense matrices: against float64 and torch's own kernels."""

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

from gnn._graphs import csr, dense, graphs, index_dtypes, quiet, reduced, reductions

pytestmark = [needs_plugin, *quiet]

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def _bound(matrix: Tensor, x: Tensor, exact: Tensor, reduce: str) -> Tensor:
    """The rounding error of the result, and of the sum of a row's terms."""
    longest = int(matrix.crow_indices().diff().max()) + 2
    inner = eps(torch.float64 if x.dtype == torch.float64 else torch.float32)
    sizes = torch.zeros_like(exact)
    if reduce in ("sum", "mean"):
        absolute = matrix.clone()
        absolute.values().abs_()
        sizes = reduced(absolute, x.abs(), reduce)
    tiny = torch.finfo(x.dtype).smallest_normal * eps(x.dtype)
    return longest * inner * sizes + eps(x.dtype) * exact.abs() + tiny


@isas
@reductions
@given(data=st.data())
def test_reductions_against_float64(isa: str, reduce: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(_DTYPES))
    matrix = data.draw(graphs(dtype))
    x = torch.randn(matrix.shape[1], data.draw(st.integers(1, 70)), dtype=torch.float64).to(dtype)
    with capped(isa), counted() as counts:
        got = torch.sparse.mm(matrix, x, reduce)
    entries = matrix.values().numel()
    assert counts.calls == ({"sparse_mm_reduce.cpuaccel": 1} if entries else {})
    exact = reduced(matrix, x, reduce)
    assert_near(got, exact, _bound(matrix, x, exact, reduce))
    with off():
        assert_alike(got, torch.sparse.mm(matrix, x, reduce))


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@index_dtypes
def test_extremes_are_torchs_bit_for_bit(reduce: str, index: torch.dtype) -> None:
    matrix = csr(torch.tensor([3, 0, 700, 1, 40]), 60, index=index)
    x = torch.randn(60, 33)
    x[torch.rand(x.shape) < 0.1] = float("nan")
    x[torch.rand(x.shape) < 0.1] = -float("inf")
    impl = torch.ops.aten._sparse_mm_reduce_impl
    needs = x.clone().requires_grad_()
    for each in (x, needs):
        ours = impl(matrix, each, reduce)
        with off():
            theirs = impl(matrix, each, reduce)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        assert_alike(ours, theirs)


_PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": lambda a, x: a @ x,
    "sparse.mm": torch.sparse.mm,
    "addmm": lambda a, x: torch.addmm(torch.full((1,), float("nan")).to(x), a, x, beta=0),
    "out": lambda a, x: torch.mm(a, x, out=x.new_full((a.shape[0], x.shape[1]), float("nan"))),
    "addmm.out": lambda a, x: torch.addmm(
        x.new_zeros(()), a, x, beta=0, out=x.new_full((a.shape[0], x.shape[1]), float("nan"))
    ),
}


@pytest.mark.parametrize("way", _PRODUCTS)
@given(data=st.data())
def test_products_against_float64(way: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    matrix = data.draw(graphs(dtype))
    columns = data.draw(st.integers(1, 40))
    transposed = data.draw(st.booleans())
    operand = matrix.t() if transposed else matrix
    x = torch.randn(operand.shape[1], columns, dtype=dtype)
    layout = data.draw(st.sampled_from(["dense", "transposed", "sliced", "expanded"]))
    if layout == "transposed":
        x = x.t().contiguous().t()
    elif layout == "sliced":
        x = torch.randn(x.shape[0], columns + 5, dtype=dtype)[:, 2 : 2 + columns]
    elif layout == "expanded":
        x = x[:, :1].expand(-1, columns)
    with counted() as counts:
        got = _PRODUCTS[way](operand, x)
    if matrix.values().numel():
        assert counts.calls == {"sparse_mm.cpuaccel": 1}
    whole = dense(matrix).t() if transposed else dense(matrix)
    exact = whole @ x.double()
    absolute = matrix.clone()
    absolute.values().abs_()
    sizes = (dense(absolute).t() if transposed else dense(absolute)) @ x.double().abs()
    assert_near(got, exact, 8000 * eps(dtype) * sizes + 1e-30)
    with off():
        assert_alike(got, _PRODUCTS[way](operand, x))


@index_dtypes
@pytest.mark.parametrize("shape", [(0, 4), (3, 4), (3, 0)])
def test_nothing(shape: tuple[int, int], index: torch.dtype) -> None:
    matrix = csr(torch.zeros(shape[0], dtype=torch.int64), shape[1], index=index)
    for columns in (0, 3):
        x = torch.randn(shape[1], columns)
        for reduce in ("sum", "mean", "amax", "amin"):
            ours, theirs = same_ending(lambda x=x, r=reduce: torch.sparse.mm(matrix, x, r))
            assert torch.equal(ours.result, theirs.result)
        ours, theirs = same_ending(lambda x=x: matrix @ x)
        assert torch.equal(ours.result, theirs.result)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [1, 20, 130])
def test_same_bits_on_any_number_of_threads(columns: int, dtype: torch.dtype) -> None:
    degrees = torch.full((2000,), 13)
    degrees[5], degrees[1990] = 40000, 9000
    matrix = csr(degrees, 900, dtype)
    x = torch.randn(900, columns).to(dtype).requires_grad_()
    values = matrix.detach().clone().requires_grad_()

    def everything() -> list[Tensor]:
        found: list[Tensor] = []
        if dtype != torch.bfloat16:  # torch has no such product
            ones = torch.ones(2000, columns, dtype=dtype)
            found += [matrix @ x.detach(), matrix.t() @ ones]
        for reduce in ("sum", "mean", "amax", "amin"):
            y = torch.sparse.mm(values, x, reduce)
            of_values, of_x = torch.autograd.grad(y.square().sum(), [values, x])
            found += [y.detach(), of_values.values(), of_x]
        return found

    import cpuaccel

    found = []
    for threads in (1, 2, 3, 4):
        torch.set_num_threads(threads)
        cpuaccel.clear_caches()
        found.append(everything())
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_more_places_than_2_to_the_31() -> None:
    """torch computes offsets in the index type: its gradients are wrong from 2^31 elements on."""
    nodes = 70_000
    row = torch.tensor([0, 1, 69_999], dtype=torch.int32)
    crow = torch.bucketize(torch.arange(nodes + 1), row.long()).to(torch.int32)
    col = torch.tensor([69_999, 5, 69_998], dtype=torch.int32)
    matrix = torch.sparse_csr_tensor(
        crow, col, torch.tensor([2.0, 3.0, 4.0]), (nodes, nodes), check_invariants=True
    )
    x = torch.randn(nodes, 3, requires_grad=True)
    grad = torch.randn(nodes, 3)
    for reduce in ("sum", "mean", "amax"):
        (got,) = torch.autograd.grad(torch.sparse.mm(matrix, x, reduce), x, grad)
        exact = torch.zeros(nodes, 3)
        exact[col.long()] = matrix.values()[:, None] * grad[row.long()]
        assert torch.equal(got, exact)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, x: torch.sparse.mm(a, x[:-1], "sum"),
        lambda a, x: torch.sparse.mm(a, x[:, 0], "sum"),
        lambda a, x: torch.sparse.mm(a, x.double(), "sum"),
        lambda a, x: torch.sparse.mm(a, x, "prod"),
        lambda a, x: torch.sparse.mm(a, x, "median"),
        lambda a, x: torch.sparse.mm(a.t(), x.t(), "sum"),
        lambda a, x: torch.ops.aten._sparse_mm_reduce_impl(a.t(), x.new_ones(3, 2), "sum"),
        lambda a, x: a @ x[:-1],
        lambda a, x: a @ x.double(),
        lambda a, x: a.to(torch.complex64) @ x,
        lambda a, x: torch.addmv(x[:2, 0], a, x[:, 0]),
        lambda a, x: a @ x[:-1, 0],
        lambda a, x: a @ x[:, 0].double(),
        lambda a, x: torch.addmm(x.new_ones(3), a, x),
        lambda a, x: torch.mm(a, x, out=x.new_ones(3, 2, dtype=torch.float64)),
    ],
)
def test_torch_says_what_is_wrong(call: Callable[[Tensor, Tensor], Tensor]) -> None:
    matrix, x = csr(torch.tensor([2, 0, 3]), 4), torch.randn(4, 2)
    with counted() as counts:
        same_ending(lambda: call(matrix, x))
    assert not counts.calls


_SUMS: dict[str, Callable[..., Tensor]] = {
    "addmm": lambda c, a, x, **scales: torch.addmm(c, a, x, **scales),
    "addmm_": lambda c, a, x, **scales: c.clone().addmm_(a, x, **scales),
    "addmm.out": lambda c, a, x, **scales: torch.addmm(
        c, a, x, **scales, out=x.new_full((a.shape[0], x.shape[1]), float("nan"))
    ),
    "sparse.addmm": lambda c, a, x, **scales: torch.sparse.addmm(c, a, x, **scales),
}


@pytest.mark.parametrize("way", _SUMS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_of_a_product_and_a_matrix(way: str, transposed: bool, dtype: torch.dtype) -> None:
    matrix = csr(torch.tensor([2, 0, 3]), 4, dtype)
    whole = dense(matrix).t() if transposed else dense(matrix)
    operand = matrix.t() if transposed else matrix
    x = torch.randn(whole.shape[1], 2, dtype=dtype)
    for size in ((whole.shape[0], 2), (1, 2), (2,)):
        c = torch.randn(size, dtype=dtype)
        if way == "addmm_":
            c = c.expand(whole.shape[0], 2).contiguous()
        with counted() as counts:
            got = _SUMS[way](c, operand, x, beta=2, alpha=0.5)
        assert counts.calls == {"sparse_mm.cpuaccel": 1}
        exact = 2 * c.double() + 0.5 * whole @ x.double()
        torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-5)


def test_gradients_of_what_is_added() -> None:
    matrix = csr(torch.tensor([2, 0, 3]), 4, torch.float64)
    c = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    run = lambda c, x: torch.addmm(c, matrix, x, beta=2, alpha=0.5)  # noqa: E731
    assert torch.autograd.gradcheck(run, (c, x))


_VECTORS: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], float, float]] = {
    "A @ v": (lambda a, v, c: a @ v, 0, 1),
    "mv": (lambda a, v, c: torch.mv(a, v), 0, 1),
    "addmv": (lambda a, v, c: torch.addmv(c, a, v, beta=2, alpha=0.5), 2, 0.5),
    "addmv of nan": (lambda a, v, c: torch.addmv(c * float("nan"), a, v, beta=0), 0, 1),
    "addmv of a number": (lambda a, v, c: torch.addmv(c[:1], a, v), 1, 1),
    "addmv_": (lambda a, v, c: c.clone().addmv_(a, v, beta=2), 2, 1),
    "out": (lambda a, v, c: torch.addmv(c, a, v, out=torch.empty(2 * len(c)).to(c)[::2]), 1, 1),
}


@pytest.mark.parametrize("way", _VECTORS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
def test_products_of_vectors(way: str, transposed: bool, dtype: torch.dtype) -> None:
    matrix = csr(torch.tensor([2, 0, 30, 1]), 7, dtype)
    whole = dense(matrix).t() if transposed else dense(matrix)
    operand = matrix.t() if transposed else matrix
    for v in (
        torch.randn(whole.shape[1]).to(dtype),
        torch.randn(2 * whole.shape[1]).to(dtype)[::2],
        torch.randn(1).to(dtype).expand(whole.shape[1]),
    ):
        c = torch.randn(whole.shape[0]).to(dtype)
        run, beta, alpha = _VECTORS[way]
        with counted() as counts:
            got = run(operand, v, c)
        assert counts.calls == {"sparse_mm.cpuaccel": 1}
        added = c[:1].expand_as(c) if way == "addmv of a number" else c
        exact = beta * added.double() + alpha * whole @ v.double()
        bound = {torch.bfloat16: 3e-2, torch.float16: 4e-3}.get(dtype, 1e-5)
        torch.testing.assert_close(got.double(), exact, rtol=bound, atol=bound * 10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("way", [*_PRODUCTS, "beta"])
@pytest.mark.parametrize("columns", [1, 3, 20])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_16_bits(way: str, dtype: torch.dtype, columns: int, transposed: bool) -> None:
    """torch has no kernel for these except torch.sparse.mm(A, x, reduce)."""
    matrix = csr(torch.tensor([2, 0, 40, 1, 9]), 30, dtype)
    whole = dense(matrix).t() if transposed else dense(matrix)
    operand = matrix.t() if transposed else matrix
    x = torch.randn(whole.shape[1], columns).to(dtype)
    exact = whole @ x.double()
    if way == "beta":
        got = torch.addmm(x[:1], operand, x, beta=2)
        exact = exact + 2 * x[:1].double()
    else:
        got = _PRODUCTS[way](operand, x)
    assert got.dtype == dtype
    bound = 2e-2 if dtype == torch.bfloat16 else 3e-3
    torch.testing.assert_close(got.double(), exact, rtol=bound, atol=bound)
    if way == "matmul" and not transposed:
        assert torch.equal(got, torch.sparse.mm(matrix, x, "sum"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_16_bits(dtype: torch.dtype) -> None:
    matrix = csr(torch.tensor([2, 0, 40, 1, 9]), 30, dtype)
    x = torch.randn(30, 8).to(dtype).requires_grad_()
    grad = torch.randn(5, 8).to(dtype)
    (got,) = torch.autograd.grad(matrix @ x, x, grad)
    exact = dense(matrix).t() @ grad.double()
    torch.testing.assert_close(got.double(), exact, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_products_of_nothing(dtype: torch.dtype) -> None:
    empty = csr(torch.zeros(3, dtype=torch.int64), 4, dtype)
    assert torch.equal(empty @ torch.ones(4, 2, dtype=dtype), torch.zeros(3, 2, dtype=dtype))
    assert torch.equal(empty @ torch.ones(4, dtype=dtype), torch.zeros(3, dtype=dtype))
    got = torch.addmv(torch.ones(3, dtype=dtype), empty, torch.ones(4, dtype=dtype), beta=2)
    assert torch.equal(got, torch.full((3,), 2, dtype=dtype))
