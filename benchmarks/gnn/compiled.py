"""The training steps of `training`, with the forward and the loss under torch.compile (Inductor).

The columns are the same: compiled with cpuaccel off; so with its allocator; with cpuaccel on, whose
pass puts its ops into the graphs; and of a model after `cpuaccel.gnn.accelerate`. Compiling is not
timed. Layers of attention add no loops. Needs torch_geometric and a C++ compiler. The flags are
those of `training`. Run as `python -m benchmarks.gnn.compiled` from a checkout's root.
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
    """The same, compiled as one graph at the first step."""

    title = "compiled training step"
    backend = "inductor"

    def __init__(self, model: nn.Module, x: Tensor, target: Tensor, *edges: Tensor) -> None:
        super().__init__(model, x, target, *edges)
        # Inductor of torch 2.13 fails at the second layer of attention that adds loops.
        for layer in model.modules():
            if hasattr(layer, "negative_slope"):
                layer.add_self_loops = False
        self._compiled: Any = torch.compile(super().loss, backend=self.backend, fullgraph=True)

    def loss(self) -> Tensor:
        """Of all nodes."""
        result: Tensor = self._compiled()
        return result


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes what was asked for."""
    # Each column of each model compiles the same function once.
    with _dynamo.config.patch(recompile_limit=256):
        training.main(arguments, CompiledTraining)


if __name__ == "__main__":
    main()
