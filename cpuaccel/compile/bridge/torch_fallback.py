"""The fallback of a region: its nodes as JSON text that torch's own ops run.

The fake kernel of cpuaccel::graph_region runs it to infer sizes; the op runs it if oneDNN rejects
the inputs of a call. The text is a list of [op, arguments, keyword arguments]. A tensor in it is
the number of its producer: inputs first, then constants, then one for each op.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel.compile.bridge.translation import Fallback

_KINDS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_SIZES = (int, torch.SymInt)
_GETITEM = "getitem"
_ON_SIZES: dict[str, Any] = {
    **{
        f"operator.{each.__name__}": each
        for each in (
            operator.add,
            operator.sub,
            operator.mul,
            operator.floordiv,
            operator.mod,
            operator.neg,
            operator.truediv,
            operator.pow,
            operator.eq,
            operator.ne,
            operator.lt,
            operator.le,
            operator.gt,
            operator.ge,
            operator.and_,
            operator.or_,
        )
    },
    **{
        f"torch.{each.__name__}": each
        for each in (
            torch.sym_max,
            torch.sym_min,
            torch.sym_float,
            torch.sym_int,
            torch.sym_not,
        )
    },
    **{f"math.{each.__name__}": each for each in (math.ceil, math.floor, math.trunc)},
}
"""Functions on sizes, by name."""
_SIZE_NAMES = {function: name for name, function in _ON_SIZES.items()}
_aten: Any = torch.ops.aten
VIEWS = (_aten.view.default, _aten._unsafe_view.default)
COPY = _aten.copy_.default
"""The op at the end of a graph that writes back a mutated tensor."""
ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default
"""Its query, key and value need a last dimension of stride 1, which it does not check. Values that
a region computes may have other strides than in the trace."""
ATTENTION_INPUTS = 3


def encode(
    inputs: Sequence[Node],
    constants: Sequence[Node],
    nodes: Sequence[Node],
    outputs: Sequence[tuple[Node, bool]],
) -> str:
    """Return `nodes`, which are in topological order, and the outputs as JSON text.

    `outputs` are nodes, and whether each is channels_last; otherwise it is contiguous.

    Raises:
        Fallback: an argument cannot be written as JSON.
    """
    given = [*inputs, *constants]
    nodes = _with_producers(given, nodes)
    numbers = {node: number for number, node in enumerate(given)}
    sizes: dict[str, list[int]] = {}
    for node in inputs:
        _add_sizes(sizes, numbers[node], node)

    def write(value: Any) -> Any:
        if isinstance(value, Node):
            if _is_tensors(value):
                return {"value": numbers[value]}
            size = sizes.get(str(value.meta["val"]))
            return {"size": size} if size else -1  # a view infers -1
        if isinstance(value, (list, tuple)):
            written = [write(each) for each in value]
            dynamic = [isinstance(each, Node) and not _is_tensors(each) for each in value]
            if sum(new == -1 for new, is_size in zip(written, dynamic, strict=True) if is_size) > 1:
                raise Fallback("dynamic sizes that no input determines")
            return written
        if isinstance(value, _KINDS):
            return {"torch": str(value).removeprefix("torch.")}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise Fallback(f"an argument of type {type(value).__name__}")

    lines: list[list[Any]] = []
    for node in nodes:
        if node.target is COPY:  # the region's op writes back mutated tensors
            continue
        keywords = {key: write(value) for key, value in node.kwargs.items()}
        arguments = write(node.args)
        if node.target is ATTENTION:
            for index in range(ATTENTION_INPUTS):
                lines.append([name_of(_aten.contiguous.default), [arguments[index]], {}])
                arguments[index] = {"value": len(given) + len(lines) - 1}
        lines.append([name_of(node.target), arguments, keywords])
        numbers[node] = len(given) + len(lines) - 1
        _add_sizes(sizes, numbers[node], node)
    returned = [[numbers[node], last] for node, last in outputs]
    return json.dumps({"ops": lines, "outputs": returned}, separators=(",", ":"))


def _with_producers(given: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """Return `nodes` and the nodes that make their arguments from `given`, in execution order."""
    done = dict.fromkeys(given)
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready:
            done[node] = None
            continue
        if node.op != "call_function":
            raise Fallback(f"unknown input {node.name}")
        stack.append((node, True))
        stack.extend((source, False) for source in node.all_input_nodes if _is_tensors(source))
    return list(done)[len(given) :]


def _add_sizes(sizes: dict[str, list[int]], number: int, node: Node) -> None:
    """Record where each dynamic size can be read: the number of a value, and its dimension."""
    value = node.meta.get("val")
    for dim, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
        if not isinstance(size, int):
            sizes.setdefault(str(size), [number, dim])


def _is_tensors(node: Node) -> bool:
    """Say whether a node is one or several tensors, rather than a size."""
    return not isinstance(node.meta.get("val"), _SIZES)


def run(inputs: Sequence[Tensor], constants: Sequence[Tensor], text: str) -> list[Tensor]:
    """Run the text that `encode` returned on these tensors."""
    program = _decoded(text)
    values: list[Any] = [*inputs, *constants]

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [read(each) for each in value]
        if isinstance(value, dict):
            if "value" in value:
                return values[value["value"]]
            if "size" in value:
                number, dim = value["size"]
                return values[number].shape[dim]
            return constant(value["torch"])
        return value

    for name, arguments, keywords in program["ops"]:
        keyed = {key: read(value) for key, value in keywords.items()}
        values.append(op_of(name)(*read(arguments), **keyed))
    return [laid_out(values[number], last) for number, last in program["outputs"]]


def laid_out(tensor: Tensor, channels_last: bool) -> Tensor:
    """Return `tensor` in the layout of `laid_out_like`."""
    fresh = laid_out_like(tensor, channels_last)
    return tensor if tensor.stride() == fresh.stride() else fresh.copy_(tensor)


def laid_out_like(tensor: Tensor, channels_last: bool) -> Tensor:
    """Return a new tensor of the same sizes that is contiguous, or channels_last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    memory_format = formats[tensor.dim()] if channels_last else torch.contiguous_format
    return torch.empty_like(tensor, memory_format=memory_format)


