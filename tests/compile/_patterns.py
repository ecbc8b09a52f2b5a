"""A pattern: a model, and which of its ops run together in fp32, in bf16 and in int8.

`_functions` and `_blocks` hold the patterns that the tests of all dtypes use. If a pattern does not
apply to a dtype, its row says why in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cpuaccel.compile.common import report

Partitions = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Nothing:
    """Why a pattern does not apply to a type."""

    reason: str


@dataclass(frozen=True)
class Pattern:
    """A model, and its partitions."""

    name: str
    make: Callable[[], nn.Module]
    sizes: tuple[tuple[int, ...], ...]
    """Sizes of the inputs."""
    floats: Partitions | Nothing
    """Partitions in fp32 and in bf16."""
    lowered: Partitions | Nothing
    """Partitions of convert_fx's model, lowered."""
    pt2e: Partitions | Nothing
    """Partitions of the model in the form that PT2E's workflow leaves."""

    def inputs(self) -> list[Tensor]:
        """Return random inputs."""
        return [torch.randn(sizes) for sizes in self.sizes]


def partitions(text: str) -> Partitions:
    """Return the partitions in `text`: "Convolution+ReLU AvgPool" is one of two ops, one of one."""
    return tuple(tuple(part.split("+")) for part in text.split())


def of(report: report.Report) -> Partitions:
    """Return the partitions of a graph."""
    return tuple(report.kinds())


def each_of(patterns: Iterable[Pattern], column: str) -> pytest.MarkDecorator:
    """Run a test with each pattern that applies in this column, and with its partitions."""
    found = ((each, getattr(each, column)) for each in patterns)
    return pytest.mark.parametrize(
        ("pattern", "kinds"),
        [
            pytest.param(each, kinds, id=each.name)
            for each, kinds in found
            if not isinstance(kinds, Nothing)
        ],
    )


def image(channels: int = 16, size: int = 12) -> tuple[int, ...]:
    """Return the sizes of two images."""
    return (2, channels, size, size)


def conv(source: int = 16, to: int = 16, **options: Any) -> nn.Conv2d:
    """Return a convolution that keeps the sizes of images."""
    return nn.Conv2d(source, to, 3, **{"padding": 1, **options})
