"""What torch's own kernels get wrong on some CPUs, found out by asking them."""

from __future__ import annotations

import warnings
from functools import cache

import pytest
import torch
from torch import Tensor

from quant._engine import INTREE, engine, off


def skip_if_torch_is_wrong(transposed: bool, backend: str) -> None:
    """Skips what would end in a kernel of torch's that gives wrong integers here."""
    # Kernels of our own do not take transposed convolutions: alone, they leave them to torch's.
    if backend in (INTREE, "cpuaccel") and torch_is_wrong(transposed):
        pytest.skip("torch's x86 engine is wrong in transposed convolutions on this CPU")


def torch_is_wrong(transposed: bool) -> bool:
    """Whether torch's x86 engine cannot serve as a reference."""
    return transposed and _deconvolves_wrongly()


@cache
def _deconvolves_wrongly() -> bool:
    """oneDNN 3.12, inside of torch 2.13, is off by tens of quanta on CPUs with AVX512-VNNI.

    Its transposed convolutions are, of 6 channels for example, and some crash; FBGEMM's are right.
    """
    generator = torch.Generator().manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = torch.quantize_per_tensor(
            torch.randn(6, 8, 2, 2, generator=generator), 0.02, 0, torch.qint8
        )
        x = torch.quantize_per_tensor(
            torch.randn(2, 6, 5, 6, generator=generator), 0.03, 100, torch.quint8
        )
        results = [_conv_transpose(name, x, weight) for name in ("x86", "fbgemm")]
    return int((results[0] - results[1]).abs().max()) > 1


def _conv_transpose(name: str, x: Tensor, weight: Tensor) -> Tensor:
    ops = torch.ops.quantized
    with engine(name), off():
        packed = ops.conv_transpose2d_prepack(weight, None, [2, 2], [0, 0], [0, 0], [1, 1], 1)
        result: Tensor = ops.conv_transpose2d(x, packed, 0.1, 100)
    return result.int_repr().int()
