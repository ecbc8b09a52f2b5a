"""Puts regions into a graph, and decomposes ops that were preserved for oneDNN but not taken."""

from __future__ import annotations

import operator
from contextlib import nullcontext
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx

from cpuaccel._compat import detect_fake_mode, stable_topological_sort, tree_flatten, tree_unflatten
from cpuaccel._inductor.nodes import keep_origin
from cpuaccel.compile.bridge import region_op as _region_op  # noqa: F401  the fake kernel
from cpuaccel.compile.bridge import torch_fallback
from cpuaccel.compile.partition import cheap_ops
from cpuaccel.compile.partition.regions import Region
from cpuaccel.compile.passes import decompositions


def put_regions(graph: Graph, regions: list[Region]) -> None:
    """Replace the nodes of each region by a call of cpuaccel::graph_region, or graph_region_."""
    # Encoding may raise, and comes first: the graph is changed completely or not at all.
    texts = [
        torch_fallback.encode(region.inputs, region.constants, region.nodes, region.results)
        for region in regions
    ]
    put: dict[Node, Node] = {}
    read = {node for node in graph.nodes if node.users}
    for region, text in zip(regions, texts, strict=True):
        _put(graph, region, text, put)
    if regions:
        stable_topological_sort(graph)
        _erase_unread(graph, read)


def _put(graph: Graph, region: Region, text: str, put: dict[Node, Node]) -> None:
    """`put` has the nodes that replace the results of earlier regions."""
    inputs = [put.get(node, node) for node in region.inputs]
    # The copy_ nodes of mutations are at the end, after nodes that may read the region's results.
    last = next(node for node in reversed(region.nodes) if node.target is not torch_fallback.COPY)
    with graph.inserting_after(last):
        call = graph.call_function(*region.call(inputs, region.constants, text))
    call.meta["val"] = [
        torch_fallback.laid_out_like(node.meta["val"], last) for node, last in region.outputs
    ]
    position = call
    inside = set(region.nodes)
    for index, (node, _) in enumerate(region.outputs):
        with graph.inserting_after(position):
            result = graph.call_function(operator.getitem, (call, index))
        keep_origin(node, result)
        result.meta["val"] = call.meta["val"][index]
        put[node] = result
        node.replace_all_uses_with(result, delete_user_cb=lambda user: user not in inside)
        position = result
    for node in reversed(region.nodes):
        if not node.users:
            graph.erase_node(node)


def _erase_unread(graph: Graph, once_read: set[Node]) -> None:
    """Erase nodes that only regions have read: attention, of which regions take the first result.

    FX would keep it, and all nodes before it, because it may draw random numbers.
    """
    for node in reversed(graph.nodes):
        if node in once_read and not node.users and not node.is_impure(impure_random=False):
            graph.erase_node(node)


def decompose_preserved(graph: Graph) -> None:
    """Decompose ops that were preserved but not taken, as Inductor would have done."""
    graph.eliminate_dead_code()  # nodes that were looked through have no readers now
    preserved, table = decompositions.of_preserved(), decompositions.all_decompositions()
    for node in list(graph.nodes):
        if node.target in preserved and cheap_ops.TO_TORCH not in node.meta:
            _replace(graph, node, table)
    graph.eliminate_dead_code()


def _replace(graph: Graph, node: Node, table: decompositions.Decompositions) -> None:
    leaves, spec = tree_flatten((node.args, node.kwargs))
    values = [leaf for leaf in leaves if isinstance(leaf, Node)]

    def call(*given: Any) -> Any:
        real = iter(given)
        filled = [next(real) if isinstance(leaf, Node) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(filled, spec)
        target: Any = node.target
        return target(*args, **kwargs)

    fakes = [value.meta["val"] for value in values]
    # In their mode, so that tensors that a decomposition makes are fake tensors too.
    with detect_fake_mode(fakes) or nullcontext():
        traced = make_fx(call, decomposition_table=table)(*fakes)
    with graph.inserting_before(node):
        made: dict[Node, Any] = {}
        inputs = iter(values)
        for each in traced.graph.nodes:
            if each.op == "placeholder":
                made[each] = next(inputs)
            elif each.op == "output":
                result = torch.fx.map_arg(each.args[0], made.__getitem__)
            else:
                made[each] = graph.node_copy(each, made.__getitem__)
    if isinstance(result, (list, tuple)):
        for user in list(node.users):
            index: Any = user.args[1]
            user.replace_all_uses_with(result[index])
            graph.erase_node(user)
    else:
        node.replace_all_uses_with(result)
    graph.erase_node(node)
