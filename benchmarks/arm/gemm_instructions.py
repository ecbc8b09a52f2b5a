"""Counts the instructions of matrix products: cpuaccel against torch's oneDNN and ACL.

    python tools/aarch64 run --core graviton3 --count benchmarks/arm/gemm_instructions.py

`eager` is plain F.linear. `packed` has its weight packed before the call: by cpuaccel.prepack, and
by mkldnn::_reorder_linear_weight, which torch.compile calls for frozen weights. The counts are of
one thread and of everything a call does, including Python. They do not show cache effects.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cpuaccel

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.arm import _count

Run = Callable[[], Tensor]
COLUMNS = ("ours eager", "torch eager", "ours packed", "torch packed")
# Name: dtype of the operands, whether fp32 may be multiplied in bf16.
KINDS = {
    "f32": (torch.float32, False),
    "bf16": (torch.bfloat16, False),
    "fast math": (torch.float32, True),
}


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS), help="arithmetic")
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 8, 32, 128], help="M")
    parser.add_argument("--sizes", nargs="+", type=int, default=[768], help="K = N")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the counts to FILE, for expect.py"
    )
    parser.add_argument(
        "--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS), help="columns"
    )
    options = parser.parse_args()
    _count.check()
    torch.set_num_threads(1)
    columns = [name for name in COLUMNS if name in options.columns]
    print(f"{torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; thousands per call")
    print(f"{'':24}" + "".join(f"{name:>14}" for name in columns) + f"{'eager':>9}{'packed':>9}")
    found: list[dict[str, object]] = []
    for kind in options.kind:
        for size in options.sizes:
            for rows in options.rows:
                counts = _row(kind, rows, size, columns)
                found.append({"kind": kind, "M": rows, "K": size, "N": size, "counts": counts})
                print(f"{f'{kind} {rows}x{size}x{size}':24}"
                      + "".join(f"{counts[name] / 1000:14.1f}" for name in columns)
                      + "".join(_ratio(counts, way) for way in ("eager", "packed")),
                      flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(found))


def _ratio(counts: dict[str, int], way: str) -> str:
    ours, torchs = counts.get(f"ours {way}"), counts.get(f"torch {way}")
    return f"{ours / torchs:9.2f}" if ours and torchs else f"{'':9}"


@torch.no_grad()
def _row(kind: str, rows: int, size: int, columns: list[str]) -> dict[str, int]:
    dtype, fast = KINDS[kind]
    torch.set_float32_matmul_precision("medium" if fast else "highest")
    layer = nn.Linear(size, size, bias=True).to(dtype).eval()
    x = torch.randn(rows, size).to(dtype)
    expected = F.linear(x.double(), layer.weight.double(), layer.bias.double())
    ways = {
        "ours eager": (_eager, "cpuaccel"),
        "torch eager": (_eager, "intree"),
        "ours packed": (_ours_packed, "auto"),
        "torch packed": (_torch_packed, "intree"),
    }
    counts = {}
    for name in columns:
        make, provider = ways[name]
        counts[name] = _counted(make(layer, x), provider, expected)
    return counts


def _counted(run: Run, provider: str, expected: Tensor) -> int:
    before = cpuaccel.config.get("matmul_provider")
    cpuaccel.config.set("matmul_provider", provider)
    try:
        if provider == "intree":
            cpuaccel.disable()
        torch.testing.assert_close(run().double(), expected, atol=0.05, rtol=0.02)
        # oneDNN's other work differs from call to call: use the smallest of three counts.
        return min(_count.per_call(run, calls=1) for _ in range(3))
    finally:
        cpuaccel.enable()
        cpuaccel.config.set("matmul_provider", before)


def _eager(layer: nn.Linear, x: Tensor) -> Run:
    return partial(F.linear, x, layer.weight.detach(), layer.bias.detach())


def _ours_packed(layer: nn.Linear, x: Tensor) -> Run:
    copy = nn.Linear(layer.in_features, layer.out_features).to(layer.weight.dtype).eval()
    copy.load_state_dict(layer.state_dict())
    return partial(cpuaccel.prepack(copy), x)


def _torch_packed(layer: nn.Linear, x: Tensor) -> Run:
    weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), x.shape[0])
    bias = layer.bias.detach()
    return partial(torch.ops.mkldnn._linear_pointwise, x, weight, bias, "none", [], "")


if __name__ == "__main__":
    main()
