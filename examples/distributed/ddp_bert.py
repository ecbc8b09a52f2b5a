"""Trains a small BERT with DistributedDataParallel; each process has a share of each batch.

    torchrun --standalone --nproc-per-node 2 examples/distributed/ddp_bert.py

DDP averages the gradients, so the trained weights equal those of one process with whole batches, up
to rounding. Needs scikit-learn for its digits.
"""

import argparse
import sys
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[2]))

from examples.distributed import digits_bert, processes

BOUND = 1e-3
"""Of the scores of images that were not trained on. Sums in another order differ by 1e-7 at first,
and each step of training enlarges that."""


def main(arguments: list[str] | None = None) -> None:
    """Trains in all processes and alone, and compares the scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=40, help="steps to train (default: 40)")
    steps = parser.parse_args(arguments).steps
    pixels, labels = digits_bert.held_out()
    with processes.group() as (rank, world):
        model = digits_bert.network()
        losses = digits_bert.train(DistributedDataParallel(model), steps, rank, world)
        alone = digits_bert.network()
        digits_bert.train(alone, steps)
        with torch.no_grad():
            found, expected = model(pixels), alone(pixels)
        if rank == 0:
            right = float((found.argmax(1) == labels).float().mean())
            print(f"ddp_bert: loss {losses[0]:.3f} to {losses[-1]:.3f}, accuracy {right:.2f}")
        processes.report("ddp_bert", processes.largest_difference([found], [expected]), BOUND)


if __name__ == "__main__":
    main()
