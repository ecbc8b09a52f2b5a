"""Runs a quantized model with float64 between its quantizers, as a reference.

Two integer kernels may round a number on the border of two steps differently, and a net amplifies
that. This reference tells whose results are nearer to what the model means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Interpreter

from cpuaccel._compat import quantized_decomposed, tree_flatten, tree_map, tree_unflatten
from cpuaccel.compile.capture import capture

_decomposed = quantized_decomposed()


def result(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the results of `model`, from convert_fx or PT2E, with its floats as float64.

    Raises:
        Exception: as `Reference` does.
    """
    return Reference(model, args, kwargs).result()


class Reference:
    """A quantized model, traced once, for results with its floats as float64."""

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Trace `model`, from convert_fx or PT2E.

        Raises:
            Exception: what torch.export raises.
        """
        self._traced: Any = capture.program_of(model, args, kwargs).module(check_guards=False)
        self._leaves, _ = tree_flatten((args, kwargs))

    def result(self, error: float = 0.0) -> Any:
        """Return the results.

        Args:
            error: The largest relative error that each float gets, at random but the same in each
                call. That of float32 shows how far a net carries the rounding of its engine.

        Raises:
            Exception: an op does not support float64.
        """
        found = _Float64(self._traced, error).run(*self._leaves, enable_io_processing=False)
        info = self._traced.graph._codegen.pytree_info
        return tree_unflatten(list(found), info.out_spec)


class _Float64(Interpreter):
    """Runs a graph with float64 for all float values, whatever dtype its ops name."""

    def __init__(self, traced: Any, error: float) -> None:
        super().__init__(traced)
        self._error = error
        self._random = torch.Generator().manual_seed(0)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _wide(super().placeholder(target, args, kwargs))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _wide(super().get_attr(target, args, kwargs))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = (tree_map(_wide_type, each) for each in (args, kwargs))
        result = tree_map(_wide, _QUANTIZERS.get(target, target)(*args, **kwargs))
        return tree_map(self._with_error, result) if self._error else result

    def _with_error(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dtype != torch.float64:
            return value
        draws = torch.rand(value.shape, generator=self._random, dtype=torch.float64)
        return value * (1 + self._error * (2 * draws - 1))


def _wide(value: Any) -> Any:
    is_floats = isinstance(value, Tensor) and not value.is_quantized and value.is_floating_point()
    return value.detach().double() if is_floats else value


def _wide_type(value: Any) -> Any:
    is_floats = isinstance(value, torch.dtype) and value.is_floating_point
    return torch.float64 if is_floats else value


def _quantize(
    input: Tensor, scale: Any, zero_point: Any, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    return torch.clamp(torch.round(input / scale) + zero_point, low, high).to(dtype)


def _dequantize(
    input: Tensor, scale: Any, zero_point: Any, low: int, high: int, dtype: torch.dtype, **_: Any
) -> Tensor:
    values: Tensor = (input.double() - zero_point) * scale
    return values


def _by_channels(convert: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def by_channels(
        input: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, *rest: Any, **_: Any
    ) -> Tensor:
        sizes = [-1 if dim == axis else 1 for dim in range(input.dim())]
        zeros = 0 if zero_points is None else zero_points.view(sizes)
        return convert(input, scales.view(sizes), zeros, *rest)

    return by_channels


def _choose(input: Tensor, *limits: Any) -> Any:
    return _decomposed.choose_qparams.tensor(input.float(), *limits)


# The kernels of quantized_decomposed take only float32.
_QUANTIZERS: dict[Any, Callable[..., Any]] = {
    _decomposed.quantize_per_tensor.default: _quantize,
    _decomposed.quantize_per_tensor.tensor: _quantize,
    _decomposed.dequantize_per_tensor.default: _dequantize,
    _decomposed.dequantize_per_tensor.tensor: _dequantize,
    _decomposed.quantize_per_channel.default: _by_channels(_quantize),
    _decomposed.dequantize_per_channel.default: _by_channels(_dequantize),
    _decomposed.choose_qparams.tensor: _choose,
}
