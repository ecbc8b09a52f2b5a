"""Decides whether a call on cpuaccel ended as it must: an exact result, or torch's own error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from ops._floats import Ending, ending, tensors_of
from torch import Tensor

TOLERANCE = {
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
    torch.float32: 2e-5,
    torch.complex64: 2e-5,
    torch.float16: 8e-3,
    torch.bfloat16: 5e-2,
}
"""The largest error, relative to the largest exact value of a result."""
_TERMS = 0.1
"""The scale of smaller results, whose terms cancel: samples are around 1."""
_CLEARLY_WRONG = 20.0
"""An error of torch's own result counts as a fault of torch from this many tolerances on."""


def end(call: Callable[[], Any]) -> Ending:
    """How the call ends; the result is detached from any graph."""
    logging.disable(logging.CRITICAL)  # torch also logs the stacks of errors that it raises
    try:
        with torch.random.fork_rng():
            return ending(call)
    finally:
        logging.disable(logging.NOTSET)


def problem(
    ours: Ending,
    theirs: Ending,
    exact: Ending,
    *,
    sample: str,
    api: bool,
    rough: bool,
    layout: bool,
    quanta: float,
) -> str:
    """Describes what is wrong with `ours`; empty if nothing is.

    Args:
        ours: how the call ended on cpuaccel.
        theirs: how it ended on torch's own kernels.
        exact: the result in float64.
        sample: the sample's kind: a bad one may be rejected in other ways than torch's.
        api: whether a function of cpuaccel is called, which documents its own errors.
        rough: whether results may be those of bfloat16.
        layout: whether strides have to be torch's.
        quanta: how many quanta a quantized result may be off by.
    """
    if sample == "bad" and ours.error and api:
        return ""
    if ours.error and theirs.error:
        # Compiled code may raise the exceptions of eager code.
        if exact.error and ours.error[0] == exact.error[0]:
            return ""
        # Inductor decomposes index_add, a RuntimeError in eager code, to index_put, an IndexError.
        if sample == "bad" and ours.error[0] == "IndexError" and "out of bounds" in theirs.error[1]:
            return ""
        return _differs("exception type", ours.error[0], theirs.error[0], ours.error[1])
    if sample == "bad" and exact.error and not theirs.error:
        return ""
    if ours.error:
        return f"raises {ours.error[0]}: {ours.error[1]}; torch returns a result"
    if theirs.error and exact.error:
        return f"returns {_text(ours.result)}; torch raises {theirs.error[0]}: {theirs.error[1]}"
    if not theirs.error and (unlike := _unlike(ours.result, theirs.result, layout)):
        return unlike
    wanted = theirs if exact.error else exact
    limit = max(1.0, quanta)
    if not theirs.error:
        torch_s = _worst(theirs.result, wanted.result, rough)
        limit = max(limit, min(2 * torch_s, _CLEARLY_WRONG))
    worst = _worst(ours.result, wanted.result, rough)
    if worst > limit:
        torchs = _torch_s(theirs, wanted, rough)
        return f"is off by {worst:.3g} times the tolerance (torch by {torchs})"
    return ""


def fault_of_torch(theirs: Ending, exact: Ending, *, rough: bool) -> str:
    """Describes what is wrong with torch's own result; empty if nothing is."""
    if theirs.error or exact.error:
        return ""
    worst = _worst(theirs.result, exact.result, rough)
    return f"torch is off by {worst:.3g} times the tolerance" if worst > _CLEARLY_WRONG else ""


def _torch_s(theirs: Ending, wanted: Ending, rough: bool) -> str:
    """Describes the error of torch's own result."""
    return "an error" if theirs.error else f"{_worst(theirs.result, wanted.result, rough):.3g}"


def _differs(what: str, ours: object, theirs: object, message: str = "") -> str:
    return "" if ours == theirs else f"{what} is {ours}, torch's is {theirs} ({message})"


def _text(result: Any) -> str:
    return ", ".join(f"{tuple(t.shape)} {t.dtype}" for t in tensors_of(result)) or repr(result)


def _unlike(ours: Any, theirs: Any, layout: bool) -> str:
    a, b = tensors_of(ours), tensors_of(theirs)
    if len(a) != len(b):
        return f"returns {_text(ours)}, torch {_text(theirs)}"
    for one, other in zip(a, b, strict=True):
        for what in ("shape", "dtype", "layout", "requires_grad"):
            if wrong := _differs(what, getattr(one, what), getattr(other, what)):
                return wrong
        strided = one.layout == torch.strided and not torch._C._functorch.is_batchedtensor(one)
        if layout and strided and one.numel() and one.stride() != other.stride():
            return _differs("stride", one.stride(), other.stride())
        if one.is_quantized:
            mine, torchs = (_quantizer(each) for each in (one, other))
            if mine != torchs:
                return _differs("quantizer", mine, torchs)
    return ""


def _quantizer(x: Tensor) -> object:
    return x.q_scale(), x.q_zero_point()


def _worst(got: Any, exact: Any, rough: bool) -> float:
    """The largest error of any tensor, in tolerances; infinite if values are missing."""
    a, b = ([_dense(t) for t in tensors_of(each)] for each in (got, exact))
    if len(a) != len(b):
        return float("inf")
    # All tensors share one scale: a gradient that should be zero consists of rounding errors only.
    scale = max([_TERMS, *map(_largest, b)])
    return max(
        (_error(one, other, scale, rough) for one, other in zip(a, b, strict=True)), default=0.0
    )


def _dense(x: Tensor) -> Tensor:
    return x.detach() if x.layout == torch.strided else x.detach().to_dense()


def _largest(exact: Tensor) -> float:
    if exact.dtype not in TOLERANCE or exact.device.type == "meta":
        return 0.0
    finite = exact[exact.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _error(got: Tensor, exact: Tensor, scale: float, rough: bool) -> float:
    if got.shape != exact.shape:
        return float("inf")
    if got.device.type == "meta" or exact.device.type == "meta":
        return 0.0
    if got.is_quantized:
        return _quanta(got, exact)
    if got.dtype not in TOLERANCE:
        return 0.0 if torch.equal(got, exact.to(got.dtype)) else float("inf")
    wide = torch.complex128 if got.dtype.is_complex else torch.float64
    a, b = got.to(wide), exact.to(wide)
    limit = TOLERANCE[torch.bfloat16 if rough else got.dtype]
    beyond = b.abs() * (1 + limit) > torch.finfo(got.dtype).max  # inf is correct there
    same = (a == b) | (a.isnan() & b.isnan()) | (beyond & a.isinf())
    error = torch.where(same, 0.0, (a - b).abs()).nan_to_num(float("inf"), float("inf"))
    return float(error.max()) / (limit * scale) if error.numel() else 0.0


def _quanta(got: Tensor, exact: Tensor) -> float:
    """The difference in quanta; those of qint32 are finer than float32, in which torch computes."""
    lowest, highest = _RANGES[got.dtype]
    if exact.is_quantized:
        other = exact.int_repr().to(torch.int64)
    else:
        other = (exact.double() / got.q_scale()).round() + got.q_zero_point()
        other = other.clamp(lowest, highest).to(torch.int64)
    steps = (got.int_repr().to(torch.int64) - other).abs().double()
    if got.dtype == torch.qint32:
        steps = steps / (1 + TOLERANCE[torch.float32] * other.abs())
    return float(steps.max()) if steps.numel() else 0.0


_RANGES = {
    torch.quint8: (0, 255),
    torch.qint8: (-128, 127),
    torch.qint32: (-(2**31), 2**31 - 1),
}
