"""Matrix products of empty operands, of NaN and infinities, and of memory that must not be read."""

import itertools
from collections.abc import Callable

import pytest
import torch
from quant._engine import needs_plugin, off
from torch import Tensor

from cpuaccel import _native
from ops._floats import DTYPES, assert_alike, dtypes, on, providers, same_ending
from ops._products import Product, matrix

pytestmark = needs_plugin

NAN, INF = float("nan"), float("inf")


@providers
@dtypes
@pytest.mark.parametrize("batch", [None, 0, 2])
@pytest.mark.parametrize("empty", [s for n in (1, 2, 3) for s in itertools.combinations("MKN", n)])
def test_empty(
    empty: tuple[str, ...], batch: int | None, dtype: torch.dtype, provider: str
) -> None:
    """A product with K = 0 is 0; the addend remains, times beta, or 0 if beta is 0."""
    M, K, N = (0 if name in empty else size for name, size in zip("MKN", (5, 7, 6), strict=True))
    lead = () if batch is None else (batch,)
    a, b = matrix((*lead, M, K), "dense", dtype, 1), matrix((*lead, K, N), "dense", dtype, 2)
    c = matrix((*lead, M, N), "dense", dtype, 3)
    for product in (Product(a, b), *(Product(a, b, c, beta=beta) for beta in (0, 1, 0.5, -2))):
        with on(provider):
            ours = product.call()
            product.check(product.call(out=torch.full_like(c, NAN)))
        with off():
            assert_alike(ours, product.call())
        product.check(ours)


@providers
@dtypes
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("value", [NAN, INF])
def test_beta_of_0_ignores_what_is_added(
    value: float, batched: bool, dtype: torch.dtype, provider: str
) -> None:
    lead = (2,) if batched else ()
    a, b = matrix((*lead, 40, 50), "dense", dtype, 1), matrix((*lead, 50, 60), "dense", dtype, 2)
    c = torch.full((*lead, 40, 60), value, dtype=dtype)
    product = Product(a, b, c, beta=0)
    with on(provider):
        product.check(product.call())
        product.check(product.call(out=c.clone()))
        product.check(product.call_in_place())


_SPECIAL: dict[str, Callable[[Tensor, Tensor, Tensor], None]] = {
    "NaN in a": lambda a, b, c: a[3, 4].fill_(NAN),
    "NaN in b": lambda a, b, c: b[4, 3].fill_(NAN),
    "NaN in c": lambda a, b, c: c[4, 3].fill_(NAN),
    "Inf in a": lambda a, b, c: a[3, 4].fill_(INF),
    "Inf times 0": lambda a, b, c: (a[3, 4].fill_(INF), b[4].zero_()),
    "Inf less Inf": lambda a, b, c: (a[3, 4:6].fill_(INF), b[4].fill_(1), b[5].fill_(-1)),
    "Inf in both": lambda a, b, c: (a[3, 4].fill_(INF), c[3].fill_(-INF)),
}


@providers
@dtypes
@pytest.mark.parametrize("shape", [(1, 40, 60), (40, 50, 60), (40, 50, 1)], ids=str)
@pytest.mark.parametrize("special", _SPECIAL)
def test_nan_and_infinity_spread(
    special: str, shape: tuple[int, int, int], dtype: torch.dtype, provider: str
) -> None:
    """They reach the values that depend on them, and no others."""
    M, K, N = shape
    # Views of larger matrices: at least one row and column more than the product has.
    a, b, c = (matrix((64, 64), "dense", dtype, seed) for seed in range(3))
    _SPECIAL[special](a, b, c)
    rows = slice(3, 3 + M)
    columns = slice(3, 3 + N)
    product = Product(a[rows, :K], b[:K, columns], c[rows, columns])
    exact = product.exact()
    with on(provider):
        result = product.call()
    assert torch.equal(result.isnan(), exact.isnan())
    assert torch.equal(result.isposinf(), exact == INF)
    assert torch.equal(result.isneginf(), exact == -INF)


@providers
@dtypes
def test_alpha_of_0(dtype: torch.dtype, provider: str) -> None:
    """torch multiplies by it, or skips the product; the result is torch's either way."""
    a, b, c = (matrix((20, 20), "dense", dtype, seed) for seed in range(3))
    with on(provider):
        assert torch.equal(torch.addmm(c, a, b, alpha=0), c)
        assert torch.equal(torch.addmm(c, a, b, alpha=0, beta=0), torch.zeros_like(c))


@providers
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_are_not_of_16_bits(dtype: torch.dtype, provider: str) -> None:
    """4096 ones and a large number whose neighbors are more than 1 apart."""
    a = torch.ones(17, 4097, dtype=dtype)
    a[:, 0] = 4096
    b = torch.ones(4097, 33, dtype=dtype)
    with on(provider):
        assert torch.equal(torch.mm(a, b), torch.full((17, 33), 8192, dtype=dtype))


@providers
def test_float16_overflows_to_infinity_at_the_end_only(provider: str) -> None:
    a = torch.full((17, 64), 200.0, dtype=torch.float16)
    b = torch.full((64, 33), 200.0, dtype=torch.float16)
    with on(provider):
        assert torch.equal(torch.mm(a, b), torch.full((17, 33), INF, dtype=torch.float16))
        b[32:] = -200
        assert torch.equal(torch.mm(a, b), torch.zeros(17, 33, dtype=torch.float16))


