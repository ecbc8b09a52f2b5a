"""Rows of `explain` for single layers: packed weights, float layers and ops without weights."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch

from cpuaccel import _engine_state, _native
from cpuaccel._explain.explanation import Row
from cpuaccel.quant._front_end import MISSING, has_front_end

FLOAT_WEIGHTS = "float weights; cpuaccel has no kernel for this layer"
FLOAT_BY_SIZE = "float weights; chosen per call by size, see stats()"
IN_FLOAT = "runs in float between dequantize and quantize"
FLOAT_BY_CALL = "chosen per call by dtype and size, see stats()"
NO_KERNEL = "cpuaccel has no kernel for this op"
FUSED_KERNEL = "one kernel for several ops"
QUINT8_KERNEL = "cpuaccel's kernel for quint8; torch's for other dtypes"

_POOLS = [f"{kind}_pool{n}d" for kind in ("avg", "max") for n in (1, 2, 3)]

COMPUTE = frozenset(
    [
        *("_convolution", "conv1d", "conv2d", "conv3d"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        *("linear", "addmm", "baddbmm", "bmm", "einsum", "matmul", "mm"),
        *("gru", "lstm", "scaled_dot_product_attention", "embedding", "embedding_bag"),
        *("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
        *("elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "prelu"),
        *("relu", "relu_", "relu6", "relu6_", "sigmoid", "silu", "softmax", "softplus", "tanh"),
        *("add", "add_", "mul", "mul_", "cat", "interpolate", "mean"),
        *_POOLS,
        *(f"adaptive_{name}" for name in _POOLS),
    ]
)
"""torch functions that get a row even if torch's own kernels run them."""

_LAYER_OF_CLASS = {
    "quantized.LinearPackedParamsBase": "linear",
    "quantized.Conv2dPackedParamsBase": "conv2d",
    "quantized.Conv3dPackedParamsBase": "conv3d",
    "rnn.CellParamsBase": "rnn",
}

_RNN_OPS = {
    "LSTM": "aten::quantized_lstm",
    "GRU": "aten::quantized_gru",
    "LSTMCell": "quantized::quantized_lstm_cell_dynamic",
    "GRUCell": "quantized::quantized_gru_cell_dynamic",
    "RNNCell": "quantized::quantized_rnn_cell_dynamic",
}

