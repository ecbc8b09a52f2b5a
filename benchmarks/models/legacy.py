"""Times what `cpuaccel.quant.load_legacy` returned, beside the models that were saved.

torchvision CNNs of convert_fx (batch 1), and a dynamic linear layer of 768 x 3072 with 1, 16 and
128 rows (`linear_1` and so on). The columns, in turns, one thread, in milliseconds of the thread's
CPU time, so that other processes disturb little:

- fp32: the float model, on cpuaccel
- saved: the int8 model that was saved, on cpuaccel
- ops: the loaded model op by op (CPUACCEL_LEGACY_PLANS=0)
- plans: the loaded model, by its plans
- optimize: the loaded model by cpuaccel.optimize
- first call: seconds of the call that makes the plans
"""

import argparse
import io
import time
from collections.abc import Iterator
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks import _plugin
from benchmarks._arguments import add_checked_names, make_parser, positive
from benchmarks._quantize import calibrate, convert, quiet
from benchmarks._timing import Contender, side_by_side
from benchmarks._torchvision import build, images, input_size

_ROUNDS = 7
_SECONDS = 0.2
"""Of CPU time, for each round of a column."""

_COLUMNS = ("fp32", "saved", "ops", "plans", "optimize")
_LINEAR = "linear_"
_DEFAULT = ("resnet18", "mobilenet_v2", "shufflenet_v2_x1_0", "linear_1", "linear_16", "linear_128")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints a table."""
    options = _parser().parse_args(arguments)
    if missing := _plugin.optimize_missing():
        raise SystemExit(f"nothing to measure: {missing}")
    torch.set_num_threads(1)
    table = Table("model", *_COLUMNS, "ops over plans", "first call")
    for name in options.models:
        with _plugin.enabled(True), torch.no_grad(), quiet():
            table.add_row(name, *_row(name))
    Console(width=120).print(table)


def _row(name: str) -> Iterator[str]:
    import cpuaccel

    model, saved, x = _models(name)
    loaded, by_ops = (cpuaccel.quant.load_legacy(_file(saved)) for _ in range(2))
    optimized = _plugin.optimize(cpuaccel.quant.load_legacy(_file(saved)), (x,))

    began = time.thread_time()
    loaded(x)
    first = time.thread_time() - began
    samples = side_by_side(
        {
            "fp32": Contender(partial(model, x)),
            "saved": Contender(partial(saved, x)),
            "ops": Contender(partial(by_ops, x), partial(_plugin.setting, "legacy_plans", False)),
            "plans": Contender(partial(loaded, x)),
            "optimize": Contender(partial(optimized, x)),
        },
        rounds=_ROUNDS,
        min_sample=_SECONDS,
        clock=time.thread_time,
    )
    medians = {column: sample.median * 1000 for column, sample in samples.items()}
    yield from (f"{medians[column]:.3f}" for column in _COLUMNS)
    yield f"{medians['ops'] / medians['plans']:.1f}"
    yield f"{first:.2f}"


def _models(name: str) -> tuple[nn.Module, nn.Module, Tensor]:
    """Returns a float model, the int8 model that torch.ao makes of it, and an input."""
    if name.startswith(_LINEAR):
        layer = nn.Sequential(nn.Linear(768, 3072)).eval()
        dynamic = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear})
        return layer, dynamic, torch.randn(int(name.removeprefix(_LINEAR)), 768)
    model = build(name)
    x = images(name, 1)
    return model, convert(calibrate(model, [x]), "x86", plugin=True), x


def _file(model: nn.Module) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return file


def _check(name: str) -> object:
    if name.startswith(_LINEAR):
        return positive(name.removeprefix(_LINEAR))
    return input_size(name)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_checked_names(
        parser,
        "--models",
        _check,
        default=list(_DEFAULT),
        help=f"torchvision's names, or linear_ROWS (default: {','.join(_DEFAULT)})",
    )
    return parser


if __name__ == "__main__":
    main()
