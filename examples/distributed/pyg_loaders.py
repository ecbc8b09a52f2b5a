"""Trains GraphSAGE with PyG's loaders in several processes, each with several workers.

    torchrun --standalone --nproc-per-node 2 examples/distributed/pyg_loaders.py

Each process samples around its share of the nodes, as PyG's tutorial on several processes has it:
DDP averages the gradients. The loaders' workers run on the cores that `enable_cpu_affinity` gives
them. One process that samples both shares has the same losses. ddp_graphsage.py also divides the
graph. Needs PyG.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

sys.path.append(str(Path(__file__).resolve().parents[2]))

from cpuaccel.gnn import NeighborLoader, accelerate
from examples.distributed import processes

BOUND = 1e-4
"""Of the losses: gradients are summed in another order."""

_NODES, _EDGES, _FEATURES, _CLASSES, _BATCH = 2000, 20_000, 32, 8, 100


def graph() -> Data:
    """Random edges, most of them between nodes of a class, and features that hint at it."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.randint(_CLASSES, (_NODES,), generator=generator)
    ends = torch.randint(_NODES, (2, 8 * _EDGES), generator=generator)
    same = classes[ends[0]] == classes[ends[1]]
    chosen = torch.cat([ends[:, same][:, : _EDGES * 3 // 4], ends[:, ~same][:, : _EDGES // 4]], 1)
    hints = nn.functional.one_hot(classes, _FEATURES).float()
    x = hints + torch.randn(_NODES, _FEATURES, generator=generator)
    return Data(x=x, y=classes, edge_index=chosen)


def main(arguments: list[str] | None = None) -> None:
    """Trains in all processes and alone, and compares the losses."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="workers of a loader (default: 2)")
    parser.add_argument("--epochs", type=int, default=2, help="epochs to train (default: 2)")
    options = parser.parse_args(arguments)
    with processes.group() as (rank, world):
        found = _train([rank], world, options)
        expected = _train(list(range(world)), world, options)
        mine = [each[0] for each in found], [each[rank] for each in expected]
        if rank == 0:
            first, last = float(found[0][0]), float(found[-1][0])
            print(f"pyg_loaders: {len(found)} batches a process, loss {first:.3f} to {last:.3f}")
        processes.report("pyg_loaders", processes.largest_difference(*mine), BOUND)


def _train(shares: list[int], world: int, options: argparse.Namespace) -> list[list[Tensor]]:
    """Trains on these shares of the nodes; returns the loss of each share in each step."""
    data = graph()
    torch.manual_seed(0)
    model: nn.Module = accelerate(GraphSAGE(_FEATURES, 64, 2, _CLASSES))
    if len(shares) < world:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for epoch in range(options.epochs):
        loaders = [_batches(data, share, world, epoch, options.workers) for share in shares]
        for batches in zip(*loaders, strict=True):
            optimizer.zero_grad()
            each = [_loss(model, batch) for batch in batches]
            torch.stack(each).mean().backward()
            optimizer.step()
            losses.append([loss.detach() for loss in each])
    return losses


def _loss(model: nn.Module, batch: Any) -> Tensor:
    out = model(batch.x, batch.edge_index)[: batch.batch_size]
    return nn.functional.cross_entropy(out, batch.y[: batch.batch_size])


def _batches(data: Data, share: int, world: int, epoch: int, workers: int) -> Any:
    """The batches of a share, the same in every process that asks for them."""
    cores = sorted(os.sched_getaffinity(0))
    loader = NeighborLoader(
        data,
        [10, 5],
        torch.arange(share, _NODES, world),
        batch_size=_BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        multiprocessing_context="fork",
        generator=torch.Generator().manual_seed(1000 * epoch + share),
    )
    with loader.enable_cpu_affinity([cores[i % len(cores)] for i in range(workers)]):
        yield from loader


if __name__ == "__main__":
    main()
