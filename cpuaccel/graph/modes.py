"""Training and evaluation mode of modules, including modules that torch.export made."""

from __future__ import annotations

from torch import nn
from torch.fx import GraphModule


def is_exported(module: nn.Module) -> bool:
    """Say whether torch.export, or PT2E, made it: its graph has its mode, and train() raises."""
    return isinstance(module, GraphModule) and "train" in vars(module)


def in_training(module: nn.Module) -> bool:
    """Say whether a call of `module` is one of training. What was exported has no say."""
    return module.training and not is_exported(module)
