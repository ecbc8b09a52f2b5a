"""Runs a captured graph without the overhead of GraphModule and torch.export.

A GraphModule looks up every weight by its path, and a module of torch.export checks and flattens
its arguments in Python. For a graph of a few regions, that takes longer than small models compute.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from cpuaccel._compat import function_stack_length, get_tracing_state, tree_flatten, tree_unflatten
from cpuaccel.compile.capture import bound_ops
from cpuaccel.compile.passes.aliasing import attribute_of

_torch: Any = torch  # its annotations lack what is used here

_aten: Any = torch.ops.aten

_CAST = _torch.ops.prims.convert_element_type.default


def runner(
    captured: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """Return a function that computes `captured` for calls with the signature of these arguments.

    It holds the tensors that the graph reads now. It calls `captured` if torch has to see the ops:
    while a trace or a TorchFunctionMode is active.
    """
    leaves, spec = tree_flatten((args, kwargs))
    info = getattr(captured.graph._codegen, "pytree_info", None)
    if info is None or info.in_spec != spec or info.out_spec is None:
        return captured
    if any(isinstance(each, Tensor) and not _is_plain(each) for each in leaves):
        return captured
    forward = _inlined(captured, leaves)
    if forward is None:
        return captured
    unwrap = unwrapping(info.out_spec)
    if not kwargs and all(isinstance(each, Tensor) for each in args):

        def run(*args: Any) -> Any:
            if _is_watched():
                return captured(*args)
            return unwrap(forward(*args))

        return run

    def run_nested(*args: Any, **kwargs: Any) -> Any:
        leaves, got = tree_flatten((args, kwargs))
        if _is_watched() or got != spec:
            return captured(*args, **kwargs)
        return unwrap(forward(*leaves))

    return run_nested


def _is_plain(value: Any) -> bool:
    return type(value) in (Tensor, torch.nn.Parameter)


def _is_watched() -> bool:
    return function_stack_length() != 0 or get_tracing_state() is not None


def unwrapping(spec: Any) -> Callable[[Any], Any]:
    """Return a function that makes the model's results from the leaves."""
    if spec.is_leaf():
        return lambda leaves: leaves[0]
    if spec.type in (tuple, list) and all(each.is_leaf() for each in spec.children()):
        container: Callable[[Any], Any] = spec.type
        return container
    return lambda leaves: tree_unflatten(leaves, spec)


def bound_region(
    constants: list[Tensor], plan_text: str, torch_text: str, written: int = 0
) -> Callable[[list[Tensor]], list[Tensor]]:
    """Return cpuaccel::graph_region as a function of its inputs.

    If `written` is not 0, it is graph_region_, whose first `written` inputs are mutated.
    """
    # torch creates a new method object at each attribute access.
    run = _torch.classes.cpuaccel.BoundRegion(constants, plan_text, torch_text, written).run

    def region(inputs: list[Tensor]) -> list[Tensor]:
        found: list[Tensor] = run(inputs)
        return found

    return region


def _inlined(captured: GraphModule, leaves: list[Any]) -> Callable[..., Any] | None:
    """Return a function of the leaves; None if the graph has calls other than ops."""
    attributes = types.SimpleNamespace()
    graph = Graph()
    copies: dict[Node, Node] = {}
    regions: set[Node] = set()
    for node in captured.graph.nodes:
        if node.op == "get_attr":
            copies[node] = _add_attribute(graph, attributes, attribute_of(captured, node))
        elif node.op == "call_function" and _is_bindable(node):
            *given, constants, plan_text, torch_text = node.args
            weights = [attribute_of(captured, each) for each in constants]
            region = bound_region(weights, plan_text, torch_text, len(given[0]) if given[1:] else 0)
            inputs = [copies[each] for some in given for each in some]
            copies[node] = graph.call_function(region, (inputs,))
            regions.add(copies[node])
        elif node.target is _CAST:
            # torch runs a decomposition of it in Python in each call.
            copies[node] = graph.call_function(
                _aten._to_copy.default,
                (copies[node.args[0]],),
                {"dtype": node.args[1]},
            )
        elif node.op in ("placeholder", "call_function", "output"):
            copies[node] = graph.node_copy(node, copies.__getitem__)
        else:
            return None
    graph.eliminate_dead_code(lambda node: node.op != "get_attr")
    placeholders = graph.find_nodes(op="placeholder")
    held = [(node, getattr(attributes, node.target)) for node in graph.find_nodes(op="get_attr")]
    values = [*zip(placeholders, leaves, strict=True), *held]
    bound_ops.bind(graph, {node for node, value in values if _is_plain(value)}, regions)
    code = graph.python_code("self")
    scope = dict(code.globals)
    exec(compile(code.src, f"<{__name__}>", "exec"), scope)
    return types.MethodType(scope["forward"], attributes)


def is_region(node: Node) -> bool:
    """Say whether a node calls cpuaccel::graph_region, or graph_region_."""
    ops = torch.ops.cpuaccel
    return node.target in (ops.graph_region.default, ops.graph_region_.default)


def _is_bindable(node: Node) -> bool:
    if not is_region(node) or node.kwargs:
        return False
    arguments: Any = node.args
    return all(each.op == "get_attr" for each in arguments[-3])


def _add_attribute(graph: Graph, attributes: types.SimpleNamespace, value: Any) -> Node:
    name = f"held{len(vars(attributes))}"
    setattr(attributes, name, value)
    return graph.create_node("get_attr", name)
