"""The command `python -m cpuaccel tune`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from cpuaccel import _native, matmul
from cpuaccel._cli.tune.timing import BUCKETS, Measured, tune
from cpuaccel.matmul import MatmulRow


def add_tune(commands: Any) -> None:
    """Add the command to `python -m cpuaccel`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "tune",
        help="measure matrix products here and write this machine's table",
        description="Time matrix products by each library, on one thread and on all of torch's, and"
        " write the table that cpuaccel reads when torch is imported. Takes a minute or two.",
    )
    parser.add_argument(
        "--dtypes",
        type=_dtypes,
        metavar="A,B",
        default=list(matmul.DTYPES),
        help=f"dtypes to measure, of {','.join(matmul.DTYPES)} (default: all)",
    )
    parser.add_argument(
        "--rounds", type=_positive, default=5, help="rounds for each time (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the table to write (default: matmul.csv in your configuration folder)",
    )
    parser.add_argument("--dry-run", action="store_true", help="measure and print, write nothing")


def run_tune(console: Console, options: argparse.Namespace) -> int:
    """Measure, print a line for each bucket, write the table; return the exit code."""
    path: Path = options.out or matmul.own_table()
    _native.load()
    # Read first, because measuring takes minutes and the file may turn out not to be a table.
    other_rows = _rows_of_others(path, options.dtypes)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("products", total=len(BUCKETS) * len(options.dtypes))

        def report(dtype: str, found: Measured) -> None:
            progress.advance(task)
            console.print(_line(dtype, found), highlight=False)

        rows = tune(options.dtypes, options.rounds, report)
    if options.dry_run:
        console.print("Nothing was written.")
        return 0
    matmul.write(path, [*rows, *other_rows])
    console.print(f"Written to {path}; processes that import torch from now on use it.")
    return 0


def _rows_of_others(path: Path, dtypes: list[str]) -> list[MatmulRow]:
    """Return the rows of a table that measuring `dtypes` here does not replace."""
    if not path.exists():
        return []
    mine = matmul.machine()
    return [
        row for row in matmul.read(path) if (row.vendor, row.isa) != mine or row.dtype not in dtypes
    ]


def _line(dtype: str, found: Measured) -> str:
    bucket = found.bucket
    limits = [f"M <= {bucket.max_M}"] * bool(bucket.max_M)
    limits += [f"M*N*K <= {bucket.max_work}"] * bool(bucket.max_work)
    gain = "" if found.provider == "intree" else f" ({found.mean:.2f} times torch)"
    return f"{dtype}, {', '.join(limits) or 'any other'}: {found.provider}{gain}"


def _dtypes(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in matmul.DTYPES:
            raise argparse.ArgumentTypeError(
                f"expected some of {','.join(matmul.DTYPES)}, got {name!r}"
            )
    return names


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text!r}")
    return number
