"""When cpuaccel's linear is registered with torchao, and when torchao's own is back."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F
from _process import run_python

import cpuaccel
from torchao_int8._layers import KINDS, by_cpuaccel, layer, torchao_module

_QUANTIZE = """
from torch import nn
model = nn.Sequential(nn.Linear(64, 32))
quantize_(model, Int8DynamicActivationInt8WeightConfig())
with torch.no_grad():
    model(torch.randn(3, 64))
import cpuaccel
print(cpuaccel.stats()["calls"].get("linear_dynamic.cpuaccel", 0))
"""
_NAMES = "from torchao.quantization import quantize_, Int8DynamicActivationInt8WeightConfig\n"
_SUBMODULE = "torchao.quantization.quantize_.workflows.int8.int8_tensor"


def test_nothing_of_torchao_is_imported_before_the_program_does() -> None:
    code = """
import sys, torch
from cpuaccel._import_hook import _finder
from cpuaccel.quant._torchao.import_hook import MODULES
print(any(name.partition(".")[0] == "torchao" for name in sys.modules),
      "cpuaccel.quant._torchao.int8_weights" in sys.modules,
      all(name in _finder.functions for name in MODULES))
"""
    assert run_python(code) == "False False True"


@pytest.mark.parametrize(
    "imports",
    [
        "import torch\n" + _NAMES,
        _NAMES + "import torch\n",
        f"import {_SUBMODULE}\nimport torch\n" + _NAMES,
        "import torch, cpuaccel\n" + _NAMES,
        "import torchao\nimport cpuaccel, torch\n" + _NAMES,
    ],
    ids=["torch", "names", "submodule", "cpuaccel", "torchao"],
)
def test_every_order_of_imports(imports: str) -> None:
    assert run_python(imports + _QUANTIZE) == "1"


def test_switched_on_after_torchao_was_imported() -> None:
    code = "import torch\n" + _NAMES + "import cpuaccel\ncpuaccel.enable()\n" + _QUANTIZE
    assert run_python(code, CPUACCEL="0") == "1"
    off = "import torch\n" + _NAMES + _QUANTIZE
    assert run_python(off, CPUACCEL="0") == "0"


def test_switched_off_before_torchao_is_imported() -> None:
    code = "import torch, cpuaccel\ncpuaccel.disable()\n" + _NAMES + _QUANTIZE
    assert run_python(code) == "0"
    again = "import torch, cpuaccel\ncpuaccel.disable()\ncpuaccel.enable()\n" + _NAMES + _QUANTIZE
    assert run_python(again) == "1"


def test_an_import_that_failed_may_be_repeated() -> None:
    code = f"""
import sys, torch
from cpuaccel._import_hook import _finder
from cpuaccel.quant._torchao.import_hook import MODULES
sys.modules["torchao.kernel"] = None
try:
    import {_SUBMODULE}
except ImportError:
    pass
for name in [name for name in sys.modules if name.startswith("torchao")]:
    del sys.modules[name]
print(_finder in sys.meta_path and all(name in _finder.functions for name in MODULES))
"""
    assert run_python(code) == "True"


def test_the_module_has_its_own_loader_and_spec() -> None:
    module = torchao_module()
    assert module.__spec__ is not None
    assert module.__loader__ is module.__spec__.loader
    assert type(module.__loader__).__name__ == "SourceFileLoader"


def test_switching_restores_the_functions() -> None:
    cls = torchao_module().Int8Tensor
    aten, torch_functions = cls._ATEN_OP_TABLE[cls], cls._TORCH_FN_TABLE[cls]
    key = torch.ops.aten.linear.default

    def modules() -> set[str]:
        found = aten[key].__wrapped__, torch_functions[F.linear].__wrapped__
        return {function.__module__ for function in found}

    assert modules() == {"cpuaccel.quant._torchao.int8_weights"}
    with cpuaccel.enabled(False):
        assert all(name.startswith("torchao") for name in modules())
        torchaos = torch_functions[F.linear]
    assert modules() == {"cpuaccel.quant._torchao.int8_weights"}
    with cpuaccel.enabled(False):
        assert torch_functions[F.linear] is torchaos


def test_a_function_that_replaced_cpuaccels_stays() -> None:
    code = (
        "import torch\n"
        + _NAMES
        + """
import cpuaccel, torch.nn.functional as F
from torchao.quantization import Int8Tensor
table = Int8Tensor._TORCH_FN_TABLE[Int8Tensor]
other = lambda func, types, args, kwargs: None
table[F.linear] = other
cpuaccel.disable()
print(table[F.linear] is other)
"""
    )
    assert run_python(code) == "True"


def test_the_aten_op_in_inference_mode() -> None:
    linear = layer(KINDS["dynamic"], 64, 32)
    with torch.inference_mode():
        x = torch.randn(3, 64)
        expected = linear(x)
        with torch._C.DisableTorchFunctionSubclass():
            actual = by_cpuaccel(linear, x, kind=KINDS["dynamic"])
    assert torch.equal(actual, expected)


def test_torchao_is_the_installed_package() -> None:
    """These tests are in a folder of another name, because they are on sys.path."""
    assert "site-packages" in str(sys.modules["torchao"].__file__)
