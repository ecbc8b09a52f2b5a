"""Measures the peak memory of a model's calls without its weights: eager torch and a saved plan.

Each runs in its own process. The peak is reset after the first call and read after later calls:
with `batch` inputs in one run, with one input in another. The difference is the memory of
`batch` - 1 inputs; the memory that both runs need (interpreter, libraries, weights, generated code)
cancels out. Linux only.
"""

import argparse
import ctypes
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import _machine
from benchmarks._arguments import add_batch, add_json, add_processes, add_threads, make_parser
from benchmarks._quantize import quiet
from benchmarks._report import geomean, print_header
from benchmarks.models import _named
from benchmarks.models._compiled import backend_missing
from benchmarks.models._process import add_inside, result_of

MODELS = (
    "resnet50",
    "mobilenet_v2",
    "densenet121",
    "efficientnet_b0",
    "bert-base",
    "resnet50-int8",
    "mobilenet_v2-int8",
    "efficientnet_b0-int8",
)
COLUMNS = ("eager", "plan")

_CALLS = 3
_SELF = Path("/proc/self")
_WHOLE_PEAK = "5"  # written to clear_refs: resets the peak to what is resident now


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.inside:
        found = _INSIDE[options.inside](options.models[0], options.batch, options.file)
        print(json.dumps(found))
        return
    if options.batch < 2:
        parser.error(f"--batch: expected at least 2, got {options.batch}")
    if missing := backend_missing():
        raise SystemExit(f"nothing to measure: {missing}")
    rows = _measure(options)
    _print(rows, options.batch)
    if options.json:
        options.json.write_text(json.dumps({"batch": options.batch, "bytes": rows}) + "\n")


def _measure(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Bytes for `batch` inputs by model and column; the median over the rounds."""
    rows = {}
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(options.models))
        for name in options.models:
            progress.update(task, description=name)
            rounds = [_round(name, options.batch, options.threads) for _ in range(options.rounds)]
            rows[name] = {
                column: statistics.median(each[column] for each in rounds) for column in COLUMNS
            }
            progress.advance(task)
    return rows


def _round(name: str, batch: int, threads: int | None) -> dict[str, float]:
    def peak(column: str, inputs: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.pt2"
            if column == "plan":
                _in_a_process("save", name, inputs, file, threads)
            return int(_in_a_process(column, name, inputs, file, threads)["peak"])

    return {
        column: (peak(column, batch) - peak(column, 1)) * batch / (batch - 1) for column in COLUMNS
    }


def _in_a_process(
    inside: str, name: str, batch: int, file: Path, threads: int | None
) -> dict[str, Any]:
    module = "benchmarks.models.peak_memory"
    environment = {"CPUACCEL": "0" if inside == "eager" else "1"}
    more = ("--batch", str(batch), "--file", str(file))
    return result_of(module, inside, name, threads, environment, *more)


def _print(rows: dict[str, dict[str, float]], batch: int) -> None:
    console = _machine.console()
    print_header(
        console, f"memory of a call with {batch} inputs, MB", _machine.describe(batch=batch)
    )
    table = Table("", *COLUMNS, "plan of eager")
    for name, row in rows.items():
        table.add_row(
            name,
            *(f"{row[column] / 1e6:.1f}" for column in COLUMNS),
            _shown(_ratio(row)),
        )
    mean = geomean(ratio for row in rows.values() if (ratio := _ratio(row)))
    table.add_row("geometric mean", *("" for _ in COLUMNS), _shown(mean))
    console.print(table)


def _ratio(row: dict[str, float]) -> float | None:
    """The plan's memory over eager's, or None if noise makes either zero or negative."""
    return row["plan"] / row["eager"] if min(row.values()) > 0 else None


def _shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


# What runs in the process


def _eager(name: str, batch: int, _: Path) -> dict[str, int]:
    with quiet(), torch.inference_mode():
        return {"peak": _peak(_named.build(name), name, batch)}


def _save(name: str, batch: int, file: Path) -> dict[str, int]:
    import cpuaccel

    with quiet(), torch.no_grad():
        inputs = (_named.inputs(name, batch),)
        cpuaccel.save(cpuaccel.optimize(_named.build(name), inputs, time_budget=0), file)
    return {}


def _plan(name: str, batch: int, file: Path) -> dict[str, int]:
    import cpuaccel

    with torch.inference_mode():
        return {"peak": _peak(cpuaccel.load(file), name, batch)}


def _peak(model: Any, name: str, batch: int) -> int:
    """Peak resident bytes during calls after the first."""
    x = _named.inputs(name, batch)
    model(x)
    ctypes.CDLL(None).malloc_trim(0)
    (_SELF / "clear_refs").write_text(_WHOLE_PEAK)
    for _ in range(_CALLS):
        model(x)
    for line in (_SELF / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_SELF}/status has no VmHWM")


_INSIDE: dict[str, Callable[[str, int, Path], dict[str, int]]] = {
    "eager": _eager,
    "save": _save,
    "plan": _plan,
}


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _named.add_models(parser, MODELS)
    add_batch(parser, 16, "inputs")
    add_threads(parser)
    add_processes(parser, 1)
    add_json(parser)
    add_inside(parser, _INSIDE)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
