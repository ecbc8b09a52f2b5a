"""Times PT2E int8 models of torchvision beside the same models of convert_fx, and other torches.

The columns, in turns, batch 1, in milliseconds: CPU time with one thread, so that other processes
disturb little, else wall time:

- fp32: the model itself, on cpuaccel
- torch: what convert_pt2e returned (X86InductorQuantizer), op by op, without cpuaccel
- fx: the model of convert_fx, by cpuaccel.optimize
- x86inductor: what convert_pt2e returned (X86InductorQuantizer), called in eager mode
- x86quantizer: the same, made with cpuaccel.quant.pt2e.X86Quantizer
- optimize, backend: that model by cpuaccel.optimize and by torch.compile(backend="cpuaccel")
- a column for each Python of --peers: its torch without cpuaccel, X86InductorQuantizer and Inductor
  with frozen weights, in a process of its own. It needs torchao and torchvision.

Then come the ratios of the fastest of x86inductor, x86quantizer, optimize and backend, the seconds
of the first call, which makes the plan, the number of ops that the plans run on integers, and the
cosine between the scores and those of fp32 for fx and both quantizers.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks import _plugin
from benchmarks._arguments import add_checked_names, make_parser, names, positive, require_known
from benchmarks._quantize import convert, quiet
from benchmarks._torchvision import MODELS, input_size
from benchmarks.models import _pt2e
from benchmarks.models._job import Job
from benchmarks.models._pt2e_peer import Peer

_SECONDS = 0.2
"""For each round of a column."""

_INT8 = ("x86inductor", "x86quantizer", "optimize", "backend")
_COLUMNS = ("fp32", "torch", "fx", *_INT8)
_FACTS = ("first call", "integer ops", "cosine")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints a table."""
    options = _parser().parse_args(arguments)
    if missing := _pt2e.missing() or _plugin.optimize_missing():
        raise SystemExit(f"nothing to measure: {missing}")
    require_known(options.columns, _COLUMNS, "column")
    torch.set_num_threads(options.threads)
    peers = [Peer(python, options.threads) for python in options.peers]
    measured = (*options.columns, *(f"torch {peer.version}" for peer in peers))
    ratios = [f"over {name}" for name in measured if name not in ("fp32", *_INT8)]
    table = Table("model", *measured, *ratios, *_FACTS)
    for name in options.models:
        for peer in peers:
            peer.load(name)
        with _plugin.enabled(True), torch.no_grad(), quiet():
            row = list(_row(name, options, peers))
        table.add_row(name, *row)
        Console(stderr=True, width=200).print(name, *row)
    for peer in peers:
        peer.close()
    Console(width=200).print(table)


def _row(name: str, options: argparse.Namespace, peers: Sequence[Peer]) -> Iterator[str]:
    job = _pt2e.job(name)
    x = job.x
    by_torchao = _pt2e.converted(job, dynamic=False, for_cpuaccel=False)
    by_cpuaccel = _pt2e.converted(job, dynamic=False, for_cpuaccel=True)
    first = _seconds(lambda: by_torchao(x), time.thread_time)
    runs = _runs(job, by_torchao, by_cpuaccel, options.columns)
    scores = {column: run().flatten() for column, run in runs.items()}
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    timers: dict[str, Callable[[], float]] = {
        column: lambda run=run: _mean(run, clock)  # type: ignore[misc]
        for column, run in runs.items()
    }
    for peer in peers:
        calls = max(1, int(_SECONDS / peer.seconds(1)))
        timers[f"torch {peer.version}"] = lambda peer=peer, n=calls: peer.seconds(n)  # type: ignore[misc]
    times: dict[str, list[float]] = {column: [] for column in timers}
    for _ in range(options.rounds):
        for column, timer in timers.items():
            times[column].append(timer() * 1000)
    medians = {column: statistics.median(each) for column, each in times.items()}
    yield from (f"{each:.2f}" for each in medians.values())
    best = min(each for column, each in medians.items() if column in _INT8)
    others = (each for column, each in medians.items() if column not in ("fp32", *_INT8))
    yield from (f"{each / best:.2f}" for each in others)
    yield f"{first:.1f}"
    yield f"{_integer_ops(by_torchao, x)}, {_integer_ops(by_cpuaccel, x)}"
    fp32 = job.model(x).flatten()
    yield ", ".join(
        f"{float(torch.cosine_similarity(scores[column], fp32, 0)):.3f}"
        for column in ("fx", "x86inductor", "x86quantizer")
        if column in scores
    )


def _runs(
    job: Job, by_torchao: nn.Module, by_cpuaccel: nn.Module, columns: Sequence[str]
) -> dict[str, Callable[[], Tensor]]:
    """The columns of this process."""
    x = job.x

    def without() -> Tensor:
        with _plugin.enabled(False):
            scores: Tensor = by_torchao(x)
            return scores

    def called(model: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
        return lambda: model(x)

    def backend() -> Callable[[Tensor], Tensor]:
        compiled: Callable[[Tensor], Tensor] = torch.compile(
            _pt2e.converted(job, dynamic=False, for_cpuaccel=True),
            backend="cpuaccel",
            dynamic=False,
        )
        return compiled

    def optimized() -> Callable[[Tensor], Tensor]:
        model = _pt2e.converted(job, dynamic=False, for_cpuaccel=True)
        made: Callable[[Tensor], Tensor] = _plugin.optimize(model, x)
        return made

    def fx() -> Callable[[Tensor], Tensor]:
        made: Callable[[Tensor], Tensor] = _plugin.optimize(
            convert(job.calibrated, "x86", plugin=True), x
        )
        return made

    makers: dict[str, Callable[[], Callable[[], Tensor]]] = {
        "fp32": lambda: called(job.model),
        "torch": lambda: without,
        "fx": lambda: called(fx()),
        "x86inductor": lambda: called(by_torchao),
        "x86quantizer": lambda: called(by_cpuaccel),
        "optimize": lambda: called(optimized()),
        "backend": lambda: called(backend()),
    }
    return {column: makers[column]() for column in columns}


def _seconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    run()
    return clock() - began


def _mean(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of a call, the mean over calls that fill the time of a round."""
    calls, seconds = 0, 0.0
    while seconds < _SECONDS:
        seconds += _seconds(run, clock)
        calls += 1
    return seconds / calls


def _integer_ops(model: nn.Module, x: Tensor) -> int:
    import cpuaccel

    steps = (step for plan in cpuaccel.explain(model, (x,)).plans for step in plan.steps)
    kinds = (kind for step in steps for kind in step.kinds.split("+"))
    return sum(kind.startswith("q_") for kind in kinds)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    known = [model.name for model in MODELS]
    add_checked_names(
        parser,
        "--models",
        input_size,
        default=known,
        help=f"names from {','.join(known)} (default: all)",
    )
    parser.add_argument(
        "--columns", type=names, default=list(_COLUMNS), help=f"of {','.join(_COLUMNS)}"
    )
    parser.add_argument("--peers", type=names, default=[], help="Pythons of other torches")
    parser.add_argument("--threads", type=positive, default=1, help="(default: 1)")
    parser.add_argument("--rounds", type=positive, default=7, help="(default: 7)")
    return parser


if __name__ == "__main__":
    main()
