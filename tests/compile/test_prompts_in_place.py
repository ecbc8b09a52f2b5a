"""Prompts that cpuaccel's attention appends to caches in place, compared with transformers' own."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from compile import test_cache_room as rooms
from compile._compiled import needs_onednn
from cpuaccel.compile.capture.cached_attention import CachedCall
from cpuaccel.compile.capture.mask_patterns import Pattern

_BATCH, _WIDTH = rooms._BATCH, rooms._WIDTH


@pytest.fixture(params=[False, pytest.param(True, marks=needs_onednn)], ids=["op", "step"])
def by_step(request: pytest.FixtureRequest) -> bool:
    """Whether attentions are steps of plans."""
    found: bool = request.param
    return found


def _seen(tokens: int, past: int, window: int, padding: Tensor | None) -> Tensor:
    """Return what tokens see: N x 1 x tokens x positions, bool."""
    keys = past + tokens
    distance = torch.arange(past, keys)[:, None] - torch.arange(keys)
    seen = (distance >= 0) & (distance < (window or math.inf))
    seen = seen.expand(_BATCH, 1, -1, -1)
    return seen if padding is None else seen & padding[:, None, None, :]


def _prompt(
    pair: Any, tokens: int, window: int = 0, padded: int = 0, by_mask: bool = False
) -> Tensor:
    """Run a prompt on both caches; return which positions are none of padding."""
    past = 0 if not pair.found.layers[0].is_initialized else pair.found.layers[0].keys.shape[2]
    padding = torch.ones(_BATCH, past + tokens, dtype=torch.bool)
    padding[1, :padded] = False
    given = None if not padded else padding
    mask = _seen(tokens, past, window, given)
    pattern = Pattern(tokens, past, window, given, lambda: mask)
    pair.steps += 1
    found = rooms._step(
        rooms._DIRECT, pair.found, tokens, pair.steps, mask if by_mask else pattern, pair.by_step
    )
    expected = rooms._step(rooms._PLAIN, pair.expected, tokens, pair.steps, mask)
    real = padding[:, past:, None, None].expand_as(found)  # the others' results are unused
    torch.testing.assert_close(found[real], expected[real], rtol=pair.bound, atol=pair.bound)
    pair.check()
    return padding


class _Fresh(rooms._Pair):
    """Two caches without positions."""

    def __init__(self, by_step: bool, **options: Any) -> None:
        self.found, self.expected = rooms._cache(**options), rooms._cache(**options)
        self.by_step = by_step
        self.steps = 0
        self.bound = 1e-2 if options.get("dtype", torch.float32) is not torch.float32 else 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("window", [0, 7, 300])
def test_prompts_and_steps(by_step: bool, window: int, dtype: torch.dtype) -> None:
    for tokens in (2, 9, 150):
        pair = _Fresh(by_step, window=window, dtype=dtype)
        _prompt(pair, tokens, window)
        address = pair.address()
        pair.step(3)
        if not window or tokens < window:
            assert pair.address() == address  # no step has copied the cache
        _prompt(pair, 20, window)  # as in a chat
        _prompt(pair, 3, window)
        pair.step(2)


def test_prompts_with_left_padding(by_step: bool) -> None:
    for window in (0, 7):
        pair = _Fresh(by_step, window=window)
        _prompt(pair, 40, window, padded=5)
        if not window:
            _prompt(pair, 12, window, padded=5)
        pair.step()


def test_prompts_with_a_mask_of_all_positions(by_step: bool) -> None:
    pair = _Fresh(by_step)
    _prompt(pair, 40, padded=5, by_mask=True)
    _prompt(pair, 12, padded=5, by_mask=True)
    pair.step()


@needs_onednn
def test_prompts_of_plans_need_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CachedCall, "attend", lambda *_: pytest.fail("Python attended"))
    pair = _Fresh(by_step=True)
    mask = Pattern(30, 0, 0, None, lambda: pytest.fail("a mask was made"))
    rooms._step(rooms._DIRECT, pair.found, 30, mask=mask, by_step=True)
    assert pair.found.get_seq_length() == 30
    rooms._step(rooms._DIRECT, pair.found, by_step=True)
    assert pair.found.get_seq_length() == 31


def test_a_long_prompt_leaves_few_positions_of_a_window(by_step: bool) -> None:
    pair = _Fresh(by_step, window=8)
    _prompt(pair, 200, 8)
    keys = pair.found.layers[0].keys
    assert keys.untyped_storage().nbytes() == keys.nbytes
    pair.step(20)


def test_a_pattern_for_other_positions_is_made(by_step: bool) -> None:
    pair = _Fresh(by_step)
    _prompt(pair, 9)
    mask = _seen(4, 9, 0, None)
    wrong = Pattern(4, 8, 0, None, lambda: mask)
    pair.steps += 1
    found = rooms._step(rooms._DIRECT, pair.found, 4, pair.steps, wrong, by_step)
    expected = rooms._step(rooms._PLAIN, pair.expected, 4, pair.steps, mask)
    torch.testing.assert_close(found, expected)
    pair.check()


def test_int8_caches_take_prompts_as_transformers_does(by_step: bool) -> None:
    pair = _Fresh(by_step, int8=True, dtype=torch.bfloat16)
    _prompt(pair, 30)
    pair.step(3)
    _prompt(pair, 12)
    pair.step(3)


@needs_onednn
def test_a_failed_prompt_leaves_the_cache() -> None:
    pair = _Fresh(by_step=True)
    mask = Pattern(30, 0, 0, None, lambda: None)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            rooms._step(rooms._DIRECT, pair.found, 30, mask=mask, by_step=True, fails=True)
        assert not pair.found.layers[0].is_initialized
    _prompt(pair, 30)
    pair.step(2)
