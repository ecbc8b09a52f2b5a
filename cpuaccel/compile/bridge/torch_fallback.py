"""The fallback of a region: its nodes as JSON text that torch's own ops run.

The fake kernel of cpuaccel::graph_region runs it to infer sizes; the op runs it if oneDNN rejects
the inputs of a call. The text has `ops`, in the format of op_json, on the region's inputs and then
its constants, and `outputs`: the number of each, and whether it is channels_last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel.compile.bridge import op_json
from cpuaccel.compile.bridge.translation import Fallback

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
    writer = op_json.Writer([*inputs, *constants])
    for node in _with_producers([*inputs, *constants], nodes):
        if node.target is COPY:  # the region's op writes back mutated tensors
            continue
        arguments, keywords = writer.arguments(node)
        if node.target is ATTENTION:
            for index in range(ATTENTION_INPUTS):
                given = [arguments[index]]
                arguments[index] = writer.add_op(_aten.contiguous.default, given, {})
        # Inputs of a view may have other strides than in the trace.
        target = _aten.reshape.default if node.target in VIEWS else node.target
        writer.add_op(target, arguments, keywords, node)
    returned = [[writer.numbers[node], last] for node, last in outputs]
    return json.dumps({"ops": writer.ops, "outputs": returned}, separators=(",", ":"))


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
        sources = (source for source in node.all_input_nodes if not op_json.is_size(source))
        stack.extend((source, False) for source in sources)
    return list(done)[len(given) :]


def run(inputs: Sequence[Tensor], constants: Sequence[Tensor], text: str) -> list[Tensor]:
    """Run the text that `encode` returned on these tensors."""
    calls, outputs = _decoded(text)
    values: list[Any] = [*inputs, *constants]
    for call in calls:
        values.append(call(values))
    return [laid_out(values[number], last) for number, last in outputs]


@lru_cache(maxsize=256)
def _decoded(text: str) -> tuple[list[op_json.Read], list[tuple[int, bool]]]:
    program = json.loads(text)
    return [op_json.caller(op) for op in program["ops"]], program["outputs"]


def laid_out(tensor: Tensor, channels_last: bool) -> Tensor:
    """Return `tensor` in the layout of `laid_out_like`."""
    fresh = laid_out_like(tensor, channels_last)
    return tensor if tensor.stride() == fresh.stride() else fresh.copy_(tensor)


def laid_out_like(tensor: Tensor, channels_last: bool) -> Tensor:
    """Return a new tensor of the same sizes that is contiguous, or channels_last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    memory_format = formats[tensor.dim()] if channels_last else torch.contiguous_format
    return torch.empty_like(tensor, memory_format=memory_format)
