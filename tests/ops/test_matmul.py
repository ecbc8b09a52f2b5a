"""mm, bmm, addmm and baddbmm on operands of any layout, against the same product in float64."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_plugin, off

from ops._floats import DTYPES, assert_alike, dtypes, on, providers
from ops._products import ADDENDS, FACTORS, LAYOUTS, Product, addend, matrix, products

pytestmark = needs_plugin

_KINDS = [(batched, added) for batched in (False, True) for added in (False, True)]
kinds = pytest.mark.parametrize(("batched", "added"), _KINDS, ids=["mm", "addmm", "bmm", "baddbmm"])


@providers
@kinds
@given(data=st.data())
def test_results(batched: bool, added: bool, provider: str, data: st.DataObject) -> None:
    product = data.draw(products(batched=batched, added=added))
    with on(provider):
        ours = product.call()
    with off():
        theirs = product.call()
    assert_alike(ours, theirs)
    product.check(ours)


@providers
@kinds
@given(data=st.data())
def test_out(batched: bool, added: bool, provider: str, data: st.DataObject) -> None:
    """Results of any layout; no other element of their memory is written."""
    product = data.draw(products(batched=batched, added=added))
    layout = data.draw(st.sampled_from([name for name in LAYOUTS if "expanded" not in name]))
    out = matrix(product.shape, layout, product.a.dtype, 5)
    around = torch.as_strided(out, (out.untyped_storage().nbytes() // out.element_size(),), (1,), 0)
    expected = around.clone()
    out.fill_(float("nan"))
    with on(provider):
        result = product.call(out=out)
    assert result is out
    product.check(out)
    written = torch.as_strided(expected, out.shape, out.stride(), out.storage_offset())
    written.copy_(out)
    assert torch.equal(around, expected)


@providers
@pytest.mark.parametrize("batched", [False, True], ids=["addmm_", "baddbmm_"])
@given(data=st.data())
def test_in_place(batched: bool, provider: str, data: st.DataObject) -> None:
    drawn = data.draw(products(batched=batched, added=True))
    layout = data.draw(st.sampled_from([name for name in LAYOUTS if "expanded" not in name]))
    whole = matrix(drawn.shape, layout, drawn.a.dtype, 5)
    product = Product(drawn.a, drawn.b, whole, alpha=drawn.alpha, beta=drawn.beta)
    with on(provider):
        product.check(product.call_in_place())


@providers
@dtypes
@pytest.mark.parametrize("layouts", itertools.product(LAYOUTS, LAYOUTS), ids=" by ".join)
def test_every_pair_of_layouts(layouts: tuple[str, str], dtype: torch.dtype, provider: str) -> None:
    """Sizes that kernels for one row or few columns do not take."""
    a, b = matrix((33, 130), layouts[0], dtype, 1), matrix((130, 48), layouts[1], dtype, 2)
    with on(provider):
        Product(a, b).check(torch.mm(a, b))
        batched = Product(a.expand(2, 33, 130), b.expand(2, 130, 48))
        batched.check(batched.call())


@providers
@dtypes
@pytest.mark.parametrize("form", ADDENDS)
@pytest.mark.parametrize("lead", [(), (3,)], ids=["addmm", "baddbmm"])
def test_every_addend_and_factor(
    lead: tuple[int, ...], form: str, dtype: torch.dtype, provider: str
) -> None:
    """alpha and beta are integers in some cases, and 0 in some."""
    a, b = matrix((*lead, 20, 70), "dense", dtype, 1), matrix((*lead, 70, 35), "dense", dtype, 2)
    c = addend((*lead, 20, 35), form, dtype, 3)
    for alpha, beta in itertools.product(FACTORS, FACTORS):
        product = Product(a, b, c, alpha=alpha, beta=beta)
        with on(provider):
            product.check(product.call())


@providers
@pytest.mark.parametrize("which", ["M", "N", "K"])
def test_tails(which: str, provider: str) -> None:
    """Every size from 1 to 70 in one dimension, beside sizes that no tile divides."""
    for size, dtype in itertools.product(range(1, 71), DTYPES):
        M, N, K = (
            size if which == name else other
            for name, other in zip("MNK", (19, 37, 45), strict=True)
        )
        product = Product(
            matrix((M, K), "dense", dtype, size),
            matrix((N, K), "dense", dtype, size + 1).mT,
            addend((M, N), "row", dtype, size + 2),
        )
        with on(provider):
            product.check(product.call())
            product.check(torch.nn.functional.linear(product.a, product.b.mT, product.added))


@providers
@dtypes
def test_results_repeat_to_the_bit(dtype: torch.dtype, provider: str) -> None:
    a, b = matrix((65, 300), "dense", dtype, 1), matrix((300, 130), "transposed", dtype, 2)
    c = addend((65, 130), "row", dtype, 3)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        with on(provider):
            first = torch.addmm(c, a, b)
            assert all(torch.equal(first, torch.addmm(c, a, b)) for _ in range(5))
            Product(a, b, c).check(first)


@providers
@dtypes
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 512, 512), (200, 256, 300), (512, 512, 1)], ids=str)
def test_threads(
    shape: tuple[int, int, int], threads: int, dtype: torch.dtype, provider: str
) -> None:
    """Sizes that are split over threads."""
    M, K, N = shape
    torch.set_num_threads(threads)
    product = Product(matrix((M, K), "dense", dtype, 1), matrix((K, N), "transposed", dtype, 2))
    with on(provider):
        product.check(product.call())
