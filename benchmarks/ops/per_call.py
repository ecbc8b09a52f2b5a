"""Measures the overhead of calling a quantized op, compared with an op that does nothing.

Every op runs on a single pixel or row of 16 channels, with torch's kernels and with cpuaccel's. Two
no-ops of the same schema are timed in the same rounds: one returns its input, the other returns a
new tensor. A loop in C++ makes the calls, which excludes the conversion of arguments from Python.
The C++ code is compiled into build/benchmarks at the first use.
"""

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, make_parser, names
from benchmarks._quantize import quantized_engine, quiet
from benchmarks._report import Row, not_measured, print_header, print_notes
from benchmarks._timing import Contender, Sample, side_by_side
from benchmarks.ops._tiny import TINY_OPS, TinyOp, types_of

_FOLDER = Path(__file__).resolve().parent
_BUILD = _FOLDER.parents[1] / "build" / "benchmarks" / f"per_call-torch{torch.__version__}"
_SOURCES = ("noop.cpp", "repeat.cpp")
_NOOPS = ("no-op, input", "no-op, fresh")
_BASE = _NOOPS[1]
# Short samples and many rounds: only a few samples are hit when another process interrupts.
_CALLS = 100
_MIN_SAMPLE = 2e-4
_PLUGIN = "cpuaccel"


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    chosen = [op for op in TINY_OPS if not options.ops or op.name in options.ops]
    if not chosen:
        raise SystemExit(f"unknown ops in --ops; known: {', '.join(op.name for op in TINY_OPS)}")
    torch.set_num_threads(1)
    reason = _plugin.missing()
    console = _machine.console()
    with torch.inference_mode(), quiet(), quantized_engine("x86"):
        native = load_native()
        rows = [
            _measure(native, op, plugin=not reason, options=options)
            for op in track(chosen, "operators", console=Console(stderr=True))
        ]
    facts = _machine.describe()
    notes = ["16 channels of one pixel or row; overheads are over the no-op with a fresh output"]
    notes += not_measured({_PLUGIN: reason})
    print_header(console, "time of a call", facts)
    console.print(table_of(rows))
    print_notes(console, notes)
    if options.json:
        document = {"machine": facts, "operators": [to_dict(row) for row in rows], "notes": notes}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


def load_native() -> Any:
    """The module of repeat.cpp with the ops of noop.cpp, rebuilt if they changed."""
    from torch.utils import cpp_extension

    # pip may have put ninja beside this interpreter.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    _BUILD.mkdir(parents=True, exist_ok=True)
    Console(stderr=True).print("compiling the no-ops in build/benchmarks")
    return cpp_extension.load(
        name="cpuaccel_per_call",
        sources=[str(_FOLDER / source) for source in _SOURCES],
        extra_cflags=["-O2"],
        build_directory=str(_BUILD),
    )


def _measure(native: Any, op: TinyOp, *, plugin: bool, options: argparse.Namespace) -> Row:
    """Times `op` and its no-ops."""
    contenders = {"torch": _contender(native, op.op, op, plugin=False)}
    if plugin:
        contenders[_PLUGIN] = _contender(native, op.op, op, plugin=True)
    for name, end in zip(_NOOPS, ("input", "fresh"), strict=True):
        noop: Any = getattr(torch.ops.cpuaccel_bench, f"noop_{op.noop}_{end}").default
        if types_of(noop) != op.types:
            raise RuntimeError(f"{noop} takes {types_of(noop)}, but {op.name} takes {op.types}")
        contenders[name] = _contender(native, noop, op, plugin=False)
    samples = side_by_side(
        contenders, rounds=options.rounds, budget=options.budget, min_sample=_MIN_SAMPLE
    )
    of_a_call = {
        name: Sample(tuple(seconds / _CALLS for seconds in sample.seconds))
        for name, sample in samples.items()
    }
    return Row(op.name, of_a_call)


def _contender(native: Any, called: Any, op: TinyOp, *, plugin: bool) -> Contender:
    """A contender that calls `called` with the arguments of `op` `_CALLS` times."""
    around = partial(_plugin.enabled, plugin)
    schema = called._schema
    with around():
        call = native.Call(schema.name, schema.overload_name, *op.arguments())
    return Contender(partial(call.repeat, _CALLS), around)


def overhead(row: Row, column: str) -> float | None:
    """Seconds of a call of `column` beyond the no-op with a new output; None if not measured."""
    if column not in row.samples:
        return None
    return row.samples[column].median - row.samples[_BASE].median


def to_dict(row: Row) -> dict[str, Any]:
    """The result for JSON, in nanoseconds."""
    columns = {name: sample.median * 1e9 for name, sample in row.samples.items()}
    over = {name: overhead(row, name) for name in ("torch", _PLUGIN)}
    overheads = {name: seconds * 1e9 for name, seconds in over.items() if seconds is not None}
    return {"name": row.name, "median_ns": columns, "overhead_ns": overheads}


def table_of(rows: list[Row]) -> Table:
    """Medians and overheads, ns."""
    table = Table()
    table.add_column("ns per call")
    for heading in ("torch", _PLUGIN, *_NOOPS, "torch\noverhead", "cpuaccel\noverhead", "spread"):
        table.add_column(heading, justify="right")
    for row in rows:
        medians = [row.samples[name].median if name in row.samples else None for name in _order()]
        overheads = [overhead(row, "torch"), overhead(row, _PLUGIN)]
        spread = max(sample.spread for sample in row.samples.values())
        cells = ["-" if value is None else f"{value * 1e9:.0f}" for value in medians + overheads]
        table.add_row(row.name, *cells, f"{spread:.0%}")
    return table


def _order() -> tuple[str, ...]:
    return ("torch", _PLUGIN, *_NOOPS)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    known = ",".join(op.name for op in TINY_OPS)
    parser.add_argument(
        "--ops", type=names, default=[], metavar="A,B", help=f"names from {known} (default: all)"
    )
    add_rounds(parser, rounds=99, budget=3.0, of="an op")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