@providers
@dtypes
def test_tiny_values_are_not_flushed(dtype: torch.dtype, provider: str) -> None:
    tiny = torch.finfo(dtype).smallest_normal / 4
    a = torch.full((17, 16), tiny, dtype=dtype)
    b = torch.eye(16, dtype=dtype)
    has_bf16 = {"avx512bf16", "bf16"} & set(_native.load().cpu_features())
    if dtype == torch.bfloat16 and has_bf16:
        pytest.skip("AVX512-BF16 counts what is below 2^-126 as 0, in torch's kernels as in ours")
    with on(provider):
        assert torch.equal(torch.mm(a, b), a)


@providers
def test_an_offset_past_2_gib(provider: str) -> None:
    """Rows so far apart that their byte offsets do not fit into 32 bits."""
    stride = 2**28 + 7
    storage = torch.empty(3 * stride, dtype=torch.float32)
    a = torch.as_strided(storage, (4, 64), (stride - 64, 1))[:3]
    a.copy_(matrix((3, 64), "dense", torch.float32, 1))
    product = Product(a, matrix((64, 48), "dense", torch.float32, 2))
    with on(provider):
        product.check(product.call())


_WRONG: dict[str, Callable[[torch.dtype], Tensor]] = {
    "mm inner": lambda t: torch.mm(torch.ones(2, 3, dtype=t), torch.ones(4, 5, dtype=t)),
    "mm of a vector": lambda t: torch.mm(torch.ones(3, dtype=t), torch.ones(3, 5, dtype=t)),
    "mm of a batch": lambda t: torch.mm(torch.ones(2, 2, 3, dtype=t), torch.ones(3, 5, dtype=t)),
    "mm of batches": lambda t: torch.mm(torch.ones(2, 2, 3, dtype=t), torch.ones(2, 3, 5, dtype=t)),
    "addmm of batches": lambda t: torch.addmm(
        torch.ones(5, dtype=t), torch.ones(2, 2, 3, dtype=t), torch.ones(2, 3, 5, dtype=t)
    ),
    "baddbmm of matrices": lambda t: torch.baddbmm(
        torch.ones(5, dtype=t), torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t)
    ),
    "bmm_out of matrices": lambda t: torch.bmm(
        torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t), out=torch.ones(2, 5, dtype=t)
    ),
    "mm_out of batches": lambda t: torch.mm(
        torch.ones(2, 2, 3, dtype=t),
        torch.ones(2, 3, 5, dtype=t),
        out=torch.ones(2, 2, 5, dtype=t),
    ),
    "mm of two types": lambda t: torch.mm(torch.ones(2, 3, dtype=t), torch.ones(3, 5).double()),
    "mm of int": lambda t: torch.mm(torch.ones(2, 3, dtype=t), torch.ones(3, 5).int()),
    "mm of meta": lambda t: torch.mm(
        torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t, device="meta")
    ),
    "mm of sparse": lambda t: torch.mm(
        torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t).to_sparse()
    ),
    "bmm batch": lambda t: torch.bmm(torch.ones(2, 3, 4, dtype=t), torch.ones(3, 4, 5, dtype=t)),
    "bmm inner": lambda t: torch.bmm(torch.ones(2, 3, 4, dtype=t), torch.ones(2, 5, 5, dtype=t)),
    "bmm of matrices": lambda t: torch.bmm(torch.ones(3, 4, dtype=t), torch.ones(4, 5, dtype=t)),
    "addmm addend": lambda t: torch.addmm(
        torch.ones(4, dtype=t), torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t)
    ),
    "addmm addend of three": lambda t: torch.addmm(
        torch.ones(1, 2, 5, dtype=t), torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t)
    ),
    "addmm addend of another type": lambda t: torch.addmm(
        torch.ones(5).double(), torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t)
    ),
    "addmm_ of another shape": lambda t: torch.ones(5, dtype=t).addmm_(
        torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t)
    ),
    "addmm_ of an expanded": lambda t: (
        torch.ones(1, 5, dtype=t)
        .expand(2, 5)
        .addmm_(torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t))
    ),
    "baddbmm addend": lambda t: torch.baddbmm(
        torch.ones(3, 1, 1, dtype=t), torch.ones(2, 3, 4, dtype=t), torch.ones(2, 4, 5, dtype=t)
    ),
    "complex alpha": lambda t: torch.addmm(
        torch.ones(5, dtype=t), torch.ones(2, 3, dtype=t), torch.ones(3, 5, dtype=t), alpha=1j
    ),
    "linear bias": lambda t: torch.nn.functional.linear(
        torch.ones(2, 3, dtype=t), torch.ones(5, 3, dtype=t), torch.ones(4, dtype=t)
    ),
    "linear of two types": lambda t: torch.nn.functional.linear(
        torch.ones(2, 3, dtype=t), torch.ones(5, 3).double()
    ),
    "matmul": lambda t: torch.matmul(torch.ones(2, 3, dtype=t), torch.ones(2, 3, dtype=t)),
}


@providers
@pytest.mark.parametrize("wrong", _WRONG)
def test_errors_are_torch_s(wrong: str, provider: str) -> None:
    for dtype in DTYPES:
        ours, _ = same_ending(lambda t=dtype: _WRONG[wrong](t), provider)
        # torch accepts these two, and computes nothing for the second.
        assert ours.error is not None or wrong in ("mm of sparse", "mm of meta")
