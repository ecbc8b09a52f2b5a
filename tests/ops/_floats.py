"""Runs an op on float tensors on cpuaccel and on torch's own kernels, and bounds the errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from _settings import setting
from quant._engine import missing, off
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])


def _providers() -> tuple[str, ...]:
    if missing():
        return ("auto",)
    from cpuaccel import config

    names = {setting.option.name for setting in config.settings()}
    return ("auto", "cpuaccel", "onednn") if "matmul_provider" in names else ("auto",)


PROVIDERS = _providers()
"""Providers to force for products; by default cpuaccel leaves small ones to torch."""
providers = pytest.mark.parametrize("provider", PROVIDERS)


@contextmanager
def on(provider: str = "auto") -> Iterator[None]:
    """Enables cpuaccel, with `provider` for every matrix product."""
    import cpuaccel

    with cpuaccel.enabled(True):
        if provider == "auto":
            yield
            return
        with setting("matmul_provider", provider):
            yield


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """`tree` with `function` of each of its tensors."""
    return tree_map(lambda leaf: function(leaf) if isinstance(leaf, Tensor) else leaf, tree)


def tensors_of(tree: Any) -> list[Tensor]:
    """The tensors in `tree`, in order."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def exactly(tree: Any) -> Any:
    """`tree` in float64, detached from the graph."""
    return map_tensors(lambda t: t.detach().double() if t.is_floating_point() else t, tree)


def sizes(tree: Any) -> Any:
    """`tree` in float64 with the absolute value of every number, scalars too.

    An op that only multiplies and adds then computes the sum of the absolute values of its terms,
    by which rounding errors are measured.
    """

    def size(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            return leaf.detach().double().abs()
        return abs(leaf) if isinstance(leaf, int | float) else leaf

    return tree_map(size, tree)


def eps(dtype: torch.dtype) -> float:
    """Distance from 1 to the next number of `dtype`; half of it is the largest rounding error."""
    return torch.finfo(dtype).eps


def assert_near(got: Tensor, exact: Tensor, bound: Tensor) -> None:
    """Each value is within `bound` of the exact one, or inf beyond the type's range."""
    assert got.shape == exact.shape
    got = got.detach()
    error = (got.double() - exact).abs()
    beyond = exact.abs() + bound > torch.finfo(got.dtype).max
    far = ~((error <= bound) | (beyond & got.isinf() & (got.sign() == exact.sign())))
    assert not far.any(), (
        f"{int(far.sum())} of {far.numel()} values are off, the worst by "
        f"{float((error / bound.clamp_min(1e-300))[far].max()):.3g} times the bound"
    )


def assert_alike(ours: Any, theirs: Any) -> None:
    """Each pair of tensors has the same shape, strides, dtype and flags."""
    pairs = list(zip(tensors_of(ours), tensors_of(theirs), strict=True))
    for a, b in pairs:
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
        assert a.storage_offset() == b.storage_offset()
        assert a.requires_grad == b.requires_grad
        assert a.is_inference() == b.is_inference()


@dataclass(frozen=True)
class Ending:
    """How a call ended: its error (type and message) or its result, and its warnings."""

    error: tuple[str, str] | None
    result: Any
    warned: tuple[str, ...]


def ending(call: Callable[[], Any]) -> Ending:
    """Makes the call and says how it ended."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error, result = None, None
        try:
            result = call()
        except Exception as raised:
            error = (type(raised).__name__, _first_line(raised))
    return Ending(error, result, tuple(sorted(str(each.message) for each in caught)))


@contextmanager
def every_warning() -> Iterator[None]:
    """Warnings that torch gives once per process are given to both compared calls."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def _first_line(error: Exception) -> str:
    """The message without the position in torch's sources, which follows it."""
    return str(error).partition("\nException raised from")[0]


def same_ending(call: Callable[[], Any], provider: str = "auto") -> tuple[Ending, Ending]:
    """How the call ends on cpuaccel and on torch; errors and warnings must be the same."""
    with on(provider):
        ours = ending(call)
    with off():
        theirs = ending(call)
    assert ours.error == theirs.error
    assert ours.warned == theirs.warned
    return ours, theirs
