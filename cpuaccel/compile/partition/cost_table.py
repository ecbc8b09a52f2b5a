"""The table of measured speedups over Inductor (`costs.csv`), by family and place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cpuaccel import _csv_table, matmul

TABLE = Path(__file__).with_name("costs.csv")
ANY = "any"


@dataclass(frozen=True)
class Row:
    """Partitions of `family` in `place` ran `speedup` times as fast as Inductor's code.

    It holds for up to `max_M` rows of a product, and up to `max_work`; 0 means no limit.

    `vendor` is CPUID's, `isa` avx2 or avx512, `dtype` as region texts spell it; `place` and `dtype`
    may be "any". See cpuaccel/compile/partition/cost.py for families, places and work.
    """

    vendor: str
    isa: str
    family: str
    place: str
    dtype: str
    max_M: int
    max_work: int
    speedup: float
    measured: str

    def matches(self, family: str, place: str, dtype: str, M: int, work: int) -> bool:
        """Whether the row holds for such a partition."""
        return (
            self.family == family
            and self.place in (place, ANY)
            and self.dtype in (dtype, ANY)
            and (self.max_M == 0 or self.max_M >= M)
            and (self.max_work == 0 or work <= self.max_work)
        )


def find(family: str, place: str, dtype: str, M: int, work: int) -> Row | None:
    """Return the first row of this machine that matches; None if there is none."""
    rows = (row for row in _rows() if row.matches(family, place, dtype, M, work))
    return next(rows, None)


@cache
def _rows() -> tuple[Row, ...]:
    return of_machine(read(TABLE), *matmul.machine())


def of_machine(rows: Iterable[Row], vendor: str, isa: str) -> tuple[Row, ...]:
    """Return the rows of a machine, or those of the machine in the table that is most like it.

    That is one of the same vendor, because CPUs of one vendor are more alike than CPUs of one ISA;
    else one of the same ISA; else the first.
    """
    machines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        machines.setdefault((row.vendor, row.isa), []).append(row)
    closest = max(machines, key=lambda each: (each[0] == vendor, each[1] == isa), default=None)
    return () if closest is None else tuple(machines[closest])


def read(path: Path) -> list[Row]:
    """Return the rows of a table.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a table; the message names the file and the line.
    """
    return _csv_table.read(path, Row)


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write a table that `read` reads; an existing file is replaced atomically."""
    _csv_table.write(path, Row, rows)
