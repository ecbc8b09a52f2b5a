"""Times linear layers on float tensors with torch and cpuaccel, next to the machine's bounds.

The bound of a shape is the longer of two times: its arithmetic at the machine's peak, and moving
its operands and result from or to memory once if the last-level cache cannot hold them. Both peaks
are measured before and after the shapes by a program that the first run builds (`benchmarks/cpp`).
Bounds are for float32; `--no-peaks` omits them.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, add_threads, make_parser
from benchmarks._report import (
    Ratio,
    Row,
    geomean,
    not_measured,
    print_header,
    print_notes,
    show_ratio,
)
from benchmarks._timing import Contender, Sample, side_by_side
from benchmarks.ops._peaks import MachinePeaks, add_no_peaks, meter
from benchmarks.ops._products import SHAPES, ProductShape

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_RATIO = Ratio("cpuaccel", "torch")
_COLUMNS = {"torch": False, "cpuaccel": True}

Pair = tuple[ProductShape, Row]


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    shapes = [shape for shape in SHAPES if options.filter in shape.name]
    if not shapes:
        raise SystemExit(f"--filter: expected a part of a shape's name, got {options.filter!r}")
    torch.set_num_threads(options.threads)
    dtype = _DTYPES[options.dtype]
    reasons = {"cpuaccel": _plugin.missing()}
    columns = {name: on for name, on in _COLUMNS.items() if not reasons.get(name)}
    measure = meter(dtype) if options.peaks else None
    peaks = measure() if measure else MachinePeaks(0.0, 0.0, 0)
    with torch.inference_mode():
        pairs = [
            (shape, _measure(shape, dtype, columns, options))
            for shape in track(shapes, "shapes", console=Console(stderr=True))
        ]
    if measure:
        peaks = peaks.best(measure())
    facts = {**_machine.describe(), "dtype": options.dtype}
    if peaks.flops:
        facts["peaks"] = f"{peaks.flops / 1e9:.0f} GFLOP/s, {peaks.bytes / 1e9:.1f} GB/s read"
    notes = ["M x K x N; GFLOP/s in brackets", *not_measured(reasons)]
    console = _machine.console()
    print_header(console, "linear layers, median time of a call", facts)
    console.print(_table(pairs, list(columns), peaks, dtype))
    print_notes(console, notes)
    if options.json:
        _write(options.json, pairs, peaks, dtype, facts, notes)


def _measure(
    shape: ProductShape, dtype: torch.dtype, columns: dict[str, bool], options: argparse.Namespace
) -> Row:
    """Times a call with cpuaccel disabled and enabled, and records which kernels cpuaccel ran."""
    run = shape.runner(dtype)
    contenders = {
        name: Contender(run, partial(_plugin.enabled, on)) for name, on in columns.items()
    }
    calls = {}
    if "cpuaccel" in columns:
        with _plugin.enabled(True):
            calls = _plugin.calls_of(run)
    samples = side_by_side(
        contenders, rounds=options.rounds, budget=options.budget, min_sample=1e-3
    )
    return Row(shape.name, samples, {"calls": calls})


def _share(sample: Sample, bound: float | None) -> str:
    return "-" if bound is None else f"{bound / sample.median:.0%}"


def _table(pairs: list[Pair], columns: list[str], peaks: MachinePeaks, dtype: torch.dtype) -> Table:
    table = Table()
    table.add_column("shape", no_wrap=True)
    for name in columns:
        table.add_column(f"{name} us", justify="right", no_wrap=True)
        table.add_column("of bound", justify="right")
    table.add_column("cpuaccel\nover torch", justify="right")
    table.add_column("spread", justify="right")
    table.add_column("ran on")
    for shape, row in pairs:
        bound = peaks.bound(shape.flops, shape.bytes(dtype))
        cells = []
        for sample in (row.samples[name] for name in columns):
            rate = shape.flops / sample.median * 1e-9
            cells += [f"{sample.median * 1e6:.1f} ({rate:.1f})", _share(sample, bound)]
        spread = max(sample.spread for sample in row.samples.values())
        ran = ", ".join(row.extra["calls"]) or "torch"
        table.add_row(shape.name, *cells, show_ratio(_RATIO.of(row.samples)), f"{spread:.0%}", ran)
    ratios = [ratio for _, row in pairs if (ratio := _RATIO.of(row.samples)) is not None]
    table.add_section()
    table.add_row("geomean", *[""] * (2 * len(columns)), show_ratio(geomean(ratios)), "", "")
    return table


def _write(
    path: Path,
    pairs: list[Pair],
    peaks: MachinePeaks,
    dtype: torch.dtype,
    facts: dict[str, str],
    notes: list[str],
) -> None:
    document: dict[str, Any] = {
        "machine": facts,
        "peak_gflops": peaks.flops / 1e9,
        "peak_read_gb": peaks.bytes / 1e9,
        "shapes": [_to_dict(shape, row, peaks, dtype) for shape, row in pairs],
        "notes": notes,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _to_dict(
    shape: ProductShape, row: Row, peaks: MachinePeaks, dtype: torch.dtype
) -> dict[str, Any]:
    bound = peaks.bound(shape.flops, shape.bytes(dtype))
    return {
        "name": shape.name,
        "M": shape.M,
        "K": shape.K,
        "N": shape.N,
        "bound_ms": None if bound is None else bound * 1e3,
        "times": {name: sample.to_dict() for name, sample in row.samples.items()},
        "gflops": {
            name: shape.flops / sample.median * 1e-9 for name, sample in row.samples.items()
        },
        "ratio": _RATIO.of(row.samples),
        **row.extra,
    }


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--dtype", choices=list(_DTYPES), default="float32", help="default: float32"
    )
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help='only shapes whose name contains TEXT, such as "BERT-base 16x"',
    )
    add_threads(parser, 1)
    add_rounds(parser, rounds=15, budget=3.0, of="a shape")
    add_no_peaks(parser, "the machine's peaks")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
