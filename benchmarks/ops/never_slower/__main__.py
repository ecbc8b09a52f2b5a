"""Times a call of every op that cpuaccel overrides, and lists the calls that are slower than torch.

The ops are those that cpuaccel registered. If an op has no case, the benchmark exits with its name.
A call that is slower than torch by more than 3 % and beyond the spread is measured once more, and
listed if it is slower again. Layers of torch_geometric, quantized layers and gradients are measured
too.
"""

import argparse
import math
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_json,
    add_names,
    add_rounds,
    make_parser,
    names,
    positive,
    positives,
)
from benchmarks._quantize import quiet
from benchmarks.ops.never_slower._case import Case
from benchmarks.ops.never_slower._cases import all_cases, overrides, without_case
from benchmarks.ops.never_slower._listing import Listing, Result
from benchmarks.ops.never_slower._measure import CLOCKS, measure

# The second measurement has this many times the rounds, because it decides.
_AGAIN = 3


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if reason := _plugin.missing():
        raise SystemExit(reason)
    cases = all_cases()
    if missing := without_case(overrides(), cases):
        raise SystemExit(f"benchmarks/ops/never_slower has no case for {', '.join(missing)}")
    chosen = [case for case in cases if _asked_for(case, options)][:: options.every]
    if not chosen:
        raise SystemExit("--ops, --filter: no case matches both")
    if options.names:
        print("\n".join(case.name for case in chosen))
        return
    results: list[Result] = []
    deadline = time.perf_counter() + options.stop_after
    try:
        for threads in options.threads:
            torch.set_num_threads(threads)
            for case in track(chosen, f"{threads} threads", console=Console(stderr=True)):
                if time.perf_counter() < deadline:
                    results.append(_measured(case, threads, options))
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; these are the cases measured so far")
    facts = {**_machine.describe(), "threads": ", ".join(map(str, options.threads))}
    listing = Listing(facts, results, options.clocks, options.limit)
    listing.print(_machine.console())
    for path, write in (
        (options.json, listing.write_json),
        (options.csv, listing.write_csv),
        (options.markdown, listing.write_markdown),
    ):
        if path:
            write(path)


def _asked_for(case: Case, options: argparse.Namespace) -> bool:
    return (not options.ops or any(text in case.op for text in options.ops)) and (
        options.filter in case.name
    )


def _measured(case: Case, threads: int, options: argparse.Namespace) -> Result:
    with torch.no_grad(), quiet():
        try:
            result = Result(case, threads, measure(case, options.rounds, options.budget))
            if result.slower(options.clocks, options.limit):
                rounds, budget = _AGAIN * options.rounds, _AGAIN * options.budget
                result = Result(case, threads, measure(case, rounds, budget))
        except (RuntimeError, TypeError, ValueError) as error:
            result = Result(case, threads, {}, str(error).partition("\n")[0])
    return result


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--ops", type=names, default=[], metavar="A,B", help="only ops whose name contains A or B"
    )
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help='only cases whose name contains TEXT, such as "bf16"',
    )
    parser.add_argument(
        "--threads",
        type=positives,
        default=[1, 2],
        metavar="N,M",
        help="numbers of threads (default: 1,2)",
    )
    parser.add_argument(
        "--every", type=positive, default=1, help="measure every EVERY-th case (default: 1)"
    )
    add_rounds(parser, rounds=15, budget=0.5, of="a case")
    add_names(parser, "--clocks", list(CLOCKS), "clock")
    parser.add_argument(
        "--limit", type=float, default=0.97, help="list calls with a lower speedup (default: 0.97)"
    )
    parser.add_argument(
        "--stop-after",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="start no case after SECONDS, and print the results so far",
    )
    parser.add_argument("--names", action="store_true", help="only print the names of the cases")
    add_json(parser)
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="also write all results to FILE as CSV"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the list to FILE")
    return parser


if __name__ == "__main__":
    main()
