"""Call signatures: the dtypes, shapes and strides of tensors, and the values of other arguments.

A capture holds the signature of the call that it was captured for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cpuaccel._compat import TreeSpec, tree_flatten, tree_unflatten, treespec_dumps, treespec_loads
from cpuaccel.compile.capture.memory_overlap import overlaps_itself, span
from cpuaccel.compile.common.torch_names import dtype_of, name_of

_JSON_TYPES = (bool, int, float, str, type(None))
"""Types of arguments that a file can hold."""


class TensorSignature(NamedTuple):
    """The metadata of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    device: torch.device

    def __str__(self) -> str:
        where = "" if self.device.type == "cpu" else f" on {self.device}"
        return f"{_name(self.dtype)} {list(self.shape)}{where}"


class Value(NamedTuple):
    """An argument other than a tensor. Its type counts: in Python, 1, 1.0 and True are equal."""

    kind: type
    value: Any

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Call:
    """The signature of a call, and the dtype of autocast during the call."""

    spec: TreeSpec
    leaves: tuple[TensorSignature | Value, ...]
    autocast: torch.dtype | None

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return the signature of a call with these arguments under the current autocast."""
        leaves, spec = tree_flatten((args, kwargs))
        autocast = torch.is_autocast_enabled("cpu")
        return cls(
            spec,
            tuple(
                TensorSignature(each.dtype, tuple(each.shape), each.stride(), each.device)
                if isinstance(each, Tensor)
                else Value(type(each), each)
                for each in leaves
            ),
            torch.get_autocast_dtype("cpu") if autocast else None,
        )

    @cached_property
    def _tensors(self) -> tuple[TensorSignature, ...] | None:
        """The arguments, if all of them are positional tensors on the CPU; else None."""
        args, kwargs = tree_unflatten(list(self.leaves), self.spec)
        flat = tuple(each for each in args if isinstance(each, TensorSignature))
        is_plain = not kwargs and len(flat) == len(args)
        return flat if is_plain and all(each.device.type == "cpu" for each in flat) else None

    def is_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Say quickly whether this is `Call.of(args, kwargs)`; False if that would take longer."""
        kinds = self._tensors
        if kinds is None or kwargs or len(kinds) != len(args):
            return False
        autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        return autocast == self.autocast and all(
            type(each) is Tensor
            and each.is_cpu
            and each.layout is torch.strided
            and each.dtype == kind.dtype
            and each.shape == kind.shape
            and each.stride() == kind.stride
            for each, kind in zip(args, kinds, strict=True)
        )

    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments of such a call. The tensors are uninitialized."""
        leaves = [
            torch.empty_strided(each.shape, each.stride, dtype=each.dtype, device=each.device)
            if isinstance(each, TensorSignature)
            else each.value
            for each in self.leaves
        ]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return args, kwargs

    def random(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments of such a call: floats are normal, integers and booleans 0 or 1."""
        leaves = [
            _random(each) if isinstance(each, TensorSignature) else each.value
            for each in self.leaves
        ]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return args, kwargs

    def mismatch(self, other: Call, *, any_size: bool = False) -> str:
        """Return the reason why a capture for this call does not fit `other`; empty if it fits.

        Strides may differ, and with `any_size` sizes too.
        """
        known = _without_sizes if any_size else _without_strides
        if other.spec != self.spec:
            return f"expected arguments {self._shown()}, got {other._shown()}"
        for number, (expected, got) in enumerate(zip(self.leaves, other.leaves, strict=True)):
            if known(expected) != known(got):
                return f"argument {number}: expected {expected}, got {got}"
        if self.autocast != other.autocast:
            return f"autocast: expected {_name(self.autocast)}, got {_name(other.autocast)}"
        return ""

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values.

        Raises:
            ValueError: an argument is neither a tensor nor a number, string, boolean or None.
        """
        leaves: list[Any] = []
        for number, each in enumerate(self.leaves):
            if isinstance(each, TensorSignature):
                sizes = list(each.shape), list(each.stride)
                leaves.append({"tensor": [_name(each.dtype), *sizes, str(each.device)]})
            elif issubclass(each.kind, _JSON_TYPES) and each.kind in _JSON_TYPES:
                leaves.append({"value": each.value})
            else:
                raise ValueError(
                    f"argument {number}: expected a tensor, number, string, boolean or None, got a"
                    f" {each.kind.__name__}"
                )
        autocast = None if self.autocast is None else _name(self.autocast)
        return {"spec": treespec_dumps(self.spec), "leaves": leaves, "autocast": autocast}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Call:
        """Return the call whose `facts` these are."""
        leaves: list[TensorSignature | Value] = []
        for each in facts["leaves"]:
            if "tensor" in each:
                dtype, shape, stride, device = each["tensor"]
                kind = TensorSignature(
                    dtype_of(dtype), tuple(shape), tuple(stride), torch.device(device)
                )
                leaves.append(kind)
            else:
                leaves.append(Value(type(each["value"]), each["value"]))
        autocast = facts["autocast"]
        return cls(
            treespec_loads(facts["spec"]),
            tuple(leaves),
            None if autocast is None else dtype_of(autocast),
        )

    def __str__(self) -> str:
        autocast = "" if self.autocast is None else f", under autocast to {_name(self.autocast)}"
        return self._shown() + autocast

    def _shown(self) -> str:
        args, kwargs = tree_unflatten([_Shown(str(each)) for each in self.leaves], self.spec)
        named = [f"{name}={value!r}" for name, value in kwargs.items()]
        return f"({', '.join([*map(repr, args), *named])})"


def _random(kind: TensorSignature) -> Tensor:
    # Elements may share memory, as those of an expanded tensor do.
    memory = torch.empty(span(kind.shape, kind.stride), dtype=kind.dtype, device=kind.device)
    drawn = memory.is_floating_point() or memory.is_complex()
    memory = memory.normal_() if drawn else memory.random_(0, 2)
    return memory.as_strided(kind.shape, kind.stride)


class _Shown(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def with_strides_of(leaves: list[Any], call: Call) -> list[Any]:
    """Return `leaves` with the strides of `call`; tensors with other strides are copied.

    Raises:
        ValueError: elements of a tensor of the call share memory, as those of an expanded tensor
            do, and the leaf has other strides.
    """
    found = list(leaves)
    for number, (each, kind) in enumerate(zip(leaves, call.leaves, strict=True)):
        if isinstance(kind, TensorSignature) and _has_other_strides(each, kind):
            if overlaps_itself(kind.shape, kind.stride):
                raise ValueError(
                    f"argument {number}: expected strides {list(kind.stride)}, got"
                    f" {list(each.stride())}"
                )
            copy = torch.empty_strided(kind.shape, kind.stride, dtype=kind.dtype)
            found[number] = copy.copy_(each)
    return found


def _has_other_strides(tensor: Tensor, kind: TensorSignature) -> bool:
    if tensor.stride() == kind.stride:
        return False
    return any(
        size > 1 and found != expected
        for size, found, expected in zip(kind.shape, tensor.stride(), kind.stride, strict=True)
    )


def _without_strides(each: TensorSignature | Value) -> Any:
    return each if isinstance(each, Value) else (each.dtype, each.shape, each.device)


def _without_sizes(each: TensorSignature | Value) -> Any:
    return each if isinstance(each, Value) else (each.dtype, len(each.shape), each.device)


def _name(dtype: torch.dtype | None) -> str:
    return "off" if dtype is None else name_of(dtype)
