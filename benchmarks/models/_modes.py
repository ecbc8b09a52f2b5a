"""Arithmetic modes of models with float32 weights, and the switches that select them."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import dtype

from benchmarks import _plugin
from benchmarks._timing import Around


@contextmanager
def _allowed_bf16() -> Iterator[None]:
    """torch's own switch for matrix products and convolutions of float32 in bf16."""
    switches: list[Any] = [torch.backends.mkldnn.matmul, torch.backends.mkldnn.conv]
    before = [switch.fp32_precision for switch in switches]
    try:
        for switch in switches:
            switch.fp32_precision = "bf16"
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.fp32_precision = value


_autocast: Around = partial(torch.autocast, "cpu", torch.bfloat16)


@dataclass(frozen=True)
class Mode:
    """An arithmetic mode: `torch` and `plugin` are the contexts that each call of a model runs in.

    Each call enters its own context, because autocast caches casts until the context ends. `peer`
    is the precision requested from another runtime, as OpenVINO spells it. `cast` is the dtype that
    torch's weights and inputs are cast to, if any.
    """

    name: str
    torch: Around
    plugin: Around
    peer: str
    plugin_missing: Callable[[], str] = _plugin.missing
    cast: dtype | None = None


MODES: tuple[Mode, ...] = (
    Mode("fp32", nullcontext, nullcontext, "f32"),
    Mode("bf16", _autocast, _autocast, "bf16"),
    Mode("bfloat16", nullcontext, nullcontext, "bf16", cast=torch.bfloat16),
    Mode("fastmath", _allowed_bf16, _plugin.fastmath, "bf16", _plugin.fastmath_missing),
)


WITHOUT_FASTMATH = tuple(each.name for each in MODES if each.name != "fastmath")


def mode(name: str) -> Mode:
    """The mode called `name`."""
    return next(each for each in MODES if each.name == name)


def add_mode(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Adds --mode, one of `names`."""
    parser.add_argument("--mode", choices=names, default="fp32", help="arithmetic (default: fp32)")
