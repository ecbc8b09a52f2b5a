"""int8 layers are exact on every CPU.

No pair of products saturates to 16 bits, and results beyond int32 are clamped to bytes like all
others.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from _process import run_python
from ops._compare import ISAS, capped

from quant._engine import counted, needs_front_end, ours, running
from quant._exact_cases import check_layers
from quant._layers import Q

pytestmark = needs_front_end

_TESTS = str(Path(__file__).resolve().parent.parent)

# FBGEMM, oneDNN and torch read their ISA limits once, when they are loaded.
_CPUS = {
    "this CPU": {},
    "AVX2": {
        "CPUACCEL_MAX_ISA": "avx2",
        "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
    },
    "AVX-512 without VNNI": {
        "CPUACCEL_MAX_ISA": "avx512",
        "FBGEMM_ENABLE_INSTRUCTIONS": "AVX512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
    },
}
_cpus = pytest.mark.parametrize("cpu", _CPUS)


def _child(code: str, cpu: str, folder: Path) -> list[str]:
    """Runs `code` as on that CPU, and returns the list that it prints."""
    return json.loads(
        run_python(
            "import json, torch\ntorch.set_num_threads(2)\n" + code,
            cwd=folder,
            PYTHONPATH=_TESTS,
            CPUACCEL_DETERMINISTIC="1",
            **_CPUS[cpu],
        ).splitlines()[-1]
    )


@_cpus
def test_layers_by_each_provider(cpu: str, tmp_path: Path) -> None:
    code = "from quant._exact_cases import *\nprint(json.dumps(check_layers(1, 3)))"
    wrong = _child(code, cpu, tmp_path)
    assert not wrong, f"{len(wrong)} are wrong, the first: {wrong[0]}"


@_cpus
def test_models_in_each_way(cpu: str, tmp_path: Path) -> None:
    code = """
import cpuaccel
from quant._exact_cases import *
ways = {
    "eager": lambda model, xs: model,
    "fuse": lambda model, xs: cpuaccel.quant.fuse(model),
    "optimize": lambda model, xs: cpuaccel.optimize(model, xs, time_budget=0),
    "compile": lambda model, xs: torch.compile(model, backend="cpuaccel"),
}
"""
    if cpu != "AVX2":
        code += "ways.pop('compile')  # takes seconds\n"
    wrong = _child(code + "print(json.dumps(check_models(ways)))", cpu, tmp_path)
    assert not wrong, wrong


@pytest.mark.parametrize("isa", ISAS)
def test_layers_by_instruction_set(isa: str) -> None:
    with capped(isa):
        wrong = check_layers(2, 1, ("auto",))
    assert not wrong, f"{len(wrong)} are wrong, the first: {wrong[0]}"


@_cpus
def test_integer_products(cpu: str, tmp_path: Path) -> None:
    code = """
wrong = []
for M, K, N in ((1, 64, 16), (8, 300, 33), (20, 2500, 7)):
    for low in (-128, 127):
        a = torch.randint(low, 128, (M, K), dtype=torch.int8)
        b = torch.randint(low, 128, (N, K), dtype=torch.int8)
        for each in (b.t(), b.t().contiguous()):
            if not torch.equal(torch._int_mm(a, each), (a.double() @ each.double()).int()):
                wrong.append(f"{M} x {K} x {N} from {low}")
