"""`cpuaccel.prepack` and `cpuaccel.unpack`: weights held in packed form only, and back."""

from __future__ import annotations

import warnings
from typing import TypeVar

from torch import nn

from cpuaccel import _native
from cpuaccel.quant import engine

Model = TypeVar("Model", bound=nn.Module)


def prepack(model: Model, *, take_shared: bool = False) -> Model:
    """Hold the weights of `model` in packed form only, in place, and return `model`.

    Packed are nn.Linear, nn.MultiheadAttention and nn.TransformerEncoderLayer, of float32, and of
    bfloat16 and float16 where the CPU has no arithmetic for them, and nn.LSTM, nn.Conv1d and
    nn.Conv2d of float32 (convolutions where ours are faster than torch's, and none that are
    depthwise). Memory is at most 1.1 times the plain weights'. Results are torch's within the
    rounding of sums. What cannot be packed stays as it is; `explain(model)` says why.

    The model goes on as before: `state_dict` (of copies: what is written to them does not reach the
    model), `load_state_dict`, `to`, `deepcopy`, pickle (which gives plain modules of torch),
    gradients of inputs and biases. Reading a weight (`layer.weight`, `parameters()`, so
    `torch.compile` too) or training makes a layer plain again, with its values as they were, so no
    write is lost; call `prepack` again to pack it again. Not to be called while another thread runs
    the model.

    With cpuaccel off it does nothing but a RuntimeWarning; models packed before go on, on torch's
    kernels and weights unpacked at each call.

    Args:
        model: any module; it is changed.
        take_shared: pack weights too that something outside of the model has (an optimizer, a
            variable, a view, numpy, a mapped file). What is written there is then not seen.

    Raises:
        TypeError: `model` is not a module.
    """
    _check("prepack", model)
    if not engine.is_enabled():
        warnings.warn(
            f"cpuaccel.prepack: nothing is packed, cpuaccel is off: {engine.why_off()}",
            RuntimeWarning,
            stacklevel=2,
        )
        return model
    from cpuaccel._prepack import pack

    pack.pack_model(model, take_shared)
    return model


def unpack(model: Model) -> Model:
    """Give `model` its plain weights back, bit for bit, in place, and return it.

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
