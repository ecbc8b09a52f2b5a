"""What a module holds, to tell whether something in it was replaced since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

_OWN = ("_parameters", "_buffers", "_modules")


class Attributes:
    """The parameters, buffers, layers and other attributes of a module and its layers.

    Of attributes that are named, these and the layers alone. Tensors are not read: what is written
    in place is for others to notice.
    """

    def __init__(self, model: nn.Module, *only: str) -> None:
        whole = [
            names
            for module in model.modules()
            for names in ([module._modules] if only else _names(module))
        ]
        self._sizes = [(names, len(names)) for names in whole]
        self._held = [(names, name, value) for names in whole for name, value in names.items()]
        self._held += [
            (vars(module), name, vars(module)[name])
            for module in model.modules()
            for name in only
            if name in vars(module)
        ]

    def are_as_before(self) -> bool:
        """Whether each is the very object that it was."""
        return all(names.get(name) is value for names, name, value in self._held) and all(
            len(names) == size for names, size in self._sizes
        )


def _names(module: nn.Module) -> Iterator[dict[str, Any]]:
    for own in _OWN:
        yield module.__dict__[own]
    # What torch's own layers have beside these are numbers that nobody changes.
    if not type(module).__module__.startswith("torch.nn."):
        yield module.__dict__
