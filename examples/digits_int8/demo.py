"""`make demo`: a user's int8 model, unchanged, and what cpuaccel makes of it.

Trains and quantizes the program in digits.py. Prints its accuracy, its latency under every engine
beside three torchvision models', and which library ran each layer.
"""

import argparse
import sys
from pathlib import Path

import digits
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import _machine, _plugin
from benchmarks._arguments import positive
from benchmarks._quantize import quantized_engine, quiet
from benchmarks._report import Report
from benchmarks._torchvision import build, images
from benchmarks.models._columns import RATIOS, TORCH_COLUMNS, choose
from benchmarks.models._job import Job
from benchmarks.models._run import time_job

_TORCHVISION = ("resnet18", "resnet50", "mobilenet_v2")
_BATCHES = (1, 64)
_BUDGET = 6.0


def main() -> None:
    """Runs the demo; ends with an error if the model did not run on cpuaccel."""
    options = _parser().parse_args()
    console = _machine.console()

    with quiet():
        torch.backends.quantized.engine = "x86"
        data = digits.load()
        net = digits.train(data)
        model = digits.quantize(net, data.train_images)

        calls = _plugin.calls_of(lambda: digits.accuracy(model, data))
        _print_accuracy(console, net, model, data)
        _print_latency(console, net, data, options.rounds)

    reason = _plugin.missing()
    if reason:
        raise SystemExit(f"cpuaccel did not run: {reason}")
    import cpuaccel

    console.print("[bold]What runs each layer of the digits model: cpuaccel.explain(model)[/bold]")
    print(cpuaccel.explain(model))
    if not _plugin.engine_ran(calls):
        raise SystemExit("cpuaccel is enabled, but no layer of the digits model ran on it")
    counted = ", ".join(f"{key} {count}" for key, count in calls.items())
    print(f"\ncpuaccel.stats() of one pass over the test images: {counted}")


def _print_accuracy(
    console: Console, net: torch.nn.Module, model: torch.nn.Module, data: digits.Digits
) -> None:
    """Prints the accuracy of fp32, of the int8 model `model`, and of torch's int8 models."""
    with _plugin.enabled(False):
        in_tree = {}
        for engine in ("fbgemm", "x86"):
            with quantized_engine(engine):
                in_tree[engine] = digits.quantize(net, data.train_images)
    console.print("[bold]digits: test images classified correctly[/bold]")
    table = Table()
    table.add_column("model")
    table.add_column("accuracy", justify="right")
    rows = {"fp32": net, **{f"int8 {name} (in-tree)": copy for name, copy in in_tree.items()}}
    if not _plugin.missing():
        rows["int8 x86, cpuaccel"] = model
    for name, candidate in rows.items():
        table.add_row(name, f"{digits.accuracy(candidate, data):.2%}")
    console.print(table)


def _print_latency(
    console: Console, net: torch.nn.Module, data: digits.Digits, rounds: int
) -> None:
    columns, notes = choose(list(TORCH_COLUMNS))
    report = Report(
        title="median latency",
        facts=_machine.describe(),
        columns=[column.name for column in columns],
        ratios=list(RATIOS),
        notes=["torchvision models: batch 1, random weights", *notes],
    )
    jobs = {
        **{f"digits, batch {n}": _digits_job(net, data, n) for n in _BATCHES},
        **dict.fromkeys(_TORCHVISION),
    }
    for name, job in track(jobs.items(), "timing", console=Console(stderr=True)):
        row, remarks = time_job(
            name, job or _torchvision_job(name), columns, rounds=rounds, budget=_BUDGET
        )
        report.rows.append(row)
        report.notes += remarks
    report.print(console)


def _digits_job(net: torch.nn.Module, data: digits.Digits, batch: int) -> Job:
    return Job(net, [data.train_images], data.test_images[:batch])


def _torchvision_job(name: str) -> Job:
    return Job(build(name), [images(name, 2, seed=7)], images(name, 1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=positive, default=15, help="most rounds of a model (default: 15)"
    )
    return parser


if __name__ == "__main__":
    main()