_OP_OF_MODULE = {
    "Linear": "linear",
    "LinearReLU": "linear_relu",
    "LinearLeakyReLU": "linear_leaky_relu",
    "LinearTanh": "linear_tanh",
    "ConvAdd2d": "conv2d_add",
    "ConvAddReLU2d": "conv2d_add_relu",
    **{f"Conv{n}d": f"conv{n}d" for n in (1, 2, 3)},
    **{f"ConvReLU{n}d": f"conv{n}d_relu" for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": f"conv_transpose{n}d" for n in (1, 2, 3)},
}


_KERNEL_NAMES = {
    "relu6": "hardtanh",
    "maxpool2d": "quantizedmaxpool2d",
    "interpolate": "upsamplenearest2d",
    "concat": "cat",
}
"""The names of quantized kernels that differ from the function's, as `_base_name` returns them."""


_FLOAT_LAYERS = frozenset(("linear", "conv1d", "conv2d", "_convolution", "addmm", "mm"))
"""Float layers that csrc/ops/matmul and csrc/ops/convolution.cpp may compute, in lower case."""


def float_row(layer: str, op: str, name: str, reason: str = "") -> Row:
    """Return the row of a layer with float weights. `reason`: why torch runs it, or ""."""
    if name.lower() in _FLOAT_LAYERS and not reason and _engine_state.is_enabled():
        return Row(layer, op, "cpuaccel or torch", reason=FLOAT_BY_SIZE)
    return Row(layer, op, "torch", reason=reason or FLOAT_WEIGHTS)


def kernel_row(layer: str, op: str, name: str, reason: str = "") -> Row:
    """Return the row of an op without weights. `reason`: why torch runs it, or "".

    `name` is the name of the op, with its namespace if that is `quantized`, or of its module.
    """
    if not reason and _has_kernel(name):
        return Row(layer, op, "cpuaccel", reason=QUINT8_KERNEL)
    return Row(layer, op, "torch", reason=reason or NO_KERNEL)


def without_quint8(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of a float model: replace reasons that are about quint8 kernels."""
    for row in rows:
        # A build without the front end for quantized tensors has float kernels alone.
        if row.reason in (QUINT8_KERNEL, NO_KERNEL):
            floats = _has_float_kernel(row.op.rpartition(".")[2])
            provider, reason = (
                ("cpuaccel or torch", FLOAT_BY_CALL) if floats else ("torch", NO_KERNEL)
            )
            row = replace(row, provider=provider, reason=reason)
        yield row


_FLOAT_KERNEL_NAMES = {"maxpool2d": "maxpool2dwithindices"}
"""The names of float kernels that differ from the function's, as `_base_name` returns them."""


def _has_float_kernel(name: str) -> bool:
    floats = (op for op, key in _native.load().overridden_kernels() if key == "CPU")
    return _is_among(name, floats, _FLOAT_KERNEL_NAMES)


def _has_kernel(name: str) -> bool:
    native = _native.native()
    if native is None or not _engine_state.is_enabled():
        return False
    names = native.overridden_ops()
    if name.startswith("quantized::"):
        return name in names
    return _is_among(name, names, _KERNEL_NAMES)


def _is_among(name: str, ops: Iterable[str], renamed: dict[str, str]) -> bool:
    """Return whether one of `ops` is the kernel of `name`; `renamed` has names that differ."""
    base = _base_name(name)
    return renamed.get(base, base) in {_base_name(op) for op in ops}


def _base_name(name: str) -> str:
    """Return an op's name without namespace, underscores and capitals."""
    return name.rpartition("::")[2].replace("_", "").lower()


def op_of_class(name: str, dynamic: bool, fp16: bool) -> str:
    """Return the op that torch's quantized module class `name` calls, or ""."""
    if name in _RNN_OPS:
        return _RNN_OPS[name]
    if name not in _OP_OF_MODULE:
        return ""
    return (
        f"quantized::{_OP_OF_MODULE[name]}{'_dynamic' if dynamic else ''}{'_fp16' if fp16 else ''}"
    )


def is_packed_type(type_name: str) -> bool:
    """Return whether `type_name` is the TorchScript type of packed weights."""
    return type_name.removeprefix("__torch__.torch.classes.") in _LAYER_OF_CLASS


def packed_rows(layer: str, op: str, packed: torch.ScriptObject) -> Iterator[Row]:
    """Yield a row for the packed weights of `layer`, or two rows if it is a recurrent cell."""
    kind = _LAYER_OF_CLASS.get(_type_name(packed), "")
    if kind == "rnn":
        for name, part in zip(("ih", "hh"), _cell_parts(packed), strict=False):
            yield from packed_rows(f"{layer}.{name}", op, part)
        return
    facts = _describe(kind, packed)
    yield Row(
        layer,
        op or (f"quantized::{kind}" if kind else _type_name(packed)),
        str(facts.get("provider", "torch")),
        str(facts.get("kernel", "")),
        str(facts.get("reason", "")),
        str(facts.get("note", "")),
        str(facts.get("problem", "")),
        int(facts.get("calls", 0)),
        int(facts.get("packed_bytes", 0)),
    )


def _type_name(packed: torch.ScriptObject) -> str:
    name = str(packed._type().qualified_name())
    return name.removeprefix("__torch__.torch.classes.")


def _describe(kind: str, packed: torch.ScriptObject) -> dict[str, Any]:
    if not kind:
        return {"reason": NO_KERNEL}
    if _native.native() is None:
        return {"reason": "cpuaccel is off"}
    if not has_front_end():
        return {"reason": MISSING}
    try:
        describe = getattr(torch.ops.cpuaccel, f"describe_{kind}")
        facts: dict[str, Any] = json.loads(describe(packed))
        return facts
    except Exception as error:
        return {"reason": f"cannot be described: {error}"}


def _cell_parts(cell: torch.ScriptObject) -> list[torch.ScriptObject]:
    """Return the packed weights inside a recurrent cell: input to hidden, hidden to hidden."""
    state: Any = cell.__getstate__()
    return [part for part in state[0][4] if isinstance(part, torch.ScriptObject)]
