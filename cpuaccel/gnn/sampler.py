"""PyG's neighbor sampling without PyG's extensions: a `torch_geometric.sampler.BaseSampler`."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, SamplerOutput
from torch_geometric.sampler.base import NumNeighbors, SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from cpuaccel._ops import sample as _fake_kernels  # noqa: F401
from cpuaccel.gnn._csc import graph_of


class NeighborSampler(BaseSampler):  # type: ignore[misc]
    """Samples neighbors of nodes and links, for `NodeLoader` and `LinkLoader`.

    Arguments and results are those of `torch_geometric.sampler.NeighborSampler`. Each neighbor is
    as likely as any other. What is sampled depends on `torch.manual_seed` (in a worker of a
    DataLoader: on the seed that torch gives it), not on `torch.set_num_threads`.
    `subgraph_type="induced"` and `disjoint` may be combined.

    Args:
        data: a Data, a HeteroData, or a pair (FeatureStore, GraphStore).
        num_neighbors: number per hop, for all edge types or in a dictionary by edge type; -1 means
            all.
        subgraph_type: "directional", "bidirectional" or "induced".
        replace: draw with replacement.
        disjoint: each seed gets a subgraph of its own.
        temporal_strategy: "uniform" or "last", without effect: there is no temporal sampling.
        time_attr: must be None.
        weight_attr: must be None.
        is_sorted: `edge_index` is sorted by column.
        share_memory: keep the sorted graph in shared memory.
        directed: PyG's older name for `subgraph_type != "induced"`.

    Raises:
        IndexError: an edge names a node that does not exist.
        ValueError: a number of neighbors is below -1; `temporal_strategy` is unknown; `is_sorted`
            is set and the edges are not sorted.
        NotImplementedError: `time_attr` or `weight_attr` is given.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: Any = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
    ) -> None:
        if not directed:
            subgraph_type = SubgraphType.induced
            warnings.warn("directed=False is deprecated: use subgraph_type='induced'", stacklevel=2)
        for name, value in (("time_attr", time_attr), ("weight_attr", weight_attr)):
            if value is not None:
                raise NotImplementedError(
                    f"{name}: expected None, but got {value!r}: every neighbor has the same "
                    "probability, its time and weight do not count"
                )
        if temporal_strategy not in ("uniform", "last"):
            raise ValueError(
                f"temporal_strategy: expected 'uniform' or 'last', but got {temporal_strategy!r}"
            )
        self._graph = graph_of(data, is_sorted, share_memory)
        self.num_neighbors = num_neighbors
        self.subgraph_type = SubgraphType(subgraph_type)
        self.replace = replace
        self.disjoint = disjoint
        self.temporal_strategy = temporal_strategy
        self.keep_orig_edges = False

    @property
    def is_hetero(self) -> bool:
        """Whether the graph has types."""
        return self._graph.has_types

    @property
    def is_temporal(self) -> bool:
        """False: there is no temporal sampling."""
        return False

    @property
    def num_nodes(self) -> int | dict[Any, int]:
        """Number of nodes of the graph, by node type if it has types."""
        if not self.is_hetero:
            return self._graph.num_nodes[0]
        return dict(zip(self._graph.node_types, self._graph.num_nodes, strict=True))

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Number of neighbors to sample in each hop."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, value: Any) -> None:
        numbers = value if isinstance(value, NumNeighbors) else NumNeighbors(value)
        types = self._graph.edge_types
        if self.is_hetero:
            by_type = numbers.get_values(types)
            fan_out = [list(by_type[name]) for name in types]
        else:
            fan_out = [list(numbers.get_values())]
        for of_type in fan_out:
            for number in of_type:
                if number < -1:
                    raise ValueError(
                        f"num_neighbors: expected -1 (all) or at least 0, but got {number}"
                    )
        self._num_neighbors, self._fan_out = numbers, fan_out

    @property
    def edge_permutation(self) -> Any:
        """Where the sampled edges are in the graph's `edge_index`."""
        return self._graph.permutation

    def sample_from_nodes(self, inputs: Any, **_: Any) -> Any:
        """Return a SamplerOutput (HeteroSamplerOutput) around the nodes of a NodeSamplerInput."""
        _check_no_time(inputs)
        return self._with_direction(node_sample(inputs, self._sample))

    def sample_from_edges(self, inputs: Any, neg_sampling: Any = None) -> Any:
        """Return a SamplerOutput (HeteroSamplerOutput) around the links of an EdgeSamplerInput.

        Negative links are drawn by the code of PyG's NeighborSampler.
        """
        _check_no_time(inputs)
        output = edge_sample(
            inputs, self._sample, self.num_nodes, self.disjoint, None, neg_sampling
        )
        return self._with_direction(output)

    def _with_direction(self, output: Any) -> Any:
        if self.subgraph_type == SubgraphType.bidirectional:
            return output.to_bidirectional(keep_orig_edges=self.keep_orig_edges)
        return output

    def _sample(self, seed: Any, _seed_time: Any = None) -> Any:
        graph = self._graph
        seeds: dict[Any, Tensor] = seed if isinstance(seed, dict) else {None: seed}
        node, batch, src, dst, edge, nodes_of_hop, edges_of_hop = (
            torch.ops.cpuaccel.neighbor_sample(
                graph.colptr,
                graph.row,
                *graph.ends(),
                graph.num_nodes,
                [graph.node_types.index(name) for name in seeds],
                list(seeds.values()),
                [number for of_type in self._fan_out for number in of_type],
                len(self._fan_out[0]) if self._fan_out else 0,
                int(torch.empty((), dtype=torch.int64).random_()),
                self.replace,
                self.disjoint,
                self.subgraph_type == SubgraphType.induced,
            )
        )
        if not self.disjoint:
            batch = None
        counts: tuple[Any, Any] = (nodes_of_hop.tolist(), edges_of_hop.tolist())
        if self.subgraph_type == SubgraphType.induced:
            counts = (None, None)  # no hop has edges of its own
        return (self._heterogeneous_output if self.is_hetero else self._homogeneous_output)(
            (node, src, dst, edge, batch), *counts
        )

    def _homogeneous_output(self, tensors: Any, nodes_of_hop: Any, edges_of_hop: Any) -> Any:
        node, row, col, edge, batch = (each and each[0] for each in tensors)
        return SamplerOutput(
            node=node,
            row=row,
            col=col,
            edge=edge,
            batch=batch,
            num_sampled_nodes=nodes_of_hop and nodes_of_hop[0],
            num_sampled_edges=edges_of_hop and edges_of_hop[0],
        )

    def _heterogeneous_output(self, tensors: Any, nodes_of_hop: Any, edges_of_hop: Any) -> Any:
        node, row, col, edge, batch = tensors

        def of_nodes(values: Any) -> Any:
            return values and dict(zip(self._graph.node_types, values, strict=True))

        def of_edges(values: Any) -> Any:
            return values and dict(zip(self._graph.edge_types, values, strict=True))

        return HeteroSamplerOutput(
            node=of_nodes(node),
            row=of_edges(row),
            col=of_edges(col),
            edge=of_edges(edge),
            batch=of_nodes(batch),
            num_sampled_nodes=of_nodes(nodes_of_hop),
            num_sampled_edges=of_edges(edges_of_hop),
        )


def _check_no_time(inputs: Any) -> None:
    if inputs.time is not None:
        raise NotImplementedError("input_time: expected None: cpuaccel has no temporal sampling")
