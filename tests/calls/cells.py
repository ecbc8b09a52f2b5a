"""The product of ops, ways and dtypes, and how a cell of it is checked."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from ops._floats import on
from quant._engine import off
from torch import Tensor, nn

from calls import known
from calls._judge import end, fault_of_torch, problem
from calls._row import Forms, Row, Sample
from calls._way import Way, with_leaves
from calls.ops import ROWS
from calls.ways import SAMPLED, SAMPLED_OTHERS, WAYS

WHOLE = os.environ.get("CPUACCEL_TEST_CALLS") == "whole"
"""Whether all cells run; `make test-full` sets this."""


@dataclass(frozen=True)
class Cell:
    """An op, a way of calling it, and a dtype."""

    row: Row
    way: Way
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{self.row.name}-{self.way.name}-{str(self.dtype)[6:]}"


CELLS = tuple(
    Cell(row, way, dtype)
    for row in ROWS
    for way in WAYS
    for dtype in row.dtypes
    if way.applies(row, dtype)
)
BY_ID = {str(cell): cell for cell in CELLS}


def selected() -> tuple[Cell, ...]:
    """All cells, or for each way those with the smallest id digests, the same in every run."""
    return CELLS if WHOLE else tuple(_sample())


def _sample() -> Iterator[Cell]:
    for way in WAYS:
        cells = sorted((cell for cell in CELLS if cell.way is way), key=_digest)
        yield from cells[: SAMPLED.get(way.name, SAMPLED_OTHERS)]


def _digest(cell: Cell) -> bytes:
    return hashlib.sha256(str(cell).encode()).digest()


def check(cell: Cell) -> str:
    """Describes what is wrong with the cell; empty if nothing is."""
    row, way = cell.row, cell.way
    fault = known.fault_of(str(cell))
    with off():
        given = _samples(cell)
        theirs = [end(lambda s=s: way.run(row.plain_forms, s)) for s in given]
        wanted = [end(lambda s=s: _exact(cell, s)) for s in _samples(cell)]
    with on(row.provider):
        ours = [end(lambda s=s: way.run(row.forms, s)) for s in _samples(cell)]
    for number, (sample, a, b, c) in enumerate(zip(given, ours, theirs, wanted, strict=True)):
        where = f"{sample.kind} sample {number}: "
        wrong = fault_of_torch(b, c, rough=way.rough)
        if wrong and fault is None:
            return f"{where}{wrong}, and tests/calls/known.py does not list it"
        if fault is not None and not fault.mended:
            continue
        said = problem(
            a,
            b,
            c,
            sample=sample.kind,
            api=row.is_api,
            rough=way.rough,
            layout=way.layout and not wrong and not row.is_api,
            quanta=row.quanta,
        )
        if said:
            return where + said
    return ""


def _samples(cell: Cell) -> list[Sample]:
    """The row's samples of the kinds that the way runs, at most `most` of each."""
    made = cell.row.samples(cell.dtype)
    of_kinds = [[s for s in made if s.kind == kind][: cell.way.most] for kind in cell.way.kinds]
    return [sample for group in of_kinds for sample in group]


def _exact(cell: Cell, sample: Sample) -> Any:
    row, way = cell.row, cell.way
    if row.exact is not None:
        function = row.exact
        forms = Forms(lambda *args, **kwargs: function(Sample(args, kwargs, sample.kind)))
        exact_sample = sample
    else:
        forms = row.plain_forms
        exact_sample = with_leaves(sample, _exactly)
    if way.exact is None:
        return forms.functional(*exact_sample.args, **exact_sample.kwargs)
    return way.exact(forms, exact_sample)


def _exactly(leaf: Any) -> Any:
    """Converts floats to float64 and complex numbers to complex128, in modules too."""
    if isinstance(leaf, nn.Module):
        return copy.deepcopy(leaf).double()
    if not isinstance(leaf, Tensor):
        return leaf
    if leaf.is_complex():
        return leaf.to(torch.complex128)
    return leaf.double() if leaf.is_floating_point() else leaf
