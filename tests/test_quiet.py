"""cpuaccel raises no warning that plain torch does not raise, and hides none of torch's.

Each program runs twice in a process of its own, with warnings shown always: with cpuaccel and
without. `optimize` and `save` are compared with what torch has in their place, torch.export. Lines
that torch writes to stderr, where it has no Python to warn in, count too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _process import run_python
from quant._engine import needs_torch_ao

_HEAD = """
import os, warnings
os.dup2(1, 2)
seen = []
warnings.showwarning = lambda message, category, *_: seen.append(str(message)[:160])
warnings.simplefilter("always")
import torch
from torch import nn
torch.set_warn_always(True)
with_cpuaccel = {with_cpuaccel!r}
if with_cpuaccel:
    import cpuaccel

def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 8)
    ).eval()

def exported(model, x):
    if not with_cpuaccel:
        return torch.export.export(model, (x,)).module()
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    optimized(x)
    cpuaccel.save(optimized, "model.pt2")
    cpuaccel.load("model.pt2")(x)
    cpuaccel.explain(optimized)
    return optimized

x = torch.randn(2, 3, 8, 8)
"""

_TAIL = """
for line in seen:
    print("warns:", line.replace("\\n", " "), flush=True)
"""

_PROGRAMS = {
    "float": """
with torch.no_grad():
    net()(x)
    exported(net(), x)(x)
net()(x).sum().backward()
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
    net()(x)
if with_cpuaccel:
    with torch.no_grad():
        cpuaccel.prepack(net())(x)
    cpuaccel.stats()
""",
    "compiled": """
with torch.no_grad():
    torch.compile(net(), backend="cpuaccel" if with_cpuaccel else "inductor")(x)
""",
    "int8 tensors": """
try:
    import torch.ao.quantization.fx._decomposed
except ImportError:
    pass  # a run without torch.ao has the ops
q = torch.ops.quantized_decomposed

class Int8(nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.randint(-128, 128, (8, 192), dtype=torch.int8)
        self.register_buffer("weight", weight)
    def forward(self, x):
        x = q.quantize_per_tensor(x.flatten(1), 0.05, 100, 0, 255, torch.uint8)
        x = q.dequantize_per_tensor(x, 0.05, 100, 0, 255, torch.uint8)
        w = q.dequantize_per_tensor(self.weight, 0.01, 0, -128, 127, torch.int8)
        x = torch.relu(nn.functional.linear(x, w))
        x = q.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)
        return q.dequantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)

with torch.no_grad():
    exported(Int8().eval(), x)(x)
    torch.compile(Int8().eval(), backend="cpuaccel" if with_cpuaccel else "inductor")(x)
""",
    "torch.ao": """
from torch.ao.quantization import get_default_qconfig_mapping, quantize_dynamic
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
with torch.no_grad():
    prepared = prepare_fx(net(), get_default_qconfig_mapping("x86"), (x,))
    prepared(x)
    convert_fx(prepared)(x)
    quantize_dynamic(net(), {nn.Linear})(x)
""",
}


_HIDES_NONE = ("torch.ao",)
"""Programs that do the same with cpuaccel as without it, so that torch warns of the same."""


def _warnings(program: str, *, with_cpuaccel: bool, folder: Path) -> set[str]:
    code = _HEAD.format(with_cpuaccel=with_cpuaccel) + program + _TAIL
    lines = run_python(code, cwd=folder, CPUACCEL=str(int(with_cpuaccel))).splitlines()
    found = {re.sub(r"^\[W[\d:. ]*", "warns on stderr: ", line) for line in lines}
    return {line for line in found if line.startswith("warns")}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=needs_torch_ao if name == "torch.ao" else ()) for name in _PROGRAMS],
)
def test_warnings_are_torchs(name: str, tmp_path: Path) -> None:
    """Compared as sets: torch shows some once in a process, and each op may repeat them."""
    given = _warnings(_PROGRAMS[name], with_cpuaccel=False, folder=tmp_path)
    found = _warnings(_PROGRAMS[name], with_cpuaccel=True, folder=tmp_path)
    assert not found - given
    if name in _HIDES_NONE:
        assert not given - found


def test_importing_is_quiet() -> None:
    code = "import warnings; warnings.simplefilter('error'); import torch, cpuaccel, cpuaccel.quant"
    assert run_python(f"{code}; print(cpuaccel.is_enabled())", CPUACCEL="1") == "True"
