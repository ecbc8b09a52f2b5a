"""What modules hold."""

from __future__ import annotations

from torch import Tensor, nn


def tensors_of(model: nn.Module) -> list[Tensor]:
    """Return the parameters, the buffers and what else of a module and its layers is a tensor."""
    found: dict[int, Tensor] = {}
    for module in model.modules():
        plain = [each for each in vars(module).values() if isinstance(each, Tensor)]
        named = [*module._parameters.values(), *module._buffers.values()]
        found.update((id(each), each) for each in (*named, *plain) if each is not None)
    return list(found.values())
