"""Int8 models for tests of the engine: made by convert_fx, or by PT2E, without torch.ao."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from quant._engine import torch_ao_is_blocked
from torch import Tensor, nn
from torch.fx import GraphModule


def static(model: nn.Module, *args: Tensor) -> Any:
    """Return an int8 form of `model`, calibrated with `args`.

    It is convert_fx's, packed by cpuaccel, or, in a run without torch.ao, PT2E's.
    """
    if torch_ao_is_blocked():
        return pt2e(model, *args)
    from benchmarks._quantize import calibrate, convert

    (x,) = args
    return convert(calibrate(model, [x]), "x86", plugin=True)


def pt2e(
    model: nn.Module, *args: Tensor, quantizer: Any = None, dynamic: bool = False
) -> GraphModule:
    """Return PT2E's int8 form of `model`, by cpuaccel's `X86Quantizer` or another one of x86."""
    pytest.importorskip("torchao", reason="requirements/dev.txt has torchao")
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        get_default_x86_inductor_quantization_config,
    )

    from cpuaccel.quant.pt2e import X86Quantizer

    quantizer = quantizer or X86Quantizer()
    quantizer.set_global(get_default_x86_inductor_quantization_config(is_dynamic=dynamic))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(model.eval(), args).module(), quantizer)
        for _ in range(3):
            prepared(*args)
        return move_exported_model_to_eval(convert_pt2e(prepared))
