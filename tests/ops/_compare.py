"""Runs an op on quantized tensors on cpuaccel and on torch's own kernels, and compares."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest
import torch
from _settings import setting
from _strategies import Values
from hypothesis import strategies as st
from quant._engine import Counts, counted, missing, off, running
from torch import Tensor

from cpuaccel import config


def _usable() -> tuple[str, ...]:
    if missing():
        return config.ISAS[:1]
    from cpuaccel._native import load

    return config.ISAS[: config.ISAS.index(load().isa()) + 1]


ISAS = _usable()
"""The ISAs by which kernels are chosen, up to this machine's best."""
isas = pytest.mark.parametrize("isa", ISAS)

LAYOUTS = ("channels_last", "contiguous", "sliced", "permuted", "expanded", "offset")


def capped(isa: str) -> AbstractContextManager[None]:
    """Caps the ISA of kernels at `isa`."""
    return setting("max_isa", isa)


@dataclass(frozen=True)
class Outcome:
    """The result and counters on cpuaccel, and the result of torch's own kernels."""

    ours: Tensor
    theirs: Tensor
    counts: Counts


def both(op: Callable[[], Tensor], isa: str = "auto") -> Outcome:
    """`op` on cpuaccel, then on torch's own kernels."""
    with running("auto"), capped(isa), torch.no_grad(), counted() as counts:
        ours = op()
    with off(), torch.no_grad():
        theirs = op()
    return Outcome(ours, theirs, counts)


def assert_on_cpuaccel(counts: Counts, op: str) -> None:
    """Asserts one call of the op on a cpuaccel kernel, which may make its input dense first."""
    ran = {name: count for name, count in counts.calls.items() if name != "clone.cpuaccel"}
    if op == "clone":
        ran = counts.calls
    assert ran == {f"{op}.cpuaccel": 1}, f"{op} ran {counts.calls}, {counts.fallbacks}"
    assert not counts.fallbacks


def assert_fallback(counts: Counts, reason: str) -> None:
    """Asserts a fallback to torch with that reason."""
    assert not counts.calls
    assert [name.rpartition(": ")[2] for name in counts.fallbacks] == [reason], counts.fallbacks


def assert_like(ours: Tensor, theirs: Tensor) -> None:
    """Shape, strides, dtype and quantizer are those of torch's result."""
    assert ours.shape == theirs.shape
    assert ours.stride() == theirs.stride()
    assert ours.dtype == theirs.dtype
    assert ours.qscheme() == theirs.qscheme()
    assert ours.q_scale() == theirs.q_scale()
    assert ours.q_zero_point() == theirs.q_zero_point()


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    """All properties and all integers equal torch's."""
    assert_like(ours, theirs)
    assert torch.equal(ours.int_repr(), theirs.int_repr())


def torch_misplaces(x: Tensor, theirs: Tensor) -> bool:
    """Whether torch's kernel left channels-last values in a contiguous tensor.

    Images of one pixel have both layouts. torch's kernels treat them as channels last, but give a
    larger result the strides of the other layout.
    """
    last = torch.channels_last
    one_pixel = x.is_contiguous() and x.is_contiguous(memory_format=last)
    return one_pixel and theirs.numel() > 0 and not theirs.is_contiguous(memory_format=last)


def same_error(op: Callable[[], Tensor]) -> str:
    """The message of the error that `op` raises, the same on cpuaccel and on torch."""
    messages = []
    for context in (running("auto"), off()):
        with context, pytest.raises(RuntimeError) as raised:
            op()
        messages.append(str(raised.value).splitlines()[0])
    assert messages[0] == messages[1]
    return messages[0]


def image(*shape: int, layout: str = "channels_last") -> Tensor:
    """A quantized batch of images of that shape."""
    return Values(seed=3, x_zero_point=9, wide=True).activation(shape, layout)


@st.composite
def values(draw: st.DrawFn) -> Values:
    """Bytes over the whole range, and any zero point."""
    return Values(
        seed=draw(st.integers(0, 2**20)), x_zero_point=draw(st.integers(0, 255)), wide=True
    )


@st.composite
def images(draw: st.DrawFn, layouts: tuple[str, ...] = LAYOUTS) -> Tensor:
    """A quantized batch of images in one of `layouts`."""
    shape = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 70)),
        draw(st.integers(1, 9)),
        draw(st.integers(1, 9)),
    )
    return draw(values()).activation(shape, draw(st.sampled_from(layouts)))
