"""Invalid states of packed objects. See test_damaged.py."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Callable

import torch
from torch import Tensor

from quant import _models as m
from quant._bad_input import conv, conv3d, linear, qw, transposed

LINEAR = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
CONV = "__torch__.torch.classes.quantized.Conv2dPackedParamsBase"


def _restore(state: object, name: str) -> object:
    packed = torch.ScriptObject.__new__(torch.ScriptObject)
    packed.__setstate__((state, name))
    return packed


def _linear_state(weight: object, bias: object) -> Callable[[], object]:
    return lambda: _restore((weight, bias), LINEAR)


def _conv_state(change: Callable[[list[int]], list[int]], weight: Tensor | None = None) -> object:
    """The state of a valid convolution, with its integers changed."""
    (version, (config, good), bias), name = conv().__getstate__()
    integers = torch.tensor(change(config.tolist()), dtype=config.dtype)
    tensors = [integers, good if weight is None else weight]
    return _restore((version, tensors, bias), name)


def _set(index: int, value: int) -> Callable[[], object]:
    def change(config: list[int]) -> list[int]:
        return [*config[:index], value, *config[index + 1 :]]

    return lambda: _conv_state(change)


def _conv_raw(state: object) -> Callable[[], object]:
    return lambda: _restore(state, CONV)


def _run_of(state: Callable[[], object]) -> Callable[[], object]:
    """Runs the restored object, if it can be restored at all."""

    def run() -> object:
        x = torch.quantize_per_tensor(torch.rand(1, 4, 8, 8), 0.05, 3, torch.quint8)
        return torch.ops.quantized.conv2d(x, state(), 0.1, 0)

    return run


def _file(form: str) -> bytes:
    model, _ = m.build("functional")
    buffer = io.BytesIO()
    if form == "script":
        torch.jit.save(torch.jit.script(model), buffer)
    else:
        torch.save(model.state_dict() if form == "state" else model, buffer)
    return buffer.getvalue()


def _load(form: str, content: bytes) -> object:
    buffer = io.BytesIO(content)
    if form == "script":
        return torch.jit.load(buffer)
    return torch.load(buffer, weights_only=False)


def _truncated(form: str, fraction: float) -> Callable[[], object]:
    def run() -> object:
        content = _file(form)
        return _load(form, content[: int(fraction * len(content))])

    return run


def _random_bytes(form: str) -> Callable[[], object]:
    return lambda: _load(form, random.Random(5).randbytes(4096))


def _state_of_another_shape() -> None:
    model, _ = m.build("linear")
    state = copy.deepcopy(model.state_dict())
    model.load_state_dict({"nothing": torch.zeros(1), **dict(list(state.items())[:1])})


# The integers of a conv2d state: dimensions; stride, padding, dilation, output padding (two each);
# groups; transposed.
CASES: dict[str, Callable[[], object]] = {
    "linear: float weight and a text for a bias": _linear_state(torch.rand(4, 4), "bias"),
    "linear: no weight": _linear_state(None, None),
    "linear: a number for a weight": _linear_state(3, None),
    "linear: quint8 weight": _linear_state(qw(4, 4, dtype=torch.quint8), None),
    "linear: weight of 1 dimension": _linear_state(qw(16), None),
    "linear: bias too short": _linear_state(qw(4, 4), torch.ones(3)),
    "linear: bias of 2 dimensions": _linear_state(qw(4, 4), torch.ones(1, 4)),
    "linear: a state of three": lambda: _restore((qw(4, 4), None, None), LINEAR),
    "linear: an empty state": lambda: _restore((), LINEAR),
    "linear: a class that is not there": lambda: _restore((qw(4, 4), None), LINEAR + "X"),
    "linear: the state of a convolution": lambda: _restore(conv().__getstate__()[0], LINEAR),
    "conv: the state of a linear": lambda: _restore(linear().__getstate__()[0], CONV),
    "conv: an unknown version": _conv_raw(("9", [torch.zeros(11, dtype=torch.int16)], [None])),
    "conv: no tensors": _conv_raw(("2", [], [])),
    "conv: None for tensors": _conv_raw(("2", None, None)),
    "conv: integers cut short": lambda: _conv_state(lambda c: c[:5]),
    "conv: no integers": lambda: _conv_state(lambda c: []),
    "conv: more integers than there are": lambda: _conv_state(lambda c: [*c, 1, 1]),
    "conv: the state of a 3d convolution": lambda: _restore(conv3d().__getstate__()[0], CONV),
    "conv: stride 0": _run_of(_set(1, 0)),
    "conv: padding -1": _run_of(_set(3, -1)),
    "conv: dilation 0": _run_of(_set(5, 0)),
    "conv: groups 0": _run_of(_set(9, 0)),
    "conv: groups -1": _run_of(_set(9, -1)),
    "conv: groups 3": _run_of(_set(9, 3)),
    "conv: float weight": lambda: _conv_state(lambda c: c, torch.rand(8, 4, 3, 3)),
    "conv: quint8 weight": lambda: _conv_state(lambda c: c, qw(8, 4, 3, 3, dtype=torch.quint8)),
    "conv: weight of 2 dimensions": lambda: _conv_state(lambda c: c, qw(8, 4)),
    "state_dict: keys of another model": _state_of_another_shape,
    **{f"{form} file: random bytes": _random_bytes(form) for form in ("module", "state", "script")},
    **{
        f"{form} file: cut at {fraction:.0%}": _truncated(form, fraction)
        for form in ("module", "state", "script")
        for fraction in (0.0, 0.3, 0.7, 0.98)
    },
}
GOOD: dict[str, Callable[[], object]] = {
    "linear": lambda: _restore(*linear().__getstate__()),
    "conv": lambda: _restore(*conv().__getstate__()),
    "transposed conv": lambda: _restore(*transposed().__getstate__()),
}
CASES |= {f"good {name}": run for name, run in GOOD.items()}
