"""Times nn.EmbeddingBag on the tables of recommenders: torch and cpuaccel.

Indices are random, int64. A "step" is forward and backward with a dense gradient, "sparse step" one
with a sparse gradient. "weighted" is a sum with per_sample_weights, and its step has gradients of
both. Column `GB/s` is the bytes of the rows that are read, divided by cpuaccel's time; for a dense
step they include the gradient of the table, which is written. With one thread, times are CPU times,
in which other processes do not count.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_json,
    add_rounds,
    add_threads,
    make_parser,
    names,
    require_known,
)
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, side_by_side

Keywords = dict[str, Any]

CASES: MappingProxyType[str, Keywords] = MappingProxyType(
    {
        "sum": {"mode": "sum"},
        "mean": {"mode": "mean"},
        "max": {"mode": "max"},
        "weighted": {"mode": "sum", "weighted": True},
        "padded": {"mode": "mean", "padding_idx": 0},
        "float64": {"mode": "sum", "dtype": torch.float64},
        "bf16 mean": {"mode": "mean", "dtype": torch.bfloat16},
        "bf16 max": {"mode": "max", "dtype": torch.bfloat16},
        "step": {"mode": "sum", "step": True},
        "mean step": {"mode": "mean", "step": True},
        "max step": {"mode": "max", "step": True},
        "weighted step": {"mode": "sum", "step": True, "weighted": True},
        "sparse step": {"mode": "sum", "step": True, "sparse": True},
    }
)


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    require_known(options.cases, CASES, "case")
    torch.set_num_threads(options.threads)
    sides = {"torch": False} | ({} if _plugin.missing() else {"cpuaccel": True})
    report = Report(
        "nn.EmbeddingBag, median time of a call",
        _machine.describe(),
        list(sides),
        [Ratio("cpuaccel", "torch")],
        unit="us",
        notes=[_plugin.missing()] if _plugin.missing() else [],
    )
    for shape in options.shapes:
        for case in options.cases:
            name, run, moved = _call(case, *(int(size) for size in shape.split("x")))
            contenders = {
                side: Contender(run, partial(_plugin.enabled, on)) for side, on in sides.items()
            }
            samples = side_by_side(
                contenders,
                rounds=options.rounds,
                warmup=1,
                budget=options.budget,
                clock=time.process_time if options.threads == 1 else time.perf_counter,
            )
            speed = moved / samples[list(sides)[-1]].median / 1e9
            extra = {"GB/s": speed}
            report.rows.append(Row(f"{name}, {speed:.1f} GB/s", samples, extra))
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _call(
    case: str, rows: int, columns: int, bags: int, length: int
) -> tuple[str, Callable[[], object], float]:
    """The name of a case, its call, and the bytes that it has to move."""
    keywords = dict(CASES[case])
    generator = torch.Generator().manual_seed(1)
    dtype = keywords.pop("dtype", torch.float32)
    table = torch.randn(rows, columns, generator=generator).to(dtype)
    count = bags * length
    indices = torch.randint(rows, (count,), generator=generator)
    offsets = torch.arange(0, count, length)
    step = keywords.pop("step", False)
    if keywords.pop("weighted", False):
        keywords["per_sample_weights"] = torch.rand(count, generator=generator).to(dtype)
    moved = count * columns * table.itemsize
    if step:
        moved *= 2
        moved += 0 if keywords.get("sparse") else table.nbytes
        inputs = [each.requires_grad_() for each in _inputs(table, keywords)]
        grad = torch.randn(bags, columns, generator=generator)

        def run() -> object:
            result = F.embedding_bag(indices, table, offsets, **keywords)
            return torch.autograd.grad(result, inputs, grad)
    else:

        def run() -> object:
            return F.embedding_bag(indices, table, offsets, **keywords)

    return f"{rows}x{columns}, {bags} bags of {length}, {case}", run, moved


def _inputs(table: Tensor, keywords: Keywords) -> Iterator[Tensor]:
    yield table
    if "per_sample_weights" in keywords:
        yield keywords["per_sample_weights"]


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--shapes",
        type=names,
        default="100000x64x512x10,100000x64x4096x1,1000000x64x512x100,100000x128x2048x30",
        help="rows x columns x bags x length of a bag (default: %(default)s)",
    )
    parser.add_argument(
        "--cases",
        type=names,
        default=list(CASES),
        help=f"names from {','.join(CASES)} (default: all)",
    )
    add_threads(parser, 1)
    add_rounds(parser, rounds=9, budget=5.0, of="a case")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
