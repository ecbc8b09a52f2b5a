"""A weight in packed form: what all kinds of them have in common."""

from __future__ import annotations

import copy
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cpuaccel._transforms import suspended


class PackedWeight(ABC):
    """What replaces a parameter: its values in another order, all else it had, and whose it is.

    A subclass holds the values, computes with them and gives them back.
    """

    def __init__(self, parameter: nn.Parameter) -> None:
        self.shape = tuple(parameter.shape)
        self.dtype = parameter.dtype
        self.requires_grad = parameter.requires_grad
        self.strides = parameter.stride()
        self.inference = parameter.is_inference()
        """Whether it was made in inference mode."""
        self.attributes = dict(parameter.__dict__)
        """What was set on the parameter."""
        self.users: list[tuple[weakref.ref[nn.Module], str]] = []
        """Modules that have it, and the name it has there."""
        self._given: weakref.ref[nn.Parameter] | None = None

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the packed values, in bytes."""

    @abstractmethod
    def values(self) -> Tensor:
        """Return the values as they were, contiguous, in a tensor of their own."""

    @abstractmethod
    def copy_values(self) -> None:
        """Go on with a copy of the packed values."""

    def unpack(self) -> Tensor:
        """Return the values as they were, in memory too, in a tensor of their own."""
        with suspended(), torch.inference_mode(self.inference), torch.no_grad():
            values = self.values()
            if values.stride() != self.strides:
                plain = torch.empty_strided(self.shape, self.strides, dtype=self.dtype)
                values = plain.copy_(values)
            return values

    def parameter(self) -> nn.Parameter:
        """Return the parameter as it was. The same one while somebody holds it."""
        parameter = self._given() if self._given is not None else None
        if parameter is None:
            # The module keeps it: it must not be what a transform or a mode makes of it.
            with suspended(), torch.inference_mode(self.inference):
                parameter = nn.Parameter(self.unpack(), requires_grad=self.requires_grad)
            parameter.__dict__.update(self.attributes)
            self._given = weakref.ref(parameter)
        return parameter

    def modules(self) -> Iterator[tuple[nn.Module, str]]:
        """Yield the modules that have it and are still there, with its name in them."""
        for reference, name in self.users:
            module = reference()
            if module is not None:
                yield module, name

    def __deepcopy__(self, memo: dict[int, Any]) -> PackedWeight:
        new = copy.copy(self)
        # The modules that are copied too add themselves.
        new.users, new._given = [], None
        new.attributes = copy.deepcopy(self.attributes, memo)
        new.copy_values()
        return new


class Form(Protocol):
    """How a parameter is to be packed. Equal forms can share it."""

    def why_not(self, parameter: nn.Parameter) -> str:
        """Return why this dense parameter of the CPU is not to be packed so, or ""."""

    def pack(self, parameter: nn.Parameter) -> PackedWeight:
        """Pack it."""
