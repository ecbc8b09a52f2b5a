"""Times what a call of an optimized model costs beside its steps, by the number of modules.

The model computes one small linear layer, whatever `--modules` says: the others are Identity. The
columns are the model, the same after cpuaccel.optimize, and the part of that call that compares the
modules' attributes with those the plan was made from. Run it with two Pythons: before 3.12 each
dictionary has a version (PEP 509), from 3.12 on the plan watches them.
"""

import argparse
import sys
from functools import partial

import torch
from torch import nn

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, make_parser, positives
from benchmarks._report import Report, Row, not_measured
from benchmarks._timing import Contender, side_by_side

COLUMNS = ("model", "optimized", "attributes")
_CPUACCEL = COLUMNS[1:]


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    missing = _plugin.missing() or _plugin.optimize_missing()
    report = Report(
        title="one call, latency",
        facts=_machine.describe(),
        columns=["model"] if missing else list(COLUMNS),
        notes=not_measured(dict.fromkeys(_CPUACCEL, missing)),
        unit="us",
    )
    report.notes.append(f"Python {sys.version.split()[0]}")
    with torch.inference_mode():
        for count in options.modules:
            contenders = _contenders(count, optimized=not missing)
            samples = side_by_side(contenders, rounds=options.rounds, budget=options.budget)
            report.rows.append(Row(f"{count} modules", samples))
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _contenders(count: int, *, optimized: bool) -> dict[str, Contender]:
    model = nn.Sequential(nn.Linear(16, 16), *(nn.Identity() for _ in range(count))).eval()
    x = torch.randn(1, 16)
    contenders = {"model": Contender(partial(model, x), partial(_plugin.enabled, False))}
    if optimized:
        import cpuaccel
        from cpuaccel.compile.capture.module_attributes import AttributeSnapshot

        made = cpuaccel.optimize(model, (x,), time_budget=0)
        snapshot = AttributeSnapshot(model)
        contenders["optimized"] = Contender(partial(made, x))
        contenders["attributes"] = Contender(snapshot.is_unchanged)
    return contenders


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--modules",
        type=positives,
        default=[1, 150, 400],
        metavar="N,...",
        help="numbers of modules without work (1,150,400)",
    )
    add_rounds(parser, rounds=30, budget=10, of="a model")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
