"""Times embeddings whose tables torchao quantized: torchao, cpuaccel, and the float table.

Indices are random. Tables have int8 codes with a scale for each row, or int4 codes with one for 32
columns; torchao holds both as bytes. Column `float` reads a float32 table without cpuaccel. Column
`GB/s` is the bytes of codes that are read and of float32 that are written, divided by cpuaccel's
time. With one thread, times are CPU times.
"""

import argparse
import importlib
import time
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, add_threads, make_parser, names
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, side_by_side

_CODES = ("int8 row", "int4 group 32")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    columns = ["torchao", *([] if _plugin.missing() else ["cpuaccel"]), "float"]
    report = Report(
        "embeddings of torchao's integer tables, median time of a call",
        _machine.describe(),
        columns,
        [Ratio("cpuaccel", "torchao"), Ratio("cpuaccel", "float")],
        unit="us",
        notes=[_plugin.missing()] if _plugin.missing() else [],
    )
    for shape in options.shapes:
        rows, width, count = (int(size) for size in shape.split("x"))
        for codes in _CODES:
            layer, plain = _layer(codes, rows, width), nn.Embedding(rows, width)
            indices = torch.randint(rows, (count,), generator=torch.Generator().manual_seed(1))
            contenders = {
                "torchao": _contender(layer, indices, False),
                "cpuaccel": _contender(layer, indices, True),
                "float": _contender(plain, indices, False),
            }
            samples = side_by_side(
                {name: contenders[name] for name in columns},
                rounds=options.rounds,
                warmup=1,
                budget=options.budget,
                clock=time.process_time if options.threads == 1 else time.perf_counter,
            )
            name = f"{rows}x{width}, {count} rows, {codes}"
            if "cpuaccel" in samples:
                name += f", {count * width * 5 / samples['cpuaccel'].median / 1e9:.1f} GB/s"
            report.rows.append(Row(name, samples))
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _contender(layer: nn.Module, indices: torch.Tensor, on: bool) -> Contender:
    def run() -> object:
        with torch.no_grad():
            return layer(indices)

    return Contender(run, partial(_plugin.enabled, on))


def _layer(codes: str, rows: int, width: int) -> nn.Module:
    torchao: Any = importlib.import_module("torchao.quantization")
    granularity = torchao.PerAxis(0) if "row" in codes else torchao.PerGroup(32)
    config = torchao.IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, codes[:4]), granularity=granularity
    )
    model = nn.Sequential(nn.Embedding(rows, width))
    torchao.quantize_(model, config, filter_fn=lambda each, _: isinstance(each, nn.Embedding))
    return model


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--shapes",
        type=names,
        default="100000x64x512,32000x2048x1,32000x2048x512",
        help="rows x columns of the table x indices (default: %(default)s)",
    )
    add_threads(parser, 1)
    add_rounds(parser, rounds=9, budget=5.0, of="a case")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
