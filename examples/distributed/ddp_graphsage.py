"""Trains GraphSAGE on a partitioned graph: one part per process, DDP over gloo, cpuaccel's loader.

    torchrun --standalone --nproc-per-node 2 examples/distributed/ddp_graphsage.py
    python examples/distributed/ddp_graphsage.py --parts 2

The second command trains the same model in one process. It uses the same parts and batches and the
mean of their gradients, so its losses equal those of the first up to rounding. The graph is
synthetic, with the density, features and classes of ogbn-products; `--scale 21` gives its size. A
part is every P-th node, the edges that end in these nodes, and the source nodes of these edges
(without their own edges). If a process is lost, the others end with an error. Needs PyG:
`pip install torch_geometric`.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks._arguments import names, positive
from benchmarks.gnn._graphs import GRAPHS
from cpuaccel.gnn import NeighborLoader

_EDGE_BLOCK = 1 << 22
_NODE_BLOCK = 1 << 16
_HELD_OUT = 0.1


@dataclass(frozen=True)
class Part:
    """A part of the graph: its own nodes first, then other nodes that are sources of its edges."""

    data: Data
    train: Tensor
    test: Tensor


def make_part(part: int, options: argparse.Namespace) -> Part:
    """Part `part` of `options.parts`; each process holds only its own part of the graph."""
    nodes, parts = 1 << options.scale, options.parts
    begin, end = _edges(part, options)
    own = np.arange(part, nodes, parts)
    halo = np.setdiff1d(begin, own)
    known = np.concatenate([own, halo])
    place = np.empty(nodes, np.int64)
    place[known] = np.arange(len(known))
    data = Data(
        x=_features(known, options),
        y=torch.from_numpy(known % options.classes),
        edge_index=torch.from_numpy(np.stack([place[begin], place[end]])),
    )
    size = nodes // parts  # the same for each part, so that all have the same number of batches
    train = max(0, size - max(1, round(size * _HELD_OUT)))
    return Part(data, torch.arange(train), torch.arange(train, size))


def _edges(part: int, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Source and target nodes of the part's edges: R-MAT, half of them within a class."""
    nodes, edges = 1 << options.scale, options.degree << options.scale
    shuffled = np.random.default_rng(options.seed).permutation(nodes)
    found = []
    for block, first in enumerate(range(0, edges, _EDGE_BLOCK)):
        random = np.random.default_rng([options.seed, block])
        count = min(_EDGE_BLOCK, edges - first)
        graph = GRAPHS["rmat-clustered"](nodes, count, random)
        begin, end = shuffled[graph.row], shuffled[graph.col]
        alike = begin // options.classes * options.classes + end % options.classes
        begin = np.where((random.random(count) < 0.5) & (alike < nodes), alike, begin)
        here = end % options.parts == part
        found.append((begin[here], end[here]))
    begins, ends = zip(*found, strict=True)
    return np.concatenate(begins), np.concatenate(ends)


