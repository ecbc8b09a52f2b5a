"""Times linear layers of 16-bit floats beside float32, on CPUs without such arithmetic.

A row is a layer, out x in features, and the number of rows of src. Columns: `fp32`, `bf16` and
`fp16` in eager mode with cpuaccel on, `plan_...` the same after cpuaccel.optimize, which packs
weights, and `torch_...` with cpuaccel off. Each layer has as many copies as exceed the caches
twice, and calls take them in turn: weights come from memory, as in a model. Up to 8 rows, notes say
how many GB of weights a second each column reads.
"""

import argparse
import itertools
import re
from functools import partial

import torch
from torch import nn

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    CLOCK_TITLES,
    add_clock,
    add_json,
    add_names,
    add_rounds,
    add_threads,
    make_parser,
    positives,
)
from benchmarks._from_memory import in_turn
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, Runner, side_by_side
from benchmarks.models._torch_peer import CLOCKS
from benchmarks.ops.intx_linear import LAYERS

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
COLUMNS = tuple(f"{way}{dtype}" for way in ("", "plan_", "torch_") for dtype in DTYPES)
_RATIOS = [
    *(Ratio(f"{way}{each}", f"{way}fp32") for way in ("", "plan_") for each in ("bf16", "fp16")),
    *(Ratio(each, f"torch_{each}") for each in ("bf16", "fp16")),
]
_MOST_OF_COPIES = 8


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if reason := _plugin.missing():
        raise SystemExit(reason)
    torch.set_num_threads(options.threads)
    report = Report(
        title=f"linear layers of 16-bit floats, median {CLOCK_TITLES[options.clock]}",
        facts=_machine.describe(),
        columns=list(options.columns),
        ratios=_RATIOS,
        notes=[],
        unit="us",
    )
    torch.manual_seed(0)
    with torch.no_grad():
        for name, rows in itertools.product(options.layers, options.rows):
            report.rows.append(_row(name, rows, options))
            if options.json:
                report.write_json(options.json)
    report.notes += _rates(report.rows)
    report.print(_machine.console())


def _row(name: str, rows: int, options: argparse.Namespace) -> Row:
    contenders = {}
    for column in options.columns:
        on = not column.startswith("torch_")
        with _plugin.enabled(on):
            run = _copies(column, LAYERS[name], rows)
        contenders[column] = Contender(run, partial(_plugin.enabled, on))
    samples = side_by_side(
        contenders, rounds=options.rounds, budget=options.budget, clock=CLOCKS[options.clock]
    )
    out, into = LAYERS[name]
    return Row(f"{name} {out}x{into} m{rows}", samples, {"weights": out * into, "rows": rows})


def _copies(column: str, shape: tuple[int, int], rows: int) -> Runner:
    """Return a function that runs copies of a layer in turn, more than the caches hold."""
    import cpuaccel

    dtype = DTYPES[re.sub(".*_", "", column)]
    x = torch.randn(rows, shape[1], dtype=dtype)

    def copy() -> Runner:
        layer: nn.Module = nn.Linear(shape[1], shape[0], dtype=dtype).eval()
        if column.startswith("plan_"):
            layer = cpuaccel.optimize(layer, (x,), time_budget=0)
        return partial(layer, x)

    return in_turn(copy, shape[0] * shape[1] * dtype.itemsize, _MOST_OF_COPIES)


def _rates(rows: list[Row]) -> list[str]:
    """Return GB of weights a second for few rows, and GFLOP/s for more."""
    found = []
    for row in rows:
        few = row.extra["rows"] <= 8
        each = []
        for column, sample in row.samples.items():
            size = DTYPES[re.sub(".*_", "", column)].itemsize if few else 2 * row.extra["rows"]
            each.append(f"{column} {row.extra['weights'] * size / sample.median / 1e9:.1f}")
        found.append(f"{row.name}, {'GB/s' if few else 'GFLOP/s'}: {', '.join(each)}")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--rows",
        type=positives,
        default=[1, 4, 8, 32, 128, 512],
        metavar="M,M",
        help="numbers of rows (default: 1,4,8,32,128,512)",
    )
    add_names(parser, "--layers", list(LAYERS), "layer")
    add_names(parser, "--columns", COLUMNS, "column")
    add_rounds(parser, 20, 4.0, "a row")
    add_clock(parser)
    add_threads(parser, 1)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
