"""The training steps of `training`, with the forward and the loss under torch.compile (Inductor).

All columns are compiled: with cpuaccel disabled; with its allocator only; with cpuaccel enabled,
whose pass puts its ops into the graphs; and after `cpuaccel.gnn.accelerate`. Compile time is
excluded. Attention layers add no self-loops. Needs torch_geometric and a C++ compiler. The flags
are those of `training`. Run as `python -m benchmarks.gnn.compiled` from a checkout's root.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.gnn import training

_dynamo: Any = torch._dynamo


class CompiledTraining(training.Training):
    """A Training whose forward and loss are compiled as one graph at the first step."""

    title = "compiled training step"
    backend = "inductor"

    def __init__(self, model: nn.Module, x: Tensor, target: Tensor, *edges: Tensor) -> None:
        super().__init__(model, x, target, *edges)
        # Inductor of torch 2.13 fails at the second attention layer that adds self-loops.
        for layer in model.modules():
            if hasattr(layer, "negative_slope"):
                layer.add_self_loops = False
        self._compiled: Any = torch.compile(super().loss, backend=self.backend, fullgraph=True)

    def loss(self) -> Tensor:
        """The loss over all nodes."""
        result: Tensor = self._compiled()
        return result


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    # Each column of each model compiles the same function once.
    with _dynamo.config.patch(recompile_limit=256):
        training.main(arguments, CompiledTraining)


if __name__ == "__main__":
    main()
