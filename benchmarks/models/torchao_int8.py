"""Times models that torchao quantized to int8: torchao alone, and with cpuaccel.

Columns `torchao` and `inductor` have cpuaccel off: the model in eager mode, and under
torch.compile. `cpuaccel` is the same model with it on, `compiled` the model under torch.compile
with cpuaccel's backend, and `optimized` what `cpuaccel.optimize` returns. `quantize_dynamic` is
torch.ao's quantize_dynamic of the float model with cpuaccel on, `quantize_dynamic_optimized` that
model after `cpuaccel.optimize`, and `float` the float model in torch alone. The row of a layer is
named rows x in_features x out_features.

Each Python of `--peers`, of environments with another torch and torchao, adds `torchao` and
`inductor` of that torch: processes of their own, which take turns with this one.
"""

import argparse
import copy
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.ao.quantization import quantize_dynamic

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    CLOCK_TITLES,
    add_checked_names,
    add_clock,
    add_json,
    add_names,
    add_rounds,
    add_threads,
    check_known,
    make_parser,
    positives,
)
from benchmarks._quantize import quantized_engine, quiet
from benchmarks._report import Ratio, Report, Row, not_measured
from benchmarks._timing import Contender, Sample, side_by_side
from benchmarks.models import _torchao_cases
from benchmarks.models._torch_peer import CLOCKS, Peer, in_turns, peers
from benchmarks.models._torchao_cases import KINDS, MODELS, PEER_CONTENDERS, Case, cases, quantized

COLUMNS = (
    *("torchao", "inductor", "cpuaccel", "compiled", "optimized"),
    *("quantize_dynamic", "quantize_dynamic_optimized", "float"),
)
_OFF = ("torchao", "inductor", "float")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    missing = _plugin.missing()
    reasons = {each: missing for each in options.columns if each not in _OFF}
    columns = [each for each in options.columns if not reasons.get(each)]
    others_run = peers(
        options.peers,
        _torchao_cases.__name__,
        PEER_CONTENDERS,
        threads=options.threads,
        clock=options.clock,
    )
    with torch.no_grad(), quiet(), quantized_engine("x86"), others_run as started:
        others = [column for peer in started for column in peer.columns]
        report = Report(
            title=f"torchao int8, {options.kind}, median {CLOCK_TITLES[options.clock]}",
            facts=_machine.describe(),
            columns=[*columns, *others],
            ratios=_ratios(others),
            notes=not_measured(reasons),
        )
        for case in cases(options.models, options.lengths):
            for peer in started:
                peer.load({"case": asdict(case), "kind": options.kind})
            contenders = _contenders(case, options.kind, columns)
            report.rows.append(Row(case.name, _samples(contenders, started, options)))
            if options.json:
                report.write_json(options.json)
    report.print(_machine.console())


def _ratios(others: list[str]) -> list[Ratio]:
    compiled_by_torch = [each for each in others if each.startswith("inductor")]
    return [
        Ratio("cpuaccel", "torchao"),
        Ratio("cpuaccel", "quantize_dynamic"),
        Ratio("optimized", "quantize_dynamic_optimized"),
        *(Ratio("optimized", each) for each in ("inductor", *compiled_by_torch)),
        *(Ratio("compiled", each) for each in compiled_by_torch),
    ]


def _samples(
    contenders: dict[str, Contender], peers: list[Peer], options: argparse.Namespace
) -> dict[str, Sample]:
    if peers:
        return in_turns(contenders, peers, rounds=options.rounds, clock=options.clock)
    clock = CLOCKS[options.clock]
    return side_by_side(contenders, rounds=options.rounds, budget=options.budget, clock=clock)


def _contenders(case: Case, kind: str, columns: list[str]) -> dict[str, Contender]:
    model, x = case.build(), case.input()
    by_torchao = quantized(copy.deepcopy(model), kind)
    found: dict[str, Contender] = {}
    for column in columns:
        on = partial(_plugin.enabled, column not in _OFF)
        with on():
            run = _contender(column, model, by_torchao, x)
            found[column] = Contender(partial(run, x), on)
            run(x)
    return found


def _contender(column: str, model: nn.Module, by_torchao: nn.Module, x: Any) -> Any:
    if column == "float":
        return model
    if column == "inductor":
        torch._dynamo.reset()
        return torch.compile(copy.deepcopy(by_torchao))
    if column == "compiled":
        return torch.compile(by_torchao, backend="cpuaccel")
    if column == "optimized":
        return _optimized(by_torchao, x)
    if column.startswith("quantize_dynamic"):
        dynamic = quantize_dynamic(copy.deepcopy(model), {nn.Linear}, torch.qint8)
        return _optimized(dynamic, x) if column.endswith("optimized") else dynamic
    return by_torchao


def _optimized(model: nn.Module, x: Any) -> Any:
    import cpuaccel

    # No time for the comparison with the model: the plan runs, whatever is faster.
    return cpuaccel.optimize(model, (x,), time_budget=0)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_checked_names(
        parser,
        "--models",
        lambda name: check_known([name], MODELS, "model"),
        default=["linear", "minilm-l6", "bert-base", "vit_b_16"],
        help=f"names from {','.join(MODELS)} (default: all but bert-tiny)",
    )
    add_names(parser, "--columns", COLUMNS, "column")
    parser.add_argument(
        "--peers",
        type=lambda text: text.split(","),
        default=[],
        metavar="PYTHON,PYTHON",
        help="the Pythons of environments with another torch, torchao and torchvision",
    )
    parser.add_argument(
        "--kind", choices=KINDS, default="dynamic", help="torchao's config (default: dynamic)"
    )
    parser.add_argument(
        "--lengths",
        type=positives,
        default=[16, 128, 384],
        metavar="N,M",
        help="tokens of a text (default: 16,128,384)",
    )
    add_clock(parser)
    add_threads(parser)
    add_rounds(parser, rounds=9, budget=20.0, of="a row")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
