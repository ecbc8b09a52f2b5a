"""Times linear layers with weights of 4 and 8 bits beside other libraries.

Columns `cpuaccel` (float rows) and `cpuaccel_a8` (rows rounded to 8 bits) are IntxLinear, `float`
is torch's layer of float32 with cpuaccel off, `float_cpuaccel` the same with it on and prepacked.
`aten` is torch's own op for bf16 rows (_weight_int4pack_mm_for_cpu, _weight_int8pack_mm), which the
format "4" has in groups and "8" by rows. `openvino`, `openvino_a8` and `llama_cpp` (Q4_0, Q8_0) are
those libraries; the last has groups of 32 for both.

A row is model.layer, out x in features, and the number of rows. Each layer has as many copies as
exceed the caches twice, and calls take them in turn: weights come from memory, as in a model. For
one row, notes say which share of the read bandwidth `cpuaccel` and `cpuaccel_a8` have, counted in
packed bytes. The bandwidth is measured in the same run.
"""

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    CLOCK_TITLES,
    add_clock,
    add_json,
    add_names,
    add_rounds,
    add_threads,
    make_parser,
    positives,
)
from benchmarks._from_memory import in_turn, read_bandwidth
from benchmarks._report import Ratio, Report, Row, not_measured
from benchmarks._timing import Contender, Runner, side_by_side
from benchmarks.models._torch_peer import CLOCKS
from benchmarks.ops import _ggml, _openvino_linear

COLUMNS = (
    *("cpuaccel", "cpuaccel_a8", "float", "float_cpuaccel"),
    *("aten", "openvino", "openvino_a8", "llama_cpp"),
)
_OFF = ("float", "aten", "openvino", "openvino_a8", "llama_cpp")
_RATIOS = [
    *(Ratio("cpuaccel", each) for each in ("float", "float_cpuaccel", "aten", "openvino")),
    *(Ratio("cpuaccel_a8", each) for each in ("openvino_a8", "llama_cpp")),
]
_GROUP = 32

LAYERS = {
    "llama-3.2-1b.out": (2048, 2048),
    "llama-3.2-1b.up": (8192, 2048),
    "llama-3.2-1b.down": (2048, 8192),
    "qwen2.5-0.5b.up": (4864, 896),
    "qwen2.5-0.5b.down": (896, 4864),
    "llama-3-8b.out": (4096, 4096),
    "llama-3-8b.up": (14336, 4096),
    "llama-3-8b.down": (4096, 14336),
}
"""Features of the outputs and of the inputs."""


@dataclass(frozen=True)
class Weights:
    """A weight of `bits` bits: codes, and a scale for each group of k or for each row."""

    bits: int
    codes: Tensor
    scale: Tensor

    @classmethod
    def random(cls, bits: int, shape: tuple[int, int], groups: int) -> "Weights":
        """Return random codes and scales."""
        top = 2 ** (bits - 1)
        codes = torch.randint(-top, top, shape, dtype=torch.int8)
        return cls(bits, codes, torch.rand(shape[0], groups) * 0.01 + 1e-3)

    @property
    def bytes(self) -> int:
        """Of the codes and of scales of 16 bits."""
        return self.codes.numel() * self.bits // 8 + self.scale.numel() * 2

    def floats(self) -> Tensor:
        """Return the weight as float32."""
        of_groups = self.codes.float().view(*self.scale.shape, -1) * self.scale.unsqueeze(2)
        return of_groups.view(self.codes.shape)


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    reasons = _reasons(options.columns)
    columns = [each for each in options.columns if not reasons[each]]
    before = read_bandwidth()
    measured = CLOCK_TITLES[options.clock]
    report = Report(
        title=f"linear layers with weights of {options.bits} bits, median {measured}",
        facts=_machine.describe(),
        columns=columns,
        ratios=_RATIOS,
        notes=not_measured({name: reason for name, reason in reasons.items() if reason}),
        unit="us",
    )
    torch.manual_seed(0)
    with torch.no_grad():
        for name, rows in itertools.product(options.layers, options.rows):
            report.rows.append(_row(name, rows, options, columns))
            if options.json:
                report.write_json(options.json)
    report.notes += _shares(report.rows, max(before, read_bandwidth()))
    report.notes += [each.note() for each in (_openvino_linear, _ggml) if not each.missing()]
    report.print(_machine.console())


def _reasons(columns: list[str]) -> dict[str, str]:
    """Return for each column why it cannot be measured, or ""."""
    peers = {
        "openvino": _openvino_linear.missing(),
        "openvino_a8": _openvino_linear.missing(),
        "llama_cpp": _ggml.missing(),
    }
    return {each: peers.get(each, "" if each in _OFF else _plugin.missing()) for each in columns}


