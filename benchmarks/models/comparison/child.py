"""Runs one case in its own process: `python -m benchmarks.models.comparison.child`.

It writes the current column to a status file, so that the parent knows which column caused a crash,
and at the end writes its results.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_clock, make_parser, names
from benchmarks._report import not_measured
from benchmarks._timing import Runner
from benchmarks.models._columns import Column
from benchmarks.models._job import Job
from benchmarks.models._run import time_job
from benchmarks.models._torch_peer import CLOCKS
from benchmarks.models.comparison.bound import reading
from benchmarks.models.comparison.cases import BOUND, DECODER, Case
from benchmarks.models.comparison.columns import PEERS, columns
from benchmarks.models.comparison.jobs import job, notes


def main(arguments: list[str] | None = None) -> None:
    """Runs the case of `arguments`."""
    options = _parser().parse_args(arguments)
    case = Case(**json.loads(options.case))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: case.threads])
    torch.set_num_threads(case.threads)
    wanted = [
        each
        for each in columns(case)
        if PEERS.get(each.name, "") in ("", *options.peers) and each.name not in options.without
    ]
    clock = CLOCKS[options.clock]
    result = measure(case, wanted, options.rounds, options.budget, options.status, clock)
    options.result.write_text(json.dumps(result))


def measure(
    case: Case,
    wanted: Sequence[Column],
    rounds: int,
    budget: float,
    status: Path,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Results of `case` in the `wanted` columns: times, first calls, failures, notes, the machine.

    The file `status` holds the column that is being prepared, and is empty while all are timed.
    """
    reasons = {each.name: each.missing() for each in wanted}
    first: dict[str, float] = {}
    chosen = [_announced(each, status, first, clock) for each in wanted if not reasons[each.name]]
    beside = {BOUND: reading(case)} if case.kind == DECODER and not _plugin.missing() else {}
    row, _ = time_job(
        str(case),
        _prepared(case, status),
        chosen,
        rounds=rounds,
        budget=budget,
        beside=beside,
        clock=clock,
    )
    bound = row.samples.pop(BOUND, None)
    return {
        "case": case.to_dict(),
        "times": {name: each.to_dict() for name, each in row.samples.items()},
        **row.extra,
        "first_s": first,
        "bound_ms": bound.median * 1e3 if bound else None,
        "notes": [
            *notes(case),
            *(each.note() for each in chosen if each.note()),
            *not_measured(reasons),
        ],
        "machine": _machine.describe(),
    }


def _prepared(case: Case, status: Path) -> Job:
    status.write_text("")
    return job(case)


def _announced(
    column: Column, status: Path, first: dict[str, float], clock: Callable[[], float]
) -> Column:
    """`column` as a peer that may fail; its first call is part of its preparation.

    `first` gets the seconds of both.
    """

    def prepare(job: Job) -> Runner:
        status.write_text(column.name)
        start = clock()
        run = column.prepare(job)
        run()
        first[column.name] = clock() - start
        status.write_text("")
        return run

    return replace(column, prepare=prepare, peer=True, in_torch=column.in_torch or not column.peer)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument("--case", required=True)
    parser.add_argument("--peers", type=names, required=True)
    parser.add_argument("--without", type=names, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--budget", type=float, required=True)
    add_clock(parser)
    parser.add_argument("--status", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    return parser


if __name__ == "__main__":
    main()
