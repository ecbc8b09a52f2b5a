"""Times plans whose threads are woken once for several steps (`CPUACCEL_TEAMS`), or for each step.

Both variants of the same plan alternate. "woken once" is the number of such groups of steps in a
call. How soon threads wake up depends on OpenMP: with OMP_WAIT_POLICY=PASSIVE they sleep between
loops. `resnet18-int8` is a convert_fx model.
"""

import argparse
import os
from functools import partial

import torch

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_batch, add_json, add_rounds, add_threads, make_parser
from benchmarks._quantize import quiet
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, side_by_side
from benchmarks.models import _named
from benchmarks.models._compiled import backend_missing

MODELS = ("mobilenet_v2-int8", "shufflenet_v2_x1_0-int8", "mnasnet1_0-int8", "mobilenet_v2")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    if missing := backend_missing():
        raise SystemExit(f"nothing to measure: {missing}")
    report = Report(
        title="plan with threads woken once for several steps, or for each step, median",
        facts=_machine.describe(batch=options.batch),
        columns=["teams", "each step"],
        ratios=[Ratio("teams", "each step")],
        notes=[f"OMP_WAIT_POLICY: {os.environ.get('OMP_WAIT_POLICY', 'not set')}"],
    )
    for name in options.models:
        report.rows.append(_row(name, options))
        report.notes.append(
            f"{name}: woken once for several steps {report.rows[-1].extra['teams']} times per call"
        )
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _row(name: str, options: argparse.Namespace) -> Row:
    import cpuaccel

    with quiet(), torch.no_grad():
        x = _named.inputs(name, options.batch)
        plan = cpuaccel.optimize(_named.build(name), (x,), time_budget=0)

        def call() -> object:
            return plan(x)

        contenders = {
            "teams": Contender(call, partial(_plugin.setting, "teams", True)),
            "each step": Contender(call, partial(_plugin.setting, "teams", False)),
        }
        samples = side_by_side(contenders, rounds=options.rounds, budget=options.budget)
        return Row(name, samples, {"teams": _teams_of(call)})


def _teams_of(call) -> int:
    from cpuaccel import _native

    with _plugin.setting("teams", True):
        before = _native.load().teams_opened()
        call()
        return _native.load().teams_opened() - before


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _named.add_models(parser, MODELS)
    add_batch(parser, 1, "inputs")
    add_threads(parser, 2)
    add_rounds(parser, 21, 10, "a model")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
