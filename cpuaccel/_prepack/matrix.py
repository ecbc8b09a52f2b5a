"""Weight matrices packed in the panels that the gemm kernels read (csrc/ops/prepack)."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cpuaccel import _native
from cpuaccel._prepack.weight import PackedWeight
from cpuaccel._transforms import suspended

MOST = 1.1
"""Packed weights take at most this many times the memory of the plain ones."""

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


class PackedMatrix(PackedWeight):
    """A matrix of (rows, in_features) whose rows are packed in parts that can be used alone.

    A parameter with more dimensions is such a matrix, too: its dimensions after the first are the
    features.
    """

    def __init__(self, parameter: nn.Parameter, rows: tuple[int, ...]) -> None:
        super().__init__(parameter)
        self.rows = rows
        """Rows of each part."""
        self.in_features = parameter.shape[1:].numel()
        pairs = _in_pairs(parameter.dtype)
        self.panel = panel_for(parameter.dtype, rows)
        """Rows in a panel."""
        # Outside of inference mode, because tensors made in it cannot be used where gradients are.
        with suspended(), torch.inference_mode(False), torch.no_grad():
            pack = torch.ops.cpuaccel.pack_linear.default
            parts = torch.split(parameter.detach().flatten(1), list(rows))
            self.parts: tuple[Tensor, ...] = tuple(pack(part, self.panel, pairs) for part in parts)
            """The values: a one-dimensional tensor for each of `rows`."""
        self._count_bytes()

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def values(self) -> Tensor:
        op = torch.ops.cpuaccel.unpack_linear.default
        parts = [
            op(part, self.panel, rows, self.in_features)
            for part, rows in zip(self.parts, self.rows, strict=True)
        ]
        matrix = parts[0] if len(parts) == 1 else torch.cat(parts)
        return matrix.view(self.shape)

    def copy_values(self) -> None:
        with suspended(), torch.inference_mode(False), torch.no_grad():
            self.parts = tuple(part.clone() for part in self.parts)
        self._count_bytes()

    def _count_bytes(self) -> None:
        count = _native.load().add_packed_weight_bytes
        count(self.nbytes)
        weakref.finalize(self, count, -self.nbytes).atexit = False

    def linear(self, input: Tensor, bias: Tensor | None, part: int = 0) -> Tensor:
        """Return `F.linear(input, <the rows of a part>, bias)`."""
        result: Tensor = torch.ops.cpuaccel.packed_linear.default(
            input, self.parts[part], self.panel, self.rows[part], self.in_features, bias
        )
        return result


@dataclass(frozen=True)
class Matrix:
    """The form of a matrix whose rows are packed in parts of `rows`."""

    rows: tuple[int, ...]

    def unpackable_reason(self, parameter: nn.Parameter) -> str:
        if parameter.dtype not in _TYPES:
            return f"its weight has dtype {parameter.dtype}"
        if parameter.dim() != 2 or sum(self.rows) != parameter.shape[0]:
            return f"its weight has shape {tuple(parameter.shape)}"
        return too_large_reason(self.rows, parameter.dtype) or _slow_dtype_reason(parameter.dtype)

    def pack(self, parameter: nn.Parameter) -> PackedMatrix:
        return PackedMatrix(parameter, self.rows)


def _in_pairs(dtype: torch.dtype) -> bool:
    return dtype == torch.bfloat16 and _native.load().packs_pairs()


def panel_for(dtype: torch.dtype, parts: tuple[int, ...]) -> int:
    """Return the best panel that pads these parts only a little; if there is none, the best one."""
    native = _native.load()
    panels = native.pairs_panels() if _in_pairs(dtype) else native.gemm_panels()
    fitting = (panel for panel in panels if _padded(parts, panel) <= MOST * sum(parts))
    return next(fitting, panels[0])


def _padded(parts: tuple[int, ...], panel: int) -> int:
    return sum((part + panel - 1) // panel * panel for part in parts)


def too_large_reason(parts: tuple[int, ...], dtype: torch.dtype = torch.float32) -> str:
    """Return the reason not to pack parts of these rows if padding takes too much memory, or ""."""
    panel, rows = panel_for(dtype, parts), sum(parts)
    if _padded(parts, panel) <= MOST * rows:
        return ""
    return f"its {rows} rows in panels of {panel} would take more than {MOST} times the memory"


def _slow_dtype_reason(dtype: torch.dtype) -> str:
    native = _native.load()
    if dtype == torch.bfloat16 and native.has_bf16_arithmetic() and not native.packs_pairs():
        return "torch multiplies bfloat16 faster on this CPU, which has bfloat16 instructions"
    if dtype == torch.float16 and native.has_fp16_arithmetic():
        return "torch multiplies float16 faster on this CPU, which has float16 instructions"
    return ""