def _features(nodes: np.ndarray, options: argparse.Namespace) -> Tensor:
    """A weak signal of each node's class plus noise; the same for a node in every part."""
    generator = torch.Generator().manual_seed(options.seed)
    centers = torch.randn(options.classes, options.features, generator=generator)
    result = centers[torch.from_numpy(nodes % options.classes)] / 4
    for block in np.unique(nodes // _NODE_BLOCK):
        generator.manual_seed(options.seed + 1 + int(block))
        noise = torch.randn(_NODE_BLOCK, options.features, generator=generator)
        here = torch.from_numpy(np.flatnonzero(nodes // _NODE_BLOCK == block))
        result[here] += noise[torch.from_numpy(nodes)[here] % _NODE_BLOCK]
    return result


def loader_of(part: Part, nodes: Tensor, number: int, options: argparse.Namespace) -> Any:
    """Batches around `nodes`, sampled in forked workers; the same for the same part number."""
    return NeighborLoader(
        part.data,
        options.fan_out,
        nodes,
        batch_size=options.batch,
        shuffle=True,
        drop_last=True,
        num_workers=options.workers,
        multiprocessing_context="fork",
        # A separate generator: sampling must not depend on what else the process does.
        generator=torch.Generator().manual_seed(1000 * options.seed + number),
    )


def train(numbers: list[int], options: argparse.Namespace) -> list[float]:
    """Trains on these parts together with the other processes; returns each step's mean loss."""
    parts = [make_part(number, options) for number in numbers]
    if options.batch > len(parts[0].train):
        raise SystemExit(
            f"--batch: expected at most {len(parts[0].train)}, the nodes of a part that train, but "
            f"got {options.batch}"
        )
    loaders = [
        loader_of(part, part.train, number, options)
        for number, part in zip(numbers, parts, strict=True)
    ]
    torch.manual_seed(options.seed)
    model: torch.nn.Module = GraphSAGE(
        options.features, options.hidden, len(options.fan_out), options.classes
    )
    if _world() > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    losses: list[float] = []
    for epoch in range(1, options.epochs + 1):
        start, steps = time.perf_counter(), len(losses)
        for batches in zip(*loaders, strict=True):
            optimizer.zero_grad()
            loss = torch.stack([_loss(model, batch) for batch in batches]).mean()
            loss.backward()
            optimizer.step()
            losses.append(float(_mean(loss.detach())))
        mean = sum(losses[steps:]) / (len(losses) - steps)
        right = _accuracy(model, parts, numbers, options)
        if _rank() == 0:
            seconds = time.perf_counter() - start
            print(
                f"epoch {epoch}: loss {mean:.4f}, accuracy {right:.3f}, {seconds:.1f} s",
                flush=True,
            )
    return losses


def _loss(model: torch.nn.Module, batch: Data) -> Tensor:
    out = model(batch.x, batch.edge_index)[: batch.batch_size]
    return cross_entropy(out, batch.y[: batch.batch_size])


@torch.no_grad()
def _accuracy(
    model: torch.nn.Module, parts: list[Part], numbers: list[int], options: argparse.Namespace
) -> float:
    """Accuracy on the first batch of each part's test nodes."""
    found = []
    for number, part in zip(numbers, parts, strict=True):
        nodes = part.test[: options.batch]
        torch.manual_seed(options.seed + number)
        batch = loader_of(part, nodes, number, options)(torch.arange(len(nodes)))
        out = model(batch.x, batch.edge_index)[: len(nodes)].argmax(1)
        found.append((out == batch.y[: len(nodes)]).float().mean())
    return float(_mean(torch.stack(found).mean()))


def _mean(number: Tensor) -> Tensor:
    """The mean over all processes."""
    if _world() > 1:
        dist.all_reduce(number)
    return number / _world()


def _world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def main(arguments: list[str] | None = None) -> list[float]:
    """Trains according to `arguments` and torchrun's environment; returns each step's mean loss."""
    options = _parser().parse_args(arguments)
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if world > 1 and options.parts not in (None, world):
        raise SystemExit(f"--parts: expected {world}, one a process, but got {options.parts}")
    options.parts = options.parts or max(world, 2)
    numbers = [rank] if world > 1 else list(range(options.parts))
    try:
        if world > 1:
            dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout))
        losses = train(numbers, options)
    except RuntimeError as error:
        if world == 1:
            raise
        # If a process is lost, gloo's connection to it fails with a RuntimeError here.
        raise SystemExit(
            f"rank {rank}: training stopped, possibly because another process ended: {error}"
        ) from None
    if options.json and rank == 0:
        options.json.write_text(json.dumps(losses))
    if world > 1:
        dist.destroy_process_group()
    return losses


def _fan_out(text: str) -> list[int]:
    return [int(number) for number in names(text)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parts",
        type=positive,
        help="parts of the graph (default: the number of processes; 2 for one process)",
    )
    parser.add_argument(
        "--scale", type=positive, default=17, help="the graph has 2^SCALE nodes (default: 17)"
    )
    parser.add_argument("--degree", type=positive, default=50, help="edges per node (default: 50)")
    parser.add_argument(
        "--features", type=positive, default=100, help="features of a node (default: 100)"
    )
    parser.add_argument(
        "--classes", type=positive, default=47, help="classes of nodes (default: 47)"
    )
    parser.add_argument(
        "--hidden", type=positive, default=128, help="hidden features (default: 128)"
    )
    parser.add_argument(
        "--fan-out", type=_fan_out, default=[15, 10], help="neighbors per hop (default: 15,10)"
    )
    parser.add_argument(
        "--batch", type=positive, default=512, help="nodes per part and step (default: 512)"
    )
    parser.add_argument("--epochs", type=positive, default=3, help="epochs to train (default: 3)")
    parser.add_argument("--lr", type=float, default=0.003, help="learning rate (default: 0.003)")
    parser.add_argument(
        "--workers", type=positive, default=1, help="worker processes of a loader (default: 1)"
    )
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        help="seconds to wait for other processes (default: 120)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all losses to FILE")
    return parser


if __name__ == "__main__":
    main()
