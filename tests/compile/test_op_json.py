"""Torch ops as JSON: written from a graph, read back, and called on tensors of other sizes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx

from cpuaccel.compile.bridge import op_json
from cpuaccel.compile.bridge.translation import Fallback

_X, _Y = torch.randn(3, 4, 5), torch.randn(3, 2)


def _model(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    both = torch.cat([x.reshape(x.shape[0], x.shape[1] * x.shape[2]), y], 1)
    return both.to(torch.float64), both[:, 2:]


def _traced() -> Graph:
    return make_fx(_model, tracing_mode="symbolic")(_X, _Y).graph


def _called(ops: list[Any], values: list[Any], constants: dict[int, Any]) -> list[Any]:
    for op in json.loads(json.dumps(ops)):
        values.append(op_json.caller(op, constants)(values))
    return values


@pytest.mark.parametrize("sizes_are_values", [False, True])
@pytest.mark.parametrize("has_constant", [False, True])
def test_ops_run_on_other_sizes(sizes_are_values: bool, has_constant: bool) -> None:
    writer = op_json.Writer()
    (output,) = (node for node in _traced().nodes if node.op == "output")
    for node in output.graph.nodes:
        if node.op == "placeholder":
            writer.add_value(node)
        elif node.op == "call_function" and (sizes_are_values or not op_json.is_size(node)):
            assert op_json.is_named(node.target)
            writer.add_op(node.target, *writer.arguments(node), node)
    x, y = torch.randn(2, 3, 4), torch.randn(2, 6)
    given, constants = ([x, None], {1: y}) if has_constant else ([x, y], {})
    values = _called(writer.ops, given, constants)
    read = op_json.reader(writer.written(output.args[0]), constants)
    for found, expected in zip(read(values), _model(x, y), strict=True):
        assert torch.equal(found, expected)


def _node(graph: Graph, name: str, value: Any) -> Node:
    node = graph.placeholder(name)
    node.meta["val"] = value
    return node


def test_arguments_of_all_types() -> None:
    graph = Graph()
    dynamic = next(node for node in _traced().nodes if op_json.is_size(node)).meta["val"]
    tensor, other = _node(graph, "tensor", _X), _node(graph, "other", _Y)
    size = _node(graph, "size", dynamic)
    writer = op_json.Writer([tensor, other])
    plain, kinds = [True, 2, 0.5, "sum", None], [torch.bfloat16, torch.device("cpu")]
    given = [tensor, [other, 1], *plain, *kinds]
    written = writer.written(given)
    assert written[:2] == [{"value": 0}, [{"value": 1}, 1]]
    assert written[2:] == [*plain, {"torch": "bfloat16"}, {"torch": "cpu"}]
    assert op_json.numbers_in(written) == [0, 1]
    assert op_json.reader(written)([_X, _Y]) == [_X, [_Y, 1], *plain, *kinds]
    assert writer.written([size, 4]) == [-1, 4]
    with pytest.raises(Fallback, match="dynamic sizes"):
        writer.written([size, size])
    with pytest.raises(Fallback, match="type slice"):
        writer.written(slice(1))


@pytest.mark.parametrize("constants", [{}, {1: _Y}, {0: _Y, 1: _Y}])
def test_keyword_arguments(constants: dict[int, Any]) -> None:
    op = ["aten.add.Tensor", [{"value": 0}], {"other": {"value": 1}, "alpha": 2}]
    values = [None if number in constants else _Y for number in range(2)]
    assert torch.equal(op_json.caller(op, constants)(values), 3 * _Y)
