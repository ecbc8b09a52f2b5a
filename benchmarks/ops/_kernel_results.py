"""Reads the CSV file that cpuaccel_bench writes, and shows it as tables and JSON."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from rich.table import Table


@dataclass(frozen=True)
class KernelResult:
    """One row of a kernel list on one shape, or one peak of the machine (family "peaks").

    `work` is the work of one call in multiply-adds, bytes or cycles. Times are seconds of one call.
    `peak_seconds` is the time of the call at the machine's peak. `bound_seconds` is the least time
    of its whole loop. Both are 0 if unknown.
    """

    family: str
    shape: str
    row: str
    isa: str
    seconds: float
    first_quartile: float
    third_quartile: float
    rounds: int
    work: float
    unit: str
    peak_seconds: float
    bound_seconds: float

    @property
    def rate(self) -> float:
        """Work per second, in `unit`."""
        return self.work / self.seconds * 1e-9

    @property
    def peak_share(self) -> float | None:
        """The share of the machine's peak that it reaches (1: all of it); None if unknown."""
        return self.peak_seconds / self.seconds if self.peak_seconds else None

    @property
    def bound_share(self) -> float | None:
        """The share of its loop's bound that it reaches (1: all of it); None if unknown."""
        return self.bound_seconds / self.seconds if self.bound_seconds else None

    def to_dict(self) -> dict[str, object]:
        """The result for JSON, times in microseconds."""
        return {
            "shape": self.shape,
            "row": self.row,
            "isa": self.isa,
            "median_us": self.seconds * 1e6,
            "q1_us": self.first_quartile * 1e6,
            "q3_us": self.third_quartile * 1e6,
            "rounds": self.rounds,
            "rate": self.rate,
            "unit": self.unit,
            "peak_share": self.peak_share,
            "bound_share": self.bound_share,
        }


def read(lines: Iterable[str]) -> list[KernelResult]:
    """The results in the lines of a CSV file."""
    texts = ("family", "shape", "row", "isa", "unit")
    results = []
    for line in csv.DictReader(lines):
        numbers = {key: float(value) for key, value in line.items() if key not in texts}
        rounds = int(numbers.pop("rounds"))
        results.append(KernelResult(**{key: line[key] for key in texts}, rounds=rounds, **numbers))
    return results


def by_family(results: list[KernelResult]) -> dict[str, list[KernelResult]]:
    """`results` grouped by family, in the order of the file."""
    return {name: list(group) for name, group in groupby(results, key=lambda each: each.family)}


def table_of(results: list[KernelResult]) -> Table:
    """The terminal table of one family, with a line between shapes."""
    table = Table()
    for heading in ("shape", "row"):
        table.add_column(heading, no_wrap=True)
    for heading in ("us", "rate"):
        table.add_column(heading, justify="right", no_wrap=True)
    compared = any(each.peak_share is not None for each in results)
    bounded = any(each.bound_share is not None for each in results)
    if compared:
        table.add_column("of peak", justify="right")
    if bounded:
        table.add_column("of bound", justify="right")
    for shape, group in groupby(results, key=lambda each: each.shape):
        for position, each in enumerate(group):
            shares = [_percent(each.peak_share)] * compared + [_percent(each.bound_share)] * bounded
            rate = f"{_figure(each.rate)} {each.unit:6}"
            name = "" if position else shape
            table.add_row(name, each.row, _figure(each.seconds * 1e6), rate, *shares)
        if compared:
            table.add_section()
    return table


def _figure(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
