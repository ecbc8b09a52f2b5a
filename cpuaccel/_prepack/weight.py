"""Base class of packed weights, and the protocol of the forms that pack them."""

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
    """Replaces a parameter: has its values in packed order, its attributes and its users.

    A subclass stores the values, computes with them and unpacks them.
    """

    def __init__(self, parameter: nn.Parameter) -> None:
        self.shape = tuple(parameter.shape)
        self.dtype = parameter.dtype
        self.requires_grad = parameter.requires_grad
        self.strides = parameter.stride()
        self.inference = parameter.is_inference()
        """Whether it was made in inference mode."""
        self.attributes = dict(parameter.__dict__)
        """Attributes that were set on the parameter."""
        self.users: list[tuple[weakref.ref[nn.Module], str]] = []
        """Modules that have it, and its name there."""
        self._given: weakref.ref[nn.Parameter] | None = None

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the packed values, in bytes."""

    @abstractmethod
    def values(self) -> Tensor:
        """Return the original values in a new contiguous tensor."""

    @abstractmethod
    def copy_values(self) -> None:
        """Replace the packed values by a copy."""

    def unpack(self) -> Tensor:
        """Return the original values with the original strides, in a new tensor."""
        with suspended(), torch.inference_mode(self.inference), torch.no_grad():
            values = self.values()
            if values.stride() != self.strides:
                plain = torch.empty_strided(self.shape, self.strides, dtype=self.dtype)
                values = plain.copy_(values)
            return values

    def parameter(self) -> nn.Parameter:
        """Return the original parameter: the same object while it is referenced."""
        parameter = self._given() if self._given is not None else None
        if parameter is None:
            # The module keeps it, so it must be no tensor of a transform or a mode.
            with suspended(), torch.inference_mode(self.inference):
                parameter = nn.Parameter(self.unpack(), requires_grad=self.requires_grad)
            parameter.__dict__.update(self.attributes)
            self._given = weakref.ref(parameter)
        return parameter

    def modules(self) -> Iterator[tuple[nn.Module, str]]:
        """Yield the modules that still exist and have it, with its name in them."""
        for reference, name in self.users:
            module = reference()
            if module is not None:
                yield module, name

    def __deepcopy__(self, memo: dict[int, Any]) -> PackedWeight:
        new = copy.copy(self)
        # Copied modules add themselves.
        new.users, new._given = [], None
        new.attributes = copy.deepcopy(self.attributes, memo)
        new.copy_values()
        return new


class Form(Protocol):
    """How a parameter is packed. Equal forms can share it."""

    def unpackable_reason(self, parameter: nn.Parameter) -> str:
        """Return the reason why this dense CPU parameter cannot be packed so, or ""."""

    def pack(self, parameter: nn.Parameter) -> PackedWeight:
        """Pack it."""
