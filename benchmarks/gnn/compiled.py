"""Times the training steps of `training` with forward and loss compiled by Inductor.

All columns are compiled: with cpuaccel disabled; with only its allocator; with cpuaccel enabled,
whose Inductor pass inserts its ops; and after `cpuaccel.gnn.accelerate`. Compile time is excluded.
Attention layers add no self-loops. Needs torch_geometric and a C++ compiler. The options are those
of `training`.
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks._arguments import make_parser
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
        training.run(make_parser(__spec__, __doc__), arguments, CompiledTraining)


if __name__ == "__main__":
    main()
