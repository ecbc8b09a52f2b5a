"""Compares cpuaccel with torch, Inductor, zentorch, ONNX Runtime and OpenVINO in one table.

It covers CNNs and transformers in int8, fp32 and bf16, a decoder step next to the time to read its
weights, and networks that make or read pictures in fp32 and bf16. Each model runs in its own
process on as many CPUs as it has threads, and all columns are interleaved. Column `by` names the
fastest of cpuaccel's columns, as a user would choose it: torch.compile(backend="cpuaccel"),
cpuaccel.optimize, or either on a PT2E model. Peers are measured if they are installed
(`requirements/peers.txt`).
"""

import argparse
import os
import signal
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from benchmarks import _machine, _plot
from benchmarks._arguments import (
    CLOCK_TITLES,
    add_checked_names,
    add_clock,
    add_names,
    add_plot,
    add_results,
    add_rounds,
    check_known,
    make_parser,
    positives,
)
from benchmarks._report import print_header, print_notes
from benchmarks._results import ResultsFile
from benchmarks.models.comparison import cases, table
from benchmarks.models.comparison.cases import Case
from benchmarks.models.comparison.columns import NAMES
from benchmarks.models.comparison.outcome import Outcome, outcome
from benchmarks.models.comparison.run import run_case

_RESULTS = Path("build/comparison.jsonl")
_TITLE = "cpuaccel and other runtimes: median {}, and speedup of cpuaccel"


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures the missing cases, and prints the table."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.plot:
        _plot.require()
    wanted = _wanted(options)
    available = len(os.sched_getaffinity(0))
    if any(case.threads > available for case in wanted):
        parser.error(f"--threads: expected at most {available}, the number of CPUs")
    try:
        results = ResultsFile(options.results, Case, resume=options.resume)
        _measure(wanted, results, options)
        facts = results.machine()
    except ValueError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(f"interrupted; to continue with {options.results}, add --resume") from None
    rows = [outcome(case, result) for case, result in results.of(wanted).items()]
    _show(rows, facts, options)


def _wanted(options: argparse.Namespace) -> list[Case]:
    """By default one batch on one thread, fewer CNNs and one length; with --all every case."""
    every = options.all
    cnns = cases.CNNS if every else cases.FEWER_CNNS
    pictures = list(cases.PICTURES) if every else cases.FEWER_PICTURES
    models = options.models or [*cnns, *cases.TEXT, *cases.IMAGES, *cases.DECODERS, *pictures]
    return cases.cases(
        models,
        options.types,
        options.batch or ([1, 16] if every else [1]),
        options.threads or ([1, 2] if every else [1]),
        options.sequences or (cases.SEQUENCES if every else [128]),
    )


def _measure(wanted: list[Case], results: ResultsFile[Case], options: argparse.Namespace) -> None:
    missing = [case for case in wanted if case not in results]
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(wanted), completed=len(wanted) - len(missing))
        for case in missing:
            progress.update(task, description=str(case))
            start = time.monotonic()
            result = run_case(
                case,
                peers=options.peers,
                rounds=options.rounds,
                budget=options.budget,
                patience=options.patience,
                clock=options.clock,
            )
            results.add(case, result)
            progress.console.print(
                _line(outcome(case, result), time.monotonic() - start), highlight=False
            )
            progress.advance(task)


def _line(row: Outcome, seconds: float) -> str:
    time = "failed" if row.time is None else f"{row.time:.2f} ms by {row.by}"
    ratio = row.over(cases.OPENVINO)
    beside = f", {ratio:.2f} over OpenVINO" if isinstance(ratio, float) else ""
    return f"{row.case}: {time}{beside} ({seconds:.0f} s)"


def _show(rows: list[Outcome], facts: dict[str, Any], options: argparse.Namespace) -> None:
    console = _machine.console()
    print_header(console, _TITLE.format(CLOCK_TITLES[options.clock]), facts)
    table.print_table(console, rows)
    print_notes(console, dict.fromkeys(note for row in rows for note in row.notes))
    if options.markdown:
        options.markdown.write_text(table.summary(rows) + "\n" + table.markdown(rows))
    if options.plot:
        table.plot(rows, facts, options.plot)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--all",
        action="store_true",
        help="all 20 CNNs and 6 pictures, texts of 16, 128 and 384 tokens, batches of 1 and 16, "
        "1 and 2 threads",
    )
    add_checked_names(
        parser,
        "--models",
        lambda name: check_known([name], cases.KIND, "model"),
        default=None,
        help=f"names from {','.join(cases.MODELS)} (default: all, but fewer CNNs and pictures)",
    )
    add_names(parser, "--types", cases.TYPES, "type")
    add_names(parser, "--peers", NAMES, "peer")
    for option, of in (
        ("--batch", "inputs per call (default: 1)"),
        ("--threads", "numbers of threads (default: 1)"),
        ("--sequences", "tokens per text (default: 128)"),
    ):
        parser.add_argument(option, type=positives, metavar="N,M", help=of)
    add_rounds(parser, rounds=15, budget=5.0, of="a case")
    add_clock(parser)
    parser.add_argument(
        "--patience",
        type=float,
        default=900.0,
        metavar="SECONDS",
        help="after SECONDS a case runs again without the column that hangs (default: 900)",
    )
    add_results(parser, _RESULTS)
    add_plot(parser)
    return parser


if __name__ == "__main__":
    # SIGTERM ends the run as Ctrl-C does. A case left running would take cores from later
    # measurements.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
