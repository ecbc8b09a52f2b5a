"""A weight in packed form, and the modules that compute with it."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _native


class PackedWeight:
    """What replaces a parameter: its values in panels, all else that it had, and whose it is.

    The parameter has shape (rows, in_features). Its rows are packed in `parts`, one behind the
    other, so that a part can be used alone (the query's projection of an attention layer).
    """

    def __init__(
        self,
        parts: Sequence[Tensor],
        rows: tuple[int, ...],
        in_features: int,
        panel: int,
        requires_grad: bool,
        attributes: dict[str, Any],
    ) -> None:
        self.parts = tuple(parts)
        """The values: a tensor of one dimension for each of `rows`."""
        self.rows = rows
        self.in_features = in_features
        self.panel = panel
        """Rows in a panel."""
        self.requires_grad = requires_grad
        self.attributes = attributes
        """What was set on the parameter."""
        self.users: list[tuple[weakref.ref[nn.Module], str]] = []
        """Modules that have it, and the name it has there."""
        self._given: weakref.ref[nn.Parameter] | None = None

    @classmethod
    def of(
        cls, values: Tensor, rows: tuple[int, ...], requires_grad: bool, attributes: dict[str, Any]
    ) -> PackedWeight:
        """Pack `values`, of shape (sum of `rows`, in_features)."""
        panel = panel_columns()
        # Outside of inference mode: what is made in it could not be used where gradients are.
        with torch.inference_mode(False), torch.no_grad():
            pack = torch.ops.cpuaccel.pack_linear.default
            parts = [pack(part, panel) for part in torch.split(values, list(rows))]
        return cls(parts, rows, int(values.shape[1]), panel, requires_grad, attributes)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.rows), self.in_features

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.parts[0].dtype
        return dtype

    @property
    def nbytes(self) -> int:
        """Memory of the packed values, in bytes."""
        return sum(part.nbytes for part in self.parts)

    def linear(self, input: Tensor, bias: Tensor | None, part: int = 0) -> Tensor:
        """Return `F.linear(input, <the rows of a part>, bias)`."""
        result: Tensor = torch.ops.cpuaccel.packed_linear.default(
            input, self.parts[part], self.panel, self.rows[part], self.in_features, bias
        )
        return result

    def unpack(self) -> Tensor:
        """Return the values as they were, in a tensor of their own."""
        with torch.inference_mode(False), torch.no_grad():
            op = torch.ops.cpuaccel.unpack_linear.default
            parts = [
                op(part, self.panel, rows, self.in_features)
                for part, rows in zip(self.parts, self.rows, strict=True)
            ]
            return parts[0] if len(parts) == 1 else torch.cat(parts)

    def parameter(self) -> nn.Parameter:
        """Return the parameter as it was. The same one while somebody holds it."""
        parameter = self._given() if self._given is not None else None
        if parameter is None:
            with torch.inference_mode(False):
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
        # The modules that are copied too add themselves.
        parts = [part.clone() for part in self.parts]
        return PackedWeight(
            parts,
            self.rows,
            self.in_features,
            self.panel,
            self.requires_grad,
            copy.deepcopy(self.attributes, memo),
        )


def panel_columns() -> int:
    """Return how many rows of a weight lie in a panel; rows are padded to a multiple of it."""
    return _native.load().gemm_panel()
