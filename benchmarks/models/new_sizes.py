"""Times calls of an optimized model with input sizes that it was not optimized for.

Each model is optimized for the first size. The columns are the first call with a size, later calls
with it, and the original model. Times are CPU times, which other work on the machine disturbs less.
`--turns N` then calls N more sizes and prints how much the memory of the process has grown.
"""

import argparse
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.progress import Progress, track
from torch import Tensor

from benchmarks import _bert, _machine
from benchmarks._arguments import add_json, add_threads, make_parser, positive, positives
from benchmarks._quantize import quiet
from benchmarks._report import Report, Row
from benchmarks._timing import Sample
from benchmarks.models import _float_models
from benchmarks.models._compiled import backend_missing

MODELS = ("resnet18", "minilm-l6")
SIDES = (224, 192, 160, 112, 208, 320, 416)
LENGTHS = (32, 40, 64, 17, 128, 100, 256, 384)
COLUMNS = ("first call", "later", "model")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if missing := backend_missing():
        raise SystemExit(f"nothing to measure: {missing}")
    report = Report("calls with new sizes, CPU time", _machine.describe(), list(COLUMNS))
    with torch.inference_mode(), quiet():
        for name in options.models:
            _measure(report, name, options)
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _measure(report: Report, name: str, options: argparse.Namespace) -> None:
    import cpuaccel

    is_text = name in _bert.CONFIGS
    sizes = options.sizes or (LENGTHS if is_text else SIDES)
    model = _float_models.build(name)
    first = _inputs(name, sizes[0])
    began = time.process_time()
    optimized = cpuaccel.optimize(model, (first,))
    report.notes.append(f"{name}: optimize took {time.process_time() - began:.1f} s of CPU time")
    with Progress(console=Console(stderr=True)) as progress:
        for size in progress.track(sizes, description=name):
            x = _inputs(name, size)
            samples = {
                "first call": Sample((_seconds(optimized, x),)),
                "later": _several(optimized, x, options.rounds),
                "model": _several(model, x, options.rounds),
            }
            report.rows.append(Row(f"{name} {size}", samples))
    fallbacks = cpuaccel.stats()["fallbacks"].items()
    report.notes += [f"{name}: {key}: {count}" for key, count in fallbacks if "optimize" in key]
    if options.turns:
        before, most = _machine.resident(), _bert.CONFIGS[name].positions if is_text else 256
        for turn in track(
            range(options.turns), f"{name}, more sizes", console=Console(stderr=True)
        ):
            side = 32 + turn % (most - 32)
            optimized(_inputs(name, side, batch=1 + turn // (most - 32)))
        grown = _machine.resident() - before
        report.notes.append(f"{name}: {options.turns} more sizes, {grown:.0f} MB more memory")


def _inputs(name: str, size: int, batch: int = 1) -> Tensor:
    if name in _bert.CONFIGS:
        return _bert.tokens(name, batch, size)
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(0))


def _seconds(run: Callable[[Tensor], object], x: Tensor) -> float:
    began = time.process_time()
    run(x)
    return time.process_time() - began


def _several(run: Callable[[Tensor], object], x: Tensor, rounds: int) -> Sample:
    return Sample(tuple(_seconds(run, x) for _ in range(rounds)))


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _float_models.add_models(parser, MODELS)
    parser.add_argument(
        "--sizes",
        type=positives,
        metavar="N,M",
        help="sides of images, or numbers of tokens; the model is optimized for the first",
    )
    parser.add_argument(
        "--rounds", type=positive, default=5, help="later calls per size (default: 5)"
    )
    parser.add_argument(
        "--turns", type=int, default=0, help="call this many more sizes at the end (default: 0)"
    )
    add_threads(parser)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
