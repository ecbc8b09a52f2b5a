"""Checks whether tensors that a call mutates share memory with tensors that it reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch import Tensor


def overlaps_mutated(
    leaves: Sequence[Any], written: Collection[int], buffers: Sequence[Tensor] = ()
) -> bool:
    """Say whether a mutated tensor, an input in `written` or one of `buffers`, overlaps an input.

    `leaves` are all arguments of a call. `buffers` are mutated too, and are not arguments. Tensors
    that cannot be told apart without looking at every element count as shared.
    """
    inputs = [(number, each) for number, each in enumerate(leaves) if isinstance(each, Tensor)]
    targets = [(number, leaves[number]) for number in written] + [(-1, each) for each in buffers]
    return any(
        number != target and _may_overlap(each, other)
        for target, other in targets
        for number, each in inputs
    )


def _may_overlap(a: Tensor, b: Tensor) -> bool:
    begin, other = a.data_ptr(), b.data_ptr()
    reach, its_reach = (span(each.shape, each.stride()) * each.element_size() for each in (a, b))
    if begin + reach <= other or other + its_reach <= begin:
        return False
    return not _are_interleaved(a, b, other - begin)


def span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Return the number of elements from the first of a tensor to its last, gaps included."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _are_interleaved(a: Tensor, b: Tensor, distance: int) -> bool:
    """Say whether one lies in the gaps of the other, as `whole[:, 0]` and `whole[:, 1]` do."""
    strides, unit = a.stride(), a.element_size()
    if strides != b.stride() or unit != b.element_size() or distance % unit:
        return False
    for step in strides:
        if step and all(each % step == 0 for each in strides if each > step):
            runs = [_run(each, step) for each in (a, b)]
            if runs[0] <= distance // unit % step <= step - runs[1]:
                return True
    return False


def _run(tensor: Tensor, step: int) -> int:
    """Return the span of the dimensions with smaller strides than `step`."""
    dims = [dim for dim, stride in enumerate(tensor.stride()) if stride < step]
    return span([tensor.size(dim) for dim in dims], [tensor.stride(dim) for dim in dims])


def overlaps_itself(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Say whether two elements of one tensor may share memory, as in an expanded tensor."""
    behind = 0
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size > 1:
            if step <= behind:
                return True
            behind += step * (size - 1)
    return False
