"""`cpuaccel.optimize` of torch.nn's transformers with masks: one capture for all mask values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn

pytestmark = needs_onednn

B, L, WIDTH, HEADS = 2, 5, 16, 2
_INF = float("inf")


def _x(batch_first: bool = True) -> Tensor:
    x = torch.randn(B, L, WIDTH, generator=torch.Generator().manual_seed(0))
    return x if batch_first else x.transpose(0, 1).contiguous()


def _encoder(batch_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=batch_first)
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(WIDTH))


def _decoder(batch_first: bool) -> nn.Module:
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 32, batch_first=batch_first)
    return nn.TransformerDecoder(layer, 2)


Made = tuple[Callable[[bool], nn.Module], int, str, str]
_MODULES: dict[str, Made] = {
    "encoder": (_encoder, 1, "mask", "src_key_padding_mask"),
    "encoder layer": (
        lambda first: nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=first),
        *(1, "src_mask", "src_key_padding_mask"),
    ),
    "decoder": (_decoder, 2, "tgt_mask", "tgt_key_padding_mask"),
    "decoder layer": (
        lambda first: nn.TransformerDecoderLayer(WIDTH, HEADS, 32, batch_first=first),
        *(2, "tgt_mask", "tgt_key_padding_mask"),
    ),
    "attention": (
        lambda first: nn.MultiheadAttention(WIDTH, HEADS, batch_first=first),
        *(3, "attn_mask", "key_padding_mask"),
    ),
}
"""How to build a module, how many sequences it takes, and the names of its masks."""

_OTHER = torch.ones(L, L, dtype=torch.bool).tril(-1).flip(0)
_CAUSAL = torch.ones(L, L, dtype=torch.bool).triu(1)
_PADDING = torch.tensor([[0] * L, [0] * 3 + [1] * 2]).bool()
_GAPS = torch.tensor([[0] * L, [0, 1, 0, 0, 1]]).bool()


def _as_floats(mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape).masked_fill(mask, -_INF)


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


_MASKS: dict[str, list[tuple[Tensor | None, Tensor | None]]] = {
    "bool": [(_CAUSAL, None), (_OTHER, None)],
    "float": [(_as_floats(_CAUSAL), None), (_random(L, L), None)],
    "padding": [(None, _PADDING), (None, _GAPS), (None, torch.zeros(B, L).bool())],
    "padding of floats": [(None, _as_floats(_PADDING)), (None, _random(B, L))],
    "both": [(_CAUSAL, _PADDING), (_OTHER & ~torch.eye(L).bool(), _GAPS)],
    "both of floats": [
        (_as_floats(_CAUSAL), _as_floats(_PADDING)),
        (_random(L, L), _as_floats(_GAPS)),
    ],
}
"""Masks of one type: those that a module is optimized with, and others."""


def _assert_close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4, equal_nan=True)


@pytest.mark.parametrize("kind", _MASKS)
@pytest.mark.parametrize("name", _MODULES)
@torch.no_grad()
def test_one_capture_holds_for_all_values_of_a_mask(name: str, kind: str) -> None:
    make, count, mask_name, padding_name = _MODULES[name]
    torch.manual_seed(0)
    model = make(True).eval()
    calls = [{mask_name: mask, padding_name: padding} for mask, padding in _MASKS[kind]]
    inputs = (_x(),) * count
    optimized = cpuaccel.optimize(model, inputs, calls[0], time_budget=0)
    assert optimized.verdict.difference.is_within, optimized.verdict
    for masks in calls:
        _assert_close(optimized(*inputs, **masks), model(*inputs, **masks))
    assert len(optimized.verdicts) == 1


@torch.no_grad()
def test_sequences_first() -> None:
    torch.manual_seed(0)
    for make, count, mask_name, padding_name in (_MODULES["encoder"], _MODULES["decoder"]):
        model, inputs = make(False).eval(), (_x(False),) * count
        masks = {mask_name: _as_floats(_CAUSAL), padding_name: _as_floats(_PADDING)}
        optimized = cpuaccel.optimize(model, inputs, masks, time_budget=0)
        assert optimized.verdict.difference.is_within, optimized.verdict
        _assert_close(optimized(*inputs, **masks), model(*inputs, **masks))


@torch.no_grad()
def test_a_model_that_makes_its_mask() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = _encoder(True)

        def forward(self, x: Tensor) -> Tensor:
            return self.encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]))

    torch.manual_seed(0)
    model, x = Model().eval(), _x()
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    assert optimized.verdict.difference.is_within, optimized.verdict
    _assert_close(optimized(x), model(x))


def test_torch_looks_for_causal_masks_again() -> None:
    from torch.nn.modules import transformer

    torchs = transformer._detect_is_causal_mask
    mask = _as_floats(_CAUSAL)
    with torch.no_grad():
        cpuaccel.optimize(_encoder(True).eval(), (_x(),), {"mask": mask}, time_budget=0)
    assert transformer._detect_is_causal_mask is torchs
    assert torchs(mask, None, L)
