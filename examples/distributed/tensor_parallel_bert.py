"""Embeds sentences with all-MiniLM-L6-v2, whose layers are divided between processes.

    torchrun --standalone --nproc-per-node 2 examples/distributed/tensor_parallel_bert.py

DTensor's tensor parallelism, as the paper on Megatron-LM has it: a process has some heads and some
of the inner features, so a layer needs two sums over all processes (all_reduce over gloo). The
compiled model is one graph; cpuaccel makes plans of the parts between the sums, on packed shards of
the weights. Needs `requirements-minilm.txt` of examples/serve.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

sys.path.append(str(Path(__file__).resolve().parents[2]))

import cpuaccel
from examples.distributed import processes
from examples.minilm import minilm
from examples.minilm.bert import Bert
from examples.minilm.sentences import SENTENCES

BOUND = 1e-5
"""Of numbers of vectors of length 1: products are summed in parts."""

_LAYER: dict[str, ParallelStyle] = {
    "attention.self.query": ColwiseParallel(),
    "attention.self.key": ColwiseParallel(),
    "attention.self.value": ColwiseParallel(),
    "attention.output.dense": RowwiseParallel(),
    "intermediate.dense": ColwiseParallel(),
    "output.dense": RowwiseParallel(),
}


def parallelize(model: Bert) -> nn.Module:
    """Divides the layers of `model` between all processes, in place.

    Raises:
        ValueError: the processes do not divide the number of heads.
    """
    world = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (world,))
    for layer in model.encoder["layer"]:  # type: ignore[union-attr]
        attention = layer.attention["self"]
        if attention.heads % world:
            raise ValueError(f"expected processes that divide {attention.heads} heads, got {world}")
        attention.heads //= world
        parallelize_module(layer, mesh, _LAYER)
    return model


def _print_first_layer(compiled: nn.Module) -> None:
    """Prints the plans of cpuaccel up to the second sum."""
    rows = [row for row in cpuaccel.explain(compiled).rows if row.provider != "inductor"]
    print(f"tensor_parallel_bert: {len(rows)} ops in plans, the first of them:")
    for row in rows[:8]:
        print(f"  {row.layer}: {row.op} by {row.provider}")


def main() -> None:
    """Embeds the sentences in all processes and alone, and compares the vectors."""
    tokens = minilm.tokenize(SENTENCES)
    with processes.group() as (rank, _):
        backend = "cpuaccel" if cpuaccel.is_enabled() else "inductor"
        expected = minilm.embed(minilm.load(), tokens)
        compiled = torch.compile(parallelize(minilm.load()), backend=backend)
        minilm.embed(compiled, tokens)
        found = minilm.embed(compiled, tokens)
        if rank == 0:
            _print_first_layer(compiled)
        difference = processes.largest_difference([found], [expected])
        processes.report("tensor_parallel_bert", difference, BOUND)


if __name__ == "__main__":
    main()
