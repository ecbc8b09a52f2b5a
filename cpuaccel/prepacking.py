"""`cpuaccel.prepack` and `cpuaccel.unpack`: keep weights only in packed form, and undo it."""

from __future__ import annotations

import warnings
from typing import TypeVar

from torch import nn

from cpuaccel import _engine_state, _native

Model = TypeVar("Model", bound=nn.Module)


def prepack(model: Model, *, take_shared: bool = False) -> Model:
    """Keep the weights of `model` in packed form only, in place, and return `model`.

    These layers are packed: nn.Linear, nn.MultiheadAttention and nn.TransformerEncoderLayer of
    float32, and of bfloat16 and float16 if the CPU has no arithmetic for them; nn.LSTM, nn.Conv1d
    and nn.Conv2d of float32 (convolutions only if cpuaccel's are faster than torch's, and no
    depthwise ones). Packed weights take at most 1.1 times the memory of plain ones. Results equal
    torch's up to the rounding of sums. Everything else stays as it is; `explain(model)` gives the
    reasons.

    The model works as before: `state_dict` (it returns copies: writing to them does not change the
    model), `load_state_dict`, `to`, `deepcopy`, pickle (which saves torch's plain modules),
    gradients of inputs and biases. Reading a weight (`layer.weight`, `parameters()`, and so
    `torch.compile`) or training makes a layer plain again, with the same values, so no write is
    lost; call `prepack` again to pack it again. Do not call it while another thread runs the model.

    With cpuaccel off it only gives a RuntimeWarning. Models that are packed already still work:
    they run on torch's kernels, with weights unpacked at each call.

    Args:
        model: any module; it is changed.
        take_shared: also pack weights that are referenced outside of the model (an optimizer, a
            variable, a view, numpy, a mapped file). Later writes to them do not reach the model.

    Raises:
        TypeError: `model` is not a module.
    """
    _check("prepack", model)
    if not _engine_state.is_enabled():
        warnings.warn(
            f"cpuaccel.prepack: nothing is packed, cpuaccel is off: {_engine_state.why_off()}",
            RuntimeWarning,
            stacklevel=2,
        )
        return model
    from cpuaccel._prepack import pack

    pack.pack_model(model, take_shared)
    return model


def unpack(model: Model) -> Model:
    """Restore the plain weights of `model`, bit for bit, in place, and return it.

    Raises:
        TypeError: `model` is not a module.
    """
    _check("unpack", model)
    if _native.native() is not None:
        from cpuaccel._prepack import pack

        pack.unpack_model(model)
    return model


def _check(function: str, model: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"cpuaccel.{function}: model: expected a torch.nn.Module, got {type(model).__name__}"
        )
