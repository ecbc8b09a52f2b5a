"""cpuaccel::attend_and_keep_ compared with float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

_N, _H, _G, _E = 2, 6, 3, 16
_SCALE = 0.3


def _op(*given: Any) -> Tensor:
    found: Tensor = torch.ops.cpuaccel.attend_and_keep_(*given)
    return found


class _Call:
    """Random queries, and a cache of which some positions are held."""

    def __init__(self, tokens: int, used: int, begin: int, dtype: torch.dtype) -> None:
        torch.manual_seed(tokens)
        self.tokens, self.used, self.begin = tokens, used, begin
        self.query, self.key, self.value = (
            torch.randn(_N, tokens, heads, _E).to(dtype).transpose(1, 2) for heads in (_H, _G, _G)
        )
        self.keys, self.values = (torch.randn(_N, _G, used + tokens, _E).to(dtype) for _ in "kv")

    def run(self, mask: Tensor | None, window: int, cap: float, sinks: Tensor | None) -> Tensor:
        positions = (self.begin, self.used, mask, window, _SCALE, cap, sinks)
        return _op(self.query, self.key, self.value, self.keys, self.values, *positions)

    def expected(
        self, mask: Tensor | None, window: int, cap: float, sinks: Tensor | None
    ) -> Tensor:
        keys, values = (
            torch.cat([held[:, :, self.begin : self.used], new], 2)
            .double()
            .repeat_interleave(_H // _G, 1)
            for held, new in ((self.keys, self.key), (self.values, self.value))
        )
        scores = _SCALE * self.query.double() @ keys.transpose(2, 3)
        if cap:
            scores = cap * torch.tanh(scores / cap)
        if mask is not None:
            scores = scores + mask.double()
        if window >= 0:
            count = keys.shape[2]
            distance = torch.arange(count - self.tokens, count)[:, None] - torch.arange(count)
            hidden = (distance < 0) | ((distance >= window) if window else (distance < 0))
            scores = scores.masked_fill(hidden, -torch.inf)
        if sinks is not None:
            more = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
            scores = torch.cat([scores, more], -1)
        weights = scores.softmax(-1)[..., : keys.shape[2]]
        return (weights @ values).transpose(1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("window", [-1, 0, 5])
@pytest.mark.parametrize("tokens", [1, 3, 40])
def test_matches_float64(tokens: int, window: int, dtype: torch.dtype) -> None:
    sinks = torch.randn(_H)
    for begin, used in ((0, 0), (0, 21), (7, 30)):
        for cap, added in ((0.0, None), (2.0, None), (0.0, sinks), (2.0, sinks.to(dtype))):
            for mask in (None, torch.randn(_N, 1, 1, used + tokens - begin)):
                call = _Call(tokens, used, begin, dtype)
                expected = call.expected(mask, window, cap, added)
                bound = 2e-5 if dtype == torch.float32 else 2e-2
                found = call.run(mask, window, cap, added)
                torch.testing.assert_close(found.double(), expected, rtol=bound, atol=bound)
                assert torch.equal(call.keys[:, :, used:], call.key)
                assert torch.equal(call.values[:, :, used:], call.value)


def test_sinks_need_no_memory_of_their_own() -> None:
    call = _Call(2, 4, 0, torch.float32)
    sinks = torch.randn(2 * _H)[::2].requires_grad_()
    expected = call.expected(None, -1, 0.0, sinks).detach()
    found = call.run(None, -1, 0.0, sinks).double()
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("window", "cap", "sinks", "message"),
    [
        (-2, 0.0, None, "window: expected -1 or more"),
        (0, -1.0, None, "soft_cap: expected 0 or more"),
        (0, float("nan"), None, "soft_cap: expected 0 or more"),
        (0, 0.0, torch.zeros(_G), "sinks: expected a float for each head"),
        (0, 0.0, torch.zeros(_H, dtype=torch.int64), "sinks: expected a float for each head"),
    ],
)
def test_errors(window: int, cap: float, sinks: Tensor | None, message: str) -> None:
    call = _Call(2, 4, 0, torch.float32)
    with pytest.raises(RuntimeError, match=message):
        call.run(None, window, cap, sinks)
