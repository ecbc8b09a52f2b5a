"""Checks arguments of cpuaccel.gnn. Errors name the argument, its value and what was expected."""

from __future__ import annotations

import torch
from torch import Tensor

REDUCTIONS = ("sum", "mean", "amax", "amin")


def edge_index(function: str, value: object) -> Tensor:
    """Return `value` if it is an edge_index."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}: edge_index: expected a Tensor, got {type(value).__name__}")
    if value.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{function}: edge_index: expected int32 or int64, got {_name(value)}")
    if value.layout != torch.strided or value.dim() != 2 or value.shape[0] != 2:
        raise ValueError(f"{function}: edge_index: expected shape [2, E], got {_shape(value)}")
    return value


def floats(function: str, name: str, value: object, dims: tuple[int, ...], shape: str) -> Tensor:
    """Return `value` if it is a float tensor with one of these numbers of dimensions."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}: {name}: expected a Tensor, got {type(value).__name__}")
    if not value.dtype.is_floating_point:
        raise TypeError(f"{function}: {name}: expected floats, got {_name(value)}")
    if value.layout != torch.strided or value.dim() not in dims:
        raise ValueError(f"{function}: {name}: expected shape {shape}, got {_shape(value)}")
    return value


def per_edge(function: str, name: str, value: Tensor, edges: Tensor, x: Tensor) -> None:
    """Raise unless `value` has a number or row for each edge, with the dtype of `x`."""
    if value.shape[0] != edges.shape[1]:
        raise ValueError(
            f"{function}: {name}: expected one for each of the {edges.shape[1]} edges, got "
            f"{_shape(value)}"
        )
    if value.dtype != x.dtype:
        raise TypeError(f"{function}: {name}: expected {_name(x)} as x, got {_name(value)}")


def count(function: str, name: str, value: object) -> int:
    """Return `value` if it is a number of nodes."""
    if isinstance(value, bool) or not isinstance(value, int | torch.SymInt) or value < 0:
        raise ValueError(f"{function}: {name}: expected an int of 0 or more, got {value!r}")
    return int(value) if isinstance(value, int) else value  # type: ignore[return-value]


def reduction(function: str, value: object) -> str:
    """Return `value` if it names a reduction."""
    if not isinstance(value, str) or value not in REDUCTIONS:
        raise ValueError(
            f"{function}: reduce: expected one of {', '.join(REDUCTIONS)}, got {value!r}"
        )
    return value


def _name(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def _shape(value: Tensor) -> str:
    return str(list(value.shape))


def shape(
    function: str, name: str, value: object, like: Tensor, expected: list[int | None]
) -> Tensor:
    """Return `value` if it is a tensor of the dtype of `like` and this shape; None: any size."""
    tensor = floats(function, name, value, tuple(range(9)), "of few dimensions")
    if len(tensor.shape) != len(expected) or any(
        s is not None and s != t for s, t in zip(expected, tensor.shape, strict=True)
    ):
        sizes = ", ".join("any" if size is None else str(size) for size in expected)
        raise ValueError(f"{function}: {name}: expected shape [{sizes}], got {_shape(tensor)}")
    if tensor.dtype != like.dtype:
        raise TypeError(f"{function}: {name}: expected {_name(like)}, got {_name(tensor)}")
    return tensor
