"""Runs an op on quantized tensors on cpuaccel and on torch's own kernels, and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from _strategies import Values
from hypothesis import strategies as st
from quant._engine import Counts, counted, missing, off, running
from torch import Tensor

from cpuaccel.config import ISAS as RUNGS


def _usable() -> tuple[str, ...]:
    if missing():
        return RUNGS[:1]
    from cpuaccel._native import load

    return RUNGS[: RUNGS.index(load().isa()) + 1]


ISAS = _usable()
"""The ISAs by which kernels are chosen, up to this machine's best."""
isas = pytest.mark.parametrize("isa", ISAS)

LAYOUTS = ("channels_last", "contiguous", "sliced", "permuted", "expanded", "offset")


@contextmanager
def capped(isa: str) -> Iterator[None]:
    """Lets kernels use instruction sets up to `isa` only."""
    import cpuaccel

    before = cpuaccel.config.get("max_isa")
    cpuaccel.config.set("max_isa", isa)
    try:
        yield
    finally:
        cpuaccel.config.set("max_isa", before)


@dataclass(frozen=True)
class Outcome:
    """What the plugin gave and did, and what torch's own kernels gave."""

    ours: Tensor
    theirs: Tensor
    counts: Counts


def both(op: Callable[[], Tensor], isa: str = "auto") -> Outcome:
    """`op` on the plugin, then on torch's own kernels."""
    with running("auto"), capped(isa), torch.no_grad(), counted() as counts:
        ours = op()
    with off(), torch.no_grad():
        theirs = op()
    return Outcome(ours, theirs, counts)


def assert_ours(counts: Counts, op: str) -> None:
    """The op ran once, on a kernel of the plugin; it may have made its input dense before."""
    ran = {name: count for name, count in counts.calls.items() if name != "clone.cpuaccel"}
    if op == "clone":
        ran = counts.calls
    assert ran == {f"{op}.cpuaccel": 1}, f"{op} ran {counts.calls}, {counts.fallbacks}"
    assert not counts.fallbacks


def assert_left(counts: Counts, reason: str) -> None:
    """The op was left to torch, and counted under that reason."""
    assert not counts.calls
    assert [name.rpartition(": ")[2] for name in counts.fallbacks] == [reason], counts.fallbacks


def assert_like(ours: Tensor, theirs: Tensor) -> None:
    """Shape, strides, dtype and quantiser are those of torch's result."""
    assert ours.shape == theirs.shape
    assert ours.stride() == theirs.stride()
    assert ours.dtype == theirs.dtype
    assert ours.qscheme() == theirs.qscheme()
    assert ours.q_scale() == theirs.q_scale()
    assert ours.q_zero_point() == theirs.q_zero_point()


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    """Everything is torch's, every integer too."""
    assert_like(ours, theirs)
    assert torch.equal(ours.int_repr(), theirs.int_repr())


def torch_misplaces(x: Tensor, theirs: Tensor) -> bool:
    """Whether torch's kernel left channels-last values in a contiguous tensor.

    Images of one pixel are in both layouts. Its kernels take them for channels last, and give a
    larger result the strides of the other layout all the same.
    """
    last = torch.channels_last
    one_pixel = x.is_contiguous() and x.is_contiguous(memory_format=last)
    return one_pixel and theirs.numel() > 0 and not theirs.is_contiguous(memory_format=last)


def same_error(op: Callable[[], Tensor]) -> str:
    """The message of the error that `op` raises, on the plugin as on torch's own kernels."""
    messages = []
    for context in (running("auto"), off()):
        with context, pytest.raises(RuntimeError) as raised:
            op()
        messages.append(str(raised.value).splitlines()[0])
    assert messages[0] == messages[1]
    return messages[0]


@st.composite
def values(draw: st.DrawFn) -> Values:
    """Bytes over the whole range, and any zero point."""
    return Values(
        seed=draw(st.integers(0, 2**20)), x_zero_point=draw(st.integers(0, 255)), wide=True
    )


@st.composite
def images(draw: st.DrawFn, layouts: tuple[str, ...] = LAYOUTS) -> Tensor:
    """A quantised batch of images in one of `layouts`."""
    shape = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 70)),
        draw(st.integers(1, 9)),
        draw(st.integers(1, 9)),
    )
    return draw(values()).activation(shape, draw(st.sampled_from(layouts)))
