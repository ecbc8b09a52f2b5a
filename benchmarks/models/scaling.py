"""Predicts how plans scale to many cores, on a machine with few.

Each model runs on 1 and on `--threads` simulated cores (benchmarks/simulation): the share of every
thread of every parallel loop runs one after the other on one core, in cpuaccel, in oneDNN and in
torch. Choices that are made by timing are made on the simulated cores. The predicted time of a call
is what runs on one thread, plus the longest share of each loop, plus a barrier for each loop; or,
if that is longer, the time to read the weights at `--bandwidth-gbs`. Times are CPU times, the
fastest of `--rounds` calls, which other processes disturb least.

"efficiency" is the time on 1 thread, divided by the time on N threads times N. The steps that lose
most are listed with the reason: `imbalance` (the longest share over the mean), `one thread` (what
runs outside of loops), `barrier`, and `smaller shares` (the mean share takes longer than the N-th
part of the step on one thread). The shares of one thread run alone, call after call, so caches hold
what those of its core would hold. Contention between cores is not in the figures, except for the
bandwidth's limit.
"""

import argparse
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import _machine
from benchmarks._arguments import add_rounds, make_parser, positives
from benchmarks._quantize import quiet
from benchmarks._report import print_header, print_notes
from benchmarks.models import _float_models, _named
from benchmarks.models._compiled import backend_missing
from benchmarks.models._process import result_of
from benchmarks.models._scaling_steps import Call, StepTime, measured_call, weight_bytes
from benchmarks.simulation.cores import Simulation, build, compiler, environment

MODELS = ("bert-base", "resnet50", "resnet50-int8")
_OF_LIMIT = 16  # threads that one core's bandwidth is multiplied by at most


@dataclass(frozen=True)
class Machine:
    """What is assumed of the cores: a barrier by the number of threads, and the bandwidth."""

    line_us: float
    """Microseconds in which a cache line moves between cores."""
    barrier_us: float | None
    """Microseconds of a barrier, if given."""
    core_gbs: float
    """10^9 bytes a second that one core reads from memory."""
    bandwidth_gbs: float | None
    """10^9 bytes a second that all cores read, if given."""

    def barrier(self, threads: int) -> float:
        """Microseconds in which each thread adds itself to a counter, one after the other."""
        if threads == 1:
            return 0.0
        return self.line_us * threads if self.barrier_us is None else self.barrier_us

    def bandwidth(self, threads: int) -> float:
        """10^9 bytes a second."""
        return self.bandwidth_gbs or self.core_gbs * min(threads, _OF_LIMIT)


@dataclass(frozen=True)
class Prediction:
    """A model on a number of threads; times in microseconds."""

    threads: int
    microseconds: float
    limit: float
    """The least time for the weights' bytes."""
    efficiency: float
    of_bound: float
    """As efficiency, but of the longer one of the N-th part and the bandwidth's limit."""


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if missing := backend_missing() or ("" if compiler() else "no C++ compiler: set CXX"):
        raise SystemExit(f"nothing to measure: {missing}")
    if options.inside:
        print(json.dumps(_inside(options)))
        return
    if options.barrier_us is None and len(os.sched_getaffinity(0)) < 2:
        raise SystemExit(
            "--barrier-us: expected a number, because this process may use one core only, where"
            " the time of a cache line between two cores cannot be measured"
        )
    console = _machine.console()
    document: dict[str, Any] = {"machine": _machine.describe(), "models": []}
    with tempfile.TemporaryDirectory() as name:
        library, cache = build(Path(name)), Path(name) / "tuning"
        print_header(console, "predicted scaling", document["machine"])
        for model in options.models:
            for batch in options.batch:
                document["models"].append(_model(console, model, batch, library, cache, options))
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")


def _model(
    console: Console, name: str, batch: int, library: Path, cache: Path, options: argparse.Namespace
) -> dict[str, Any]:
    calls: dict[int, Call] = {}
    machine = Machine(0, None, 0, None)
    stderr = Console(stderr=True)
    for threads in track(sorted({1, *options.threads}), f"{name} {batch}", console=stderr):
        more = ["--batch", str(batch), "--sequence", str(options.sequence)]
        more += ["--rounds", str(options.rounds)]
        if options.barrier_us is not None:
            more += ["--barrier-us", str(options.barrier_us)]
        preload = environment(library, cache)
        result = result_of("benchmarks.models.scaling", "call", name, threads, preload, *more)
        calls[threads] = Call.of(result["call"])
        if threads == 1:
            machine = Machine(
                result["line_us"], options.barrier_us, result["core_gbs"], options.bandwidth_gbs
            )
    predictions = [_predict(calls[1], calls[n], n, machine) for n in sorted(calls)]
    _print(console, f"{name}, batch {batch}", calls, predictions, machine, options)
    return {
        "model": name,
        "batch": batch,
        "assumed": asdict(machine),
        "predictions": [asdict(each) for each in predictions],
        "calls": {n: asdict(call) for n, call in calls.items()},
    }


def _predict(one: Call, many: Call, threads: int, machine: Machine) -> Prediction:
    base = one.microseconds(0)
    limit = many.weight_bytes / machine.bandwidth(threads) / 1e3
    taken = max(many.microseconds(machine.barrier(threads)), limit)
    bound = max(base / threads, limit)
    return Prediction(threads, taken, limit, base / threads / taken, bound / taken)


