"""A row of the table of ops: how an op is called, and with which arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Call = Callable[..., Any]

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
COMPLEX = (torch.complex64,)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
PLAIN = (*FLOATS, *COMPLEX, *INTEGERS)
QUANTIZED = (torch.quint8, torch.qint8, torch.qint32)


@dataclass(frozen=True)
class Sample:
    """Arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    kind: str = "plain"
    """plain, empty (a tensor without elements) or bad (torch raises an error)."""


@dataclass(frozen=True)
class Row:
    """An op that cpuaccel overrides, or a function of cpuaccel's API, with samples of its use.

    Without a `call` the op itself is called; then the in-place and `out=` forms of its schema
    belong to the row too.
    """

    name: str
    samples: Callable[[torch.dtype], Sequence[Sample]]
    """Arguments for a dtype, made with cpuaccel enabled for calls on cpuaccel, else disabled."""
    op: str = ""
    """For example "aten::scatter_reduce.two"."""
    keys: tuple[str, ...] = ("CPU",)
    """Dispatch keys under which the op is overridden."""
    covers: tuple[str, ...] = ()
    """Other ops that a call reaches, with their overloads; for an API function, cpuaccel's ops."""
    call: Call | None = None
    plain: Call | None = None
    """The reference call on torch's own kernels; by default the call itself."""
    exact: Callable[[Sample], Any] | None = None
    """Computes the exact result, if it is not that of float64 inputs."""
    dtypes: tuple[torch.dtype, ...] = PLAIN
    quanta: float = 1.0
    """How many quanta a quantized result may be off by."""
    provider: str = "auto"
    """The provider of matrix products; by default cpuaccel leaves small ones to torch."""

    def __str__(self) -> str:
        return self.name

    @property
    def is_api(self) -> bool:
        """Whether it is a function of cpuaccel, which documents its own errors and no strides."""
        return not self.keys

    @functools.cached_property
    def forms(self) -> Forms:
        """The ways in which the op's schema can be called."""
        return forms_of(self.op) if self.call is None else Forms(self.call)

    @functools.cached_property
    def plain_forms(self) -> Forms:
        return self.forms if self.plain is None else Forms(self.plain)


@dataclass(frozen=True)
class Forms:
    """A function, its in-place form, and its form with `out`."""

    functional: Call
    in_place: Call | None = None
    out: Call | None = None
    """Called with `out=`: a tensor or, for several results, a sequence."""
    ops: tuple[torch._ops.OpOverload, ...] = ()
    """The ops that the forms call."""


def resolve(name: str) -> torch._ops.OpOverload:
    """The op of a name such as "aten::mm" or "aten::mm.out"."""
    full, _, overload = name.partition(".")
    space, _, base = full.partition("::")
    packet = getattr(getattr(torch.ops, space), base)
    return getattr(packet, overload or "default")


def forms_of(name: str) -> Forms:
    """The op itself and, found by their schemas, its in-place and `out=` forms."""
    op = resolve(name)
    space, _, base = op._schema.name.partition("::")
    packets = getattr(torch.ops, space)
    wanted = _arguments(op)
    out = next((o for o in _overloads(getattr(packets, base)) if _writes(o, wanted)), None)
    in_place = None
    if hasattr(packets, f"{base}_"):
        same = (o for o in _overloads(getattr(packets, f"{base}_")) if _arguments(o) == wanted)
        in_place = next(same, None)
    ops = tuple(each for each in (op, in_place, out) if each is not None)
    return Forms(op, in_place, None if out is None else functools.partial(_into, out), ops)


def _into(op: torch._ops.OpOverload, *args: Any, out: Any, **kwargs: Any) -> Any:
    names = [argument.name for argument in op._schema.arguments if argument.is_out]
    outs = out if isinstance(out, tuple | list) else (out,)
    return op(*args, **kwargs, **dict(zip(names, outs, strict=True)))


def _overloads(packet: Any) -> list[torch._ops.OpOverload]:
    return [getattr(packet, name) for name in packet.overloads()]


def _arguments(op: torch._ops.OpOverload) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]


def _writes(op: torch._ops.OpOverload, arguments: list[tuple[str, str]]) -> bool:
    return any(a.is_out for a in op._schema.arguments) and _arguments(op) == arguments
