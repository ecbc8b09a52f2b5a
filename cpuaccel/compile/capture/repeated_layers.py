"""Traces layers that repeat once, and puts copies of the first one's nodes in place of the others.

Layers of one nn.ModuleList repeat if they differ in nothing but the values of their tensors and
their index. While a model is traced, the first of them computes what it does, between two marks.
The others are one op each. `RepeatedLayers.paste` replaces these ops by the nodes between the
marks, which then read the tensors of the other layer. The graph is that of a whole trace.

Whatever could make such a graph wrong raises an exception: the caller then traces all layers.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.fx import Graph, Node

from cpuaccel._compat import OpOverload, tree_flatten, tree_unflatten
from cpuaccel.compile.capture.same_layers import INDEX_NAMES, are_same, tensors_by_name


class Numbers(Protocol):
    """What the ops of a trace are numbered by: the argument `site` of an op is such a number."""

    def count(self) -> int:
        """Return how many numbers were given so far."""

    def repeat(self, first: int, count: int) -> None:
        """Give as many numbers again, for the same ops as those from number `first` on."""


numbers: ContextVar[Numbers | None] = ContextVar("numbers", default=None)


class NotRepeated(Exception):
    """A layer cannot be copied from the first one."""


@dataclass
class _Layer:
    """One layer that repeats."""

    name: str
    """Its name in the model, with a dot at the end."""
    module: Any
    kind: _Kind


@dataclass
class _Traced:
    """The call of a first layer in a trace."""

    name: str
    leaves: list[Any]
    spec: Any
    hidden: int
    """The leaf that the other layers get another tensor for."""
    first_site: int
    sites: int
    output: list[Any]
    """Leaves of its result: a tensor, or the number of the input that it is, or a plain value."""
    output_spec: Any


@dataclass
class _Kind:
    """Layers that differ in their tensors and their index only, and how the first was traced."""

    number: int = -1
    """The number of the trace of the first layer; -1: there is none yet, or it cannot be copied."""


class RepeatedLayers:
    """The layers of one model that repeat, for one trace."""

    def __init__(self) -> None:
        self._traced: list[_Traced | None] = []
        self._copies: list[tuple[_Layer, int]] = []
        self._count = 0

    @property
    def is_used(self) -> bool:
        """Whether layers of the model repeat."""
        return self._count > 0

    def mark(self, model: nn.Module) -> None:
        """Find the layers of a model that only the caller has, and replace their forwards."""
        owners = Counter(id(each) for _, each in tensors_by_name(model, ""))
        for name, layers in _lists_of(model, ""):
            self._mark_list(name, layers, owners)

    def _mark_list(self, name: str, layers: nn.ModuleList, owners: Counter[int]) -> None:
        groups: list[list[tuple[str, Any]]] = []
        for index, layer in layers.named_children():
            of_layer = Counter(id(each) for _, each in tensors_by_name(layer, ""))
            if any(owners[each] != count for each, count in of_layer.items()):
                continue  # its weights are those of another layer too
            for group in groups:
                if are_same(group[0][1], layer):
                    group.append((index, layer))
                    break
            else:
                groups.append([(index, layer)])
        for group in groups:
            if len(group) < 2:
                continue
            kind = _Kind()
            for number, (index, layer) in enumerate(group):
                self._count += 1
                made = _Layer(f"{name}{index}.", layer, kind)
                run = self._first if number == 0 else self._other
                layer.forward = functools.partial(run, made, layer.forward)
                if number == 0:
                    _hide_index(layer)

    def _first(self, layer: _Layer, forward: Any, *args: Any, **kwargs: Any) -> Any:
        """Trace a layer, between marks."""
        leaves, spec = tree_flatten((args, kwargs))
        hidden = _hidden_of(args, kwargs, leaves)
        layer.kind.number = -1
        if hidden is None:
            return forward(*args, **kwargs)
        counter = numbers.get()
        number, before = len(self._traced), counter.count() if counter is not None else 0
        self._traced.append(None)
        given = list(leaves)
        given[hidden] = torch.ops.cpuaccel.layer_input(leaves[hidden], number)
        args, kwargs = tree_unflatten(given, spec)
        result = forward(*args, **kwargs)
        found, output_spec = tree_flatten(result)
        output = _output_of(found, given, hidden)
        if output is None:
            return result
        sites = counter.count() - before if counter is not None else 0
        self._traced[number] = _Traced(
            layer.name, leaves, spec, hidden, before, sites, output, output_spec
        )
        layer.kind.number = number
        for position, (each, kept) in enumerate(zip(found, output, strict=True)):
            if kept is _RESULT:
                found[position] = torch.ops.cpuaccel.layer_output(each, number)
        return tree_unflatten(found, output_spec)

    def _other(self, layer: _Layer, forward: Any, *args: Any, **kwargs: Any) -> Any:
        """Put one op into the trace, if the call is like that of the first layer."""
        number = layer.kind.number
        traced = self._traced[number] if number >= 0 else None
        leaves, spec = tree_flatten((args, kwargs))
        if traced is None or not _is_same_call(traced, leaves, spec):
            return forward(*args, **kwargs)
        counter = numbers.get()
        if counter is not None and traced.sites:
            counter.repeat(traced.first_site, traced.sites)
        hidden = leaves[traced.hidden]
        result = torch.ops.cpuaccel.repeated_layer(hidden, number, len(self._copies))
        self._copies.append((layer, number))
        found = [
            result if kept is _RESULT else leaves[kept.number] if isinstance(kept, _Input) else kept
            for kept in traced.output
        ]
        return tree_unflatten(found, traced.output_spec)

    def check(self, graph: Graph) -> None:
        """Check a graph before functionalization: first layers must write to memory of their own.

        Raises:
            NotRepeated: one does not.
        """
        for body in _bodies(graph).values():
            fresh: set[Node] = set()
            for node in body.nodes:
                target = node.target
                if not isinstance(target, OpOverload):
                    if any(each in fresh for each in node.all_input_nodes):
                        fresh.add(node)
                    continue
                schema = target._schema
                if schema.is_mutable and not _written_of(node) <= fresh:
                    raise NotRepeated(f"{target} writes to memory that the layer does not own")
                is_view = any(each.alias_info is not None for each in schema.returns)
                sources = [each for each in node.all_input_nodes if _is_tensor(each)]
                may_be_view = is_view or schema.name in _SILENT_VIEWS
                if not may_be_view or (sources and set(sources) <= fresh):
                    fresh.add(node)
            if body.result not in fresh:
                raise NotRepeated("a layer returns memory that it does not own")

    def paste(self, graph: Graph) -> None:
        """Replace the layers that were one op each by copies of the first one's nodes.

        Raises:
            NotRepeated: the trace has other nodes than expected.
        """
        bodies = _bodies(graph)
        held = {str(node.target): node for node in graph.find_nodes(op="get_attr")}
        ops: Any = torch.ops.cpuaccel
        site = 0
        for node in list(graph.nodes):
            if node.target is ops.repeated_layer.default:
                src, number, copy = node.args
                layer, _ = self._copies[copy]
                traced = self._traced[number]
                assert traced is not None
                shift = site - traced.first_site
                result = _copied(graph, node, src, bodies[number], traced, layer, shift, held)
                site += traced.sites
                node.replace_all_uses_with(result)
                graph.erase_node(node)
            elif _site_argument(node) is not None:
                site += 1
        for node in list(graph.nodes):
            if node.target in (ops.layer_input.default, ops.layer_output.default):
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)


class _Result:
    """Stands for the tensor that a layer computes."""


_RESULT = _Result()


@dataclass(frozen=True)
class _Input:
    """Stands for an input that a layer returns as it is."""

    number: int


@dataclass
class _Body:
    """The nodes of a first layer."""

    src: Node
    nodes: list[Node]
    result: Node


def _bodies(graph: Graph) -> dict[int, _Body]:
    """Return the nodes between the marks of each first layer that has both marks."""
    ops: Any = torch.ops.cpuaccel
    found: dict[int, _Body] = {}
    opened: dict[int, tuple[Node, list[Node]]] = {}
    for node in graph.nodes:
        if node.target is ops.layer_output.default:
            number: Any = node.args[1]
            src, nodes = opened.pop(number)
            result: Any = node.args[0]
            found[number] = _Body(src, nodes, result)
        elif node.target is ops.layer_input.default:
            opened[node.args[1]] = (node, [])
        else:
            for _, nodes in opened.values():
                nodes.append(node)
    return found


def _copied(
    graph: Graph,
    before: Node,
    src: Node,
    body: _Body,
    traced: _Traced,
    layer: _Layer,
    shift: int,
    held: dict[str, Node],
) -> Node:
    """Copy the nodes of a layer for another layer; return the node of its result."""
    made: dict[Node, Node] = {body.src: src}

    def value_of(node: Node) -> Node:
        if node in made:
            return made[node]
        name = str(node.target)
        if node.op == "get_attr" and name.startswith(traced.name):
            other = layer.name + name.removeprefix(traced.name)
            if other not in held:
                held[other] = _get_attr(graph, other, node)
            made[node] = held[other]
            return made[node]
        if node.op not in ("get_attr", "placeholder") and _is_tensor(node) and node in inside:
            raise NotRepeated("a layer reads a tensor before it is computed")
        return node

    inside = set(body.nodes)
    for node in body.nodes:
        if node.op == "get_attr":
            continue
        if node.target is _sym_size and node.args[0] not in made:
            continue  # a size of an input of the graph, which all layers read
        with graph.inserting_before(before):
            made[node] = graph.node_copy(node, value_of)
        argument = _site_argument(node)
        if argument is not None:
            number: Any = node.args[argument]
            made[node].update_arg(argument, number + shift)
    return value_of(body.result)


def _get_attr(graph: Graph, name: str, like: Node) -> Node:
    with graph.inserting_after(like):
        found = graph.get_attr(name)
    found.meta = dict(like.meta)
    return found


_sym_size: Any = torch.ops.aten.sym_size.int

_SILENT_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        *("dropout", "feature_dropout", "type_as", "einsum", "to", "reshape", "contiguous"),
        *("flatten", "expand_as", "view_as", "reshape_as", "matrix_H", "cpu", "float", "double"),
    )
)
"""Composite ops that may return their source or a view of it, whatever their schemas say."""


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)


def _written_of(node: Node) -> set[Node]:
    """Return the nodes that an op writes to."""
    target: Any = node.target
    given = dict(zip((each.name for each in target._schema.arguments), node.args, strict=False))
    given.update(node.kwargs)
    found: set[Node] = set()
    for each in target._schema.arguments:
        if each.alias_info is not None and each.alias_info.is_write:
            value = given.get(each.name)
            found |= {leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Node)}
    return found


def _site_argument(node: Node) -> int | None:
    """Return the position of the argument `site` of an op of cpuaccel; None if it has none."""
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace != "cpuaccel":
        return None
    names = [each.name for each in target._schema.arguments]
    return names.index("site") if "site" in names else None


def _lists_of(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.ModuleList]]:
    """Return the outermost lists of layers, with their names."""
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList) and len(child) > 1:
            yield f"{prefix}{name}.", child
        else:
            yield from _lists_of(child, f"{prefix}{name}.")


def _hidden_of(args: Any, kwargs: Any, leaves: list[Any]) -> int | None:
    """Return the leaf that changes from layer to layer: the first argument."""
    src = args[0] if args else kwargs.get("hidden_states")
    if not isinstance(src, Tensor) or not src.is_contiguous():
        return None
    found = [number for number, each in enumerate(leaves) if each is src]
    return found[0] if len(found) == 1 else None


def _output_of(found: list[Any], leaves: list[Any], hidden: int) -> list[Any] | None:
    """Describe the leaves of a result; None if there is not one tensor like the layer's input."""
    output: list[Any] = []
    for each in found:
        same = [number for number, leaf in enumerate(leaves) if leaf is each]
        if isinstance(each, Tensor) and not same:
            output.append(_RESULT)
            if not _is_like(each, leaves[hidden]):
                return None
        elif not isinstance(each, Tensor) and isinstance(each, _PLAIN):
            output.append(each)
        elif same and same[0] != hidden:
            output.append(_Input(same[0]))
        else:
            return None
    return output if output.count(_RESULT) == 1 else None


