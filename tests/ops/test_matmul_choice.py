"""Products that the provider table has no row for, and the fastest measured provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from _other_cpus import as_amd
from quant._engine import counted, needs_plugin
from torch import Tensor

from cpuaccel._native import load

pytestmark = needs_plugin


@pytest.fixture(autouse=True)
def amd() -> Iterator[None]:
    with as_amd():
        yield


@pytest.fixture
def avx512() -> None:
    if not load().isa().startswith("avx512"):
        pytest.skip("isa() is below avx512: this choice was measured with AVX-512")


def _provider(rows: int, weights: Tensor) -> str:
    with torch.no_grad(), counted() as counts:
        torch.mm(torch.ones(rows, weights.shape[0]), weights)
    [name] = counts.calls
    return name.removeprefix("mm.")


@pytest.mark.parametrize("rows", [5, 8, 16])
def test_few_rows_times_row_major_weights_run_on_torch(rows: int) -> None:
    weights = torch.ones(768, 768)
    assert _provider(rows, weights) == "intree"
    assert _provider(rows, weights.t()) == "cpuaccel"


def test_up_to_four_rows_need_no_packing() -> None:
    assert _provider(4, torch.ones(768, 768)) == "cpuaccel"


@pytest.mark.parametrize("columns", [2, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_few_columns_are_ours(columns: int, turned: bool) -> None:
    weights = torch.ones(columns, 64).t() if turned else torch.ones(64, columns)
    assert _provider(5000, weights) == "cpuaccel"
    assert _provider(30, weights) == "cpuaccel"


@pytest.mark.usefixtures("avx512")
def test_one_column_of_many_rows_runs_on_torch() -> None:
    assert _provider(5000, torch.ones(64, 1)) == "intree"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_batches_of_tiny_matrices_run_on_torch(dtype: torch.dtype) -> None:
    operand = torch.ones(100, 3, 3, dtype=dtype)
    with torch.no_grad(), counted() as counts:
        torch.bmm(operand, operand)
    assert list(counts.calls) == ["bmm.intree"]


@pytest.mark.usefixtures("avx512")
@pytest.mark.parametrize(
    ("rows", "by_rows", "provider"),
    [
        (30, True, "cpuaccel"),
        (30, False, "cpuaccel"),
        (8, False, "cpuaccel"),
        (100, False, "cpuaccel"),
    ],
)
def test_small_products_are_ours_where_little_is_packed(
    rows: int, by_rows: bool, provider: str
) -> None:
    weights = torch.ones(20, 32) if by_rows else torch.ones(32, 20).t()
    assert _provider(rows, weights) == provider
