"""Times single fp32 convolutions with torch's kernels and with cpuaccel's, one row for each shape.

The list of cases in csrc/ops/conv_choice.cpp is derived from the results. Both alternate in one
process; cpuaccel's kernels also run shapes that the list gives to torch.
"""

import argparse
import importlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_batch,
    add_json,
    add_names,
    add_rounds,
    add_threads,
    make_parser,
    names,
    positive,
)
from benchmarks._report import geomean, print_header, show_ratio
from benchmarks._timing import Contender, Sample, side_by_side
from benchmarks.shapes import ConvShape, conv_shapes

_KINDS = ("stem", "dense", "pointwise", "grouped", "depthwise")
_LAYOUTS = {"channels_first": torch.contiguous_format, "channels_last": torch.channels_last}


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if reason := _plugin.missing():
        raise SystemExit(reason)
    if options.threads:
        torch.set_num_threads(options.threads)
    chosen = [shape for shape in conv_shapes() if shape.kind in options.kinds]
    if options.models:
        chosen = [shape for shape in chosen if shape.name.split(":")[0] in options.models]
    results = []
    for shape in track(chosen[:: options.every], "shapes", console=Console(stderr=True)):
        samples = _measure(shape, options)
        results.append((shape, samples))
    console = _machine.console()
    facts = _machine.describe(batch=options.batch)
    print_header(console, f"single fp32 convolutions, {options.layout}", facts)
    console.print(_table(results, options.batch))
    console.print(_summary(results))
    if options.json:
        _write(options.json, results, facts, options)


@contextmanager
def _own_only() -> Iterator[None]:
    native: Any = importlib.import_module("cpuaccel._native").load()
    native.set_cpuaccel_convolutions_only(True)
    try:
        with _plugin.enabled(True):
            yield
    finally:
        native.set_cpuaccel_convolutions_only(False)


def _measure(shape: ConvShape, options: argparse.Namespace) -> dict[str, Sample]:
    layout = _LAYOUTS[options.layout]
    x = torch.randn(options.batch, shape.IC, shape.H, shape.W).to(memory_format=layout)
    weight = torch.randn(shape.OC, shape.IC // shape.groups, shape.KH, shape.KW)
    run = _call(x, weight.to(memory_format=layout), torch.randn(shape.OC), shape)
    contenders = {
        "torch": Contender(run, lambda: _plugin.enabled(False)),
        "cpuaccel": Contender(run, _own_only),
    }
    with torch.inference_mode():
        return side_by_side(
            contenders, rounds=options.rounds, budget=options.budget, min_sample=2e-3
        )


def _call(x: Tensor, weight: Tensor, bias: Tensor, shape: ConvShape) -> Callable[[], Tensor]:
    def run() -> Tensor:
        return torch.conv2d(
            x,
            weight,
            bias,
            (shape.SH, shape.SW),
            (shape.PH, shape.PW),
            (shape.DH, shape.DW),
            shape.groups,
        )

    return run


Results = list[tuple[ConvShape, dict[str, Sample]]]


def _ratio(samples: dict[str, Sample]) -> float:
    return samples["torch"].median / samples["cpuaccel"].median


def _table(results: Results, batch: int) -> Table:
    table = Table(title="us per call (GFLOP/s)")
    for heading in ("class", "shape"):
        table.add_column(heading, no_wrap=True)
    for heading in ("torch", "cpuaccel", "cpuaccel over torch"):
        table.add_column(heading, justify="right")
    for shape, samples in results:
        flops = 2 * shape.macs * batch
        cells = [
            f"{samples[name].median * 1e6:.0f} ({flops / samples[name].median * 1e-9:.0f})"
            for name in ("torch", "cpuaccel")
        ]
        table.add_row(shape.kind, str(shape), *cells, show_ratio(_ratio(samples)))
    return table


def _summary(results: Results) -> Table:
    table = Table(title="cpuaccel over torch, by class")
    for heading in ("class", "shapes", "geomean", "least", "shapes below 1"):
        table.add_column(heading, justify="right")
    by_kind: dict[str, list[float]] = defaultdict(list)
    for shape, samples in results:
        by_kind[shape.kind].append(_ratio(samples))
    for kind, ratios in by_kind.items():
        below = sum(ratio < 1 for ratio in ratios)
        middle = show_ratio(geomean(ratios))
        table.add_row(kind, str(len(ratios)), middle, show_ratio(min(ratios)), str(below))
    return table


def _write(
    path: Path, results: Results, facts: dict[str, str], options: argparse.Namespace
) -> None:
    """Writes every time to `path`."""
    shapes = [
        {
            "name": shape.name,
            "class": shape.kind,
            "shape": str(shape),
            "macs": shape.macs * options.batch,
            "times": {name: sample.to_dict() for name, sample in samples.items()},
            "ratio": _ratio(samples),
        }
        for shape, samples in results
    ]
    document = {"machine": facts, "layout": options.layout, "shapes": shapes}
    path.write_text(json.dumps(document, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_names(parser, "--kinds", _KINDS, "class")
    parser.add_argument(
        "--models",
        type=names,
        default=[],
        metavar="A,B",
        help="only shapes that occur first in these models (default: all)",
    )
    parser.add_argument(
        "--layout", choices=_LAYOUTS, default="channels_first", help="memory format"
    )
    parser.add_argument(
        "--every", type=positive, default=1, help="measure every EVERY-th shape (default: 1)"
    )
    add_threads(parser)
    add_batch(parser, 1, "images")
    add_rounds(parser, rounds=7, budget=1.0, of="a shape")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