print(json.dumps(wrong))
"""
    assert _child(code, cpu, tmp_path) == []


def _quantized(values: torch.Tensor, scale: float, dtype: torch.dtype) -> torch.Tensor:
    return torch._make_per_tensor_quantized_tensor(values.to(dtype), scale, 0)


@ours
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("relu", [False, True])
def test_results_beyond_int32(backend: str, isa: str, relu: bool) -> None:
    with running(backend), capped(isa):
        for dims in (0, 1, 2, 3):
            for transposed in (False, True) if dims else (False,):
                size = (8, 8, *(1,) * dims)
                weight = torch.full(size, 127)
                weight[:, 4:] = -127  # second dimension: output channels if transposed, else input
                weight = weight if transposed else weight.transpose(0, 1).contiguous()
                w = _quantized(weight, 7.0, torch.int8)
                x = _quantized(torch.full((2, 8, *(3,) * dims), 255), 5.0, torch.uint8)
                suffix = "_relu" if relu and not transposed else ""
                ones, zeros = [1] * dims, [0] * dims
                if dims == 0:
                    op, packed = getattr(Q, "linear" + suffix), Q.linear_prepack(w, None)
                elif transposed:
                    op = getattr(Q, f"conv_transpose{dims}d")
                    prepack = getattr(Q, f"conv_transpose{dims}d_prepack")
                    packed = prepack(w, None, ones, zeros, zeros, ones, 1)
                else:
                    op = getattr(Q, f"conv{dims}d{suffix}")
                    packed = getattr(Q, f"conv{dims}d_prepack")(w, None, ones, zeros, ones, 1)
                with counted() as counts:
                    y = op(x, packed, 0.001, 10).int_repr()
                if backend != "auto" and not counts.ours():
                    continue  # the forced provider rejects the layer, so torch runs it
                assert bool((y[:, :4] == 255).all()), (dims, transposed)
                low = 10 if suffix else 0
                assert bool((y[:, 4:] == low).all()), (dims, transposed)


@ours
def test_what_is_beyond_seven_bits_alone_leaves_the_provider(backend: str) -> None:
    """With src of at most 128, sums cannot exceed 16 bits, whatever the weights."""
    w = _quantized(torch.full((128, 256), -128), 0.1, torch.int8)
    with running(backend), capped("avx2"):
        packed = Q.linear_prepack(w, None)
        ran = []
        for largest in (128, 129, 128):
            x = _quantized(torch.full((64, 256), largest), 0.1, torch.uint8)
            with counted() as counts:
                Q.linear(x, packed, 1.0, 255)
            ran += counts.calls
    library = "fbgemm" if backend == "auto" else backend
    assert ran == [f"linear.{library}", "linear.cpuaccel", f"linear.{library}"]


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8])
@pytest.mark.parametrize("isa", ISAS)
def test_quantize_beyond_int32(isa: str, dtype: torch.dtype) -> None:
    x = torch.tensor([3e9, -3e9, 1e30, -1e30, float("inf"), -float("inf"), 1.0] * 20)
    low, high = (0, 255) if dtype == torch.quint8 else (-128, 127)
    with running("auto"), capped(isa):
        y = torch.quantize_per_tensor(x, 1.0, 3, dtype).int_repr().tolist()
    assert y == [high, low, high, low, high, low, 4] * 20


def test_where_all_calls_need_the_exact_kernel_it_stays_alone() -> None:
    import cpuaccel

    w = _quantized(torch.full((128, 256), -128), 0.1, torch.int8)
    high = _quantized(torch.full((64, 256), 255), 0.1, torch.uint8)
    low = _quantized(torch.full((64, 256), 3), 0.1, torch.uint8)
    with running("auto"), capped("avx2"):
        before = cpuaccel.stats()["memory"]["packed_weight_bytes"]
        packed = Q.linear_prepack(w, None)
        held = []
        for _ in range(40):
            Q.linear(high, packed, 1.0, 255)
            held.append(cpuaccel.stats()["memory"]["packed_weight_bytes"] - before)
        with counted() as counts:
            result = Q.linear(low, packed, 100.0, 255)
        weight = packed.unpack()[0]
    assert held[-1] < held[0]
    assert held[-1] < 1.5 * w.numel()
    assert counts.calls == {"linear.cpuaccel": 1}
    assert bool((result.int_repr() == 255 - round(3 * 128 * 256 * 0.01 / 100)).all())
    assert torch.equal(weight.int_repr(), w.int_repr())
