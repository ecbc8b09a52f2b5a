"""Counts the instructions of the overhead of one small product, for cpuaccel and torch.

    python tools/aarch64 run --core graviton3 --count benchmarks/arm/call_instructions.py

TorchScript's interpreter makes the calls: one row of 16 numbers times a 16 x 16 matrix. `view` is a
call that computes nothing: it costs what the interpreter, torch's dispatcher and one new tensor
cost.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import cpuaccel
from cpuaccel._native import load

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.arm import _count

_CALLS = 200
_SIZE = 16

load()  # registers the ops that are compiled below


# The interpreter would remove calls whose results are not returned.
@torch.jit.script
def _view(x: Tensor, n: int) -> Tensor:
    result = x
    for _ in range(n):
        result = x.t()
    return result


@torch.jit.script
def _mm(x: Tensor, weight: Tensor, n: int) -> Tensor:
    result = x
    for _ in range(n):
        result = torch.mm(x, weight)
    return result


@torch.jit.script
def _packed(x: Tensor, packed: Tensor, panel: int, size: int, n: int) -> Tensor:
    result = x
    for _ in range(n):
        result = torch.ops.cpuaccel.packed_linear(x, packed, panel, size, size, None)
    return result


def main() -> None:
    """Count and print."""
    _count.check()
    torch.set_num_threads(1)
    print(f"{torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; instructions per call")
    with torch.inference_mode():
        for dtype in (torch.float32, torch.bfloat16):
            _print(dtype)


def _print(dtype: torch.dtype) -> None:
    x, weight = torch.ones(1, _SIZE, dtype=dtype), torch.ones(_SIZE, _SIZE, dtype=dtype)
    pairs = dtype == torch.bfloat16 and load().packs_pairs()
    panel = load().pairs_panel() if pairs else load().gemm_panel()
    packed = torch.ops.cpuaccel.pack_linear(weight, panel, pairs)
    view = _per_call(partial(_view, x))
    print(f"{dtype!s:16} view {view}")
    for name, provider, run in (
        ("torch.mm, torch's", "intree", partial(_mm, x, weight)),
        ("torch.mm, ours", "cpuaccel", partial(_mm, x, weight)),
        ("packed_linear", "auto", partial(_packed, x, packed, panel, _SIZE)),
    ):
        cpuaccel.config.set("matmul_provider", provider)
        count = _per_call(run)
        print(f"{dtype!s:16} {name:18} {count:6} over view {count - view:6}")


def _per_call(run: Callable[[int], object]) -> int:
    for _ in range(3):
        run(2)  # the interpreter optimizes in its first runs
    few, many = (_count.per_call(partial(run, n)) for n in (1, 1 + _CALLS))
    return (many - few) // _CALLS


if __name__ == "__main__":
    main()
