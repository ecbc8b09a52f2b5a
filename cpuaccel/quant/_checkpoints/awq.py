"""AWQ's tensors of a layer, version "gemm".

- qweight: int32, (in_features, out_features / 8): eight codes of 4 bits in a word
- qzeros: int32, (groups, out_features / 8): zero points, likewise
- scales: floats, (groups, out_features)

Nibble i of word c, counted from the lowest, is column ``8 * c + (0, 2, 4, 6, 1, 3, 5, 7)[i]``. The
weight is ``W[n, k] = (code[k, n] - zero_point[g, n]) * scales[g, n]``, ``g = k // group_size``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cpuaccel.quant._checkpoints.bits import PART, unpack_rows
from cpuaccel.quant._checkpoints.files import Checkpoint
from cpuaccel.quant._checkpoints.load import Codes, LayerTensors, load

_BITS = 4
_COLUMN_OF_NIBBLE = (0, 2, 4, 6, 1, 3, 5, 7)


def load_awq(model: nn.Module, checkpoint: Checkpoint, int8_activations: bool) -> nn.Module:
    """Load an AWQ checkpoint into `model`, in place."""
    settings = checkpoint.settings("awq")
    version = str(settings.get("version", "gemm")).lower()
    if version != "gemm":
        raise checkpoint.error(f"its AWQ version is {version!r}: expected 'gemm'")
    bits = settings.get("bits", settings.get("w_bit", _BITS))
    if bits != _BITS:
        raise checkpoint.error(f"its weights have {bits} bits: AWQ's layout has {_BITS}")
    return load(model, checkpoint, codes_of, int8_activations)


def codes_of(layer: LayerTensors) -> Codes:
    """Return the weight of a layer."""
    N, K = layer.out_features, layer.in_features
    groups = layer.groups
    if N % 8 != 0:
        raise layer.checkpoint.error(
            f"{layer.name} has {N} out_features: expected a multiple of 8, which a word holds"
        )
    words = layer.expect("qweight", torch.int32, (K, N // 8))
    zeros = layer.expect("qzeros", torch.int32, (groups, N // 8))
    scales = layer.expect("scales", None, (groups, N))
    return Codes(
        codes=lambda first, last: _columns(words[:, first // 8 : last // 8]),
        scale=scales.t().contiguous(),
        zero_point=_columns(zeros),
        bits=_BITS,
    )


def _columns(words: Tensor) -> Tensor:
    """Return -8 to 7 as int8, (columns, rows), of the words of some rows."""
    rows, of_row = words.shape
    columns = torch.empty((of_row, 8, rows), dtype=torch.int8)
    for part, of_part in zip(
        torch.split(columns, PART // 8), torch.split(words, PART // 8, 1), strict=True
    ):
        nibbles = unpack_rows(of_part.t().contiguous(), _BITS).view(-1, 8, rows)
        part[:, list(_COLUMN_OF_NIBBLE)] = (nibbles - 8).to(torch.int8)
    return columns.view(-1, rows)
