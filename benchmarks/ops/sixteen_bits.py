"""Times attention and training steps of convolutions in fp32, bf16 and fp16, with cpuaccel and by
torch alone.

On CPUs without arithmetic for 16 bits, cpuaccel computes them in f32. Times are CPU times. To act
as an AVX2 machine, set CPUACCEL_MAX_ISA=avx2 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2
MKL_ENABLE_INSTRUCTIONS=AVX2 in the environment.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, add_threads, make_parser
from benchmarks._report import Report, Row
from benchmarks._timing import Contender, side_by_side

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HEADS, QUERIES, WIDTH = 12, 384, 64
CONVOLUTIONS = ((64, 64, 3, 56), (128, 128, 3, 28), (256, 64, 1, 56))
"""Input and output channels, taps and side of the image; batch 8."""

Call = Callable[[], object]


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if missing := _plugin.missing():
        raise SystemExit(f"nothing to measure: {missing}")
    columns = [f"{by} {dtype}" for by in ("cpuaccel", "torch") for dtype in DTYPES]
    report = Report("16 bits, CPU time", _machine.describe(), columns)
    for name, make in _cases():
        calls = {dtype: make(DTYPES[dtype]) for dtype in DTYPES}
        contenders = {f"cpuaccel {dtype}": Contender(call) for dtype, call in calls.items()}
        contenders |= {f"torch {dtype}": Contender(call, _off) for dtype, call in calls.items()}
        samples = side_by_side(
            contenders, rounds=options.rounds, budget=options.budget, clock=time.process_time
        )
        report.rows.append(Row(name, samples))
        for dtype in ("bf16", "fp16"):
            ratio = samples[f"cpuaccel {dtype}"].median / samples["cpuaccel fp32"].median
            report.notes.append(f"{name}: {dtype} takes {ratio:.2f} times as long as fp32")
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _off() -> object:
    import cpuaccel

    return cpuaccel.enabled(False)


def _cases() -> Iterator[tuple[str, Callable[[torch.dtype], Call]]]:
    for name, queries, options in (
        ("attention", QUERIES, {}),
        ("attention, causal", QUERIES, {"is_causal": True}),
        ("attention of 1 query", 1, {}),
        ("attention of 4 queries", 4, {}),
    ):
        yield (
            name,
            lambda dtype, queries=queries, options=options: _attention(dtype, queries, options),
        )
    yield "attention, training", _attention_step
    for shape in CONVOLUTIONS:
        C, OC, taps, side = shape
        name = f"{taps}x{taps} {C}->{OC} at {side}x{side}, training"
        yield name, lambda dtype, shape=shape: _convolution_step(dtype, *shape)


def _heads(dtype: torch.dtype, count: int) -> Tensor:
    return torch.randn(1, count, HEADS, WIDTH).to(dtype).transpose(1, 2)


def _attention(dtype: torch.dtype, queries: int, options: dict[str, bool]) -> Call:
    q, k, v = _heads(dtype, queries), _heads(dtype, QUERIES), _heads(dtype, QUERIES)
    return lambda: F.scaled_dot_product_attention(q, k, v, **options)


def _attention_step(dtype: torch.dtype) -> Call:
    q, k, v = (_heads(dtype, QUERIES).requires_grad_() for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v).sum().backward()


def _convolution_step(dtype: torch.dtype, C: int, OC: int, taps: int, side: int) -> Call:
    layer = nn.Conv2d(C, OC, taps, padding=taps // 2).to(dtype)
    images = torch.randn(8, C, side, side).to(dtype).requires_grad_()
    return lambda: layer(images).sum().backward()


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_rounds(parser, 10, 20.0, "a case")
    add_threads(parser)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
