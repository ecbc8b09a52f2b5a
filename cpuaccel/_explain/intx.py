"""Rows of `explain` for weights of 4 or 8 bits that are held packed, or have scales for groups."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from cpuaccel._explain.explanation import Row

_MODULE = "cpuaccel.quant.intx_linear"
_INT8 = "cpuaccel.quant.int8_linear"
_GPTQMODEL = "cpuaccel.quant._gptqmodel.import_hook"


def intx_rows(path: str, module: nn.Module) -> Iterator[Row]:
    """Yield the row of an IntxLinear, an Int8Linear, or a layer of gptqmodel that runs as one."""
    hook: Any = sys.modules.get(_GPTQMODEL)
    if hook is not None and hook.is_replaced(type(module)):
        yield _gptqmodel_row(path, module, hook.reason(module))
        return
    int8: Any = sys.modules.get(_INT8)  # imported with the first such layer
    if int8 is not None and isinstance(module, int8.Int8Linear):
        yield _int8_row(path, module)
        return
    loaded: Any = sys.modules.get(_MODULE)  # likewise
    if loaded is None or not isinstance(module, loaded.IntxLinear):
        return
    layer: Any = module
    yield Row(
        *(path, "cpuaccel::packed_intx_linear", "cpuaccel", intx_kernel(layer.int8_activations)),
        reason=f"a packed weight of {layer.bits} bits"
        + (", int8 activations" if layer.int8_activations else ""),
        problem=intx_problem(layer.bits, (layer.out_features, layer.in_features), layer.group_size),
        packed_bytes=layer.packed.nbytes,
    )


def _int8_row(path: str, layer: Any) -> Row:
    rounds = layer.int8_activations
    return Row(
        *(path, "cpuaccel::packed_int8_linear", "cpuaccel", "qgemm" if rounds else "gemm_w8"),
        reason="a packed int8 weight" + (", int8 activations" if rounds else ""),
        problem=f"w8 {layer.out_features}x{layer.in_features}",
        packed_bytes=layer.packed.nbytes,
    )


def intx_kernel(int8_activations: bool) -> str:
    """Return the kernel family of such a layer."""
    return "qgemm_wq" if int8_activations else "gemm_wq"


def intx_bytes(
    bits: int, shape: Sequence[int], group: int, scale_bytes: int, zero_bytes: int
) -> int:
    """Return the bytes of a packed weight."""
    from cpuaccel._ops.packed_intx_linear import panel_bytes

    return panel_bytes(shape, shape[1] // group, bits, scale_bytes, zero_bytes)


def intx_problem(bits: int, shape: Sequence[int], group: int) -> str:
    """Return the bits, the shape and the group size of a weight as text."""
    return f"w{bits} {'x'.join(map(str, shape))} g{group}"


def _gptqmodel_row(path: str, layer: Any, reason: str) -> Row:
    op = f"gptqmodel.{type(layer).__name__}"
    if reason:
        return Row(path, op, "torch", reason=f"gptqmodel's own function: {reason}")
    group = layer.group_size if layer.group_size > 0 else layer.in_features
    bits, shape = 4 if layer.bits <= 4 else 8, (layer.out_features, layer.in_features)
    return Row(
        *(path, op, "cpuaccel", intx_kernel(False)),
        reason=f"gptqmodel's weight of {layer.bits} bits",
        problem=intx_problem(bits, shape, group),
        packed_bytes=intx_bytes(bits, shape, group, layer.scales.element_size(), 1),
    )
