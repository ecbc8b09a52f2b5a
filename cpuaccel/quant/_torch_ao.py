"""Names of torch.ao's quantized modules and ops, without importing torch.ao."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import nn

_PACKAGE = re.compile(
    r"torch\.(?:ao\.)?nn\.((?:intrinsic\.)?quantized(?:\.dynamic|\.reference)?)\."
)

QUANTIZES = tuple(
    getattr(torch, name)
    for name in ("quantize_per_tensor", "quantize_per_channel")
    if hasattr(torch, name)
)
"""Functions that make quantized tensors, if this torch has them."""


class DescribedModule(nn.Module):
    """Attributes of one of torch.ao's modules, without its class: it cannot be called."""

    def __init__(self, kind: str, attributes: dict[str, object]) -> None:
        super().__init__()
        self.kind = kind
        for name, value in attributes.items():
            setattr(self, name, value)


def kind_of(module: nn.Module | None) -> str:
    """Return the kind of one of torch.ao's modules, such as `quantized.Conv2d`; "" for others."""
    if isinstance(module, DescribedModule):
        return module.kind
    return kind_named(type(module).__module__, type(module).__qualname__)


def kind_named(package: str, name: str) -> str:
    """Return the kind of the class `name` of a Python module.

    Old files name modules of `torch.nn.quantized`, which became `torch.ao.nn.quantized`.
    """
    found = _PACKAGE.match(f"{package}.")
    return f"{found[1]}.{name}" if found else ""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an op, as in torch's schemas."""

    name: str
    default_value: Any = None


@dataclass(frozen=True)
class Schema:
    """The parameters of an op, as torch's schemas have them."""

    arguments: tuple[Parameter, ...]


class QuantizedOp:
    """An op of torch's quantized tensors in a graph, by its name: it cannot be called."""

    def __init__(self, name: str, schemas: list[Schema]) -> None:
        self.name = name
        self.schemas = schemas
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: only graphs that are still to be lowered call it."""
        raise RuntimeError(f"{self.name} of a file was not lowered")
