"""Times the first call of a compiled model, in a new process with empty caches.

It prints wall time and CPU time. The CPU time includes the C++ compiler's processes, and other work
on the machine disturbs it less. The parts of each time are printed below the tables.
`resnet18-int8` is a lowered convert_fx model, which only cpuaccel runs.
"""

import argparse
import json
import os
import statistics
import tempfile
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch import nn

from benchmarks._arguments import add_json, add_names, add_processes, add_threads, make_parser
from benchmarks._quantize import quiet
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Sample
from benchmarks.models import _named
from benchmarks.models._compiled import backend_missing
from benchmarks.models._process import (
    Clock,
    add_inside,
    reports_by_clock,
    result_of,
    show,
)

MODELS = ("resnet50", "bert-base", "resnet18-int8")
ENGINES = ("inductor", "cpuaccel")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.inside:
        print(json.dumps(_first_call(options.models[0], options.inside)))
        return
    engines = [each for each in options.engines if each != "cpuaccel" or not backend_missing()]
    if not engines:
        raise SystemExit(f"nothing to measure: {backend_missing()}")
    ratios = [Ratio("cpuaccel", "inductor")]
    reports = reports_by_clock("first call with empty caches", engines, ratios)
    parts = _measure(reports, engines, options)
    reports["cpu"].notes += parts
    show(reports, options.json)


def _measure(
    reports: dict[str, Report], engines: list[str], options: argparse.Namespace
) -> list[str]:
    """Adds a row per model to each report; returns a line on the parts of each time."""
    notes = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(options.models) * options.rounds)
        for name in options.models:
            progress.update(task, description=name)
            chosen = [
                each for each in engines if each == "cpuaccel" or not name.endswith(_named.INT8)
            ]
            found: dict[str, list[dict[str, Any]]] = {engine: [] for engine in chosen}
            for _ in range(options.rounds):
                for engine in chosen:
                    found[engine].append(_in_a_process(name, engine, options.threads))
                progress.advance(task)
            for clock, report in reports.items():
                samples = {
                    engine: Sample(tuple(each[clock] for each in runs))
                    for engine, runs in found.items()
                }
                report.rows.append(Row(name, samples, {"runs": found}))
            notes += [f"{name}, {engine}: {_parts(runs)}" for engine, runs in found.items()]
    return notes


def _parts(runs: list[dict[str, Any]]) -> str:
    medians = {
        part: statistics.median(run["parts"][part] for run in runs) for part in runs[0]["parts"]
    }
    return ", ".join(f"{part} {seconds:.2f} s" for part, seconds in medians.items())


def _in_a_process(name: str, engine: str, threads: int | None) -> dict[str, Any]:
    """The result of `_first_call` in a new process with an empty cache folder."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            # Only the time of child processes can be read, so there must be no worker pool.
            "TORCHINDUCTOR_COMPILE_THREADS": os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", "1"),
            "TORCHINDUCTOR_CACHE_DIR": folder,
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
            "CPUACCEL": "1" if engine == "cpuaccel" else "0",
        }
        return result_of("benchmarks.models.cold_compile", engine, name, threads, environment)


# What runs in the process


def _first_call(name: str, engine: str) -> dict[str, Any]:
    """Seconds of the first call of `name` compiled on `engine`, by each clock and in parts."""
    with quiet(), torch.inference_mode():
        model, x = _build(name), _named.inputs(name, 1)
        compiled: Any = torch.compile(model, backend=engine, dynamic=False)
        clock = Clock()
        compiled(x)
        taken = clock.read()
    return {**taken, "parts": _parts_of(taken["wall"])}


def _build(name: str) -> nn.Module:
    model = _named.build(name)
    if not name.endswith(_named.INT8):
        return model
    import cpuaccel

    return cpuaccel.quant.lower(model)


def _parts_of(whole: float) -> dict[str, float]:
    """The parts of a first call of `whole` seconds, by torch's own timers."""
    from torch._dynamo.utils import compilation_time_metrics

    def spent(timer: str) -> float:
        return sum(compilation_time_metrics.get(timer, ()))

    everything, backend = spent("_compile.compile_inner"), spent("OutputGraph.call_user_compiler")
    inductor = spent("compile_fx_inner")
    cpuaccel_pass = spent("pass.post_grad_passes.post_grad_custom_pre_pass")
    return {
        "Dynamo": everything - backend,
        "AOTAutograd": backend - inductor,
        "cpuaccel's pass": cpuaccel_pass,
        "Inductor": inductor - cpuaccel_pass,
        "run and weight packing": whole - everything,
    }


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _named.add_models(parser, MODELS)
    add_names(parser, "--engines", ENGINES, "engine")
    add_threads(parser)
    add_processes(parser, 3)
    add_json(parser)
    add_inside(parser, ENGINES)
    return parser


if __name__ == "__main__":
    main()
