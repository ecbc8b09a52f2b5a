"""Gradients of products with sparse matrices: gradcheck, float64, and torch's own kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ops._compare import capped, isas
from quant._engine import counted, needs_plugin, off
from torch import Tensor

from gnn._graphs import csr, graphs, index_dtypes, quiet, reductions, unchecked

pytestmark = [needs_plugin, *quiet]


@reductions
@index_dtypes
def test_gradcheck(reduce: str, index: torch.dtype) -> None:
    # Sorted and without duplicate columns: otherwise torch has no gradient of the matrix
    # constructor.
    crow, col = (
        torch.tensor([0, 2, 2, 6, 7]).to(index),
        torch.tensor([1, 4, 0, 2, 3, 4, 1]).to(index),
    )

    def by_values(values: Tensor, x: Tensor) -> Tensor:
        return torch.sparse.mm(unchecked(crow, col, values, (4, 5)), x, reduce)

    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    values = torch.randn(7, dtype=torch.float64, requires_grad=True)
    with counted() as counts:
        assert torch.autograd.gradcheck(by_values, (values, x))
    assert counts.calls["sparse_mm_reduce_backward.cpuaccel"] > 0
    assert not [name for name in counts.fallbacks if name.startswith("sparse_mm")]


_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "csr": lambda matrix: matrix,
    "csc": lambda matrix: matrix.t(),
    "coo": lambda matrix: matrix.to_sparse_coo().coalesce(),
}


@pytest.mark.parametrize("layout", _LAYOUTS)
@index_dtypes
def test_gradcheck_of_products(layout: str, index: torch.dtype) -> None:
    operand = _LAYOUTS[layout](csr(torch.tensor([2, 0, 4]), 5, torch.float64, index))
    x = torch.randn(operand.shape[1], 3, dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros(operand.shape[0], 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: operand @ x, (x,))
    assert torch.autograd.gradcheck(lambda x: torch.sparse.mm(operand, x), (x,))
    assert torch.autograd.gradcheck(lambda x: torch.addmm(zeros, operand, x, beta=0), (x,))


@index_dtypes
def test_gradcheck_of_products_by_values(index: torch.dtype) -> None:
    crow, col = torch.tensor([0, 2, 2, 4]).to(index), torch.tensor([1, 4, 0, 2]).to(index)
    values = torch.randn(4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    run = lambda values, x: torch.sparse.mm(unchecked(crow, col, values, (3, 5)), x)  # noqa: E731
    assert torch.autograd.gradcheck(run, (values, x))


def _gradients(matrix: Tensor, x: Tensor, grad: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    values, source = matrix.detach().requires_grad_(), x.detach().requires_grad_()
    y = torch.sparse.mm(values, source, reduce)
    of_values, of_x = torch.autograd.grad(y, [values, source], grad)
    assert of_values.layout == torch.sparse_csr
    return of_values.values(), of_x


@isas
@reductions
@given(data=st.data())
def test_against_torch(isa: str, reduce: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    matrix = data.draw(graphs(dtype))
    columns = data.draw(st.integers(1, 40))
    # Whole numbers: sums are exact in any order, and many of them are equal.
    matrix.values().copy_(torch.randint(-3, 4, matrix.values().shape))
    x = torch.randint(-3, 4, (matrix.shape[1], columns)).to(dtype)
    grad = torch.randint(-3, 4, (matrix.shape[0], columns)).to(dtype)
    if reduce == "mean":
        grad = grad * 0.5
    with capped(isa):
        ours = _gradients(matrix, x, grad, reduce)
    with off():
        theirs = _gradients(matrix, x, grad, reduce)
    for a, b in zip(ours, theirs, strict=True):
        if reduce == "mean":
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)
        else:
            assert torch.equal(a, b)


@reductions
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bits_against_float64(reduce: str, dtype: torch.dtype) -> None:
    matrix = csr(torch.tensor([3, 0, 70, 1, 20]), 30, dtype)
    x, grad = torch.randn(30, 19).to(dtype), torch.randn(5, 19).to(dtype)
    with counted() as counts:
        got = _gradients(matrix, x, grad, reduce)
    assert not [name for name in counts.fallbacks if name.startswith("sparse_mm")]
    # The same entries are selected: products of 16-bit numbers are exact in float64.
    exact = _gradients(matrix.double(), x.double(), grad.double(), reduce)
    tolerance = 2 * torch.finfo(dtype).eps
    for a, b in zip(got, exact, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=1e-4 + tolerance)


def test_nan_goes_where_torch_sends_it() -> None:
    matrix = csr(torch.tensor([4, 9, 1]), 6)
    x = torch.randn(6, 8)
    x[torch.rand(x.shape) < 0.3] = float("nan")
    grad = torch.randn(3, 8)
    for reduce in ("amax", "amin"):
        ours = _gradients(matrix, x, grad, reduce)
        with off():
            theirs = _gradients(matrix, x, grad, reduce)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)])
def test_only_what_is_asked_for(wanted: tuple[bool, bool]) -> None:
    matrix, x, grad = csr(torch.tensor([2, 0, 3]), 4), torch.randn(4, 5), torch.randn(3, 5)
    backward = torch.ops.aten._sparse_mm_reduce_impl_backward
    for reduce in ("sum", "amax"):
        needs = x.clone().requires_grad_()
        arg = torch.ops.aten._sparse_mm_reduce_impl(matrix, needs, reduce)[1]
        ours = backward(matrix, grad, x, reduce, arg, wanted)
        with off():
            theirs = backward(matrix, grad, x, reduce, arg, wanted)
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(
                    a.to_dense() if a.layout == torch.sparse_csr else a,
                    b.to_dense() if b.layout == torch.sparse_csr else b,
                )