def _row(name: str, rows: int, options: argparse.Namespace, columns: list[str]) -> Row:
    shape = LAYERS[name]
    groups = shape[1] // _GROUP if options.bits == 4 else 1
    x = torch.randn(rows, shape[1])
    contenders = {}
    for column in columns:
        make = partial(_MAKERS[column], x=x)
        with _plugin.enabled(column not in _OFF):
            copies = _copies(column, Weights.random(options.bits, shape, groups), make)
        contenders[column] = Contender(copies, partial(_plugin.enabled, column not in _OFF))
    samples = side_by_side(
        contenders, rounds=options.rounds, budget=options.budget, clock=CLOCKS[options.clock]
    )
    size = Weights.random(options.bits, (1, shape[1]), groups).bytes * shape[0]
    title = f"{name} {shape[0]}x{shape[1]} m{rows}"
    return Row(title, samples, {"packed_bytes": size, "rows": rows})


def _copies(column: str, weights: Weights, make: Callable[..., Runner]) -> Runner:
    """Return a function that runs copies of a layer in turn, more than the caches hold."""
    held = weights.codes.numel() * 4 if column.startswith("float") else weights.bytes
    return in_turn(partial(make, weights), held)


def _shares(rows: list[Row], bandwidth: float) -> list[str]:
    """Return the share of the read bandwidth for each layer with one row."""
    found = [f"read bandwidth: {bandwidth / 1e9:.1f} GB/s"]
    for row in rows:
        if row.extra["rows"] != 1:
            continue
        shares = [
            f"{column} {row.extra['packed_bytes'] / sample.median / 1e9:.1f} GB/s, "
            f"{100 * row.extra['packed_bytes'] / sample.median / bandwidth:.0f} %"
            for column, sample in row.samples.items()
            if column.startswith("cpuaccel")
        ]
        found.append(f"{row.name}: {'; '.join(shares)}")
    return found


# Contenders


def _cpuaccel(weights: Weights, x: Tensor, int8_rows: bool = False) -> Runner:
    from cpuaccel.quant.intx_linear import IntxLinear

    layer = IntxLinear.from_codes(
        weights.codes, weights.scale.half(), bits=weights.bits, int8_activations=int8_rows
    )
    return partial(layer, x)


def _float(weights: Weights, x: Tensor, prepacked: bool = False) -> Runner:
    out_features, in_features = weights.codes.shape
    layer: Any = nn.Linear(in_features, out_features, bias=False)
    layer.weight = nn.Parameter(weights.floats(), requires_grad=False)
    layer.eval()
    return partial(_plugin.prepack(layer) if prepacked else layer, x)


def _aten(weights: Weights, x: Tensor) -> Runner:
    halves = x.bfloat16()
    if weights.bits == 8:
        scale = weights.scale[:, 0].bfloat16()
        return partial(torch._weight_int8pack_mm, halves, weights.codes, scale)
    packed = torch._convert_weight_to_int4pack_for_cpu((weights.codes + 8).int(), 1)
    scale = weights.scale.t().bfloat16()
    scales = torch.stack([scale, torch.zeros_like(scale)], 2).contiguous()
    return partial(torch._weight_int4pack_mm_for_cpu, halves, packed, _GROUP, scales)


def _openvino(weights: Weights, x: Tensor, int8_rows: bool = False) -> Runner:
    return _openvino_linear.product(weights.codes, weights.scale, x, weights.bits, int8_rows)


def _llama_cpp(weights: Weights, x: Tensor) -> Runner:
    return _ggml.product(weights.floats(), x, weights.bits)


_MAKERS: dict[str, Callable[..., Runner]] = {
    "cpuaccel": _cpuaccel,
    "cpuaccel_a8": partial(_cpuaccel, int8_rows=True),
    "float": _float,
    "float_cpuaccel": partial(_float, prepacked=True),
    "aten": _aten,
    "openvino": _openvino,
    "openvino_a8": partial(_openvino, int8_rows=True),
    "llama_cpp": _llama_cpp,
}


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4, help="default: 4")
    parser.add_argument(
        "--rows",
        type=positives,
        default=[1, 4, 16, 128, 512],
        metavar="M,M",
        help="numbers of rows (default: 1,4,16,128,512)",
    )
    add_names(parser, "--layers", list(LAYERS), "layer")
    add_names(parser, "--columns", COLUMNS, "column")
    add_rounds(parser, 20, 4.0, "a row")
    add_clock(parser)
    add_threads(parser, 1)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
