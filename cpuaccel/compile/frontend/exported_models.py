"""`torch.export.export(model)` of int8 models from convert_fx and from eager mode.

torch.export cannot trace packed weights: it says that they have no `__obj_flatten__`. Therefore it
gets the model in quantize/dequantize form (`cpuaccel.quant.lower`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from torch import nn

from cpuaccel import _engine_state
from cpuaccel.compile.capture.quantized_models import is_converted

_MODULE = "torch.export"
_ADVICE = (
    " Save the model with torch.save or torch.jit.save and load it with"
    " cpuaccel.quant.load_legacy, which also knows LSTM and GRU; or export its parts."
)


def install() -> None:
    """Patch torch.export.export to lower quantized models."""
    module: Any = sys.modules.get(_MODULE)
    if module is not None and not hasattr(module.export, "_cpuaccel"):
        module.export = _patched(module.export)


def _patched(torch_export: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(torch_export)
    def export(mod: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(mod, nn.Module) or not _engine_state.is_enabled():
            return torch_export(mod, *args, **kwargs)
        lowered = _lowered(mod) if is_converted(mod) else mod
        try:
            return torch_export(lowered, *args, **kwargs)
        except Exception as error:
            if _is_about_packed_weights(str(error)):
                raise _packed_weights_left(mod) from error
            raise

    export._cpuaccel = True  # type: ignore[attr-defined]
    return export


def _lowered(model: nn.Module) -> nn.Module:
    from cpuaccel.quant import lower

    try:
        return lower(model)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"torch.export.export: mod: {type(model).__name__} has torch's packed int8 weights,"
            f" which torch.export cannot trace, and cannot be rewritten to plain tensors: {error}."
            f"{_ADVICE}"
        ) from error


def _is_about_packed_weights(message: str) -> bool:
    """Return whether torch says that packed weights of a layer, such as an LSTM, have no fields."""
    return "__obj_flatten__" in message and any(
        f"torch.classes.{name}." in message for name in ("quantized", "rnn")
    )


def _packed_weights_left(model: nn.Module) -> TypeError:
    return TypeError(
        f"torch.export.export: mod: {type(model).__name__} has layers with torch's packed int8"
        " weights, which neither torch.export can trace nor cpuaccel.quant.lower can rewrite."
        f"{_ADVICE}"
    )
