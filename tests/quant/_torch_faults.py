"""What torch's own kernels get wrong on some CPUs.

oneDNN 3.12, inside of torch 2.13, is off by tens of quanta in transposed int8 convolutions on CPUs
with AVX512-VNNI, is wrong now and then in others, and crashes where an output sees nothing but
padding on a side that is dilated. Torch's engine x86 takes it for convolutions on such CPUs.

On every CPU its dynamic convolutions look for the range of a view in as many floats as the view
has, one after another from its first: behind the end of the memory of an expanded one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

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


def onednn_convolves_wrongly() -> bool:
    """Whether torch's oneDNN runs int8 convolutions here, and cannot serve as their reference.

    The CPU says so, and no result: what is wrong now and then is right now and then.
    """
    return torch.cpu._is_vnni_supported()  # of AVX512, as torch asks
