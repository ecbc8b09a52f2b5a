"""Packed weights of a file: the states that torch's packed classes write, of all its versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._lowering.integers import Convolution, IntegerTensor, UnpackedLayer

CLASSES = "__torch__.torch.classes"


@dataclass(frozen=True, eq=False)
class Cell:
    """The weights of one direction of one layer of a dynamic LSTM or GRU."""

    input: UnpackedLayer
    """(gates * hidden, features), and its bias."""
    hidden: UnpackedLayer
    """(gates * hidden, hidden), and its bias."""
    reduce_range: bool
    """Whether activations are quantized to 7 bits."""


def unpack(name: str, state: Any) -> UnpackedLayer | IntegerTensor | Cell:
    """Return what a packed object holds.

    Args:
        name: its class in TorchScript, such as `quantized.LinearPackedParamsBase`.
        state: what its `__getstate__` returned, with tensors of this package.
    """
    try:
        if name == "quantized.LinearPackedParamsBase":
            weight, bias = state
            return linear(weight, bias)
        if name in ("quantized.Conv2dPackedParamsBase", "quantized.Conv3dPackedParamsBase"):
            return _convolution(state, 2 if "2d" in name else 3)
        if name == "quantized.EmbeddingPackedParamsBase":
            return _embedding(state)
        if name == "rnn.CellParamsBase":
            return _cell(state)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, LegacyError):
            raise
        raise LegacyError(f"damaged state of {name}: {error}") from error
    raise LegacyError(f"an object of class {CLASSES}.{name}, which is not known")


def linear(weight: Any, bias: Any) -> UnpackedLayer:
    """Return a linear layer: an integer weight, or a plain one of float16."""
    if not isinstance(weight, (IntegerTensor, Tensor)):
        raise LegacyError("damaged weight of a linear layer: it is not a tensor")
    values = weight.q if isinstance(weight, IntegerTensor) else weight.half()
    if values.dim() != 2:
        raise LegacyError(f"damaged weight of a linear layer: shape {tuple(values.shape)}")
    _check_bias(bias, values.shape[0])
    return UnpackedLayer(weight if isinstance(weight, IntegerTensor) else values, bias)


def convolution(weight: Any, bias: Any, numbers: Convolution) -> UnpackedLayer:
    """Return a convolution with a checked shape."""
    if not isinstance(weight, IntegerTensor):
        raise LegacyError("damaged weight of a convolution: it is not quantized")
    sides, groups = weight.q.dim() - 2, numbers.groups
    sizes = (numbers.stride, numbers.padding, numbers.dilation, numbers.output_padding)
    if sides < 1 or groups < 1 or any(len(each) != sides for each in sizes):
        raise LegacyError(f"damaged weight of a convolution: shape {tuple(weight.q.shape)}")
    outputs = weight.q.shape[1] * groups if numbers.transposed else weight.q.shape[0]
    _check_bias(bias, outputs)
    return UnpackedLayer(weight, bias, numbers)


def _check_bias(bias: Any, outputs: int) -> None:
    if bias is not None and (not isinstance(bias, Tensor) or tuple(bias.shape) != (outputs,)):
        raise LegacyError(f"damaged bias: expected {outputs} numbers")


def _convolution(state: Any, sides: int) -> UnpackedLayer:
    if len(state) == 3 and isinstance(state[0], (str, int)):
        version_2 = str(state[0]) == "2"
        return _convolution_2(state, sides) if version_2 else _convolution_3(state, sides)
    # Version 1, of torch 1.3 to 1.5.
    weight, bias, *parts = state
    stride, padding, dilation = (_integers(part) for part in parts[:3])
    (groups,) = _integers(parts[3])
    numbers = Convolution(False, stride, padding, [0] * sides, dilation, groups)
    return convolution(weight, bias, numbers)


def _convolution_2(state: Any, sides: int) -> UnpackedLayer:
    """("2", [numbers as a tensor, weight], [bias or None]), since torch 1.6."""
    numbers, weight = state[1]
    (bias,) = state[2]
    return convolution(weight, bias, _numbers(_integers(numbers), sides))


def _convolution_3(state: Any, sides: int) -> UnpackedLayer:
    """(3, numbers, [None, weight, bias or None])"""
    if state[0] != 3:
        raise LegacyError(f"version {state[0]!r} of packed convolutions: expected 1, 2 or 3")
    _, weight, bias = state[2]
    return convolution(weight, bias, _numbers(_integers(state[1]), sides))


def _numbers(values: list[int], sides: int) -> Convolution:
    if len(values) != 4 * sides + 3 or values[0] != sides:
        raise LegacyError(f"damaged numbers of a convolution: {values}")
    stride, padding, dilation, output_padding = (
        values[1 + sides * i : 1 + sides * (i + 1)] for i in range(4)
    )
    transposed = bool(values[-1] & 1)
    return Convolution(transposed, stride, padding, output_padding, dilation, values[-2])


def _integers(values: Any) -> list[int]:
    if isinstance(values, Tensor):
        return [int(each) for each in values.flatten().tolist()]
    if isinstance(values, Sequence):
        return [int(each) for each in values]
    return [int(values)]


def _embedding(state: Any) -> IntegerTensor:
    _version, tensors, _doubles, numbers = state
    weight, bits = tensors[0], numbers[0]
    if bits != 8 or not isinstance(weight, IntegerTensor):
        raise LegacyError(f"an embedding of {bits} bits: only those of 8 bits are supported")
    return weight


def _cell(state: Any) -> Cell:
    kind, biases, _doubles, numbers, weights = state
    if kind != "quantized_dynamic":
        raise LegacyError(
            f"an LSTM or GRU of kind {kind}: only those of quantize_dynamic with int8 weights are"
            " supported"
        )
    if not all(isinstance(each, UnpackedLayer) for each in weights):
        raise LegacyError("damaged weights of an LSTM or GRU")
    (b_ih, b_hh), (w_ih, w_hh) = biases, weights
    # The packed weights have no biases of their own.
    return Cell(linear(w_ih.weight, b_ih), linear(w_hh.weight, b_hh), bool(numbers[0]))
