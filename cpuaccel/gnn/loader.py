"""PyG's neighbor loaders on cpuaccel's sampler: they need no pyg_lib and no torch_sparse."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch_geometric.loader

from cpuaccel.gnn.sampler import NeighborSampler


def _with_cpuaccel_sampler(loader: Any) -> Any:
    """Return the `__init__` of PyG's `loader`, but with a `NeighborSampler` unless one is given."""
    signature = inspect.signature(loader.__init__)

    @functools.wraps(loader.__init__)
    def init(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        if values["neighbor_sampler"] is None:
            options = inspect.signature(NeighborSampler).parameters.keys() & values.keys()
            values["neighbor_sampler"] = NeighborSampler(
                **{name: values[name] for name in options},
                share_memory=values["kwargs"].get("num_workers", 0) > 0,
            )
        loader.__init__(*given.args, **given.kwargs)

    return init


class NeighborLoader(torch_geometric.loader.NeighborLoader):  # type: ignore[misc]
    """`torch_geometric.loader.NeighborLoader` with its arguments and batches.

    `NeighborSampler` documents what cpuaccel's sampler supports and rejects. If a
    `neighbor_sampler` is given, it is used as it is.
    """

    __init__ = _with_cpuaccel_sampler(torch_geometric.loader.NeighborLoader)


class LinkNeighborLoader(torch_geometric.loader.LinkNeighborLoader):  # type: ignore[misc]
    """`torch_geometric.loader.LinkNeighborLoader` with its arguments and batches.

    `NeighborSampler` documents what cpuaccel's sampler supports and rejects. If a
    `neighbor_sampler` is given, it is used as it is.
    """

    __init__ = _with_cpuaccel_sampler(torch_geometric.loader.LinkNeighborLoader)
