"""Times the attention of a decoder's step: appending to the cache, and attending to it.

Column `transformers` is what its DynamicCache and SDPA do: `torch.cat` of the cache and the new
position, then `scaled_dot_product_attention` with `enable_gqa`. `SDPA` is the latter alone. Both
are without cpuaccel. `read` is torch's sum of as many bytes of float32, the bound of reading.
Caches are read in turn, so that they come from memory. Column GB/s is bytes of keys and values over
cpuaccel's time. With one thread, times are CPU times.
"""

import argparse
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, add_threads, make_parser, names
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, side_by_side

_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "int8": torch.int8}
_BYTES = 128 << 20
"""Of all caches of a case: more than the CPU's caches."""
_SPARE = 32


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    missing = _plugin.missing()
    columns = ["transformers", "SDPA", *([] if missing else ["cpuaccel"]), "read"]
    report = Report(
        "attention of a step, median time of a call",
        _machine.describe(),
        columns,
        [Ratio("cpuaccel", "transformers"), Ratio("cpuaccel", "SDPA"), Ratio("cpuaccel", "read")],
        unit="us",
        notes=[missing] if missing else [],
    )
    for shape, dtype, context in itertools.product(options.shapes, options.dtypes, options.context):
        case = _Case(*(int(size) for size in shape.split("x")), int(context), _DTYPES[dtype])
        samples = side_by_side(
            {name: Contender(*case.contender(name)) for name in columns},
            rounds=options.rounds,
            warmup=2,
            budget=options.budget,
            clock=time.process_time if options.threads == 1 else time.perf_counter,
        )
        name = f"{shape} {dtype}, context {context}"
        if "cpuaccel" in samples:
            name += f", {case.bytes / samples['cpuaccel'].median / 1e9:.1f} GB/s"
        report.rows.append(Row(name, samples))
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


class _Case:
    """Caches that are read in turn. torch reads int8 caches as float32, for it has no other."""

    def __init__(
        self, batch: int, heads: int, kept: int, width: int, context: int, dtype: torch.dtype
    ) -> None:
        self.context, self.dtype = context, dtype
        floats = torch.float32 if dtype == torch.int8 else dtype
        self.bytes = 2 * batch * kept * context * width * dtype.itemsize
        count = max(1, min(64, _BYTES // self.bytes))

        def random(*sizes: int) -> Tensor:
            return torch.randn(sizes).to(floats)

        def cache() -> tuple[Tensor, Tensor]:
            sizes = (batch, kept, context + _SPARE, width)
            made = [torch.zeros(sizes, dtype=dtype) for _ in range(2)]
            for each in made if dtype != torch.int8 else ():
                each.normal_()
            return made[0], made[1]

        self.query = random(batch, heads, 1, width)
        self.new = random(batch, kept, 1, width)
        self.caches = [cache() for _ in range(count)]
        self.scales = [
            torch.rand(batch, kept, context + _SPARE) if dtype == torch.int8 else None
            for _ in range(2)
        ]

    def contender(self, name: str) -> tuple[Callable[[], object], Any]:
        turn = itertools.cycle(range(len(self.caches)))
        off = partial(_plugin.enabled, False)
        if name == "read":
            flat = [torch.ones(max(1, self.bytes // 4)) for _ in self.caches]
            return lambda: flat[next(turn)].sum(), off
        if name == "cpuaccel":
            return lambda: self._in_place(*self.caches[next(turn)]), partial(_plugin.enabled, True)
        floats = self.new.dtype
        views = [
            tuple(each[:, :, : self.context].to(floats) for each in cache) for cache in self.caches
        ]
        return lambda: self._by_torch(*views[next(turn)], name == "transformers"), off

    def _in_place(self, keys: Tensor, values: Tensor) -> object:
        return torch.ops.cpuaccel.attend_and_keep_(
            *(self.query, self.new, self.new, keys, values, 0, self.context - 1),
            *(None, -1, None, 0.0, None, *self.scales),
        )

    def _by_torch(self, keys: Tensor, values: Tensor, appends: bool) -> object:
        if appends:
            keys = torch.cat([keys[:, :, :-1], self.new], dim=-2)
            values = torch.cat([values[:, :, :-1], self.new], dim=-2)
        return scaled_dot_product_attention(self.query, keys, values, enable_gqa=True)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--shapes",
        type=names,
        default="1x14x2x64,1x32x8x64",
        help="batch x heads x heads of keys x head width (default: %(default)s)",
    )
    parser.add_argument("--dtypes", type=names, default="f32,bf16,int8", help="of the cache")
    parser.add_argument("--context", type=names, default="128,2048,8192", help="positions")
    add_threads(parser, 1)
    add_rounds(parser, rounds=9, budget=2.0, of="a case")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