def written(value: Any, numbers: Mapping[Node, int]) -> Any:
    """Return an argument of a graph of fixed sizes as JSON values.

    Raises:
        Fallback: it cannot be written as JSON.
    """
    if isinstance(value, Node):
        return {"value": numbers[value]}
    if isinstance(value, (list, tuple)):
        return [written(each, numbers) for each in value]
    if isinstance(value, _KINDS):
        return {"torch": str(value).removeprefix("torch.")}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Fallback(f"it has an argument of type {type(value).__name__}")


def is_of_sizes(target: Any) -> bool:
    """Say whether a function is one on sizes, which `name_of` knows."""
    return target in _SIZE_NAMES


def name_of(target: Any, as_it_is: bool = False) -> str:
    """Return the name by which `op_of` finds an op; views become reshapes unless `as_it_is`."""
    if target in VIEWS and not as_it_is:
        target = _aten.reshape.default  # inputs may have other strides than in the trace
    if target is operator.getitem:
        return _GETITEM
    return _SIZE_NAMES.get(target) or str(target)


@cache
def op_of(name: str) -> Any:
    """Return the op with this name."""
    if name == _GETITEM:
        return operator.getitem
    if name in _ON_SIZES:
        return _ON_SIZES[name]
    namespace, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), op), overload)


def constant(name: str) -> Any:
    """Return a dtype, layout, memory format or device by its name.

    Raises:
        ValueError: there is none.
    """
    found = torch.device(name) if name == "cpu" else getattr(torch, name, None)
    if not isinstance(found, _KINDS):
        raise ValueError(f"expected a dtype, layout, memory format or device, got {name!r}")
    return found


@lru_cache(maxsize=256)
def _decoded(text: str) -> Any:
    return json.loads(text)
