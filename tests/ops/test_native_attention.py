"""torch's fast path of nn.TransformerEncoder with float masks, against its other path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from quant._engine import counted, needs_plugin
from torch import Tensor, nn

import cpuaccel

pytestmark = needs_plugin

B, L, WIDTH, HEADS = 3, 6, 16, 4
_INF = float("inf")
_CAUSAL = torch.full((L, L), -_INF).triu(1)


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def _x(dtype: torch.dtype = torch.float32) -> Tensor:
    return _random(B, L, WIDTH).to(dtype)


def _encoder(**options: Any) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2).eval()


@contextmanager
def _without_fast_path() -> Iterator[None]:
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


_MASKS: dict[str, Callable[[], Tensor]] = {
    "distances": lambda: -(torch.arange(L)[:, None] - torch.arange(L)).abs().float(),
    "random": lambda: _random(L, L),
    "large": lambda: torch.full((L, L), -1e9).triu(1),
    "causal and finite": lambda: _CAUSAL + _random(L, L).tril(),
    "of each head": lambda: _random(B * HEADS, L, L),
    "a row of large": lambda: torch.zeros(L, L).index_fill(0, torch.tensor([2]), -1e9),
    "a row of -inf": lambda: torch.zeros(L, L).index_fill(0, torch.tensor([2]), -_INF),
}
_PADDING = torch.tensor([[0.0] * L, [0.0] * 4 + [-_INF] * 2, [0.0] * 5 + [-_INF]])


@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("name", _MASKS)
@torch.no_grad()
def test_numbers_of_a_mask_are_added(name: str, padded: bool) -> None:
    encoder, x, mask = _encoder(), _x(), _MASKS[name]()
    padding = _PADDING if padded else None
    with _without_fast_path():
        expected = encoder(x, mask=mask, src_key_padding_mask=padding)
    with counted() as counts:
        found = encoder(x, mask=mask, src_key_padding_mask=padding)
    assert torch.isfinite(expected).all()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert any("float mask" in reason for reason in counts.fallbacks)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@torch.no_grad()
def test_types_and_kinds_of_layers(dtype: torch.dtype, norm_first: bool) -> None:
    encoder = _encoder(norm_first=norm_first, activation="gelu").to(dtype)
    mask = _random(L, L).to(dtype)
    with _without_fast_path():
        expected = encoder(_x(dtype), mask=mask)
    bound = 0.05 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(encoder(_x(dtype), mask=mask), expected, atol=bound, rtol=bound)


@pytest.mark.parametrize(
    "padding",
    [
        torch.tensor([[0.0, 0, 0, 0, -1, -2], [0.0] * 6, [0.0] * 6]),
        torch.tensor([[0.0, 0, 0, 0, -1e9, -1e9], [0.0] * 6, [0.0] * 6]),
        _random(B, L),
    ],
    ids=["at the end", "large", "everywhere"],
)
@torch.no_grad()
def test_finite_padding_is_added_too(padding: Tensor) -> None:
    encoder, x = _encoder(), _x()
    with _without_fast_path():
        expected = encoder(x, src_key_padding_mask=padding)
    found = encoder(x, src_key_padding_mask=padding)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mask", [None, _CAUSAL, _CAUSAL == -_INF], ids=["", "float", "bool"])
@pytest.mark.parametrize("padding", [None, _PADDING, _PADDING == -_INF], ids=["", "float", "bool"])
@torch.no_grad()
def test_masks_that_torch_computes_right_stay_with_torch(
    mask: Tensor | None, padding: Tensor | None
) -> None:
    encoder, x = _encoder(), _x()
    with cpuaccel.enabled(False):
        expected = encoder(x, mask=mask, src_key_padding_mask=padding)
    with counted() as counts:
        found = encoder(x, mask=mask, src_key_padding_mask=padding)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert not any("float mask" in reason for reason in counts.fallbacks)


def _call(mask: Tensor | None, mask_type: int | None, need_weights: bool, average: bool) -> Any:
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    weights = (attention.in_proj_weight, attention.in_proj_bias)
    out = (attention.out_proj.weight, attention.out_proj.bias)
    x = _x()
    return torch._native_multi_head_attention(
        *(x, x, x, WIDTH, HEADS, *weights, *out, mask, need_weights, average, mask_type)
    )


@pytest.mark.parametrize("average", [False, True])
@torch.no_grad()
def test_the_weights_of_attention(average: bool) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x, mask = _x(), _random(L, L)
    expected = attention(x, x, x, attn_mask=mask, average_attn_weights=average)
    torch.manual_seed(0)
    found = _call(mask.expand(B, HEADS, L, L), 2, True, average)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_a_mask_of_another_shape_is_torchs_error() -> None:
    with cpuaccel.enabled(False), pytest.raises(RuntimeError) as torchs:
        _call(_random(L, L + 1), 0, False, True)
    with pytest.raises(RuntimeError) as ours:
        _call(_random(L, L + 1), 0, False, True)
    assert str(ours.value) == str(torchs.value)


@torch.no_grad()
def test_an_encoder_is_scripted() -> None:
    encoder, x, mask = _encoder(), _x(), _random(L, L)
    scripted = torch.jit.script(encoder)
    torch.testing.assert_close(scripted(x, mask), encoder(x, mask), atol=1e-5, rtol=1e-5)
