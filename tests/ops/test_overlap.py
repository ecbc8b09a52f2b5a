"""Results written over operands: `out=` and in place, for each op that cpuaccel overrides.

torch's products write to `out` while they read their operands. Its ops on rows reject that.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from quant._engine import needs_plugin
from torch import Tensor

from ops._floats import same_ending

pytestmark = [needs_plugin, pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")]

dtypes = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
sizes = pytest.mark.parametrize("size", [2, 40])

_PRODUCTS: dict[str, tuple[int, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "mm": (2, lambda a: torch.mm(a, a, out=a), lambda a: a @ a),
    "matmul": (2, lambda a: torch.matmul(a, a, out=a), lambda a: a @ a),
    "mm by t": (2, lambda a: torch.mm(a, a.t(), out=a), lambda a: a @ a.t()),
    "addmm": (2, lambda a: torch.addmm(a, a, a, beta=2, out=a), lambda a: 2 * a + a @ a),
    "addmm_": (2, lambda a: a.addmm_(a, a, alpha=0.5), lambda a: a + 0.5 * (a @ a)),
    "addmm of a row": (2, lambda a: torch.addmm(a[1], a, a, out=a), lambda a: a[1] + a @ a),
    "addmm of a column": (
        2,
        lambda a: torch.addmm(a[0][:, None].expand_as(a), a, a, out=a),
        lambda a: a[0][:, None] + a @ a,
    ),
    "bmm": (3, lambda a: torch.bmm(a, a, out=a), lambda a: a @ a),
    "baddbmm": (3, lambda a: torch.baddbmm(a, a, a, out=a), lambda a: a + a @ a),
    "baddbmm_": (3, lambda a: a.baddbmm_(a, a), lambda a: a + a @ a),
    "baddbmm of a row": (
        3,
        lambda a: torch.baddbmm(a[:, 1:2], a, a, out=a),
        lambda a: a[:, 1:2] + a @ a,
    ),
}


def _close(got: Tensor, exact: Tensor, dtype: torch.dtype) -> None:
    scale = exact.abs().max()
    bound = {torch.bfloat16: 3e-2, torch.float16: 4e-3}.get(dtype, 1e-5)
    torch.testing.assert_close(got.double() / scale, exact / scale, rtol=0, atol=bound)


@pytest.mark.parametrize("way", _PRODUCTS)
@dtypes
@sizes
def test_products_over_their_operands(way: str, dtype: torch.dtype, size: int) -> None:
    dims, run, exact = _PRODUCTS[way]
    a = torch.randn((3, size, size)[-dims:]).to(dtype)
    expected = exact(a.double())
    got = run(a)
    assert got is a
    _close(got, expected, dtype)


@dtypes
@sizes
def test_operands_that_overlap_in_part(dtype: torch.dtype, size: int) -> None:
    both, b = torch.randn(2 * size, size).to(dtype), torch.randn(size, size).to(dtype)
    upper, lower = both[1 : size + 1], both[:size]
    expected = upper.double() @ b.double()
    _close(torch.mm(upper, b, out=lower), expected, dtype)
    wide = torch.randn(4 * size * size).to(dtype)
    strided = torch.as_strided(wide, (size, size), (2 * size, 2))
    expected = strided.double() @ b.double()
    _close(torch.mm(strided, b, out=wide[: size * size].view(size, size)), expected, dtype)


def test_the_smallest_case() -> None:
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    torch.mm(a, a, out=a)
    assert a.tolist() == [[7.0, 10.0], [15.0, 22.0]]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out_that_grows_over_an_operand() -> None:
    a = torch.randn(6, 4)
    expected = a @ a.t()
    torch.testing.assert_close(torch.mm(a, a.t(), out=a.view(-1)[:0]), expected)
    both = torch.randn(12, 4)
    expected = both[6:] @ both[6:].t()
    torch.testing.assert_close(torch.mm(both[6:], both[6:].t(), out=both[:6]), expected)


@pytest.mark.parametrize("size", [1, 5])
def test_sparse_products_over_their_operand(size: int) -> None:
    x = torch.randn(20, size)
    matrix = (torch.randn(20, 20) * (torch.rand(20, 20) < 0.3)).to_sparse_csr()
    exact = matrix.to_dense().double() @ x.double()
    _close(torch.mm(matrix, (out := x.clone()), out=out), exact, torch.float32)
    out.copy_(x)
    _close(torch.addmm(out, matrix, out, out=out), exact + x, torch.float32)
    v = x[:, 0].clone()
    _close(torch.addmv(v, matrix, v, out=v), (exact + x)[:, 0], torch.float32)


_ROWS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_select": lambda x, i: torch.index_select(x, 0, i, out=x),
    "gather": lambda x, i: torch.gather(x, 0, i[:, None].expand_as(x), out=x),
    "scatter_add": lambda x, i: torch.scatter_add(x, 0, i[:, None].expand_as(x), x, out=x),
    "scatter_add_": lambda x, i: x.scatter_add_(0, i[:, None].expand_as(x), x),
    "scatter_add_ of a part": lambda x, i: x[:3].scatter_add_(
        0, i[1:, None].expand(3, 4) % 3, x[1:]
    ),
    "index_add": lambda x, i: torch.index_add(x, 0, i, x, out=x),
    "index_add_": lambda x, i: x.index_add_(0, i, x),
    "scatter_reduce": lambda x, i: torch.scatter_reduce(
        x, 0, i[:, None].expand_as(x), x, "amax", out=x
    ),
    "scatter_reduce_": lambda x, i: x.scatter_reduce_(0, i[:, None].expand_as(x), x, "sum"),
    "index_reduce": lambda x, i: torch.index_reduce(x, 0, i, x, "amin", out=x),
    "index_reduce_": lambda x, i: x.index_reduce_(0, i, x, "mean"),
    "index_put_": lambda x, i: x.index_put_((i,), x, accumulate=True),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("op", _ROWS)
def test_ops_on_rows_raise_as_torch_does(op: str) -> None:
    x = torch.randn(4, 4)
    ours, theirs = same_ending(lambda: _ROWS[op](x.clone(), torch.tensor([3, 2, 1, 0])))
    assert theirs.error is not None
    assert ours.error is not None
