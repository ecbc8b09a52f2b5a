"""Which tensors may share memory with a tensor that is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cpuaccel.compile.capture.memory_overlap import overlaps_mutated


@pytest.mark.parametrize(
    ("of", "written", "shared"),
    [
        (lambda x: (x, x.clone(), x), [0], True),
        (lambda x: (x, x[2:], x.clone()), [1], True),
        (lambda x: (x.clone(), x, x), [0], False),
        (lambda x: (x[:, 0], x[:, 1]), [0], False),
        (lambda x: (x[:, 0], x[:, 1, :3]), [0], False),
        (lambda x: (x[:, 0], x[:, 0, 5:]), [0], True),
        (lambda x: (x[:, :, :3], x[:, :, 3:6]), [0, 1], False),
        (lambda x: (x[:, :, :3], x[:, :, 2:5]), [0], True),
        (lambda x: (x[:2], 3, x[2:]), [2], False),
        (lambda x: (x[:0], x), [0], False),
        (lambda x: (x[0, 0, 0], x), [0], True),
    ],
)
def test_tensors_that_share_memory(
    of: Callable[[Tensor], tuple[Any, ...]], written: list[int], shared: bool
) -> None:
    leaves = of(torch.zeros(4, 2, 8))
    assert overlaps_mutated(leaves, written) == shared
    held = [leaves[number] for number in written]
    others = [each for number, each in enumerate(leaves) if number not in written]
    assert overlaps_mutated(others, [], held) == shared or len(written) > 1