def _print(
    console: Console,
    title: str,
    calls: dict[int, Call],
    predictions: list[Prediction],
    machine: Machine,
    options: argparse.Namespace,
) -> None:
    table = Table(title=title, title_justify="left")
    heads = ("threads", "ms", "speed-up", "efficiency", "of bound", "weights' limit ms")
    for head in (*heads, "loops", "on one thread", "barriers"):
        table.add_column(head, justify="right")
    for each in predictions:
        call = calls[each.threads]
        barriers = call.regions * machine.barrier(each.threads)
        table.add_row(
            str(each.threads),
            f"{each.microseconds / 1e3:.2f}",
            f"{predictions[0].microseconds / each.microseconds:.1f}",
            f"{each.efficiency:.0%}",
            f"{each.of_bound:.0%}",
            f"{each.limit / 1e3:.2f}",
            str(call.regions),
            f"{call.serial / each.microseconds:.0%}" if each.threads > 1 else "",
            f"{barriers / each.microseconds:.0%}",
        )
    console.print(table)
    for threads in options.threads:
        if options.steps and threads > 1:
            console.print(_losses(calls[1], calls[threads], threads, machine, options.steps))
        if calls[threads].unsupported:
            print_notes(console, [f"{calls[threads].unsupported} barriers in loops not simulated"])
    given = "given" if machine.barrier_us is not None else "threads times the time of a line"
    print_notes(
        console,
        [
            f"a cache line moves from core to core in {machine.line_us * 1e3:.0f} ns;"
            f" barrier: {given}",
            f"bandwidth: {machine.bandwidth(max(options.threads)):.0f} GB/s,"
            + (
                " given"
                if machine.bandwidth_gbs
                else f" {machine.core_gbs:.1f} GB/s of a core times {_OF_LIMIT} at most"
            ),
        ],
    )


def _losses(one: Call, many: Call, threads: int, machine: Machine, count: int) -> Table:
    """The steps that take most longer than the N-th part of their time on one thread."""
    table = Table(title=f"steps that lose most on {threads} threads", title_justify="left")
    for head in ("step", "kernel", "sizes"):
        table.add_column(head)
    for head in ("us", "N-th part", "loses", "of time", "reason"):
        table.add_column(head, justify="right")
    barrier = machine.barrier(threads)
    whole = many.microseconds(barrier)
    bases = [step.microseconds(0) for step in one.steps]
    if len(one.steps) != len(many.steps):
        bases = [threads * step.mean for step in many.steps]
    rows = [
        (step, base / threads, step.microseconds(barrier))
        for step, base in zip(many.all_steps(), [*bases, one.outside.microseconds(0)], strict=True)
    ]
    for step, part, taken in sorted(rows, key=lambda row: row[1] - row[2])[:count]:
        table.add_row(
            step.kinds,
            step.kernel,
            step.sizes,
            f"{taken:.1f}",
            f"{part:.1f}",
            f"{(taken - part) / whole:.1%}",
            f"{taken / whole:.1%}",
            _reason(step, part, barrier),
        )
    return table


def _reason(step: StepTime, part: float, barrier: float) -> str:
    reasons = {
        "imbalance": step.longest - step.mean,
        "one thread": step.serial,
        "barrier": step.regions * barrier,
        "smaller shares": step.mean - part,
    }
    most = max(reasons, key=lambda name: reasons[name])
    return f"{most} {reasons[most]:.0f} us"


def _inside(options: argparse.Namespace) -> dict[str, Any]:
    """The call of one model on one number of threads, in a process that the library is loaded in.

    With several threads, the plan is made on simulated cores too.
    """
    import cpuaccel

    (threads,), (name,), (batch,) = options.threads, options.models, options.batch
    torch.set_num_threads(1)
    simulation = Simulation()
    line = simulation.line_microseconds()
    barrier = line * threads if options.barrier_us is None else options.barrier_us
    with quiet(), torch.inference_mode():
        model = _named.build(name)
        x = _float_models.inputs(name.removesuffix(_named.INT8), batch, options.sequence)
        core_gbs = _bytes_per_nanosecond()
        simulation.start(threads, barrier)
        plan = cpuaccel.optimize(model, (x,), time_budget=0)
        call = measured_call(
            simulation, lambda: plan(x), threads, options.rounds, weight_bytes(model)
        )
    return {"line_us": line, "core_gbs": core_gbs, "call": asdict(call)}


def _bytes_per_nanosecond() -> float:
    """Bytes that one core reads from memory, in the fastest of some runs."""
    import time

    from cpuaccel import _native

    count = 2 * _machine.last_cache()
    read = _native.load().reading(count)

    def seconds() -> float:
        began = time.perf_counter()
        read()
        return time.perf_counter() - began

    return count / min(seconds() for _ in range(4)) / 1e9


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _named.add_models(parser, MODELS)
    parser.add_argument("--batch", type=positives, default=[1, 16], help="inputs (default: 1,16)")
    _float_models.add_sequence(parser)
    parser.set_defaults(sequence=384)
    parser.add_argument(
        "--threads", type=positives, default=[16, 32, 64], help="cores (default: 16,32,64)"
    )
    parser.add_argument(
        "--barrier-us",
        type=float,
        help="microseconds of a barrier (default: the measured time in which a cache line moves"
        " between two cores, times the number of threads)",
    )
    parser.add_argument(
        "--bandwidth-gbs",
        type=float,
        help="10^9 bytes a second from memory to all cores (default: what one core reads here,"
        f" times the number of threads, {_OF_LIMIT} at most)",
    )
    parser.add_argument(
        "--steps", type=int, default=12, help="steps listed per number of threads (default: 12)"
    )
    add_rounds(parser, rounds=5, budget=0, of="each clock")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--inside", choices=["call"], help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
