"""GPTQ's tensors of a layer.

- qweight: int32, (in_features * bits / 32, out_features): the codes of a column one after another
- qzeros: int32, (groups, out_features * bits / 32): zero points, in the format "gptq" minus 1
- scales: floats, (groups, out_features)
- g_idx: int32, (in_features,): the group of each feature; without it feature k has group
  k // (in_features / groups)

The weight is ``W[n, k] = (code[k, n] - zero_point[g_idx[k], n]) * scales[g_idx[k], n]``.

Some checkpoints name "gptq" and store zero points as "gptq_v2" does (vllm-project/vllm#38966). The
zero points of symmetric weights, all 2^(bits - 1), tell which of the two it is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cpuaccel import _log
from cpuaccel.quant._checkpoints.bits import PART, unpack_planes, unpack_rows
from cpuaccel.quant._checkpoints.files import Checkpoint
from cpuaccel.quant._checkpoints.load import Codes, LayerTensors, load

_ZERO_OFFSETS = {"gptq": 1, "gptq_v2": 0}
"""What is added to the stored zero points of a format, modulo 2^bits."""


def load_gptq(
    model: nn.Module, checkpoint: Checkpoint, checkpoint_format: str | None, int8_activations: bool
) -> nn.Module:
    """Load a GPTQ checkpoint into `model`, in place."""
    settings = checkpoint.settings("gptq")
    may_differ = checkpoint_format is None and settings.get("sym") is not False
    named = checkpoint_format or settings.get("checkpoint_format") or "gptq"
    if named not in _ZERO_OFFSETS:
        raise checkpoint.error(
            f"its checkpoint_format is {named!r}: expected {' or '.join(_ZERO_OFFSETS)}"
        )

    differing = []

    def read(layer: LayerTensors) -> Codes:
        codes, offset = codes_of(layer, _ZERO_OFFSETS[named], may_differ)
        if offset != _ZERO_OFFSETS[named]:
            differing.append(layer.name)
        return codes

    load(model, checkpoint, read, int8_activations)
    if differing:
        _log.logger.warning(
            "load_gptq: %s: %d layers, such as %s, have the symmetric zero points of another format"
            " than %s, and were read in that format; checkpoint_format=%r reads them as named",
            *(checkpoint.path, len(differing), differing[0], named, named),
        )
    return model


def codes_of(
    layer: LayerTensors, offset: int, may_differ: bool = False, planar: bool = False
) -> tuple[Codes, int]:
    """Return the weight, and the offset of the zero points: the given one, unless it differs.

    With `planar`, codes are stored by planes of their bits.
    """
    bits = _bits(layer)
    unpack = unpack_planes if planar else unpack_rows
    N, K = layer.out_features, layer.in_features
    groups = layer.groups
    order = _order(layer, groups)
    words = layer.expect("qweight", torch.int32, (K * bits // 32, N))
    scales = layer.expect("scales", None, (groups, N))
    zeros = layer.expect("qzeros", torch.int32, (groups, N * bits // 32))
    stored = unpack(zeros.t().contiguous(), bits)
    for symmetric in _ZERO_OFFSETS.values() if may_differ else ():
        if bool((stored == (1 << (bits - 1)) - symmetric).all()):
            offset = symmetric
    zero_points = (stored + offset) & ((1 << bits) - 1)
    # Codes of up to 4 bits are packed to 4; packed codes count from -8, or from -128.
    packed_bits = 4 if bits <= 4 else 8
    low = 1 << (packed_bits - 1)

    def rows(first: int, last: int) -> Tensor:
        codes = torch.empty((last - first, K), dtype=torch.int8)
        of_rows = torch.split(words[:, first:last], PART, 1)
        for part, of_part in zip(torch.split(codes, PART), of_rows, strict=True):
            integers = unpack(of_part, bits)
            part.copy_((integers if order is None else integers[order]).t() - low)
        return codes

    weight = Codes(
        codes=rows,
        scale=_kernel_type(scales).t().contiguous(),
        zero_point=(zero_points - low).to(torch.int8),
        bits=packed_bits,
        order=order,
    )
    return weight, offset


def _kernel_type(scales: Tensor) -> Tensor:
    """Return the scales in a type that the kernels have."""
    known = (torch.float32, torch.bfloat16, torch.float16)
    return scales if scales.dtype in known else scales.float()


def _bits(layer: LayerTensors) -> int:
    zeros, N = layer.part("qzeros"), layer.out_features
    columns = zeros.shape[-1] if zeros.dim() == 2 else 0
    bits = columns * 32 // N
    if not 2 <= bits <= 8 or columns * 32 != bits * N:
        raise layer.checkpoint.error(
            f"{layer.name}.qzeros has shape {tuple(zeros.shape)}: expected {N} columns of 2 to 8 "
            "bits in words of 32"
        )
    return bits


def _order(layer: LayerTensors, groups: int) -> Tensor | None:
    """Return the features sorted by their groups; None if they are."""
    K = layer.in_features
    if "g_idx" not in layer.parts:
        return None
    group_of = layer.expect("g_idx", torch.int32, (K,)).long()
    in_range = bool(((group_of >= 0) & (group_of < groups)).all())
    if not in_range or not bool((group_of.bincount(minlength=groups) == K // groups).all()):
        raise layer.checkpoint.error(
            f"{layer.name}.g_idx: expected {groups} groups of {K // groups} features each"
        )
    order = group_of.argsort(stable=True)
    return None if torch.equal(order, torch.arange(K)) else order
