"""cpuaccel with torch.ao and the quantized dtypes blocked, and the block itself.

`make test-without-torch-ao` runs the int8 tests so; these run it in processes of their own.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import _without_torch_ao
import pytest
from _process import run_python
from _repository import ROOT
from quant._engine import needs_torch_ao

_TESTS = ROOT / "tests"
_CSRC = ROOT / "csrc"

_FRONT_END = ("cpuaccel.quant._fusion.", "cpuaccel.quant.fused", "cpuaccel.quant.pt2e")
"""Modules for models of convert_fx, and X86Quantizer, which needs torchao."""

_TRANSFORMERS = "No module named 'transformers'"

_IMPORTS = """
import importlib, pathlib
import cpuaccel
root = pathlib.Path(cpuaccel.__file__).parent
for path in sorted(root.rglob("*.py")):
    parts = path.relative_to(root.parent).with_suffix("").parts
    name = ".".join(parts).removesuffix(".__init__")
    if path.name != "__main__.py" and "gnn" not in parts:
        try:
            importlib.import_module(name)
        except (ImportError, AssertionError, RuntimeError) as error:  # the last without front end
            print(name, str(error).replace("\\n", " "))
"""

_USES = """
import torch, cpuaccel
from torch import nn

q = torch.ops.quantized_decomposed
class Int8(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-63, 64, (8, 192), dtype=torch.int8))
    def forward(self, x):
        x = q.quantize_per_tensor(x, 0.05, 100, 0, 255, torch.uint8)
        x = q.dequantize_per_tensor(x, 0.05, 100, 0, 255, torch.uint8)
        w = q.dequantize_per_tensor(self.weight, 0.01, 0, -128, 127, torch.int8)
        return nn.functional.linear(x, w)

x = torch.randn(4, 192)
model = Int8().eval()
with torch.no_grad():
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    torch.testing.assert_close(optimized(x), model(x), atol=1e-3, rtol=1e-4)
print(optimized.reports[0].kinds())
"""


def _blocked(code: str, cwd: Path) -> str:
    paths = [str(_TESTS / "_at_start"), os.environ.get("PYTHONPATH", "")]
    return run_python(code, cwd=cwd, PYTHONPATH=os.pathsep.join(p for p in paths if p))


def test_modules_are_imported_without_torch_ao(tmp_path: Path) -> None:
    """Except the front end for convert_fx's models: `fuse`, which rewrites torch.ao's modules."""
    failed = _blocked(_IMPORTS, tmp_path).splitlines()
    others = [line for line in failed if not line.startswith(_FRONT_END)]
    assert not [line for line in others if not line.endswith(_TRANSFORMERS)]


def test_optimize_runs_integers_without_torch_ao(tmp_path: Path) -> None:
    assert "q_linear" in _blocked(_USES, tmp_path)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import torch.ao.quantization", "uses torch.ao.quantization"),
        ("import torch.ao.nn.quantized as nnq", "uses torch.ao.nn.quantized"),
        ("from torch import ao", "uses torch.ao"),
        ("__import__('importlib').import_module('torch.ao')", "uses torch.ao"),
        ("torch.ao", "uses torch.ao"),
        ("torch.quint8", "uses torch.quint8"),
        ("torch.quantize_per_tensor", "uses torch.quantize_per_tensor"),
        ("torch.ops.quantized.linear", "uses torch.ops.quantized.linear"),
        (
            "torch.ops.aten.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.int8)",
            "aten::quantize_per_tensor makes a quantized tensor",
        ),
    ],
)
def test_each_way_is_blocked(code: str, says: str, tmp_path: Path) -> None:
    program = f"import torch\ntry:\n    {code}\nexcept Exception as error:\n    print(error)"
    assert says in _blocked(program, tmp_path)


def test_a_missing_name_looks_like_a_missing_name(tmp_path: Path) -> None:
    code = "import torch; print(hasattr(torch, 'qint8'), getattr(torch, 'quint4x2', None))"
    assert _blocked(code, tmp_path) == "False None"


@needs_torch_ao
def test_the_block_ends(tmp_path: Path) -> None:
    code = """
import sys; sys.path.append({tests!r})
import torch, cpuaccel, _torch_ao_block
with _torch_ao_block.blocked():
    pass
import torch.ao.quantization
print(torch.quantize_per_tensor(torch.ones(1), 0.5, 0, torch.quint8).int_repr().item())
"""
    assert run_python(code.format(tests=str(_TESTS)), cwd=tmp_path) == "2"


def test_listed_modules_exist_and_need_it() -> None:
    """Each names torch.ao, a quantized dtype or the marker, or imports helpers that do."""
    signs = ("torch.ao", "torch.quint8", "torch.qint8", "needs_front_end", "ops.quantized")
    helpers = ("_files", "_models", "_reference", "_torch_faults")
    for name in _without_torch_ao.NEED_TORCH_AO:
        source = (_TESTS / name).read_text()
        imported = {
            alias.name.split(".")[-1]
            for node in ast.walk(ast.parse(source))
            if isinstance(node, (ast.ImportFrom, ast.Import))
            for alias in node.names
        } | {
            (node.module or "").split(".")[-1]
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.ImportFrom)
        }
        assert any(sign in source for sign in signs) or imported & set(helpers), name


def test_only_the_front_end_names_quantized_dtypes_in_cpp() -> None:
    """The dispatcher is not asked: the kernels of ops that make quantized tensors are C++ too."""
    names = ("kQUInt8", "kQInt8", "kQInt32", "QUInt8", "is_quantized", "empty_affine_quantized")
    found = [
        f"{path.relative_to(ROOT)} names {name}"
        for path in sorted(_CSRC.rglob("*"))
        if path.suffix in (".h", ".cpp", ".inc")
        and path.relative_to(_CSRC).parts[0] not in ("torch_ao", "fbgemm")
        for name in names
        if name in path.read_text()
    ]
    assert not found
