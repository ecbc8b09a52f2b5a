"""Training and evaluation mode of modules, including modules that torch.export made."""

from __future__ import annotations

from torch import nn
from torch.fx import GraphModule


def is_exported(module: nn.Module) -> bool:
    """Say whether torch.export, or PT2E, made it: its mode is in the graph, and train() raises."""
    return isinstance(module, GraphModule) and "train" in vars(module)


def in_training(module: nn.Module) -> bool:
    """Say whether `module` is in training mode; False for exported modules."""
    return module.training and not is_exported(module)
