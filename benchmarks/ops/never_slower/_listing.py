"""Reports the slower cases, and all results as JSON, CSV or Markdown."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks._report import geomean, print_header, print_notes, show_ratio
from benchmarks.ops.never_slower._case import Case
from benchmarks.ops.never_slower._measure import CLOCKS, Speeds


@dataclass(frozen=True)
class Result:
    """One case on one number of threads: its speeds, or the error that a call raised."""

    case: Case
    threads: int
    speeds: Speeds
    error: str = ""

    def slower(self, clocks: list[str], limit: float) -> bool:
        """Whether any of `clocks` shows cpuaccel slower than `limit`, beyond the spread."""
        return any(self.speeds[clock].below(limit) for clock in clocks if clock in self.speeds)

    def to_dict(self) -> dict[str, Any]:
        """The result as one flat row for JSON and CSV."""
        row: dict[str, Any] = {
            "op": self.case.op,
            "key": self.case.key,
            "case": self.case.label,
            "threads": self.threads,
            "error": self.error,
        }
        for clock, speed in self.speeds.items():
            first, third = speed.quartiles
            row[f"{clock}_ratio"] = round(speed.median, 4)
            row[f"{clock}_q1"], row[f"{clock}_q3"] = round(first, 4), round(third, 4)
            row[f"{clock}_off_us"] = round(speed.off_ns / 1e3, 3)
            row[f"{clock}_on_us"] = round(speed.on_ns / 1e3, 3)
            row["rounds"] = len(speed.ratios)
        return row


_HEADINGS = ("op", "key", "case", "threads", "off us", "on us", "off over on", "quartiles", "wall")


@dataclass
class Listing:
    """All results, the clocks that decide, and the ratio below which a case is listed."""

    facts: dict[str, str]
    results: list[Result]
    clocks: list[str]
    limit: float

    def slower(self) -> list[Result]:
        """The listed results, slowest first."""
        found = [result for result in self.results if result.slower(self.clocks, self.limit)]
        return sorted(found, key=lambda result: result.speeds["cpu"].median)

    def print(self, console: Console) -> None:
        """Prints a table with one row for each op, then the list of slower cases."""
        print_header(console, "overridden ops, speedup of cpuaccel over torch", self.facts)
        console.print(self._by_op())
        slower = self.slower()
        if slower:
            table = Table(title=f"speedup below {self.limit:g}, beyond the spread")
            for heading in _HEADINGS:
                table.add_column(heading)
            for result in slower:
                table.add_row(*_cells(result))
            console.print(table)
        print_notes(console, self.notes())

    def notes(self) -> list[str]:
        """How many cases were measured and listed, and which failed."""
        failed = [f"failed: {r.case.name}: {r.error}" for r in self.results if r.error]
        measured = [result for result in self.results if not result.error]
        listed = f"{len(self.slower())} of {len(measured)} cases are below {self.limit:g}"
        return [f"{listed} by {' or '.join(self.clocks)} time, beyond the spread", *failed]

    def _by_op(self) -> Table:
        table = Table()
        for heading in ("op", "key", "threads", "cases", "geomean", "least", "listed"):
            table.add_column(heading, justify="left" if heading in ("op", "key") else "right")
        groups: dict[tuple[str, str, int], list[Result]] = {}
        for result in self.results:
            if not result.error:
                place = (result.case.op, result.case.key, result.threads)
                groups.setdefault(place, []).append(result)
        for (op, key, threads), results in groups.items():
            ratios = [result.speeds["cpu"].median for result in results]
            listed = sum(result.slower(self.clocks, self.limit) for result in results)
            cells = (show_ratio(geomean(ratios)), show_ratio(min(ratios)), str(listed or ""))
            table.add_row(op, key, str(threads), str(len(results)), *cells)
        return table

    def write_json(self, path: Path) -> None:
        """Writes every result."""
        document = {
            "machine": self.facts,
            "clocks": self.clocks,
            "limit": self.limit,
            "listed": [result.case.name for result in self.slower()],
            "results": [result.to_dict() for result in self.results],
        }
        path.write_text(json.dumps(document, indent=1) + "\n")

    def write_csv(self, path: Path) -> None:
        """Writes every result, one per line."""
        rows = [result.to_dict() for result in self.results]
        names = list(dict.fromkeys(name for row in rows for name in row))
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def write_markdown(self, path: Path) -> None:
        """Writes the list as a table."""
        lines = [f"| {' | '.join(_HEADINGS)} |", f"|{' --- |' * len(_HEADINGS)}"]
        lines += [f"| {' | '.join(_cells(result))} |" for result in self.slower()]
        lines += ["", *self.notes()]
        path.write_text("\n".join(lines) + "\n")


def _cells(result: Result) -> list[str]:
    """CPU times, and the ratio of wall times."""
    cpu, wall = (result.speeds[clock] for clock in CLOCKS)
    first, third = cpu.quartiles
    case = result.case
    times = [f"{ns / 1e3:.3g}" for ns in (cpu.off_ns, cpu.on_ns)]
    ratios = [f"{cpu.median:.2f}", f"{first:.2f} to {third:.2f}", f"{wall.median:.2f}"]
    return [case.op, case.key, case.label, str(result.threads), *times, *ratios]
