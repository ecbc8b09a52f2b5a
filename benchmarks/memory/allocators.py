"""Times programs under torch's allocator, cpuaccel's allocator, and a preloaded malloc.

An allocator belongs to a process, so each time comes from a separate process, and the allocators
alternate. The table has the median of all steps and the highest peak of resident memory.
"""

import argparse
import ctypes.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import _machine
from benchmarks._arguments import (
    add_json,
    add_processes,
    add_threads,
    make_parser,
    names,
    positive,
    require_known,
)
from benchmarks._report import print_header, print_notes
from benchmarks._timing import Sample
from benchmarks.memory._workloads import WORKLOADS

_ROOT = Path(__file__).resolve().parents[2]
_PRELOADED = {"tcmalloc": ("tcmalloc", "tcmalloc_minimal"), "jemalloc": ("jemalloc",)}


@dataclass
class Figures:
    """What the processes of one workload and allocator printed."""

    seconds: list[float] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def median(self) -> float:
        """Median of all steps, seconds."""
        return Sample(tuple(self.seconds)).median


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    require_known(options.workloads, WORKLOADS, "workload")
    allocators, notes = _allocators()
    figures: dict[str, dict[str, Figures]] = {}
    rounds = [(w, a) for _ in range(options.rounds) for w in options.workloads for a in allocators]
    for workload, allocator in track(rounds, "processes", console=Console(stderr=True)):
        found = figures.setdefault(workload, {}).setdefault(allocator, Figures())
        _run(found, workload, allocators[allocator], options)
    console = _machine.console()
    facts = _machine.describe() | {"threads": str(options.threads)}
    print_header(console, "allocators", facts)
    console.print(_table(figures, list(allocators)))
    print_notes(console, notes)
    if options.json:
        document = {"machine": facts, "workloads": _to_dict(figures), "notes": notes}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


def _allocators() -> tuple[dict[str, dict[str, str]], list[str]]:
    """The environment variables of each allocator, and a note on each that is not installed."""
    found = {"torch": {"CPUACCEL_ALLOCATOR": "0"}, "cpuaccel": {"CPUACCEL_ALLOCATOR": "1"}}
    notes = []
    for name, libraries in _PRELOADED.items():
        library = next(filter(None, map(ctypes.util.find_library, libraries)), None)
        if library is None:
            notes.append(f"{name} is not installed, so it is not measured")
        else:
            found[name] = {"LD_PRELOAD": library}
    return found, notes


def _run(
    found: Figures, workload: str, environment: dict[str, str], options: argparse.Namespace
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "benchmarks.memory._child"),
            *(workload, str(options.threads), str(options.steps)),
        ],
        cwd=_ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    printed = json.loads(done.stdout.splitlines()[-1])
    found.seconds += printed["seconds"]
    found.peak_bytes = max(found.peak_bytes, printed["peak_bytes"])


def _table(figures: dict[str, dict[str, Figures]], allocators: list[str]) -> Table:
    table = Table("ms per step, peak MiB")
    for name in allocators:
        table.add_column(name, justify="right")
    for name in allocators[1:]:
        table.add_column(f"{name} over torch", justify="right")
    for workload, row in figures.items():
        cells = [f"{row[a].median * 1e3:.1f}, {row[a].peak_bytes / 2**20:.0f}" for a in allocators]
        base = row["torch"]
        cells += [
            f"{base.median / row[a].median:.2f}x, {row[a].peak_bytes / base.peak_bytes:.2f}"
            for a in allocators[1:]
        ]
        table.add_row(workload, *cells)
    return table


def _to_dict(figures: dict[str, dict[str, Figures]]) -> dict[str, dict[str, dict[str, float]]]:
    return {
        workload: {
            name: {"median_ms": f.median * 1e3, "peak_bytes": f.peak_bytes, "steps": len(f.seconds)}
            for name, f in row.items()
        }
        for workload, row in figures.items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--workloads",
        type=names,
        metavar="A,B",
        default=list(WORKLOADS),
        help=f"names from {','.join(WORKLOADS)} (default: all)",
    )
    add_threads(parser, torch.get_num_threads())
    add_processes(parser, 3)
    parser.add_argument("--steps", type=positive, default=5, help="steps per process (default: 5)")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
