"""What torch's own kernels get wrong on some CPUs, found out by asking them.

oneDNN 3.12, inside of torch 2.13, is off by tens of quanta in transposed int8 convolutions on CPUs
with AVX512-VNNI, is wrong now and then in others, and crashes where an output sees nothing but
padding on a side that is dilated. Torch's engine x86 takes it for convolutions on such CPUs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from torch import Tensor

from quant._engine import INTREE, Counts, engine, off, running


@contextmanager
def running_conv(backend: str, dims: int, transposed: bool) -> Iterator[None]:
    """`running` for a convolution: torch's own kernels are FBGEMM's where its oneDNN is wrong."""
    if backend == INTREE and onednn_convolves_wrongly():
        with engine("fbgemm"), off():
            yield
        return
    # Kernels of our own take conv1d and conv2d: alone, they leave the others to torch's.
    if backend == "cpuaccel" and (dims == 3 or transposed) and onednn_convolves_wrongly():
        pytest.skip("torch's x86 engine, which runs these, is wrong and crashes on this CPU")
    with running(backend):
        yield


def torch_was_wrong(backend: str, counts: Counts) -> bool:
    """Whether the provider asked for refused, and torch ran a layer that it gets wrong."""
    return backend != INTREE and not counts.ours() and onednn_convolves_wrongly()


@cache
def onednn_convolves_wrongly() -> bool:
    """Whether torch's oneDNN cannot serve as a reference of convolutions here."""
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
