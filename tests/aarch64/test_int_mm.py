"""torch._int_mm on cpuaccel's kernel: exact, for all strides."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import cpuaccel
from aarch64._int8 import counted, generator


def matrix(rows: int, columns: int, layout: str, seed: int) -> Tensor:
    """Return int8 over its whole range: dense, transposed, every other column, or rows apart."""

    def draw(*shape: int) -> Tensor:
        return torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator(seed))

    if layout == "transposed":
        return draw(columns, rows).t()
    if layout == "every other":
        return draw(rows, 2 * columns)[:, ::2]
    if layout == "apart":
        return draw(rows, columns + 5)[:, 3:-2]
    return draw(rows, columns)


layouts = st.sampled_from(("dense", "transposed", "every other", "apart"))
sizes = st.tuples(st.integers(1, 40), st.integers(1, 150), st.integers(1, 70))


@settings(max_examples=30)
@given(sizes=sizes, of=layouts, by=layouts)
def test_exact(sizes: tuple[int, int, int], of: str, by: str) -> None:
    M, K, N = sizes
    a, b = matrix(M, K, of, 1), matrix(K, N, by, 2)
    with counted("int_mm.cpuaccel"):
        found = torch._int_mm(a, b)
    assert found.dtype == torch.int32
    assert found.stride() == (N, 1)
    assert torch.equal(found, (a.double() @ b.double()).int())


def test_out() -> None:
    a, b, out = matrix(5, 64, "dense", 1), matrix(64, 9, "dense", 2), torch.empty(5, 9).int()
    with counted("int_mm.cpuaccel"):
        assert torch._int_mm(a, b, out=out) is out
    assert torch.equal(out, (a.double() @ b.double()).int())


def test_sums_beyond_int32_wrap_as_torchs() -> None:
    a = torch.full((1, 140000), -128, dtype=torch.int8)
    found = torch._int_mm(a, a.t())
    assert int(found) == 128 * 128 * 140000 - 2**32


A, B = matrix(3, 16, "dense", 1), matrix(16, 8, "dense", 2)
FALLBACKS = {
    "uint8": (A.view(torch.uint8), B, None, "operands are not int8 matrices"),
    "vector": (A[0], B, None, "operands are not int8 matrices"),
    "sizes": (A, B[:5], None, "sizes do not match"),
    "no rows": (A[:0], B, None, "empty tensor"),
    "no terms": (A[:, :0], B[:0], None, "empty tensor"),
    "out of int64": (A, B, torch.empty(3, 8).long(), "out is not a contiguous int32"),
    "out of columns": (A, B, torch.empty(8, 3).int().t(), "out is not a contiguous int32"),
    "out of another size": (A, B, torch.empty(0).int(), "out is not a contiguous int32"),
}


@pytest.mark.parametrize("case", FALLBACKS)
def test_the_rest_is_torchs(case: str) -> None:
    a, b, out, why = FALLBACKS[case]

    def run() -> Tensor | str:
        try:
            return torch._int_mm(a, b) if out is None else torch._int_mm(a, b, out=out)
        except RuntimeError as error:
            return str(error)

    cpuaccel.reset_stats()
    found = run()
    assert any(why in reason for reason in cpuaccel.stats()["fallbacks"])
    with cpuaccel.enabled(False):
        expected = run()
    assert type(found) is type(expected)
    assert torch.equal(found, expected) if isinstance(found, Tensor) else found == expected
