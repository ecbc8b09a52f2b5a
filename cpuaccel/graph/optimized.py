"""`cpuaccel.optimize(model, example_inputs)`: oneDNN's partitions from eager, without compiling."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from cpuaccel import _log, _native
from cpuaccel.graph import report
from cpuaccel.graph.attributes import Attributes
from cpuaccel.graph.calls import Call
from cpuaccel.graph.capture import graph_of
from cpuaccel.quant import engine

_KEPT_SHAPES = 16


@dataclass(frozen=True)
class Captured:
    """What was made for inputs of one kind: a graph and what became of it, or why there is none."""

    run: GraphModule | None
    report: report.Report | None
    why_not: str = ""


class Optimized(nn.Module):
    """A model that runs what was captured of it, and itself wherever that does not hold.

    It has the model as `model`, whose weights both share.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.train(model.training)
        self._captured: OrderedDict[Call, Captured] = OrderedDict()
        self._attributes: Attributes | None = None
        self._lock = threading.Lock()

    @property
    def reports(self) -> list[report.Report]:
        """What became of each graph that was captured and is kept."""
        with self._lock:
            return [each.report for each in self._captured.values() if each.report is not None]

    def last(self) -> tuple[Call, Captured] | None:
        """Return what ran last of what was captured; None if the model has changed since."""
        with self._lock:
            if self._attributes is None or not self._attributes.are_as_before():
                return None
            return next(reversed(self._captured.items()), None)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        reason = self._why_not()
        if not reason:
            captured = self._captured_for(args, kwargs)
            if captured.run is not None:
                return captured.run(*args, **kwargs)
            reason = captured.why_not
        _native.load().count_fallback("optimize", reason)
        return self.model(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Optimized:
        return Optimized(copy.deepcopy(self.model, memo))

    def __reduce__(self) -> Any:
        # What was captured is captured again where it is loaded.
        return Optimized, (self.model,)

    def _why_not(self) -> str:
        if not engine.is_enabled():
            return "cpuaccel is off"
        if self.training or self.model.training:
            return "training mode"
        if torch.is_grad_enabled() and any(each.requires_grad for each in self.parameters()):
            return "gradients may be asked for: call it under torch.no_grad()"
        return ""

    def _captured_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
        key = Call.of(args, kwargs)
        with self._lock:
            if self._attributes is not None and not self._attributes.are_as_before():
                self._captured.clear()
                self._attributes = None
            captured = self._captured.get(key)
            if captured is None:
                captured = self._captured[key] = _capture(self.model, args, kwargs)
                self._attributes = self._attributes or Attributes(self.model)
                if len(self._captured) > _KEPT_SHAPES:
                    self._captured.popitem(last=False)
            self._captured.move_to_end(key)
        return captured


def optimize(model: nn.Module, example_inputs: Any) -> Optimized:
    """Return `model` with oneDNN's partitions in it, for inference in eager mode.

    `example_inputs` is a tuple of what a call brings; other sizes are captured when they come. The
    weights are the model's own, and may change.

    Raises:
        TypeError: `model` is no module, or `example_inputs` no tuple or list.
        ValueError: `model` is in training mode.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"cpuaccel.optimize: model: expected a torch.nn.Module, got {type(model).__name__}"
        )
    if not isinstance(example_inputs, (tuple, list)):
        raise TypeError(
            "cpuaccel.optimize: example_inputs: expected a tuple of what a call brings, got "
            f"{type(example_inputs).__name__}"
        )
    if model.training:
        raise ValueError(
            "cpuaccel.optimize: model: expected one in eval mode (model.eval()), got one in"
            " training mode"
        )
    optimized = Optimized(model)
    with torch.no_grad():
        optimized(*example_inputs)
    return optimized


def _capture(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
    try:
        run, made = graph_of(model, args, kwargs)
        report.keep(made)
        return Captured(run, made)
    except Exception as error:
        reason = _log.first_line(error)
        _log.logger.warning("optimize: the model runs as it is: %s", reason)
        return Captured(None, None, f"not captured: {reason}")
