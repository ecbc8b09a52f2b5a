"""aten::isin of integers, against torch's own kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, needs_plugin, off
from torch import Tensor

pytestmark = needs_plugin

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _same(elements: Tensor, others: Tensor, **options: Any) -> None:
    with counted() as counts:
        ours = torch.isin(elements, others, **options)
    assert counts.calls == {"isin.cpuaccel": 1}
    with off():
        theirs = torch.isin(elements, others.contiguous(), **options)  # torch needs it so
    assert torch.equal(ours, theirs)
    assert ours.stride() == theirs.stride()


@given(data=st.data())
def test_it_gives_what_torch_gives(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(INTEGERS))
    limits = torch.iinfo(dtype)
    width = data.draw(st.sampled_from([3, 100, 100_000, limits.max - limits.min]))
    low = data.draw(st.integers(limits.min, limits.max))
    numbers = st.integers(low, min(limits.max, low + width))
    elements, others = (
        torch.tensor(data.draw(st.lists(numbers, max_size=40)), dtype=dtype) for _ in range(2)
    )
    _same(elements, others, invert=data.draw(st.booleans()))


@pytest.mark.parametrize("others", [0, 1, 90, 5000])
@pytest.mark.parametrize("width", [2**16, 2**62])
def test_a_vocabulary(others: int, width: int) -> None:
    torch.manual_seed(0)
    elements = torch.arange(51864)
    members = torch.randint(-width, width, (others,))
    _same(elements, torch.cat([members, elements[:others]]))


@pytest.mark.parametrize(
    "elements",
    [
        torch.tensor(5),
        torch.arange(12).reshape(3, 4).t(),
        torch.arange(40)[::3],
        torch.tensor([7]).expand(3, 5),
        torch.empty(0, 3, dtype=torch.int64),
    ],
    ids=["0-D", "transposed", "with gaps", "expanded", "empty"],
)
def test_strides(elements: Tensor) -> None:
    for others in (torch.arange(100)[::7], torch.arange(9).reshape(3, 3).t(), torch.tensor(7)):
        _same(elements, others)


def test_least_and_largest_numbers() -> None:
    for dtype in INTEGERS:
        limits = torch.iinfo(dtype)
        numbers = torch.tensor([limits.min, limits.max, 0, 1], dtype=dtype).repeat(20)
        _same(numbers, numbers[:2])
        _same(numbers, numbers[:1])
        _same(numbers, numbers[1:2].repeat(30))


def test_other_calls_run_on_torch() -> None:
    import cpuaccel

    cpuaccel.reset_stats()
    found = torch.isin(torch.tensor([1.0, 2.5]), torch.tensor([2.5]))
    assert found.tolist() == [False, True]
    assert torch.isin(torch.tensor([1, 300]), torch.tensor([44], dtype=torch.int32)).sum() == 0
    assert cpuaccel.stats()["fallbacks"] == {"aten::isin: unsupported dtype": 2}
