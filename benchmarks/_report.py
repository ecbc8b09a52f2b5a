"""Benchmark results: a table on the terminal and a JSON file."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks._timing import Sample

# Ratios within this distance of 1 count as level: cpuaccel promises to be at most this much slower.
_LEVEL = 0.03
_UNITS = {"s": 1, "ms": 1e3, "us": 1e6}
# Reports with more ratios than these print them in a table of their own, below the times.
_RATIOS_BESIDE_TIMES = 4


@dataclass(frozen=True)
class Ratio:
    """The speed of column `subject` relative to column `base`; above 1 `subject` is faster."""

    subject: str
    base: str

    @property
    def label(self) -> str:
        """The heading of this ratio."""
        return f"{self.subject} over {self.base}"

    def of(self, samples: dict[str, Sample]) -> float | None:
        """Ratio of the medians, or None if either column is missing."""
        if self.subject not in samples or self.base not in samples:
            return None
        return samples[self.base].median / samples[self.subject].median


@dataclass(frozen=True)
class Row:
    """One row: a name, one sample for each column, and further entries for the JSON file."""

    name: str
    samples: dict[str, Sample]
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """The results of a benchmark; `unit` is the unit of printed times, "s", "ms" or "us"."""

    title: str
    facts: dict[str, str]
    columns: list[str]
    ratios: list[Ratio] = field(default_factory=list)
    unit: str = "ms"
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def present_ratios(self) -> list[Ratio]:
        """The ratios for which both columns were measured."""
        return [r for r in self.ratios if r.subject in self.columns and r.base in self.columns]

    def geomean_ratio(self, ratio: Ratio) -> float | None:
        """Geometric mean of `ratio` over the rows that have it."""
        return geomean(value for row in self.rows if (value := ratio.of(row.samples)) is not None)

    def geomean_time(self, column: str) -> float | None:
        """Geometric mean of the column's medians, seconds; None unless every row has it."""
        if any(column not in row.samples for row in self.rows):
            return None
        return geomean(row.samples[column].median for row in self.rows)

    def print(self, console: Console) -> None:
        """Prints header, tables and notes; the last row of each table is the geometric mean."""
        print_header(console, self.title, self.facts)
        ratios = self.present_ratios()
        if len(ratios) <= _RATIOS_BESIDE_TIMES:
            console.print(self._table(self.columns, ratios))
        else:
            console.print(self._table(self.columns, []))
            console.print(self._table([], ratios))
        print_notes(console, self.notes)

    def write_json(self, path: Path) -> None:
        """Writes all results to `path`, times in milliseconds."""
        ratios = self.present_ratios()
        rows = [
            {
                "name": row.name,
                "times": {name: sample.to_dict() for name, sample in row.samples.items()},
                "ratios": {ratio.label: ratio.of(row.samples) for ratio in ratios},
                **row.extra,
            }
            for row in self.rows
        ]
        document = {
            "title": self.title,
            "machine": self.facts,
            "columns": self.columns,
            "rows": rows,
            "geomean": {ratio.label: self.geomean_ratio(ratio) for ratio in ratios},
            "notes": self.notes,
        }
        path.write_text(json.dumps(document, indent=1) + "\n")

    def _table(self, columns: list[str], ratios: list[Ratio]) -> Table:
        table = Table()
        table.add_column("")
        for column in columns:
            table.add_column(f"{column} {self.unit}", justify="right")
        for ratio in ratios:
            table.add_column(f"{ratio.subject}\nover {ratio.base}", justify="right")
        table.add_column("spread", justify="right")
        for row in self.rows:
            times = [self._time(row.samples.get(column)) for column in columns]
            speeds = [show_ratio(ratio.of(row.samples)) for ratio in ratios]
            spread = max((sample.spread for sample in row.samples.values()), default=0.0)
            table.add_row(row.name, *times, *speeds, f"{spread:.0%}")
        if self.rows:
            table.add_section()
            means = [self._seconds(self.geomean_time(column)) for column in columns]
            speeds = [show_ratio(self.geomean_ratio(ratio)) for ratio in ratios]
            table.add_row("geomean", *means, *speeds, "", style="bold")
        return table

    def _time(self, sample: Sample | None) -> str:
        return self._seconds(None if sample is None else sample.median)

    def _seconds(self, seconds: float | None) -> str:
        if seconds is None:
            return "-"
        value = seconds * _UNITS[self.unit]
        return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def print_header(console: Console, title: str, facts: dict[str, str]) -> None:
    """Prints a title and the machine that was measured."""
    console.print(f"[bold]{title}[/bold]")
    for name, value in facts.items():
        console.print(f"  {name}: {value}", highlight=False)


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Prints notes that a reader of the table needs."""
    for note in notes:
        console.print(f"  {note}", highlight=False, markup=False)


def not_measured(reasons: dict[str, str]) -> list[str]:
    """One note for each non-empty reason in {name: why it was not measured, or ""}."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        if reason:
            by_reason.setdefault(reason, []).append(name)
    return [f"not measured: {', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def geomean(values: Iterable[float]) -> float | None:
    """Geometric mean of positive numbers; None when there are none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def show_ratio(value: float | None) -> str:
    """Formats `value` for a table: green if faster, red if slower, by more than 3 %."""
    if value is None:
        return "-"
    color = "green" if value > 1 + _LEVEL else "red" if value < 1 - _LEVEL else ""
    return f"[{color}]{value:.2f}x[/{color}]" if color else f"{value:.2f}x"
