"""Which products are left to torch, because torch's kernels were measured to be faster."""

from __future__ import annotations

import pytest
import torch
from quant._engine import counted, needs_plugin
from torch import Tensor

pytestmark = needs_plugin


@pytest.fixture(autouse=True)
def amd() -> None:
    from cpuaccel._native import load

    if load().cpu_vendor() != "AuthenticAMD":
        pytest.skip("the rows of matmul.csv for AVX2 and AVX-512 are AMD's")


def _provider(rows: int, weights: Tensor) -> str:
    with torch.no_grad(), counted() as counts:
        torch.mm(torch.ones(rows, weights.shape[0]), weights)
    [name] = counts.calls
    return name.removeprefix("mm.")


@pytest.mark.parametrize("rows", [5, 8, 16])
def test_few_rows_times_weights_that_lie_by_rows_are_torchs(rows: int) -> None:
    weights = torch.ones(768, 768)
    assert _provider(rows, weights) == "intree"
    assert _provider(rows, weights.t()) == "cpuaccel"


def test_up_to_four_rows_need_no_packing() -> None:
    assert _provider(4, torch.ones(768, 768)) == "cpuaccel"
