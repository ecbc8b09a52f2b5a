"""Times a call of every op that cpuaccel overrides, with the plugin off and on.

The ops are those that cpuaccel registered. If an op has no case, the benchmark exits with its name.
A call that is slower than torch by more than 3 % and beyond the spread is measured once more, and
listed if it is slower again. Layers of torch_geometric, quantized layers and gradients are measured
too. Run as `python -m benchmarks.ops.never_slower` from a checkout's root.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

sys.path.append(str(Path(__file__).resolve().parents[3]))

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_rounds, add_some, names, positive
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
        raise SystemExit(f"no case in benchmarks/ops/never_slower for {', '.join(missing)}")
    chosen = [case for case in cases if _asked_for(case, options)][:: options.every]
    if not chosen:
        raise SystemExit("no case has all that --ops and --filter ask for")
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
        Console(stderr=True).print("interrupted: the cases measured so far follow")
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


def _threads(text: str) -> list[int]:
    return [positive(value) for value in names(text)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ops.never_slower", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--ops", type=names, default=[], metavar="A,B", help="only ops with A or B in their name"
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help='only cases with TEXT, such as "bf16"'
    )
    parser.add_argument(
        "--threads", type=_threads, default=[1, 2], metavar="N,M", help="default: 1,2"
    )
    parser.add_argument("--every", type=positive, default=1, help="take one case in EVERY")
    add_rounds(parser, rounds=15, budget=0.5, of="a case")
    add_some(parser, "--clocks", list(CLOCKS), "clock")
    parser.add_argument(
        "--limit", type=float, default=0.97, help="list what is below (default: 0.97)"
    )
    parser.add_argument(
        "--stop-after",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="measure no further case then, and list what there is",
    )
    parser.add_argument("--names", action="store_true", help="print the cases, measure nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the list to FILE")
    return parser


if __name__ == "__main__":
    main()
