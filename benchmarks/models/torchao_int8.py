"""Times models that torchao quantized to int8: torchao alone, and with cpuaccel.

Column `torchao` has cpuaccel off. `cpuaccel` is the same model with it on, and `compiled` the model
under torch.compile with cpuaccel's backend. `quantize_dynamic` is torch.ao's quantize_dynamic of
the float model with cpuaccel on, and `float` the float model in torch alone. The row of a layer is
named rows x in_features x out_features.
"""

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization import quantize_dynamic

from benchmarks import _bert, _machine, _plugin, _torchvision
from benchmarks._arguments import (
    add_checked_names,
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
from benchmarks._timing import Contender, side_by_side

COLUMNS = ("torchao", "cpuaccel", "compiled", "quantize_dynamic", "float")
MODELS = ("linear", *_bert.CONFIGS, "vit_b_16")
KINDS = ("dynamic", "static", "weight-only")

_CLOCKS = {"wall": "latency", "cpu": "CPU time of all threads"}

_STATIC_SCALE = 0.05
_ROWS = (1, 16, 128)
_FEATURES = 4096


@dataclass(frozen=True)
class Case:
    """A float model and its input."""

    name: str
    build: Callable[[], nn.Module]
    x: Tensor


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    missing = _plugin.missing()
    reasons = {each: missing for each in options.columns if each not in ("torchao", "float")}
    columns = [each for each in options.columns if not reasons.get(each)]
    report = Report(
        title=f"torchao int8, {options.kind}, median {_CLOCKS[options.clock]}",
        facts=_machine.describe(),
        columns=columns,
        ratios=[Ratio("cpuaccel", "torchao"), Ratio("cpuaccel", "quantize_dynamic")],
        notes=not_measured(reasons),
    )
    with torch.no_grad(), quiet(), quantized_engine("x86"):
        for case in _cases(options):
            samples = side_by_side(
                _contenders(case, options.kind, columns),
                rounds=options.rounds,
                budget=options.budget,
                clock=time.process_time if options.clock == "cpu" else time.perf_counter,
            )
            report.rows.append(Row(case.name, samples))
            if options.json:
                report.write_json(options.json)
    report.print(_machine.console())


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    for model in options.models:
        if model == "linear":
            for rows in _ROWS:
                name = f"{rows} x {_FEATURES} x {_FEATURES}"
                yield Case(name, _linear, torch.randn(rows, _FEATURES))
        elif model == "vit_b_16":
            images = _torchvision.images(model, 1)
            yield Case(model, partial(_torchvision.build, model), images)
        else:
            for length in options.lengths:
                name = f"{model} {length} tokens"
                yield Case(name, partial(_bert.build, model), _bert.tokens(model, 1, length))


def _linear() -> nn.Module:
    return nn.Sequential(nn.Linear(_FEATURES, _FEATURES)).eval()


def _contenders(case: Case, kind: str, columns: list[str]) -> dict[str, Contender]:
    model = case.build()
    quantized = _quantized(copy.deepcopy(model), kind)
    found: dict[str, Contender] = {}
    for column in columns:
        on = partial(_plugin.enabled, column not in ("torchao", "float"))
        run: Any = {"float": model, "torchao": quantized, "cpuaccel": quantized}.get(column)
        with on():
            if column == "compiled":
                run = torch.compile(quantized, backend="cpuaccel")
            elif column == "quantize_dynamic":
                run = quantize_dynamic(copy.deepcopy(model), {nn.Linear}, torch.qint8)
            found[column] = Contender(partial(run, case.x), on)
            run(case.x)
    return found


def _quantized(model: nn.Module, kind: str) -> nn.Module:
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8StaticActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        PerTensor,
        quantize_,
    )

    config: Any
    if kind == "dynamic":
        config = Int8DynamicActivationInt8WeightConfig()
    elif kind == "static":
        # torchao compares the dimensions of the scale with those of the input.
        dims = 2 if isinstance(model, nn.Sequential) else 3
        scale = torch.full((1,) * dims, _STATIC_SCALE)
        config = Int8StaticActivationInt8WeightConfig(
            act_quant_scale=scale, granularity=PerTensor(), set_inductor_config=False
        )
    else:
        config = Int8WeightOnlyConfig(set_inductor_config=False)
    quantize_(model, config)
    return model


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
        "--kind", choices=KINDS, default="dynamic", help="torchao's config (default: dynamic)"
    )
    parser.add_argument(
        "--lengths",
        type=positives,
        default=[16, 128, 384],
        metavar="N,M",
        help="tokens of a text (default: 16,128,384)",
    )
    parser.add_argument(
        "--clock",
        choices=list(_CLOCKS),
        default="wall",
        help="cpu counts this process alone, for busy machines and one thread (default: wall)",
    )
    add_threads(parser)
    add_rounds(parser, rounds=9, budget=20.0, of="a row")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
