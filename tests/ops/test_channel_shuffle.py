"""channel_shuffle of quantized tensors: the same bytes in another order, without rounding."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_front_end
from torch import Tensor

from ops._compare import (
    LAYOUTS,
    assert_fallback,
    assert_on_cpuaccel,
    assert_same,
    both,
    image,
    same_error,
)

pytestmark = needs_front_end


def _definition(x: Tensor, groups: int) -> Tensor:
    n, c, h, w = x.shape
    return x.int_repr().view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


@given(groups=st.integers(1, 9), columns=st.integers(1, 40), batch=st.integers(1, 3))
def test_contiguous_images_run_here(groups: int, columns: int, batch: int) -> None:
    channels = max(groups * columns, 2 * groups)
    x = image(batch, channels, 4, 5, layout="contiguous")
    if x.is_contiguous(memory_format=torch.channels_last):
        return
    outcome = both(lambda: F.channel_shuffle(x, groups))
    assert_same(outcome.ours, outcome.theirs)
    assert torch.equal(outcome.ours.int_repr(), _definition(x, groups))
    assert_on_cpuaccel(outcome.counts, "channel_shuffle")


@given(groups=st.integers(1, 9), columns=st.integers(1, 20), layout=st.sampled_from(LAYOUTS))
def test_any_layout_is_as_torch_has_it(groups: int, columns: int, layout: str) -> None:
    x = image(2, groups * columns, 4, 5, layout=layout)
    outcome = both(lambda: F.channel_shuffle(x, groups))
    assert_same(outcome.ours, outcome.theirs)


def test_threads_agree() -> None:
    x = image(3, 116, 40, 40, layout="contiguous")
    torch.set_num_threads(4)
    ours = both(lambda: F.channel_shuffle(x, 2)).ours
    assert torch.equal(ours.int_repr(), _definition(x, 2))


@given(columns=st.integers(1, 70), batch=st.integers(1, 2), side=st.integers(1, 5))
def test_two_groups_of_channels_last_run_here(columns: int, batch: int, side: int) -> None:
    x = image(batch, 2 * columns, side, 5)
    outcome = both(lambda: F.channel_shuffle(x, 2))
    assert_same(outcome.ours, outcome.theirs)
    assert torch.equal(outcome.ours.int_repr(), _definition(x, 2))
    assert_on_cpuaccel(outcome.counts, "channel_shuffle")


def test_more_groups_of_channels_last_fall_back() -> None:
    x = image(1, 40, 4, 4)
    outcome = both(lambda: F.channel_shuffle(x, 8))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "input is channels_last and groups is not 2")


def test_no_images() -> None:
    x = image(1, 8, 4, 4)[:0]
    outcome = both(lambda: F.channel_shuffle(x, 2))
    assert_same(outcome.ours, outcome.theirs)


@pytest.mark.parametrize("groups", [0, 3])
def test_torch_says_what_is_wrong(groups: int) -> None:
    same_error(lambda: torch.channel_shuffle(image(1, 8, 4, 4), groups))
