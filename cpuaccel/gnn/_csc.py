"""Converts PyG's graphs to CSC for the sampler: by edge type, the edges that end in each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, remote_backend_utils
from torch_geometric.sampler.base import DataType
from torch_geometric.sampler.utils import to_csc, to_hetero_csc


@dataclass(frozen=True)
class Graph:
    """The node types, the edge types, and the CSC form of each edge type, in the same order.

    A homogeneous graph has one type of each, named None.
    """

    node_types: list[Any]
    edge_types: list[Any]
    num_nodes: list[int]
    colptr: list[Tensor]
    """Shape [nodes of the destination type + 1]."""
    row: list[Tensor]
    """Shape [edges]: the source nodes."""
    permutation: Any
    """Where edges were before sorting: a tensor, None, or a dictionary of tensors."""

    @property
    def has_types(self) -> bool:
        """Whether it is a heterogeneous graph."""
        return self.node_types != [None]

    def ends(self) -> tuple[list[int], list[int]]:
        """By edge type, the indices of the source and destination types in `node_types`."""
        if not self.has_types:
            return [0], [0]
        place = {name: i for i, name in enumerate(self.node_types)}
        return [place[src] for src, _, _ in self.edge_types], [
            place[dst] for _, _, dst in self.edge_types
        ]


def graph_of(data: Any, is_sorted: bool, share_memory: bool) -> Graph:
    """Return the graph of a Data, a HeteroData, or a pair (FeatureStore, GraphStore).

    Raises:
        IndexError: an edge names a node that does not exist.
        ValueError: `is_sorted` is set and the edges are not sorted by destination; or `data` is
            something else.
    """
    kind = DataType.from_data(data)
    if kind == DataType.homogeneous:
        return _homogeneous(data, is_sorted, share_memory)
    if kind == DataType.heterogeneous:
        return _heterogeneous(data, is_sorted, share_memory)
    return _remote(*data)


def _homogeneous(data: Data, is_sorted: bool, share_memory: bool) -> Graph:
    _check_edges(None, data.edge_index, (data.num_nodes, data.num_nodes), is_sorted)
    colptr, row, permutation = to_csc(
        data, device="cpu", share_memory=share_memory, is_sorted=is_sorted
    )
    return Graph(
        [None], [None], [data.num_nodes], [_index_tensor(colptr)], [_index_tensor(row)], permutation
    )


def _heterogeneous(data: HeteroData, is_sorted: bool, share_memory: bool) -> Graph:
    node_types, edge_types = data.metadata()
    num_nodes = {name: data[name].num_nodes for name in node_types}
    for name in edge_types:
        size = (num_nodes[name[0]], num_nodes[name[-1]])
        _check_edges(name, data[name].get("edge_index"), size, is_sorted)
    colptr, row, permutation = to_hetero_csc(
        data, device="cpu", share_memory=share_memory, is_sorted=is_sorted
    )
    return Graph(
        list(node_types),
        list(edge_types),
        list(num_nodes.values()),
        [_index_tensor(colptr[name]) for name in edge_types],
        [_index_tensor(row[name]) for name in edge_types],
        permutation,
    )


def _remote(features: Any, graph: Any) -> Graph:
    attributes = graph.get_all_edge_attrs()
    edge_types = list(dict.fromkeys(attribute.edge_type for attribute in attributes))
    row, colptr, permutation = graph.csc()
    if edge_types == [None]:
        nodes = max(attributes[0].size)
        return Graph(
            [None], [None], [nodes], [_index_tensor(colptr)], [_index_tensor(row)], permutation
        )
    groups = (attribute.group_name for attribute in features.get_all_tensor_attrs())
    node_types = list(dict.fromkeys(name for name in groups if isinstance(name, str)))
    return Graph(
        node_types,
        edge_types,
        [remote_backend_utils.size(features, graph, name) for name in node_types],
        [_index_tensor(colptr[name]) for name in edge_types],
        [_index_tensor(row[name]) for name in edge_types],
        permutation,
    )


def _check_edges(name: Any, edges: Any, size: tuple[int, int], is_sorted: bool) -> None:
    # Before sorting and counting, because torch does not check indices there.
    if not isinstance(edges, Tensor) or edges.numel() == 0:
        return
    of_type = "" if name is None else f" of {name}"
    for place, (ends, nodes) in enumerate(zip(edges, size, strict=True)):
        numbers = _index_tensor(ends)
        least, most = (int(number) for number in numbers.aminmax())
        if least < 0 or most >= nodes:
            raise IndexError(
                f"edge_index[{place}]{of_type}: expected nodes of at least 0 and below {nodes}, "
                f"but got {least if least < 0 else most}"
            )
    ends = _index_tensor(edges[1])
    if is_sorted and not bool((ends[:-1] <= ends[1:]).all()):
        raise ValueError(
            f"edge_index{of_type}: expected edges sorted by destination, because is_sorted=True, "
            "but they are not"
        )


def _index_tensor(numbers: Tensor) -> Tensor:
    # PyG's Index is a wrapper around a tensor.
    plain = numbers.as_tensor() if hasattr(numbers, "as_tensor") else numbers
    return plain if plain.dtype in (torch.int32, torch.int64) else plain.long()
