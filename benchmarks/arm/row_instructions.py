"""Counts the instructions of graph and elementwise ops: NEON kernels against 256-bit SVE kernels.

    python tools/aarch64 run --core graviton3 --count benchmarks/arm/row_instructions.py

The counts are of one thread and of everything a call does. They do not show cache effects, nor how
many vectors a core executes at a time: Neoverse V1 has four pipes for NEON and two for SVE.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

import cpuaccel
from cpuaccel.config import ISAS

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.arm import _count

Run = Callable[[], object]
_NODES, _EDGES = 2048, 32768
_QUANTIZED = {"scale": 0.05, "zero_point": 100, "dtype": torch.quint8}


def main() -> None:
    """Count and print."""
    _count.check()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.backends.quantized.engine = "onednn"
    newest = ISAS[-1]
    cpuaccel.config.set("max_isa", newest)
    print(f"{torch.__version__}; thousands of instructions per call")
    print(f"{'':34}{'neon':>10}{newest:>10}{'ratio':>8}")
    for name, run in (*_graphs(), *_bytes()):
        counts = [_with(isa, run) for isa in ("neon", newest)]
        print(f"{name:34}" + "".join(f"{count / 1000:10.1f}" for count in counts)
              + f"{counts[1] / counts[0]:8.2f}", flush=True)  # fmt: skip


def _graphs() -> Iterator[tuple[str, Run]]:
    row = torch.randint(_NODES, (_EDGES,)).sort().values
    col = torch.randint(_NODES, (_EDGES,))
    crow = torch.cat(
        (torch.zeros(1, dtype=torch.long), torch.bincount(row, minlength=_NODES).cumsum(0))
    )
    graph = torch.sparse_csr_tensor(crow, col, torch.rand(_EDGES), (_NODES, _NODES))
    for k in (3, 16, 64):
        x = torch.randn(_NODES, k)
        yield f"sparse.mm sum, K {k}", partial(torch.sparse.mm, graph, x)
    yield "sparse.mm amax, K 64", partial(torch.sparse.mm, graph, torch.randn(_NODES, 64), "amax")
    for k in (16, 64):
        src, index = torch.randn(_EDGES, k), col[:, None].expand(-1, k)
        yield f"scatter_add, K {k}", partial(torch.zeros(_NODES, k).scatter_add, 0, index, src)
    lengths = torch.bincount(row, minlength=_NODES)
    yield (
        "segment_reduce mean, K 64",
        partial(torch.segment_reduce, torch.randn(_EDGES, 64), "mean", lengths=lengths),
    )


def _bytes() -> Iterator[tuple[str, Run]]:
    real = torch.randn(1, 96, 28, 28).contiguous(memory_format=torch.channels_last)
    x, y = (torch.quantize_per_tensor(v, **_QUANTIZED) for v in (real, real.flip(0)))
    ops = torch.ops.quantized
    yield "quantize", partial(torch.quantize_per_tensor, real, **_QUANTIZED)
    yield "dequantize", x.dequantize
    yield "quantized.add", partial(ops.add, x, y, 0.1, 90)
    yield "quantized.mul", partial(ops.mul, x, y, 0.1, 90)
    yield "clamp", partial(torch.clamp, x, -1.0, 1.0)
    yield "max_pool2d 3x3", partial(torch.nn.functional.max_pool2d, x, 3, 2, 1)
    yield (
        "interpolate bilinear",
        partial(torch.nn.functional.interpolate, x, scale_factor=2.0, mode="bilinear"),
    )
    yield (
        "batch_norm",
        partial(
            ops.batch_norm2d,
            x,
            torch.rand(96),
            torch.rand(96),
            torch.rand(96),
            torch.rand(96),
            1e-5,
            0.1,
            90,
        ),
    )


def _with(isa: str, run: Run) -> int:
    cpuaccel.config.set("max_isa", isa)
    run()
    run()
    return _count.per_call(run)


if __name__ == "__main__":
    main()
