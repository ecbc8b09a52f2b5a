"""Cases of LSTM layers and of the fast path of nn.TransformerEncoderLayer."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import DTYPES, Case, numbers, sizes

# Steps, batch, features, hidden size.
_SEQUENCES = ((1, 1, 4, 4), (10, 1, 32, 64), (50, 8, 64, 128))
# Batch, tokens, features, heads.
_TOKENS = ((1, 4, 16, 2), (1, 64, 256, 4), (8, 64, 256, 4))


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for size in _SEQUENCES:
        for op, learns in (("mkldnn_rnn_layer", False), ("mkldnn_rnn_layer_backward", True)):
            label = f"f32 {sizes(size)}{' forward and backward' if learns else ''}"
            yield Case(f"aten::{op}", "CPU", label, partial(_lstm, size, learns))
    for size in _TOKENS:
        for mask in ("", " boolean mask", " mask"):
            label = f"{DTYPES[torch.float32]} {sizes(size)}{mask}"
            make = partial(_encoder, size, mask)
            yield Case("aten::_native_multi_head_attention", "CPU", label, make)


def _lstm(size: tuple[int, ...], learns: bool) -> Runner:
    steps, batch, features, hidden = size
    torch.manual_seed(0)
    layer = nn.LSTM(features, hidden)
    x = numbers(steps, batch, features).requires_grad_(learns)

    def both() -> object:
        with torch.enable_grad():
            return torch.autograd.grad(layer(x)[0].sum(), [x, *layer.parameters()])

    return both if learns else partial(layer, x)


def _encoder(size: tuple[int, ...], mask: str) -> Runner:
    batch, tokens, features, heads = size
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(features, heads, 2 * features, batch_first=True).eval()
    x = numbers(batch, tokens, features)
    if not mask:
        return partial(layer, x)
    shown = torch.zeros(tokens, tokens)
    if mask == " mask":
        shown += numbers(tokens, tokens)
    return partial(layer, x, src_mask=shown if mask == " mask" else shown > 0)
