"""Faults of torch's own kernels on some CPUs.

oneDNN 3.12 in torch 2.13 is off by tens of quanta in transposed int8 convolutions on CPUs with
AVX512-VNNI. It is sometimes wrong in other convolutions, and crashes if an output sees only padding
on a dilated side. torch's engine x86 uses it for convolutions on such CPUs.

FBGEMM's direct transposed convolution, which torch 2.13 uses for the usual upsampling layers, is
right only with a stride of one row, for the first image of the first call. If the batch is empty,
it writes outside of its memory. torch's oneDNN is wrong for many of these layers on every CPU.

On every CPU torch's dynamic convolutions search the range of a view in as many floats as the view
has, contiguously from its first one. For an expanded view they read past the end of its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from _strategies import ConvCase

from quant._engine import INTREE, Counts, engine, off, running


@contextmanager
def running_conv(backend: str, case: ConvCase) -> Iterator[None]:
    """`running` for a convolution; uses FBGEMM as torch's own kernel if its oneDNN is wrong."""
    if backend == INTREE and onednn_convolves_wrongly():
        with engine("fbgemm"), off():
            yield
        return
    # The provider "cpuaccel" alone runs conv1d and conv2d, and leaves the others to torch, except
    # those that FBGEMM gets wrong.
    others = len(case.kernel) == 3 or case.geometry.transposed
    if backend == "cpuaccel" and others and onednn_convolves_wrongly():
        pytest.skip("torch.cpu._is_vnni_supported(): torch runs these, is wrong and crashes")
    with running(backend):
        yield


def fbgemm_convolves_wrongly(case: ConvCase) -> bool:
    """Whether FBGEMM uses its direct transposed convolution, where all torch engines are wrong."""
    g = case.geometry
    return (
        g.transposed
        and len(case.kernel) == 2
        and case.kernel[0] == 2
        and case.kernel[1] <= 6
        and g.groups == 1
        and case.channels_in % 8 == 0
        and case.channels_out % 8 == 0
        and set(g.stride) <= {1, 2}
        and set(g.padding) == {0}
        and set(g.dilation) == {1}
    )


def torch_was_wrong(backend: str, counts: Counts) -> bool:
    """Whether the requested provider rejected the layer, and torch ran it and gets it wrong."""
    return backend != INTREE and not counts.ours() and onednn_convolves_wrongly()


def onednn_convolves_wrongly() -> bool:
    """Whether torch's oneDNN runs int8 convolutions here, and so cannot be their reference.

    The CPU decides this, not a result: a kernel that is sometimes wrong is also sometimes right.
    """
    return torch.cpu._is_vnni_supported()  # VNNI of AVX512, as torch tests it