_PLAIN = (bool, int, float, str, type(None))


def _is_same_call(traced: _Traced, leaves: list[Any], spec: Any) -> bool:
    if spec != traced.spec:
        return False
    for number, (each, first) in enumerate(zip(leaves, traced.leaves, strict=True)):
        if number == traced.hidden:
            if not isinstance(each, Tensor) or not _is_like(each, first):
                return False
        elif each is not first and (
            type(each) is not type(first) or not isinstance(each, _PLAIN) or each != first
        ):
            return False
    return True


def _is_like(a: Tensor, b: Tensor) -> bool:
    return (
        type(a) is type(b)
        and a.dtype == b.dtype
        and a.device == b.device
        and a.layout == b.layout
        and _numbers(a.shape) == _numbers(b.shape)
        and _numbers(a.stride()) == _numbers(b.stride())
    )


def _numbers(sizes: Any) -> list[Any]:
    """Return sizes as numbers or expressions, whose comparison adds no guard."""
    return [each.node.expr if isinstance(each, torch.SymInt) else each for each in sizes]


class _Index:
    """Stands for the index of a first layer: whoever reads it as a number gets an exception."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise NotRepeated("a layer compares its index")

    def __bool__(self) -> bool:
        raise NotRepeated("a layer reads its index")

    def __str__(self) -> str:
        raise NotRepeated("a layer reads its index")


def _hide_index(layer: nn.Module) -> None:
    for module in layer.modules():
        for name in INDEX_NAMES & vars(module).keys():
            if vars(module)[name] is not None:
                vars(module)[name] = _Index()


_torch_library: Any = torch.library  # its annotations are incomplete

_library = _torch_library.Library("cpuaccel", "FRAGMENT")
_library.define("layer_input(Tensor src, int number) -> Tensor")
_library.define("layer_output(Tensor src, int number) -> Tensor")
_library.define("repeated_layer(Tensor src, int number, int copy) -> Tensor")


def _fake(src: Tensor, *_: int) -> Tensor:
    return torch.empty_like(src)


for _name in ("layer_input", "layer_output", "repeated_layer"):
    _torch_library.register_fake(f"cpuaccel::{_name}", _fake, lib=_library)
