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
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks import _plugin
from benchmarks._arguments import add_checked_names, make_parser, names, positive, require_known
from benchmarks._quantize import convert, quiet
from benchmarks._timing import Contender
from benchmarks._torchvision import MODELS, input_size
from benchmarks.models import _pt2e
from benchmarks.models._job import Job
from benchmarks.models._torch_peer import Peer, in_turns, peers

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
    clock = "cpu" if options.threads == 1 else "wall"
    how = {"threads": options.threads, "clock": clock, "min_sample": _SECONDS}
    with peers(options.peers, _pt2e.__name__, _pt2e.PEER_CONTENDERS, **how) as started:
        measured = (*options.columns, *(each for peer in started for each in peer.columns))
        ratios = [f"over {name}" for name in measured if name not in ("fp32", *_INT8)]
        table = Table("model", *measured, *ratios, *_FACTS)
        for name in options.models:
            for peer in started:
                peer.load({"model": name})
            with _plugin.enabled(True), torch.no_grad(), quiet():
                row = list(_row(name, options, started, clock))
            table.add_row(name, *row)
            Console(stderr=True, width=200).print(name, *row)
    Console(width=200).print(table)


def _row(
    name: str, options: argparse.Namespace, peers: Sequence[Peer], clock: str
) -> Iterator[str]:
    job = _pt2e.job(name)
    x = job.x
    by_torchao = _pt2e.converted(job, dynamic=False, for_cpuaccel=False)
    by_cpuaccel = _pt2e.converted(job, dynamic=False, for_cpuaccel=True)
    began = time.thread_time()
    by_torchao(x)
    first = time.thread_time() - began
    models = _models(job, by_torchao, by_cpuaccel, options.columns)
    contenders = {
        column: Contender(partial(model, x), partial(_plugin.enabled, column != "torch"))
        for column, model in models.items()
    }
    samples = in_turns(contenders, peers, rounds=options.rounds, clock=clock, min_sample=_SECONDS)
    medians = {column: sample.median * 1000 for column, sample in samples.items()}
    yield from (f"{each:.2f}" for each in medians.values())
    best = min(each for column, each in medians.items() if column in _INT8)
    others = (each for column, each in medians.items() if column not in ("fp32", *_INT8))
    yield from (f"{each / best:.2f}" for each in others)
    yield f"{first:.1f}"
    yield f"{_integer_ops(by_torchao, x)}, {_integer_ops(by_cpuaccel, x)}"
    fp32 = job.model(x).flatten()
    yield ", ".join(
        f"{float(torch.cosine_similarity(models[column](x).flatten(), fp32, 0)):.3f}"
        for column in ("fx", "x86inductor", "x86quantizer")
        if column in models
    )


def _models(
    job: Job, by_torchao: nn.Module, by_cpuaccel: nn.Module, columns: Sequence[str]
) -> dict[str, Callable[[Tensor], Tensor]]:
    """The models of this process's columns."""
    x = job.x

    def optimized(model: nn.Module) -> Callable[[Tensor], Tensor]:
        made: Callable[[Tensor], Tensor] = _plugin.optimize(model, (x,))
        return made

    def compiled(model: nn.Module) -> Callable[[Tensor], Tensor]:
        made: Callable[[Tensor], Tensor] = torch.compile(model, backend="cpuaccel", dynamic=False)
        return made

    def another() -> nn.Module:
        model: nn.Module = _pt2e.converted(job, dynamic=False, for_cpuaccel=True)
        return model

    makers: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
        "fp32": lambda: job.model,
        "torch": lambda: by_torchao,
        "fx": lambda: optimized(convert(job.calibrated, "x86", plugin=True)),
        "x86inductor": lambda: by_torchao,
        "x86quantizer": lambda: by_cpuaccel,
        "optimize": lambda: optimized(another()),
        "backend": lambda: compiled(another()),
    }
    return {column: makers[column]() for column in columns}


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
