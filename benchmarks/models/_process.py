"""Runs part of a benchmark in a separate process, whose last printed line is the result as JSON."""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import _machine
from benchmarks._report import Ratio, Report


class Clock:
    """Wall time, and CPU time of the process and its children, since the clock was created."""

    def __init__(self) -> None:
        self._begin = _now()

    def read(self) -> dict[str, float]:
        """Seconds by clock."""
        now = _now()
        return {clock: now[clock] - self._begin[clock] for clock in CLOCKS}


CLOCKS = ("wall", "cpu")


def _now() -> dict[str, float]:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "wall": time.perf_counter(),
        "cpu": sum(usage.ru_utime + usage.ru_stime for usage in usages),
    }


def reports_by_clock(
    title: str, columns: Iterable[str], ratios: Sequence[Ratio], *, batch: int | None = None
) -> dict[str, Report]:
    """A report of medians in seconds for each clock."""
    return {
        clock: Report(
            title=f"{title}, {clock} time, median",
            facts=_machine.describe(batch=batch),
            columns=list(columns),
            ratios=list(ratios),
            unit="s",
        )
        for clock in CLOCKS
    }


def show(reports: Mapping[str, Report], json_file: Path | None) -> None:
    """Prints reports by clock, and writes that of wall time."""
    for report in reports.values():
        report.print(_machine.console())
    if json_file:
        reports["wall"].write_json(json_file)


def add_inside(parser: argparse.ArgumentParser, parts: Iterable[str]) -> None:
    """Adds --inside, the one of `parts` that `result_of` runs in a process of its own."""
    parser.add_argument("--inside", choices=sorted(parts), help=argparse.SUPPRESS)


def result_of(
    module: str,
    inside: str,
    model: str,
    threads: int | None,
    environment: Mapping[str, str],
    *more: str,
) -> dict[str, Any]:
    """Runs the part `inside` of `module` for `model`, with `more` arguments.

    The process has this one's environment, updated by `environment`.

    Raises:
        RuntimeError: it failed; the message has the part, the model and the process's output.
    """
    arguments = ["--models", model, "--inside", inside, *more]
    arguments += ["--threads", str(threads)] if threads else []
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, **environment},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{inside} of {model}:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
