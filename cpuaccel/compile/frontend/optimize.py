"""`cpuaccel.optimize(model, example_inputs)`: puts regions into a model for eager mode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar, overload

from torch import nn

from cpuaccel._arguments import checked_inputs
from cpuaccel.compile.capture import input_signature, training_mode
from cpuaccel.compile.frontend import known_models, quantized_or_float
from cpuaccel.compile.frontend.capture_maker import SIZES_BUDGET, TIME_BUDGET
from cpuaccel.compile.frontend.optimized_module import Optimized

_Model = TypeVar("_Model", bound=nn.Module)


@overload
def optimize(
    model: _Model,
    example_inputs: None = None,
    example_kwargs: None = None,
    *,
    fp32: None = None,
    time_budget: float = TIME_BUDGET,
    sizes_budget: float = SIZES_BUDGET,
) -> _Model: ...


@overload
def optimize(
    model: nn.Module,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    fp32: nn.Module | None = None,
    time_budget: float = TIME_BUDGET,
    sizes_budget: float = SIZES_BUDGET,
) -> Optimized: ...


def optimize(
    model: nn.Module,
    example_inputs: Any = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    fp32: nn.Module | None = None,
    time_budget: float = TIME_BUDGET,
    sizes_budget: float = SIZES_BUDGET,
) -> Any:
    """Return `model` with a plan for inference in eager mode: the model with cpuaccel's regions.

    For the example inputs, the plan's results are compared with the model's, and both are timed. If
    the results are off, or the plan is slower by more than noise, the model itself runs, and a
    warning in the log states the numbers; `verdict` of the result always has them. A plan that is
    slower for the example inputs is not used for other inputs. The weights are the model's own, and
    may change.

    A second plan with symbolic sizes is made and compared with the first one. It runs for all sizes
    that the model treats alike; a call with new sizes takes some ten milliseconds longer. If torch
    cannot trace such a plan within `sizes_budget`, or a call has other dtypes or layouts, a plan is
    made in the call, for up to 16 input signatures. If that takes longer than two seconds, the
    model itself runs, and `capture_for` of the result makes a plan for given inputs.

    Models of transformers, `SentenceTransformer` and `CrossEncoder` need no example inputs. The
    result then has the class and the attributes of the model. One plan runs all batch sizes and
    lengths; it is compared and timed in the first call. For models that generate, one plan runs
    prompts of any length, and one for each batch size the steps.

    Models that draw random numbers are compared with the same random numbers. The model itself runs
    if the plan draws them in another order, and if the model's results are not reproducible.

    Args:
        model: a model in eval mode, of fp32, bf16 or fp16, or from convert_fx.
        example_inputs: a tuple of the positional arguments of a call. Models of transformers
            need none.
        example_kwargs: its keyword arguments.
        fp32: the model that `model` was quantized from. It is timed too; the result runs the faster
            of the two, and has it as `model`.
        time_budget: seconds in which they are timed in turns, for at least three rounds. If 0,
            nothing is timed, and the plan of `model` runs. The same holds under
            CPUACCEL_DETERMINISTIC.
        sizes_budget: seconds of thread time in which torch may trace sizes as symbols; if 0, the
            plan with symbolic sizes is not made.

    Raises:
        TypeError: `model` or `fp32` is not a module, `example_inputs` is not a tuple or list,
            `example_kwargs` is not a mapping, or a budget is not a number.
        ValueError: `model` or `fp32` is in training mode, does not run on the example inputs, or
            their results differ in structure; an input is not on the CPU, or sparse; a budget is
            negative.
    """
    _check_model("model", model)
    if fp32 is not None:
        _check_model("fp32", fp32)
    _check_budget("time_budget", time_budget)
    _check_budget("sizes_budget", sizes_budget)
    has_example = example_inputs is not None or example_kwargs is not None
    if not has_example and fp32 is None and known_models.is_known(model):
        return known_models.optimized(model, time_budget, sizes_budget)
    args, kwargs = _all_checked(example_inputs, example_kwargs)
    if fp32 is not None:
        return quantized_or_float.faster_of(model, fp32, args, kwargs, time_budget, sizes_budget)
    return quantized_or_float.started("model", model, args, kwargs, time_budget, sizes_budget)


def _check_model(name: str, model: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"cpuaccel.optimize: {name}: expected a torch.nn.Module, got {type(model).__name__}"
        )
    if training_mode.in_training(model):
        raise ValueError(
            f"cpuaccel.optimize: {name}: expected a model in eval mode (call model.eval()),"
            " got one in training mode"
        )


def _all_checked(inputs: Any, by_keyword: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = checked_inputs("cpuaccel.optimize", inputs)
    if by_keyword is not None and not isinstance(by_keyword, Mapping):
        raise TypeError(
            "cpuaccel.optimize: example_kwargs: expected a mapping of argument names to values,"
            f" got {type(by_keyword).__name__}"
        )
    kwargs = dict(by_keyword or {})
    for name, given in (("example_inputs", (args, {})), ("example_kwargs", ((), kwargs))):
        where, problem = input_signature.unsupported_input(*given)
        if problem:
            raise ValueError(f"cpuaccel.optimize: {name}{where}: {problem}")
    return args, kwargs


def _check_budget(name: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(
            f"cpuaccel.optimize: {name}: expected a number of seconds, got {type(seconds).__name__}"
        )
    if not 0 <= seconds < math.inf:
        raise ValueError(f"cpuaccel.optimize: {name}: expected 0 seconds or more, got {seconds}")
