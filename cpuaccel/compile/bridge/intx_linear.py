"""Translates cpuaccel::intx_linear and packed_intx_linear: linear layers with groups of weights."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel._ops import intx_linear as _fake_kernel  # noqa: F401
from cpuaccel._ops import packed_intx_linear as _fake_kernels  # noqa: F401
from cpuaccel.compile.bridge._arguments import arguments_of, only_user, same_sizes
from cpuaccel.compile.bridge.activations import activation_behind
from cpuaccel.compile.bridge.plan_text import TYPES, Value
from cpuaccel.compile.bridge.translation import Fallback, Translation

KINDS = frozenset({"intx_linear"})

_DTYPES = (torch.float32, torch.bfloat16)
_SCALES = (torch.float32, torch.bfloat16, torch.float16)

_aten: Any = torch.ops.aten
_OPERANDS: dict[Any, str] = {_aten.mul.Tensor: "times", _aten.add.Tensor: "plus"}
"""Ops behind a layer that its kernel computes, and the name of their other operand."""


def _intx_linear(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    codes, scale, zero_point = given["codes"], given["scale"], given["zero_point"]
    _check(translation, given["input"], codes, scale, zero_point, given["bias"])
    if scale.meta["val"].dtype not in _SCALES:
        raise Fallback(f"dtype {scale.meta['val'].dtype} of the scales")
    out_features, in_features = codes.meta["val"].shape
    group = in_features // scale.meta["val"].shape[1]
    if group != in_features and group % 8 != 0:
        raise Fallback("the group size is no multiple of 8")
    zeros = "none"
    if zero_point is not None:
        zeros = "reals" if zero_point.meta["val"].is_floating_point() else "integers"
    scales = torch.float32 if zeros == "reals" else scale.meta["val"].dtype
    _add(
        *(translation, node, given, [codes], [scale, zero_point]),
        packed=False,
        bits=given["bits"],
        scales=TYPES[scales],
        zeros=zeros,
        out_features=out_features,
    )


def _packed_intx_linear(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    _check(translation, given["input"], given["packed"], given["bias"])
    attributes = {"packed": True, "out_features": given["out_features"]}
    _add(translation, node, given, [given["packed"]], [], **attributes)


def _check(translation: Translation, input: Any, *constants: Any) -> None:
    dtype = translation.tensor(input).dtype
    if dtype not in _DTYPES:
        raise Fallback(f"dtype {dtype} of the activations")
    if not all(each is None or translation.is_constant(each) for each in constants):
        raise Fallback("a weight, a scale, a zero point or the bias is not constant")


def _add(
    translation: Translation,
    node: Node,
    given: dict[str, Any],
    weights: list[Node],
    floats: list[Node | None],
    **attributes: Any,
) -> None:
    """Add the op, with what follows; `floats` are constants that it reads as float32."""
    function, nodes = activation_behind(translation, node)
    operands = _operands_behind(translation, nodes)
    translation.begin(nodes, nodes[-1])
    inputs = [translation.read(each) for each in (given["input"], *weights)]
    for each in (*floats, given["bias"]):
        if each is not None:
            inputs += translation.prepare(
                "cast",
                [translation.read_constant(each)],
                [Value(torch.float32, tuple(each.meta["val"].shape))],
            )
    inputs += [translation.read(operand) for operand in operands.values()]
    present = dict.fromkeys(operands, True)
    if given["bias"] is not None:
        present["bias"] = True
    attributes |= {"quantize": given["quantize"], "function": function, **present}
    translation.op("intx_linear", inputs, nodes[-1], **attributes)


def _operands_behind(translation: Translation, nodes: list[Node]) -> dict[str, Node]:
    """Return what is multiplied with the last node, and what is added then; extend `nodes`.

    The operand is computed before the layer, and has the sizes and the dtype of its result.
    """
    found: dict[str, Node] = {}
    for op, name in _OPERANDS.items():
        follows = only_user(nodes[-1])
        if follows is None or follows.target is not op or follows in translation.unit_of:
            continue
        first, second = follows.args
        other = second if first is nodes[-1] else first
        if not isinstance(other, Node) or other is nodes[-1] or not other < nodes[0]:
            continue
        if follows.kwargs.get("alpha", 1) != 1 or not _alike(other, follows, nodes[-1]):
            continue
        found[name] = other
        nodes.append(follows)
    return found


def _alike(*nodes: Node) -> bool:
    """Say whether the tensors of all nodes have the same sizes and the same dtype."""
    first, *others = (node.meta["val"] for node in nodes)
    return all(each.dtype == first.dtype and same_sizes(each.shape, first.shape) for each in others)


_ops: Any = torch.ops.cpuaccel

TRANSLATIONS = {
    _ops.intx_linear.default: _intx_linear,
    _ops.packed_intx_linear.default: _packed_intx_linear,
}
